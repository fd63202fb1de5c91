"""Watches a training loop from inside its process: `import hermes.inside; hermes.inside.start()`.

Hermes loads only the standard library here, and most of that only once a step has ended. No call raises and no call
waits: an error turns capture off with one line on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast

from hermes.inside.error_guard import Border

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
        from hermes.inside.warn_once import say_off

        say_off(f"{type(broken).__name__}: {broken}")


_BORDER = Border(_give_up)


def _public(ours: _Call) -> _Call:
    """Wrap a function that the job calls: an exception in the function turns capture off."""
    return cast(_Call, wraps(ours)(_BORDER.entry(ours)))


@_public
def start(
    *, flops_per_step: int | None = None, count_flops: bool = False, device_events: bool = False,
    collectives: bool = False, transfers: bool = False,
) -> None:  # fmt: skip
    """Watch the training from the first optimizer step on. A second call does nothing.

    `flops_per_step` are the FLOPs of the model per step on one rank, for MFU. `count_flops` counts these FLOPs with
    torch's own counter, in two early steps, which take a few times as long. `device_events` times steps on the GPU or
    NPU by events of the device. `collectives` also times the calls of torch.distributed, by wrapping them: do not
    combine it with `torch.compile` over such calls, because the compiler knows them by identity. `transfers` times the
    calls that copy a tensor from the processor to a device, by wrapping `Tensor.to`, `cuda` and `npu`. An asynchronous
    copy counts with the time that its call takes on the host. HERMES_CAPTURE=0 in the environment turns `start` into a
    call without effect.
    """
    global _agent
    import os

    if _agent is not None or os.environ.get("HERMES_CAPTURE") == "0":
        return
    if sys.version_info < _OLDEST:
        from hermes.inside.warn_once import say_off

        say_off(f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old, Hermes needs 3.8 or newer")
        return
    from hermes.inside.agent import Agent

    _agent = Agent(os.environ, collectives=collectives, flops=flops_per_step, count_flops=count_flops,
                   device_events=device_events, transfers=transfers)  # fmt: skip
    _agent.start()


@_public
def step(*, samples: int | None = None, tokens: int | None = None, transfer_ns: int | None = None) -> None:
    """End a step of the training loop, for loops whose optimizer steps are not their steps.

    From the first call of `step` on, only calls of `step` count. `transfer_ns`: how long the step waited for copies to
    the device.
    """
    if _agent is not None:
        values = [_NULL if value is None else value for value in (samples, tokens, transfer_ns)]
        _agent.step(*values)


@contextmanager
def training_step(*, samples: int | None = None, tokens: int | None = None) -> Iterator[None]:
    """Count the body of the `with` block as one step, if the body ends without an exception."""
    yield
    step(samples=samples, tokens=tokens)


@_public
def set_step(number: int) -> None:
    """Set the number of the step that ends next, after a checkpoint was loaded."""
    if _agent is not None:
        _agent.set_step(number)


@_public
def mark_checkpoint() -> None:
    """Mark the current step as one that writes a checkpoint. `torch.save` is noticed without this call."""
    if _agent is not None:
        _agent.mark("checkpoint")


@_public
def mark_evaluation() -> None:
    """Mark the current step as one with an evaluation. Batches without a backward pass are noticed without this
    call."""
    if _agent is not None:
        _agent.mark("evaluation")


def mindspore_callback() -> object:
    """A callback for `Model.train` of MindSpore that starts capture and ends a step of Hermes after each step of the
    model.

    Raises `ImportError` where MindSpore is not installed.
    """
    from importlib import import_module

    base: Any = import_module("mindspore.train").Callback

    class Steps(base):  # type: ignore[misc]
        """A MindSpore callback that ends a step of Hermes where MindSpore ends a step."""

        def on_train_begin(self, run_context: object) -> None:
            """Start to watch the training."""
            start()

        def on_train_step_end(self, run_context: object) -> None:
            """End the step of Hermes: MindSpore has ended a training step."""
            step()

    return Steps()


@_public
def stop() -> None:
    """Write the records that are not written yet, and stop watching this process."""
    if _agent is not None:
        _agent.close()
