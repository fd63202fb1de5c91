"""Records loss and weights of each step of the user's program, and ends the program after a number of steps.

Part of `hermes migrate verify`. The module runs inside the user's program, and imports torch and nothing of Hermes. A
loss is the number whose gradient is computed.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

_seen = 0
_PATIENCE_S = 60.0


def _file() -> Path:
    rank = os.environ.get("RANK") or ".".join(str(one) for one in multiprocessing.current_process()._identity) or "0"
    return Path(os.environ["HERMES_VERIFY_OUT"]) / f"losses.{rank}.txt"


def _write(kind: str, number: float) -> None:
    with _file().open("a", encoding="ascii") as stream:
        stream.write(f"{kind} {number.hex()}\n")


def _append(kind: str, text: str) -> None:
    """Add a line to a file in the folder of losses."""
    line = " ".join(text.split())[:400]
    with (_file().parent / _file().name.replace("losses", kind)).open(
        "a", encoding="utf-8", errors="replace"
    ) as stream:
        stream.write(f"{line}\n")


_told: set[str] = set()


def unlisted(text: str) -> None:
    """Record, once, a call whose data type the support table does not list."""
    if text not in _told:
        _told.add(text)
        _append("unlisted", text)


def marked(error: Exception, cause: str = "refused") -> Exception:
    """An error of the stand-in: a call that an NPU refuses, or a call that the stand-in does not compute."""
    error.hermes_cause = cause  # type: ignore[attr-defined]
    _append("raised", f"{cause} {error}")
    return error


def _guarded(what: str, compute: Any) -> None:
    """Record a number; a failure to compute the number is noted, and never raised into the program."""
    try:
        number = compute()
    except Exception as wrong:  # noqa: BLE001 - whatever it is, the program goes on
        _append("unwritten", f"{what}: {type(wrong).__name__}: {wrong}")
    else:
        _write(what, number)


def _note(value: Any) -> None:
    _guarded("loss", lambda: float(value.detach().cpu().double().sum().item()))


def _weights(optimizer: Any, args: Any, kwargs: Any) -> None:
    """One number for all weights after a step, summed in float64 on the CPU in a fixed order."""

    def total() -> float:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        return sum((float(one.detach().cpu().double().abs().sum().item()) for one in weights), 0.0)

    _guarded("weights", total)


def _seed(torch: Any) -> None:
    """Give both runs the same random numbers, also in a program that sets no seed."""
    random.seed(0)
    torch.default_generator.manual_seed(0)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(0)
        _seed_generators(numpy.random)


def _seed_generators(module: Any) -> None:
    """Seed the NumPy generators that a program makes without a seed, by the order in which they are made."""
    counted = itertools.count()
    made, original = module.default_rng, module.RandomState

    class Kind(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

    class RandomState(original, metaclass=Kind):  # type: ignore[misc, valid-type]
        def __init__(self, seed: Any = None) -> None:
            super().__init__(next(counted) if seed is None else seed)

    module.RandomState = RandomState
    module.default_rng = lambda seed=None: made(next(counted) if seed is None else seed)


def _remote() -> bool:
    """Whether this rank serves calls of other ranks, which then wait for the rank."""
    rpc = sys.modules.get("torch.distributed.rpc")
    return rpc is not None and bool(rpc.is_available() and rpc.api._is_current_rpc_agent_set())


def _end(limit: int) -> None:
    """End the program after its steps. Ranks that call each other end together, each after the same number of steps."""
    again = bool(_told & {"ended"})
    _told.add("ended")
    (_file().parent / _file().name.replace("losses", "ended").removesuffix(".txt")).touch()
    if not _remote():
        if again or threading.current_thread() is not threading.main_thread():
            # The program caught the exit, or only a thread of it would end.
            sys.stdout.flush()
            os._exit(0)
        raise SystemExit(0)
    out = Path(os.environ["HERMES_VERIFY_OUT"])
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up:
        texts = [path.read_text(encoding="ascii") for path in out.glob("losses.*.txt")]
        if all(text.count("loss ") in (0, limit) for text in texts):
            break
        time.sleep(0.1)
    (out / "ended.all").touch()
    os.killpg(0, signal.SIGKILL)


_OF_CHILDREN = ("ProcessRaisedException", "ProcessExitedException", "ChildFailedError")


def _ended_by(kind: Any, error: BaseException, trace: Any) -> None:
    """Record what ends the program: a refusal, a call that the stand-in cannot compute, a Hermes defect, or an error."""
    if kind.__name__ in _OF_CHILDREN:
        for path in Path(os.environ["HERMES_VERIFY_OUT"]).glob("raised.*"):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                _append("error", line)
        return
    _append("error", f"{_cause(error, trace)} {kind.__name__}: {error}")


def _cause(error: BaseException, trace: Any) -> str:
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        seen.append(one)
        holder = getattr(getattr(one, "obj", None), "__name__", "") if isinstance(one, AttributeError) else ""
        missing = str(getattr(one, "name", "") or "") if isinstance(one, ImportError) else str(holder)
        if hasattr(one, "hermes_cause"):
            return str(one.hermes_cause)
        if missing.split(".")[0] == "torch_npu" and "torch_npu" in sys.modules:
            return "refused"
        one = one.__cause__ or one.__context__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    inside = trace is not None and Path(trace.tb_frame.f_code.co_filename).is_relative_to(Path(__file__).parent)
    return "harness" if inside else "error"


def _watch_end() -> None:
    original = sys.excepthook

    def hook(kind: Any, error: BaseException, trace: Any) -> None:
        with contextlib.suppress(Exception):
            _ended_by(kind, error, trace)
        original(kind, error, trace)

    sys.excepthook = hook


def _without_device_threads() -> None:
    """Compute gradients in the thread that asks for them, as on the CPU.

    A device thread that still frees tensors while Python ends would abort the program. Torch stores this setting for
    each thread.
    """
    import torch

    torch.autograd.set_multithreading_enabled(False)


def _counted(original: Any, of_call: Any, limit: int) -> Any:
    """A backward pass that is recorded; `of_call` finds the losses among its arguments."""

    def backward(*args: Any, **kwargs: Any) -> Any:
        global _seen
        _seen += 1
        if _seen > limit:
            _end(limit)
        for one in of_call(*args, **kwargs):
            _note(one)
        _without_device_threads()
        return original(*args, **kwargs)

    return backward


def _uncompiled(original: Any) -> Any:
    """`torch.compile` with compiling turned off, which must not be asked for one whole graph."""

    def compile(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **{**kwargs, "fullgraph": False})

    return compile


def _autoload() -> None:
    """Set up the recorder; torch calls this function when it is imported."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    if "HERMES_VERIFY_OUT" not in os.environ:
        return
    _watch_end()
    _seed(torch)
    _without_device_threads()
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        torch.compile = _uncompiled(torch.compile)
    limit = int(os.environ.get("HERMES_VERIFY_STEPS", "5"))

    def losses(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        return (tensors,) if isinstance(tensors, torch.Tensor) else tensors

    def remote_losses(context_id: int, roots: Any, retain_graph: bool = False) -> Any:
        return roots

    torch.autograd.backward = _counted(torch.autograd.backward, losses, limit)
    if torch.distributed.is_available():
        import torch.distributed.autograd as remote

        remote.backward = _counted(remote.backward, remote_losses, limit)
    register_optimizer_step_post_hook(_weights)
