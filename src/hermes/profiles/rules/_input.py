"""Costs a step of waiting for batches, and evidence about the training loop, for rules about the input pipeline."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hermes.base.message import Message, sentence
from hermes.model.finding import Evidence
from hermes.model.host_measures import Before
from hermes.model.input_measures import Fetches, InputRates
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.step_measures import StepSplit
from hermes.profiles.rules import evidence_messages as say
from hermes.profiles.rules._cost_by_rank import Spent
from hermes.profiles.rules._host import before_of, counted, counted_fact, counted_step, fact, has_device, host_loss
from hermes.profiles.rules._limits import CORES_FULL
from hermes.profiles.rules.rule import by_share

RECEIVED = Limit(
    value=0.2, unit="of step computed by the loop itself to receive batches", source="docs/evidence/host-limits.md"
)
CROWDED = Limit(value=0.1, unit="of step in which the loop waits for a core", source="docs/evidence/host-limits.md")
MOSTLY_STARTS = Limit(value=0.5, unit="of waits for batches is for workers to start", source="the larger half")
MOSTLY_WAITS = Limit(value=0.5, unit="of the time for batches is on no core", source="the larger half")
WAITED = "data_ns"
READY = sentence("io001.ready")
_LONG = 4


def fetches_of(fetches: Rows[Fetches], rank: int) -> Fetches | None:
    """The fetches of batches by the loop of a rank; None if no fetch was recorded."""
    return next(iter(fetches.of(rank)), None)


def fetch_loss(
    job: Job, fetches: Rows[Fetches], unprofiled: Rows[Before], what: Message, limit: Limit, kinds: Collection[str]
) -> Spent | None:
    """The rank that loses most to fetching in loops of these kinds; from steps before the capture if counted there."""
    length = counted_step(job, unprofiled, WAITED)
    return host_loss(job, what, limit, lambda split: _without_profiler(job, fetches, unprofiled, split, kinds), length)


def waits_before(job: Job, unprofiled: Rows[Before], rank: int) -> bool:
    """Whether the waits of a rank were counted in steps before the capture."""
    return counted(job, unprofiled, rank, WAITED) is not None


def _without_profiler(
    job: Job, fetches: Rows[Fetches], unprofiled: Rows[Before], split: StepSplit, kinds: Collection[str]
) -> int | None:
    """The cost of fetching counted before the capture: a profiler slows the loop, so that workers finish early."""
    row, waited = fetches_of(fetches, split.rank), counted(job, unprofiled, split.rank, WAITED)
    if row is None or row.kind not in kinds or waited is None or not row.wait_ns:
        return fetch_cost(job, fetches, split, kinds)
    # Batches of workers must be received, ready or not.
    own = (
        0
        if row.kind != "workers" or receives(job, unprofiled, split.rank)
        else received_ns(job, unprofiled, split.rank)
    )
    # If no worker starts in the capture, the time of starts is known from the steps before, or there were no workers.
    start = starting(row) * waited or min(waited, counted(job, unprofiled, split.rank, "start_ns") or 0)
    wait = max(0, round(waited - start) - own)
    # Starting workers takes the core from the loop; handing over batches does not.
    mostly_starts = start > MOSTLY_STARTS.value * waited
    return wait if row.kind != "workers" or mostly_starts else _with_delay(job, unprofiled, split.rank, wait)


def _with_delay(job: Job, unprofiled: Rows[Before], rank: int, wait_ns: int) -> int:
    """The wait, with the loop's wait for a core that workers occupy, at most the loop's wait without a core."""
    before, delay = before_of(unprofiled, rank), crowded_ns(job, unprofiled, rank)
    if before is None or not delay:
        return wait_ns
    return max(wait_ns, min(wait_ns + delay, before.step_ns - (before.cpu_ns or 0)))


def crowded_ns(job: Job, unprofiled: Rows[Before], rank: int) -> int:
    """The time a step that the loop was ready and waited for a core, if that is long; counted before the capture."""
    before, delay = before_of(unprofiled, rank), counted(job, unprofiled, rank, "delay_ns")
    return delay if before and delay and by_share(CROWDED, delay / before.step_ns) else 0


def cores_full(rate: InputRates | None) -> bool:
    """Whether sampling showed that all cores are busy."""
    if rate is None or rate.cores_free is None or not rate.cores:
        return False
    return 1 - rate.cores_free / rate.cores > CORES_FULL.value


def fetching_waits(job: Job, unprofiled: Rows[Before], rank: int) -> bool:
    """Whether the loop made batches mostly without a core, waiting for files, servers or clocks, before the capture."""
    taken, on_core = (counted(job, unprofiled, rank, name) for name in (WAITED, "data_cpu_ns"))
    if not taken or on_core is None:
        return False
    still = taken - on_core - (counted(job, unprofiled, rank, "delay_ns") or 0)
    return by_share(MOSTLY_WAITS, still / taken)


def received_ns(job: Job, unprofiled: Rows[Before], rank: int) -> int:
    """Time a step in which the loop received batches from workers, counted before the capture; 0 if not counted."""
    return counted(job, unprofiled, rank, "data_cpu_ns") or 0


def receives(job: Job, unprofiled: Rows[Before], rank: int) -> bool:
    """Whether receiving a batch takes so long that it is a loss of its own: a few tensors take no time."""
    row = before_of(unprofiled, rank)
    return row is not None and by_share(RECEIVED, received_ns(job, unprofiled, rank) / row.step_ns)


def starting(row: Fetches) -> float:
    """The share of the loop's waits spent on starts: making iterators, and fetching their first batches."""
    start = (row.epoch_ns or 0) + first_waits_ns(row)
    every = row.wait_ns + (row.epoch_ns or 0)
    return start / every if every else 0.0


def fetch_cost(job: Job, fetches: Rows[Fetches], split: StepSplit, kinds: Collection[str]) -> int | None:
    """The cost of fetching a step: free time of the device, or host time without a device."""
    row = fetches_of(fetches, split.rank)
    if row is None or row.kind not in kinds:
        return None
    lost = row.device_free_ns if has_device(job, split.rank) else row.wait_ns
    return None if lost is None else max(lost - first_waits_ns(row), 0) // max(1, row.steps)


def first_waits_ns(row: Fetches) -> int:
    """Waits for the first batches of restarted workers.

    Such a wait is a fetch that is long beside the others, if making the iterator took long, too. Workers that persist
    give their first batch soon after a short start.
    """
    if not row.epochs or not row.epoch_ns:
        return 0
    if row.first_ns is not None:
        return row.first_ns if _LONG * row.epoch_ns > row.first_ns else 0
    odd = row.longest_ns > _LONG * row.median_ns and _LONG * row.epoch_ns > row.longest_ns
    return min(row.epochs * row.longest_ns, row.wait_ns) if odd else 0


def one_long_fetch(row: Fetches) -> bool:
    """Whether a single fetch of several is most of the wait: then the loss is not steady."""
    return row.fetches > 1 and 2 * row.longest_ns > row.wait_ns and 2 * row.median_ns < row.longest_ns


def loop_facts(job: Job, rates: Rows[InputRates], unprofiled: Rows[Before], row: Fetches) -> Iterator[Evidence]:
    """The fetches, and the demand of the loop against the supply of batches, as evidence."""
    rank = row.rank
    yield from counted_fact(job, unprofiled, rank, WAITED)
    yield fact(job, rank, say.MEDIAN_FETCH, row.median_ns, "ns")
    step = "" if row.longest_step is None else f"step {row.longest_step}"
    yield fact(job, rank, say.LONGEST_FETCH, row.longest_ns, "ns", source=step)
    yield fact(job, rank, say.LONG_FETCHES, row.long / row.fetches, "of fetches")
    rate = next(iter(rates.of(rank)), None)
    if rate is None:
        return
    for what, value in ((say.DEMAND, rate.demand), (say.SUPPLY, rate.supply)):
        if value is not None:
            yield fact(job, rank, what, round(value, 3), "a second")
    if rate.cores_free is not None and rate.cores is not None:
        yield fact(job, rank, say.cores_free(n=rate.cores), round(rate.cores_free, 1), "cores")
