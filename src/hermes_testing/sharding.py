"""Parameters that lie in parts on the ranks: units that are gathered before use, and whose gradients are scattered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hermes_testing.instructions import Await, Communicate, Instruction
from hermes_testing.job import Group, Job
from hermes_testing.model import embedding_bytes, gradient_bytes

Pass = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one rank as FullyShardedDataParallel has them: the root with the embedding, then runs of layers.

    The root stays whole from its use in forward to the end of backward. `group` are the ranks that hold the parts.
    """

    job: Job
    group: Group
    layers: int

    @property
    def last(self) -> int:
        """The number of the last unit; 0 is the root."""
        return -(-self.layers // self.job.sharded)

    def begin(self, pass_: Pass, batch: int, unit: int) -> Iterator[Instruction]:
        """What is launched before a unit is used, those ahead of it included; then compute waits for the unit."""
        if pass_ == "forward":
            ahead = self.job.prefetch[0]
            found = range(0 if unit == 0 else unit + ahead, min(unit + ahead, self.last) + 1)
        else:
            ahead = self.job.prefetch[1]
            found = range(self.last if unit == self.last else unit - ahead, max(unit - ahead, 1) - 1, -1)
        for one in found:
            yield self._communicate("all_gather", pass_, one, _handle(pass_, batch, one))
        yield Await(handle=_handle(pass_, batch, unit), phase=pass_)

    def end(self, batch: int, unit: int) -> Communicate:
        """What is launched once the gradients of a unit are there."""
        return self._communicate("reduce_scatter", "backward", unit, f"grad/{batch}/{unit}")

    def starts(self, layer: int) -> int | None:
        """The unit of which a layer is the first in forward; None for any other."""
        return 1 + layer // self.job.sharded if layer % self.job.sharded == 0 else None

    def ends(self, layer: int) -> int | None:
        """The unit of which a layer is the last in forward, and the first in backward; None for any other."""
        done = (layer + 1) % self.job.sharded == 0 or layer + 1 == self.layers
        return 1 + layer // self.job.sharded if done else None

    def _communicate(self, op: str, pass_: Pass, unit: int, handle: str) -> Communicate:
        size = embedding_bytes(self.job.tp)
        if unit:
            layers = min(self.job.sharded, self.layers - (unit - 1) * self.job.sharded)
            size = layers * gradient_bytes(self.job.tp)
        return Communicate(
            group=self.group, op=op, bytes=size, phase=pass_, stream=self.group.stream, handle=handle
        )  # fmt: skip


def _handle(pass_: Pass, batch: int, unit: int) -> str:
    return f"unit/{pass_}/{batch}/{unit}"
