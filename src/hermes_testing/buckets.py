"""Gradients that become ready parameter by parameter, and the buckets in which they are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hermes_testing.instructions import Accumulate, Communicate, Instruction, Run
from hermes_testing.job import HIDDEN, VOCABULARY

_BYTES = 2


@dataclass(slots=True, kw_only=True)
class Filling:
    """A bucket that is being filled: it is sent once it holds `cap_bytes`, as DistributedDataParallel does it."""

    cap_bytes: int
    held_bytes: int = 0
    sent: int = 0

    def add(self, size: int) -> int:
        """Put a gradient in; what is to be sent now, 0 while there is room."""
        self.held_bytes += size
        return self.rest() if self.held_bytes >= self.cap_bytes else 0

    def rest(self) -> int:
        """Empty the bucket; what it held."""
        held, self.held_bytes = self.held_bytes, 0
        self.sent += held > 0
        return held


def accumulated(
    instructions: Iterable[Instruction], tp: int, filling: Filling | None, send: Callable[[int, int], Communicate]
) -> Iterator[Instruction]:
    """A backward pass with each gradient taken where it is ready, and the buckets that are full then.

    `send` makes the operation of a bucket from its number and size; without `filling` nothing is sent.
    """
    for instruction in instructions:
        yield instruction
        for shape in _shapes(instruction, tp):
            yield Accumulate(shape=",".join(map(str, shape)))
            size = _BYTES
            for dimension in shape:
                size *= dimension
            full = filling.add(size) if filling is not None else 0
            if filling is not None and full:
                yield send(filling.sent, full)
    left = filling.rest() if filling is not None else 0
    if filling is not None and left:
        yield send(filling.sent, left)


def _shapes(instruction: Instruction, tp: int) -> tuple[tuple[int, ...], ...]:
    """The parameters whose gradients an operator of backward computes; the head's are those of the embedding."""
    if not isinstance(instruction, Run) or instruction.phase != "backward":
        return ()
    if instruction.node == "AddmmBackward0" and "/loss/" not in instruction.pair:
        weight = tuple(int(part) for part in instruction.kernels[1].output.split(","))
        return (weight[1:], weight)
    if instruction.node == "NativeLayerNormBackward0":
        return ((HIDDEN,), (HIDDEN,))
    if instruction.node == "EmbeddingBackward0":
        return ((VOCABULARY // tp, HIDDEN),)
    return ()
