"""Reads loss, gradients and updates now and then, and never waits for a device.

A look takes a few launches: the norms of the gradients in one call, the optimizer's change of a few parameters, and the
loss where the backward pass began. Results on a device are copied to the host after the step. A later look reads them,
once an event has marked the copy as done. Looks are so far apart that they take a small part of the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.inside.error_guard import Border, warnings_let_pass
from hermes.inside.monitor.step_meter import StepMeter
from hermes.inside.wire.background_calls import BackgroundCall
from hermes.inside.wire.numerics import NumericsLook, append

_EVERY_NS = 500_000_000
_SHARE = 4000
"""A look may take 1/4000 of the time until the next look."""
_MOST = 1 << 26
_MOST_ON_HOST = 1 << 20
"""Largest number of gradient elements that are read on the host: of larger models always the same part is read."""
_MOVED = 8
_MOVED_ELEMENTS = 1 << 14
"""Parameters whose updates are measured, and elements of each: the elements are copied for the time of one step."""
_OWN_FRAMES, _FRAMES = 7, 10
"""Frames between `_loss` and torch's frame, and how many frames beyond are searched."""
_SCALERS = ("_maybe_opt_step", "step")
"""Methods by which a scaler of torch, or an optimizer of DeepSpeed that scales, steps the inner optimizer."""
_now = time.perf_counter_ns


class Numerics:
    """The looks at one process's numbers. The monitor asks for a look by `meter.look`; an error ends only the
    looking."""

    def __init__(self, meter: StepMeter, path: Path, say: Callable[[str], None]) -> None:
        self._border = Border(self._give_up)
        self._meter = meter
        self._path = path
        self._say = say
        self._torch: Any = None
        self._due = 0
        self._of = 0
        self._gradients: list[tuple[Any, int]] = []
        self._moved: list[tuple[Any, int]] = []
        self._before: list[Any] = []
        self._made: list[Any] | None = None
        self._spent = self._cost = 0
        self._pending: tuple[int, Any, int] | None = None
        self._host: Any = None
        self._lines: list[bytes] = []
        self._writing: BackgroundCall[None] | None = None
        self.over = False

    def before(self, optimizer: object) -> None:
        """Read the gradients: they are complete, and the optimizer has not stepped yet."""
        meter = self._meter
        mine = self._of in (0, id(optimizer)) if meter.explicit else id(optimizer) == meter.anchor
        if not mine or self.over:
            return
        began = _now()
        self._border.call(self._seen, optimizer)
        self._spent = _now() - began

    def _seen(self, optimizer: object) -> None:
        self._torch = self._torch or sys.modules["torch"]
        with self._torch.no_grad(), warnings_let_pass():
            self._look(optimizer)

    def step_ended(self, now: int, step: int) -> None:
        """Finish a look, read an earlier look, or ask for the next look."""
        if not self.over:
            self._border.call(self._go_on, now, step)

    def _go_on(self, now: int, step: int) -> None:
        if self._meter.look:
            self._meter.look = False
            if self._made is not None:
                with self._torch.no_grad(), warnings_let_pass():
                    self._finish(step)
            self._meter.loss = None
            # The first look loads and allocates, and any other look may be delayed: of two looks the quicker counts.
            spent, before = self._spent + _now() - now, self._cost
            self._cost = spent
            self._due = now + max(_EVERY_NS, _SHARE * min(spent, before))
        elif now >= self._due:
            self._read()
            self._meter.look = self._pending is None

    def close(self) -> None:
        """Write the results of finished looks at loss and gradients, at the job's end."""
        if not self.over:
            self._border.call(self._last)

    def _last(self) -> None:
        self._read()
        if self._writing is None or self._writing.done(1.0):
            self._write()

    def _give_up(self, broken: Exception) -> None:
        self.over = True
        self._meter.look = False
        self._meter.loss = None
        self._before, self._made, self._gradients, self._moved = [], None, [], []
        self._say(f"loss and gradients are not looked at: {type(broken).__name__}: {str(broken)[:200]}")

    # -- a look

    def _look(self, optimizer: Any) -> None:
        torch = self._torch
        if self._of != id(optimizer):
            self._choose(optimizer)
            self._of = id(optimizer)
        self._made = None
        parts = [_part(parameter.grad, count) for parameter, count in self._gradients if parameter.grad is not None]
        if not parts or _capturing(torch, parts[0].device):
            return
        norms = torch.stack(_norms(torch, parts))
        self._before = [_part(parameter, count).clone() for parameter, count in self._moved]
        self._made = [*self._loss(norms.device), torch.linalg.vector_norm(norms), (~norms.isfinite()).sum().float()]

    def _choose(self, optimizer: Any) -> None:
        """The gradients that are read: on one device and of one type, for a single launch."""
        known = [
            parameter for group in optimizer.param_groups for parameter in group["params"]
            if parameter.grad is not None and _plain(parameter.grad) is not None and not parameter.grad.is_sparse
            and parameter.grad.is_floating_point()
        ]  # fmt: skip
        first = _plain(known[0].grad) if known else None
        alike = [
            one for one in known
            if first is not None and (_plain(one.grad).device, _plain(one.grad).dtype) == (first.device, first.dtype)
            and _plain(one.grad).is_contiguous()
        ]  # fmt: skip
        most = _MOST_ON_HOST if first is not None and first.device.type == "cpu" else _MOST
        sizes = [_plain(one.grad).numel() for one in alike]
        share = min(1.0, most / max(sum(sizes), 1))
        self._gradients = [
            (one, 0 if share == 1.0 else max(int(size * share), 1)) for one, size in zip(alike, sizes)
            if size
        ]  # fmt: skip
        dense = [one for one in alike if one.numel() and _plain(one).is_contiguous()]
        some = dense[:: -(-len(dense) // _MOVED)] if dense else []
        self._moved = [(one, min(_plain(one).numel(), _MOVED_ELEMENTS)) for one in some]

    def _loss(self, device: Any) -> list[Any]:
        """The loss at which the last backward pass began, without the scale of mixed precision."""
        torch, given = self._torch, self._meter.loss
        self._meter.loss = None
        loss = given[0] if isinstance(given, tuple) and given else given
        loss = loss[0] if isinstance(loss, (list, tuple)) and len(loss) == 1 else loss
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.device != device:
            return [torch.full((), float("nan"), device=device), torch.zeros((), device=device)]
        scale = _scale_of(sys._getframe(_OWN_FRAMES))
        loss = loss.detach().float().reshape(())
        if scale is not None:
            loss = loss / scale
        return [loss, torch.ones((), device=device)]

    def _finish(self, step: int) -> None:
        """Finish a look after the optimizer's step: measure the update, and start copying all results to the host."""
        torch, made = self._torch, self._made
        assert made is not None
        self._made, before, self._before = None, self._before, []
        after = [_part(parameter, count) for parameter, count in self._moved]
        if after:
            for parts in (torch._foreach_sub(before, after), before):
                made.append(torch.linalg.vector_norm(torch.stack(_norms(torch, parts))))
        packed = torch.stack([one.to(made[0].device) for one in made])
        if packed.device.type == "cpu":
            self._note(step, packed.tolist())
            return
        device = getattr(torch, packed.device.type)
        if self._host is None:
            self._host = torch.empty(8, pin_memory=True)
        self._host[: len(made)].copy_(packed, non_blocking=True)
        event = device.Event()
        event.record()
        self._pending = step, event, len(made)

    def _read(self) -> None:
        if self._pending is not None and self._pending[1].query():
            step, _, count = self._pending
            self._pending = None
            self._note(step, self._host[:count].tolist())

    def _note(self, step: int, row: list[float]) -> None:
        loss, known, norm, broken = row[:4]
        update = row[4] / row[5] if len(row) > 5 and row[5] else None
        look = NumericsLook(step, loss=loss if known else None, norm=norm, update=update, broken=int(broken))
        self._lines.append(look.line())
        if self._writing is None or self._writing.done():
            self._writing = BackgroundCall(self._write)

    def _write(self) -> None:
        while self._lines:
            try:
                append(self._path, self._lines.pop(0))
            except OSError:
                return


def _plain(tensor: Any) -> Any:
    """The part of a tensor that lies in this process; None for another subclass of tensor."""
    local = getattr(tensor, "_local_tensor", None)
    if local is not None:
        return local
    return tensor if type(tensor).__name__ in ("Tensor", "Parameter") else None


def _part(tensor: Any, count: int) -> Any:
    local = _plain(tensor)
    return local.view(-1)[:count] if count else local


def _norms(torch: Any, parts: list[Any]) -> list[Any]:
    if parts[0].dtype is torch.float64:
        # A norm must not be computed in a narrower type than the tensor's.
        return [one.float() for one in torch._foreach_norm(parts, 2)]
    try:
        return list(torch._foreach_norm(parts, 2, dtype=torch.float32))
    except TypeError:
        return [one.float() for one in torch._foreach_norm(parts, 2)]  # before torch 2.4


def _capturing(torch: Any, device: Any) -> bool:
    """Whether a launch now would become part of a graph under capture."""
    asked = getattr(getattr(torch, device.type, None), "is_current_stream_capturing", None)
    return bool(asked()) if asked is not None else False


def _scale_of(frame: Any) -> Any:
    """The factor by which a mixed-precision scaler has multiplied the loss: the scaler steps the optimizer.

    Only frames of methods that end with the step are asked for locals, because a frame keeps the answer as long as it
    lives. The frame of a training loop would keep an old optimizer and tensors that the job has released.
    """
    for _ in range(_FRAMES):
        if frame is None:
            return None
        code = frame.f_code
        method = code.co_name in _SCALERS and code.co_varnames[:1] == ("self",)
        owner = frame.f_locals.get("self") if method else None
        if owner is not None and hasattr(owner, "_growth_factor"):
            return getattr(owner, "_scale", None)
        if owner is not None and isinstance(getattr(owner, "cur_scale", None), (int, float)):
            return owner.cur_scale
        frame = frame.f_back
    return None
