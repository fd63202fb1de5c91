"""Writes down loss and weights of each step of the user's program, and ends it after so many steps.

Part of `hermes migrate verify`. Runs inside the user's program, imports torch and nothing of Hermes. A loss is the number
whose gradient is asked for.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
from pathlib import Path
from typing import Any

_seen = 0


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


def _autoload() -> None:
    """What torch calls when it is imported."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    if "HERMES_VERIFY_OUT" not in os.environ:
        return
    _seed(torch)
    limit = int(os.environ.get("HERMES_VERIFY_STEPS", "5"))
    original = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        global _seen
        _seen += 1
        if _seen > limit:
            raise SystemExit(0)
        for one in (tensors,) if isinstance(tensors, torch.Tensor) else tensors:
            _note(one)
        return original(tensors, *args, **kwargs)

    torch.autograd.backward = backward
    register_optimizer_step_post_hook(_weights)
