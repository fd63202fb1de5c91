"""Measures of tensor shapes and strides: padding, dense gradients, concatenations and mixed layouts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Batches of `samples` that were padded.

    `before` and `after` are the mean tokens of a batch, as an embedding got them.
    """

    rank: int
    samples: int
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseTable:
    """Embedding tables of `rows` of `width` numbers with dense gradients; `used` is the mean indices of a lookup."""

    rank: int
    rows: int
    width: int
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptConcat:
    """The shape of a concatenation that does not grow a tensor: gradients flow through it, or it rolls one tensor."""

    rank: int
    shape: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedLayouts:
    """Calls of one operator whose inputs have different memory orders, and their time beyond inputs of one order."""

    rank: int
    operator: str
    shapes: str
    steps: int
    calls: int
    ns: int
    beyond_ns: int
