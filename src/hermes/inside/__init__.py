"""Watches a training loop from inside it: `import hermes.inside; hermes.inside.start()`.

Nothing but the standard library is loaded, and of that only what is needed once a step has ended. No call raises and
none waits: what goes wrong turns capture off with one line on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast

from hermes.inside.border import Border

if TYPE_CHECKING:
    from hermes.inside.agent import Agent

_OLDEST = (3, 8)
_NULL = -(1 << 63)
_agent: Agent | None = None
_Call = TypeVar("_Call", bound=Callable[..., Any])


def _give_up(broken: Exception) -> None:
    if _agent is not None:
        _agent.give_up(broken)
    else:
        from hermes.inside.say import say_off

        say_off(f"{type(broken).__name__}: {broken}")


_BORDER = Border(_give_up)


def _public(ours: _Call) -> _Call:
    """The job calls it: whatever it raises turns capture off."""
    return cast(_Call, wraps(ours)(_BORDER.entry(ours)))


@_public
def start(
    *, flops_per_step: int | None = None, count_flops: bool = False, device_events: bool = False,
    collectives: bool = False, transfers: bool = False,
) -> None:  # fmt: skip
    """Watch from the first optimizer step on. A second call does nothing.

    `flops_per_step` are those of the model on one rank, for MFU; `count_flops` counts them with torch's own counter, in
    two early steps, which take a few times as long. `device_events` times steps on the GPU or NPU by its own events.
    `collectives` times the calls of torch.distributed too, by wrapping them: not together with `torch.compile` over
    such calls, which knows them by identity. `transfers` times the calls that copy a tensor from the processor to a
    device, by wrapping `Tensor.to`, `cuda` and `npu`; a copy that the call does not wait for counts as what it
    holds the host.
    HERMES_CAPTURE=0 in the environment makes all of this do nothing.
    """
    global _agent
    import os

    if _agent is not None or os.environ.get("HERMES_CAPTURE") == "0":
        return
    if sys.version_info < _OLDEST:
        from hermes.inside.say import say_off

        say_off(f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old, Hermes needs 3.8 or newer")
        return
    from hermes.inside.agent import Agent

    _agent = Agent(os.environ, collectives=collectives, flops=flops_per_step, count_flops=count_flops,
                   device_events=device_events, transfers=transfers)  # fmt: skip
    _agent.start()


@_public
def step(*, samples: int | None = None, tokens: int | None = None, transfer_ns: int | None = None) -> None:
    """A step of the loop ends here, for loops whose optimizer steps are not their steps.

    From the first call on only these calls count. `transfer_ns`: how long the step waited for copies to the device.
    """
    if _agent is not None:
        values = [_NULL if value is None else value for value in (samples, tokens, transfer_ns)]
        _agent.step(*values)


@contextmanager
def training_step(*, samples: int | None = None, tokens: int | None = None) -> Iterator[None]:
    """The body is one step; it counts when it ends without an exception."""
    yield
    step(samples=samples, tokens=tokens)


@_public
def set_step(number: int) -> None:
    """The step that ends next has that number: after a checkpoint was loaded."""
    if _agent is not None:
        _agent.set_step(number)


@_public
def mark_checkpoint() -> None:
    """A checkpoint is written in this step. `torch.save` says so itself."""
    if _agent is not None:
        _agent.mark("checkpoint")


@_public
def mark_evaluation() -> None:
    """The model is evaluated in this step. Batches that no backward pass follows say so themselves."""
    if _agent is not None:
        _agent.mark("evaluation")


def mindspore_callback() -> object:
    """A callback for `Model.train` of MindSpore that starts capture and ends a step after each of the model's.

    Raises `ImportError` where MindSpore is not installed.
    """
    from importlib import import_module

    base: Any = import_module("mindspore.train").Callback

    class Steps(base):  # type: ignore[misc]
        """Ends a step of Hermes where MindSpore ends one."""

        def on_train_begin(self, run_context: object) -> None:
            """Start to watch."""
            start()

        def on_train_step_end(self, run_context: object) -> None:
            """A step has ended."""
            step()

    return Steps()


@_public
def stop() -> None:
    """Write what is left and watch no more in this process."""
    if _agent is not None:
        _agent.close()
