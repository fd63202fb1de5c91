"""Sums the times within one step, added by the wrappers in `patches`: waits for data, passes, collections and saving.

Between two steps, a program evicts the monitor's data from the caches. So a step touches one object of few cache lines,
and adds up where it measures, without a call.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from hermes.inside.wire.step_record import FLAGS, NULL

LONG_NS = 100_000
"""Shortest wait for data in ns for which Hermes asks which process worked meanwhile."""
_SPLIT_NS = 2_000_000
"""Shortest time in ns between steps that ask who worked during a wait: this takes two system calls for each batch."""
_IN_EVALUATION = FLAGS["evaluation"]
_EVALUATION = 2
"""Fewest batches in a step without a backward pass for which the step counts as one with an evaluation."""
_OTHERS = 16
"""Optimizer steps of other optimizers in a row after which the optimizer that marked steps counts as gone."""
_STARTS = 256
"""Largest number of worker starts that are kept, the latest ones."""
_now = time.perf_counter_ns


class StepMeter:
    """The times that the stepping thread has spent since its last step ended, and all values read when a step ends.

    Times are nanoseconds of host time. Calls of other threads are not measured: a thread that prefetches makes no step
    wait.
    """

    __slots__ = (
        "_alive", "_known", "_other_step", "_others", "ahead", "anchor", "backward_ns", "batches", "busy",
        "comm_bytes", "comm_ns", "count", "data_cpu_ns", "data_ns", "depth", "due_ns", "epoch_ns", "explicit",
        "flags", "forward_from", "forward_ns", "fresh", "full_at", "gc_count", "gc_from", "gc_ns",
        "inside_collective", "kept", "last_end", "long", "look", "loss", "moved_ns", "next_step", "optimizer_from",
        "optimizer_ns", "overhead_ns", "rare", "samples", "save_ns", "split", "split_at", "starts", "thread",
        "tokens", "transfer_ns", "unused", "uses_backward", "uses_collectives", "uses_loader", "uses_transfers",
        "write_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.thread = get_ident()
        self.uses_loader = self.uses_backward = self.uses_collectives = self.uses_transfers = False
        self.moved_ns = 0
        """Time in copies to the device since the last record that held it."""
        self.depth = 0
        """1 inside a wrapped call; its inner calls then count as part of it."""
        self.inside_collective = False
        self.optimizer_from = self.gc_from = self.overhead_ns = 0
        # Batches that no backward pass has used yet, now and when the last step ended: some loops fetch ahead.
        self.unused = self.ahead = 0
        self.long = True
        self.split_at = 0
        # The optimizer that ends steps, and how many other optimizers have stepped since.
        self.anchor = self._others = 0
        self._other_step = -1
        self._alive: Callable[[], object] = _nobody
        self._known: set[int] = set()
        self.explicit = False
        # For the monitor: numbers of the next step and the last record, and when more work than counting is due.
        self.next_step = self.count = self.last_end = self.due_ns = self.full_at = self.write_ns = 0
        self.busy = False
        self.epoch_ns = 0
        # Whether `Numerics` looks at the current step, and where the step's backward pass began.
        self.look = False
        self.loss: object = None
        # Starts of loader workers: the step, and the time with the first batches; whether the next batch is a first
        # batch.
        self.starts: list[tuple[int, int]] = []
        self.fresh = False
        # The loaded batches, kept only if `Loaders` asks for them.
        self.kept: list[Any] | None = None
        self.begin(0)

    def begin(self, now: int) -> None:
        """Reset the sums, and begin a step at the time `now` of the clock."""
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
        """The flag of a step, ending now, in which batches were left over; batches fetched ahead do not count."""
        if self.unused - self.ahead >= _EVALUATION:
            self.unused = self.ahead
            return _IN_EVALUATION if self.uses_backward else 0
        self.ahead = self.unused
        return 0

    def follow(self, optimizer: object) -> None:
        """Let the steps of this optimizer end the steps of the job from now on."""
        self.anchor = id(optimizer)
        self._known.add(self.anchor)
        try:
            self._alive = weakref.ref(optimizer)
        except TypeError:
            self._alive = lambda: optimizer

    def anchored(self, optimizer: object) -> bool:
        """Whether the step of an optimizer that is not the anchor ends a step of the job; the optimizer then becomes
        the anchor.

        The anchor changes if it is gone, for example because each epoch makes an optimizer. The anchor also changes if
        a new optimizer steps on a batch of its own, or twice in a row, or if any others step often in a row.
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
        """Note a start of loader workers that took `ns` nanoseconds; the workers' first batch comes next."""
        self.fresh = True
        self.starts.append((self.count, ns))
        del self.starts[:-_STARTS]

    def first_batch(self, ns: int) -> None:
        """Add the `ns` nanoseconds that the loop waited for the first batch of newly started workers."""
        self.fresh = False
        count, start_ns = self.starts[-1]
        self.starts[-1] = (count, start_ns + ns)

    def tally(self, batch: object) -> None:
        """Add the samples and tokens of a batch; a batch without a known size makes the sum unknown."""
        samples, tokens = extent(batch)
        self.samples = samples if self.samples == NULL else self.samples + samples if samples != NULL else NULL
        self.tokens = tokens if self.tokens == NULL else self.tokens + tokens if tokens != NULL else NULL

    def saved(self, ns: int) -> None:
        """Note a checkpoint that took `ns` nanoseconds to write."""
        if get_ident() == self.thread:
            self.rare = True
            self.save_ns += ns
            self.flags |= FLAGS["checkpoint"]

    def communicated(self, ns: int, size: int) -> None:
        """Note a collective on `size` bytes that took `ns` nanoseconds."""
        if get_ident() == self.thread:
            self.rare = True
            self.due_ns = 0
            self.comm_ns += ns
            self.comm_bytes += size

    def collection(self, phase: str, _info: object) -> None:
        """Time a garbage collection, as a callback for `gc.callbacks`."""
        if phase == "start":
            self.gc_from = _now()
        elif self.gc_from:
            self.rare = True
            self.gc_ns += _now() - self.gc_from
            self.gc_count += 1
            self.gc_from = 0


def _nobody() -> object:
    """Stands for the optimizer that marks steps while no optimizer does."""
    return None


def extent(batch: object) -> tuple[int, int]:
    """Samples and tokens of a batch, by the shape of its first tensor; `NULL` for a number that the shape does not
    give.

    Tokens are counted for the key `input_ids`, the usual name in text models, when the tensor has two dimensions.
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
