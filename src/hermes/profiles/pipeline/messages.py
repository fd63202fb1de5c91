"""What an analysis says of coverage, and of the profiler's own split of the step."""

from __future__ import annotations

from hermes.base.message import Count, Name, Ns, Ranks, Text, message, sentence

OTHER_STEPS = sentence("coverage.other_steps")
BY_WORLD = sentence("coverage.by_world")
BY_GROUPS = sentence("coverage.by_groups")
NOT_RECORDED = sentence("coverage.not_recorded")
STEP_FILE = sentence("coverage.step_file")


@message("coverage.only_ranks")
def only_ranks(*, n: Count, ranks: Ranks, expected: Count) -> None:
    """Ranks were not collected."""


@message("coverage.no_ranks")
def no_ranks(*, expected: Count) -> None:
    """Ranks were not collected."""


@message("coverage.size_unknown")
def size_unknown(*, n: Count) -> None:
    """The size of the job is not known."""


@message("coverage.blind")
def blind(*, ranks: Ranks) -> None:
    """Ranks have no device."""


@message("coverage.lost")
def lost(*, what: Text, lost: Text, ranks: Ranks | None = None) -> None:
    """A note costs something."""


@message("coverage.exposed_copies")
def exposed_copies(*, most: Ns) -> None:
    """Ascend's own split."""


@message("coverage.parts_differ")
def parts_differ(*, part: Name, gap: Ns) -> None:
    """Ascend's own split."""


@message("coverage.part_rounded")
def part_rounded(*, part: Name, gap: Ns) -> None:
    """Ascend's own split."""
