"""Messages about coverage, and about the profiler's own split of the step."""

from __future__ import annotations

from hermes.base.message import Count, Name, Ns, Ranks, Text, message, sentence

OTHER_STEPS = sentence("coverage.other_steps")
BY_WORLD = sentence("coverage.by_world")
BY_GROUPS = sentence("coverage.by_groups")
NOT_RECORDED = sentence("coverage.not_recorded")
STEP_FILE = sentence("coverage.step_file")


@message("coverage.only_ranks")
def only_ranks(*, n: Count, ranks: Ranks, expected: Count) -> None:
    """Message: only some of the expected ranks were collected."""


@message("coverage.no_ranks")
def no_ranks(*, expected: Count) -> None:
    """Message: none of the expected ranks were collected."""


@message("coverage.size_unknown")
def size_unknown(*, n: Count) -> None:
    """Message: the number of ranks of the job is unknown."""


@message("coverage.blind")
def blind(*, ranks: Ranks) -> None:
    """Message: some ranks have no records of a device."""


@message("coverage.lost")
def lost(*, what: Text, lost: Text, ranks: Ranks | None = None) -> None:
    """Message: what a damaged file costs the analysis."""


@message("coverage.exposed_copies")
def exposed_copies(*, most: Ns) -> None:
    """Message: exposed copies, which Ascend's own split of the step counts differently."""


@message("coverage.parts_differ")
def parts_differ(*, part: Name, gap: Ns) -> None:
    """Message: a part of Ascend's own split of the step differs from the computed part."""


@message("coverage.part_rounded")
def part_rounded(*, part: Name, gap: Ns) -> None:
    """Message: a part of Ascend's own split of the step differs by rounding."""
