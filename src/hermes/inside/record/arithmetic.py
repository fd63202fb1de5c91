"""Runs operators with other roundings: perturbed as on another chip, or computed in a wider type and rounded once."""

from __future__ import annotations

from typing import Any

# Operators that do not round and whose results must not be rounded: copies, indices, comparisons and random numbers.
_EXACT = (
    "aten.copy_", "aten._to_copy", "aten.clone", "aten.fill_", "aten.zero_", "aten.zeros", "aten.ones", "aten.full",
    "aten.arange", "aten.index_select", "aten.gather", "aten.cat", "aten.stack", "aten.where", "aten.masked_fill",
    "aten.relu", "aten.threshold", "aten.neg", "aten.embedding.", "aten.constant_pad_nd", "aten.repeat", "aten.roll",
    "aten.topk", "aten.sort", "aten.max", "aten.min", "aten.amax", "aten.clamp", "aten.abs", "aten.sign", "aten.ne",
    "aten.index.", "aten.scatter.", "aten.tril", "aten.triu", "aten.flip", "aten.new_", "aten.scalar_tensor",
    "aten.lift",
    "aten._local_scalar_dense", "aten.eq", "aten.lt", "aten.gt", "aten.le", "aten.ge", "aten.slice_backward",
    "aten.select_backward", "aten.one_hot", "aten.nonzero", "aten.unbind", "aten.ones_like", "aten.zeros_like",
    "aten.index_put", "aten.argmax", "aten.bernoulli", "aten.native_dropout", "aten.round", "aten.floor", "aten.histc",
    "aten.bincount", "aten.item", "aten.detach", "aten._unsafe_view", "aten.empty", "aten.pow.Tensor_Scalar_out",
)  # fmt: skip

_PICKS = ("amax", "amin")
"""Reductions that return one of their elements unchanged."""


class Arithmetic:
    """The way in which operators' results are rounded; `kind` is `perturbed`, `float32` or `float64`."""

    def __init__(self, torch: Any, kind: str, seed: int) -> None:
        self._torch = torch
        self._kind = kind
        self._generator = torch.Generator().manual_seed(seed)
        self._exact: dict[str, bool] = {}

    def run(self, known: Any, call: Any, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's result, rounded as `kind` says; `call` runs the operator once."""
        exact = self._exact.get(known.name)
        if exact is None:
            exact = self._exact[known.name] = known.name.startswith(_EXACT)
        if exact or any(isinstance(one, str) and one in _PICKS for one in args):
            return call()
        if self._kind != "perturbed":
            return self._wider(known, call, func, args, kwargs)
        result = call()
        self._perturb(result)
        return result

    def _perturb(self, result: Any) -> None:
        """Move each element by at most one unit in its last place, at random: another order of summation has the same
        effect."""
        torch = self._torch
        if isinstance(result, (list, tuple)):
            for one in result:
                self._perturb(one)
            return
        if not isinstance(result, torch.Tensor) or not result.is_floating_point() or not result.numel():
            return
        flat = result.detach()
        noise = torch.rand(flat.shape, generator=self._generator, device="cpu").to(flat.device)
        moved = flat.to(torch.float64) * (1 + (noise.to(torch.float64) * 2 - 1) * torch.finfo(flat.dtype).eps)
        with torch.autograd._unsafe_preserve_version_counter(result):
            result.copy_(moved)

    def _wider(self, known: Any, call: Any, func: Any, args: Any, kwargs: Any) -> Any:
        torch = self._torch
        wide = torch.float64 if self._kind == "float64" else torch.float32
        if known.writes:
            return call()

        def widen(one: Any) -> Any:
            if isinstance(one, torch.Tensor):
                return one.to(wide) if one.is_floating_point() and one.dtype != wide else one
            if isinstance(one, (list, tuple)):
                return type(one)(widen(part) for part in one)
            return (
                wide if one in (torch.float16, torch.bfloat16, torch.float32) and isinstance(one, torch.dtype) else one
            )

        try:
            result = func(*widen(args), **{name: widen(one) for name, one in kwargs.items()})
        except (RuntimeError, TypeError, NotImplementedError):
            return call()
        narrow = _narrowest(args, torch)

        def restore(one: Any) -> Any:
            if isinstance(one, torch.Tensor):
                return one.to(narrow) if one.dtype == wide and narrow is not None else one
            if isinstance(one, (list, tuple)):
                return type(one)(restore(part) for part in one)
            return one

        return restore(result)


def _narrowest(args: Any, torch: Any) -> Any:
    """The type that the operator would have computed in: the type of its first floating-point tensor."""
    for one in args:
        if isinstance(one, torch.Tensor) and one.is_floating_point():
            return one.dtype
        if isinstance(one, (list, tuple)):
            found = _narrowest(one, torch)
            if found is not None:
                return found
    return None
