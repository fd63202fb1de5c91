"""Sums within one step: waits for data, passes, collections, saving; added up by the wrappers in `patches`.

Between two steps a program evicts from the caches what the monitor uses: what a step touches is kept in one object of
few cache lines, and is added up where it is measured, without a call in between.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from hermes.inside.wire.record import FLAGS, NULL

LONG_NS = 100_000
"""A wait for data from which on it is worth knowing who worked in it."""
_SPLIT_NS = 2_000_000
"""Who worked is asked in steps at least this far apart: it takes two system calls for each batch."""
_IN_EVALUATION = FLAGS["evaluation"]
_EVALUATION = 2
"""Batches in a step that no backward pass uses, from which on it counts as one with an evaluation."""
_OTHERS = 16
"""Optimizer steps of others in a row after which the one that marked steps is taken to be gone."""
_STARTS = 256
"""So many starts of workers are kept, the latest."""
_now = time.perf_counter_ns


class Meter:
    """What the stepping thread has spent since its last step ended, and all that is looked at when one ends.

    Times are nanoseconds of host time. Calls of other threads are let through unmeasured: a thread that prefetches
    waits for no step.
    """

    __slots__ = (
        "_alive", "_known", "_other_step", "_others", "ahead", "anchor", "backward_ns", "batches", "busy",
        "comm_bytes", "comm_ns", "count", "data_cpu_ns", "data_ns", "depth", "due_ns", "epoch_ns", "explicit",
        "flags", "forward_from", "forward_ns", "fresh", "full_at", "gc_count", "gc_from", "gc_ns", "kept",
        "last_end", "long", "look", "loss", "moved_ns", "next_step", "optimizer_from", "optimizer_ns",
        "overhead_ns", "rare", "samples", "save_ns", "split", "split_at", "starts", "thread",
        "tokens", "transfer_ns", "unused", "uses_backward", "uses_collectives", "uses_loader", "uses_transfers",
        "write_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.thread = get_ident()
        self.uses_loader = self.uses_backward = self.uses_collectives = self.uses_transfers = False
        self.moved_ns = 0
        """Time in copies to the device since a record told it last."""
        self.depth = 0
        """1 inside a wrapped call, whose inner calls are its own."""
        self.optimizer_from = self.gc_from = self.overhead_ns = 0
        # Batches that no backward pass has used yet, now and when the last step ended: some loops fetch ahead.
        self.unused = self.ahead = 0
        self.long = True
        self.split_at = 0
        # The optimizer that ends steps, and how many others have stepped since it did.
        self.anchor = self._others = 0
        self._other_step = -1
        self._alive: Callable[[], object] = _nobody
        self._known: set[int] = set()
        self.explicit = False
        # For the monitor: numbers of the next step and the last record, and when there is more to do than to count.
        self.next_step = self.count = self.last_end = self.due_ns = self.full_at = self.write_ns = 0
        self.busy = False
        self.epoch_ns = 0
        # Whether the step that goes on is looked at by `Numerics`, and what its backward pass began at.
        self.look = False
        self.loss: object = None
        # Starts of workers of loaders: in which step, and how long with their first batches; whether the next batch
        # is such a one.
        self.starts: list[tuple[int, int]] = []
        self.fresh = False
        # The batches that are handed out, where somebody wants to look at them: see `Loaders`.
        self.kept: list[Any] | None = None
        self.begin(0)

    def begin(self, now: int) -> None:
        """Forget what was added up, and begin a step at that time of the clock."""
        self.last_end = now
        self.data_ns = self.data_cpu_ns = self.forward_ns = self.forward_from = self.backward_ns = 0
        self.batches = self.optimizer_ns = self.flags = 0
        self.samples = self.tokens = NULL
        self.seldom(now)

    def seldom(self, now: int) -> None:
        """The part of `begin` that few steps need: if `rare` or `split`, or if `long` and `split_at` is past."""
        self.save_ns = self.gc_ns = self.gc_count = self.comm_ns = self.comm_bytes = 0
        self.transfer_ns = NULL
        self.rare = False
        self.split = self.long and now >= self.split_at
        if self.split:
            self.split_at = now + _SPLIT_NS

    def evaluated(self) -> int:
        """The flag of a step, ending now, in which batches were left over; those fetched ahead are not."""
        if self.unused - self.ahead >= _EVALUATION:
            self.unused = self.ahead
            return _IN_EVALUATION if self.uses_backward else 0
        self.ahead = self.unused
        return 0

    def follow(self, optimizer: object) -> None:
        """The steps of that optimizer end those of the job from now on."""
        self.anchor = id(optimizer)
        self._known.add(self.anchor)
        try:
            self._alive = weakref.ref(optimizer)
        except TypeError:
            self._alive = lambda: optimizer

    def anchored(self, optimizer: object) -> bool:
        """Whether the step of an optimizer that is not the anchor ends a step of the job; then it is the anchor.

        It is where the anchor is gone, as where each epoch makes an optimizer of its own; where one that was not seen
        before steps on a batch of its own, or twice in a row; or any other, often in a row.
        """
        if self.explicit:
            return False
        number, known = id(optimizer), self._known
        if self._other_step != self.next_step:
            self._others, self._other_step = 0, self.next_step
        if self._alive() is None:
            known.clear()
        elif number not in known:
            known.add(number)
            if not self.batches:
                self._others = _OTHERS
                return False
        elif self._others < _OTHERS:
            self._others += 1
            return False
        self.follow(optimizer)
        return True

    def started(self, ns: int) -> None:
        """Workers of a loader were started, which took so long; their first batch comes next."""
        self.fresh = True
        self.starts.append((self.count, ns))
        del self.starts[:-_STARTS]

    def first_batch(self, ns: int) -> None:
        """So long the loop waited for the first batch of workers that were started."""
        self.fresh = False
        count, start_ns = self.starts[-1]
        self.starts[-1] = (count, start_ns + ns)

    def tally(self, batch: object) -> None:
        """Add the extent of a batch; one that tells none makes the sum unknown."""
        samples, tokens = extent(batch)
        self.samples = samples if self.samples == NULL else self.samples + samples if samples != NULL else NULL
        self.tokens = tokens if self.tokens == NULL else self.tokens + tokens if tokens != NULL else NULL

    def saved(self, ns: int) -> None:
        """A checkpoint was written, which took so long."""
        if get_ident() == self.thread:
            self.rare = True
            self.save_ns += ns
            self.flags |= FLAGS["checkpoint"]

    def communicated(self, ns: int, size: int) -> None:
        """A collective on that many bytes took so long."""
        if get_ident() == self.thread:
            self.rare = True
            self.due_ns = 0
            self.comm_ns += ns
            self.comm_bytes += size

    def collection(self, phase: str, _info: object) -> None:
        """A callback for `gc.callbacks`."""
        if phase == "start":
            self.gc_from = _now()
        elif self.gc_from:
            self.rare = True
            self.gc_ns += _now() - self.gc_from
            self.gc_count += 1
            self.gc_from = 0


def _nobody() -> object:
    """The optimizer that marks steps before there is one."""
    return None


def extent(batch: object) -> tuple[int, int]:
    """Samples and tokens of a batch, by the shape of its first tensor; `NULL` for what it does not tell.

    Tokens are counted for the key `input_ids`, as models of text name it, when it has two dimensions.
    """
    text = False
    if isinstance(batch, Mapping):
        text = "input_ids" in batch
        batch = batch["input_ids"] if text else next(iter(batch.values()), None)
    elif isinstance(batch, (tuple, list)) and batch:
        batch = batch[0]
    shape = getattr(batch, "shape", None)
    try:
        if not shape:
            return NULL, NULL
        samples = int(shape[0])
        return samples, samples * int(shape[1]) if text and len(shape) == 2 else NULL
    except (TypeError, ValueError, IndexError):
        return NULL, NULL
