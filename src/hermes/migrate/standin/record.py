"""Writes down loss and weights of each step of the user's program, and ends it after so many steps.

Part of `hermes migrate verify`. Runs inside the user's program, imports torch and nothing of Hermes. A loss is the number
whose gradient is asked for.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import sys
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


def _note(value: Any) -> None:
    _write("loss", float(value.detach().cpu().double().sum().item()))


def _weights(optimizer: Any, args: Any, kwargs: Any) -> None:
    """One number for all weights after a step, summed in float64 on the CPU in a fixed order."""
    total = 0.0
    for group in optimizer.param_groups:
        for weight in group["params"]:
            total += float(weight.detach().cpu().double().abs().sum().item())
    _write("weights", total)


def _seed(torch: Any) -> None:
    """The same random numbers in both runs, also in a program that sets no seed."""
    random.seed(0)
    torch.default_generator.manual_seed(0)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(0)


def _remote() -> bool:
    """Whether this rank answers calls of other ranks, which then wait for it."""
    rpc = sys.modules.get("torch.distributed.rpc")
    return rpc is not None and bool(rpc.is_available() and rpc.api._is_current_rpc_agent_set())


def _end(limit: int) -> None:
    """End the program after its steps. Ranks that call each other end together, each after as many steps."""
    if not _remote():
        raise SystemExit(0)
    out = Path(os.environ["HERMES_VERIFY_OUT"])
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up:
        texts = [path.read_text(encoding="ascii") for path in out.glob("losses.*.txt")]
        if all(text.count("loss ") in (0, limit) for text in texts):
            break
        time.sleep(0.1)
    (out / "ended").touch()
    os.killpg(0, signal.SIGKILL)


def _without_device_threads() -> None:
    """Gradients are computed by the thread that asks for them, as on the CPU.

    A thread of the device that still lets go of tensors while Python ends would abort the program. Torch keeps the
    setting by thread.
    """
    import torch

    torch.autograd.set_multithreading_enabled(False)


def _counted(original: Any, of_call: Any, limit: int) -> Any:
    """A backward pass that is noted; `of_call` finds the losses among its arguments."""

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
    """`torch.compile` where compiling is turned off, which must not be asked for one whole graph."""

    def compile(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **{**kwargs, "fullgraph": False})

    return compile


def _autoload() -> None:
    """What torch calls when it is imported."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    if "HERMES_VERIFY_OUT" not in os.environ:
        return
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
