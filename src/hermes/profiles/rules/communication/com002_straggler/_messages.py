"""Messages about a straggler, the rank that other ranks wait for."""

from __future__ import annotations

from hermes.base.message import Message, Name, Rank, Share, message, sentence

WAIT_PER_STEP = sentence("com002.wait_per_step")
OPERATIONS_BEYOND_MEAN = sentence("com002.operations_beyond_mean")
WAITING_FUSED_KERNELS = sentence("com002.waiting_fused_kernels")
ARRIVES_AND_SHARES = sentence("com002.arrives_and_shares")
MORE_WORK = sentence("com002.more_work")
COMPUTES = sentence("com002.computes")
STARVES = sentence("com002.starves")
NOT_COLLECTED = sentence("com002.not_collected")
ARRIVES = sentence("com002.arrives")
COMPUTES_LONGER = sentence("com002.computes_longer")
FREE_LONGER = sentence("com002.free_longer")


@message("com002.waits")
def waits(*, rank: Rank, peer: Rank, waits: Name) -> None:
    """One rank waits for another rank."""


@message("com002.profile")
def profile(*, peer: Rank) -> None:
    """To capture a rank that others wait for."""


@message("com002.profile_do")
def profile_do(*, peer: Rank, waiting: Rank) -> None:
    """How to capture a rank that others wait for."""


@message("com002.profile_verify")
def profile_verify(*, peer: Name) -> None:
    """How to check that the rank is the straggler."""


@message("com002.compute_alike")
def compute_alike(*, peer: Rank) -> None:
    """A rank computes longer than the others."""


@message("com002.compute_alike_do")
def compute_alike_do(*, peer: Rank) -> None:
    """Where to look for the reason that a rank computes longer."""


@message("com002.compute_alike_verify")
def compute_alike_verify(*, peer: Rank) -> None:
    """How to check that a rank no longer computes longer."""


@message("com002.share_work")
def share_work(*, peer: Rank) -> None:
    """A rank has more work to compute."""


@message("com002.share_work_do")
def share_work_do(*, peer: Rank) -> None:
    """How to share the work of a rank with the others."""


@message("com002.share_work_verify")
def share_work_verify(*, peer: Name) -> None:
    """How to check that the work is shared evenly."""


@message("com002.compare")
def compare(*, peer: Rank) -> None:
    """No measure explains why ranks wait."""


@message("com002.compare_do")
def compare_do(*, peer: Rank, waiting: Rank) -> None:
    """How to find the reason why ranks wait."""


@message("com002.compare_verify")
def compare_verify(*, peer: Name) -> None:
    """How to check that the waits became shorter."""


@message("com002.look_at_host")
def look_at_host(*, peer: Rank) -> None:
    """The host of a rank keeps its device waiting."""


@message("com002.look_at_host_do")
def look_at_host_do(*, peer: Rank) -> None:
    """Where to look on the straggler's host."""


@message("com002.look_at_host_verify")
def look_at_host_verify(*, peer: Rank) -> None:
    """How to check that the host no longer keeps the device waiting."""


@message("com002.ranks_wait")
def ranks_wait(*, waiting: Name, every: Name, peer: Rank, why: Message | None = None) -> None:
    """Ranks wait for a straggler, with what the straggler does meanwhile, as far as known."""


@message("com002.ranks_wait_inside")
def ranks_wait_inside(*, waiting: Name, every: Name, peer: Rank, names: Name, share: Share) -> None:
    """Ranks wait for one rank inside kernels that also communicate."""


@message("com002.waits_in")
def waits_in(*, rank: Rank, operator: Name, calls: Name) -> None:
    """One rank waits in calls of one fused kernel."""


@message("com002.find_out")
def find_out(*, peer: Rank) -> None:
    """A rank is late for a fused kernel."""


@message("com002.find_out_do")
def find_out_do(*, peer: Rank) -> None:
    """Where to look for the reason that a rank is late."""


@message("com002.find_out_verify")
def find_out_verify(*, operator: Name) -> None:
    """How to check that the rank is no longer late."""
