"""Messages of the weekly report."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, Ns, Rank, Share, Text, message, sentence

DAY = sentence("fleet.column_day")
HOSTS = sentence("fleet.column_hosts")
RANKS = sentence("fleet.column_ranks")
STEPS = sentence("fleet.column_steps")
TRAINED = sentence("fleet.column_trained")
TYPICAL = sentence("fleet.column_typical")
P99 = sentence("fleet.column_p99")
LOST_TIME = sentence("fleet.column_lost_time")
LOST_SHARE = sentence("fleet.column_lost_share")
SINCE = sentence("fleet.column_since")
UNTIL = sentence("fleet.column_until")
WHAT = sentence("fleet.column_what")
BEFORE = sentence("fleet.column_before")
AFTER = sentence("fleet.column_after")
OTHERS = sentence("fleet.column_others")
WAITED = sentence("fleet.column_waited")
TIME = sentence("fleet.column_time")
HOW = sentence("fleet.column_how")
FIRST_STEP = sentence("fleet.column_first_step")
FOUND = sentence("fleet.column_found")
OVER = sentence("fleet.column_over")
DAYS = sentence("fleet.table_days")
ALARMS = sentence("fleet.table_alarms")
STRAGGLERS = sentence("fleet.table_stragglers")
ALL_CAPTURES = sentence("fleet.table_all_captures")
SEVERAL_INPUTS = sentence("fleet.several_inputs")
"""Error: folders and a Prometheus are named together."""
DO_ONE_INPUT = sentence("fleet.do_one_input")
"""Advice to name either folders or a Prometheus."""
DO_SINCE = sentence("fleet.do_since")
"""Advice on how to write a duration."""
DO_CAPTURE_NEXT = sentence("fleet.do_capture_next")
"""Advice for slow steps that were not captured."""
NOT_IN_PROMETHEUS = sentence("fleet.not_in_prometheus")
"""A note on the data that a Prometheus lacks."""


@message("fleet.no_since")
def no_since(*, text: Name) -> None:
    """Error: a text is not a duration."""


@message("fleet.nobody_trained")
def nobody_trained(*, since: Name) -> None:
    """The verdict of a weekly report if no job ended a step."""


@message("fleet.week_lost")
def week_lost(*, lost: Ns, share: Share, trained: Ns, n: Count, most: Message, late: Message | None = None) -> None:
    """The verdict: the time that all jobs lost, the largest loss, and the rank that was waited for most."""


@message("fleet.week_still")
def week_still(*, n: Count, trained: Ns, since: Name, late: Message | None = None) -> None:
    """The verdict if no alarm cost time; ranks may have waited for one rank."""


@message("fleet.lost_most")
def lost_most(*, lost: Ns, what: Message, hosts: Names, job: Name, rank: Rank | None = None) -> None:
    """The largest loss, with its rank and host."""


@message("fleet.waited_most")
def waited_most(*, waited: Ns, rank: Rank, host: Name, job: Name) -> None:
    """The rank that the others waited for the longest."""


@message("fleet.trouble")
def trouble(
    *, what: Message, hosts: Names, job: Name, since: Name, until: Name, lost: Ns | None = None,
    before: Ns | None = None, after: Ns | None = None, said: Text | None = None, found: Text | None = None,
) -> None:  # fmt: skip
    """A period of slower steps of a job: hosts, begin and end, the watcher's message and a capture's finding."""


@message("fleet.do_read_report")
def do_read_report(*, report: Name) -> None:
    """Advice for slow steps that were captured: read the report."""
