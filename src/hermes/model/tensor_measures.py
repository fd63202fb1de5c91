"""Measures of tensors that operators get, from shapes and strides: frozen rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Batches of `samples` that were padded: mean tokens of one `before`, and `after`, where an embedding got them."""

    rank: int
    samples: int
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseTable:
    """Tables of `rows` of `width` numbers with dense gradients; `used` is the mean number of indices of a lookup."""

    rank: int
    rows: int
    width: int
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptConcat:
    """The shape of a concatenation that appends nothing: gradients flow through it, or it turns a tensor around."""

    rank: int
    shape: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedLayouts:
    """Calls of one operator whose inputs lie in different orders, and their time beyond that of inputs that agree."""

    rank: int
    operator: str
    shapes: str
    steps: int
    calls: int
    ns: int
    beyond_ns: int
