"""One rank takes longer than the others for the same operators."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Name, Rank, Share, message, sentence
from hermes.knowledge.actions import NO_RISK, with_tools
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import DEVICE_TOOLS
from hermes.model.compute_measures import StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.step_measures import PeerWait
from hermes.profiles.rules._cost_by_rank import percents, place
from hermes.profiles.rules._host import has_device
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules._slow_ranks import SLOWER, Slow, slow_by_compute
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = SLOWER
FLOOR = NOISE
_MOST = 8


@rule("CMP011", state="stable", fault=Fault.SLOW_DEVICE, cases=("COM-21", "CMP-14", "ENV-13", "ENV-06", "ENV-07"))
def slow_operators(job: Job, waits: Rows[PeerWait], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """A finding for each rank whose operators are slow, at most the eight slowest ranks."""
    waited = {wait.peer for wait in waits}
    # If operators take no time on the median rank, they tell nothing about this rank.
    slow = (one for one in slow_by_compute(job, computes) if one.lost_ns < one.kernel_ns)
    found = [one for one in slow if has_device(job, one.rank)]
    for one in found[:_MOST]:
        yield _of_rank(job, one, apart=one.rank not in waited)


def _of_rank(job: Job, slow: Slow, *, apart: bool) -> Loss:
    share = slow.lost_ns / slow.split.window_ns
    of_own = slow.lost_ns / slow.kernel_ns
    where = place(job, slow.split)
    return Loss(
        message=takes_longer(rank=str(slow.rank), longer=percents(of_own / (1 - of_own)), share=percents(share)),
        ranks=(slow.rank,),
        blames=(Blame.of_rank(slow.rank),),
        cost_ns=slow.lost_ns,
        share=share,
        gain=Gain(low_ns=0, high_ns=slow.lost_ns, method=at_most(when=AS_MEDIAN)),
        confidence=confidence("CMP011"),
        evidence=(
            Evidence(
                what=BEYOND_MEDIAN,
                value=round(share, 6),
                unit="of window",
                threshold=FLOOR.value,
                where=where,
            ),
            Evidence(
                what=BEYOND_MEDIAN,
                value=round(of_own, 6),
                unit="of the time of its kernels",
                threshold=LIMIT.value,
                where=where,
            ),
        ),
        replay=(f"compute:{slow.rank}={1 - of_own:.4g}",),
        apart=apart,
        actions=_compare(slow.rank),
    )


def _compare(rank: int) -> tuple[Action, ...]:
    base = Action(
        title=find_difference(rank=rank),
        do=find_difference_do(),
        verify=FIND_DIFFERENCE_VERIFY,
        risk=NO_RISK,
        source="slow-card advice of MindStudio Insight 26.0",
        cases=("CMP-14", "ENV-13"),
    )
    return with_tools(base, find_difference_do, DEVICE_TOOLS)


AS_MEDIAN = sentence("cmp011.as_median")
BEYOND_MEDIAN = sentence("cmp011.beyond_median")
FIND_DIFFERENCE_VERIFY = sentence("cmp011.find_difference_verify")


@message("cmp011.takes_longer")
def takes_longer(*, rank: Name, longer: Share, share: Share) -> None:
    """A rank takes longer than others for the same operators."""


@message("cmp011.find_difference")
def find_difference(*, rank: Rank) -> None:
    """To find out why a device is slow."""


@message("cmp011.find_difference_do")
def find_difference_do(*, tool: Name | None = None) -> None:
    """How to find out why a device is slow."""
