"""Communication and structure as text, page and JSON."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

from rich.console import Console
from tests.with_rows import with_rows

from hermes.model.comm_measures import GroupKind, GroupOp, LinkPair, SlowRank, Stall
from hermes.model.report import Report
from hermes.model.structure_measures import Pipeline, Stage
from hermes.profiles.measure.structure.matrix import rank_matrix
from hermes.report.html import render_html
from hermes.report.report_json import to_json
from hermes.report.text import render_text

MS = 1_000_000
KIND = GroupKind(
    kind="dp", op="all_reduce", size=8, groups=1, timed=1, ranks=2, operations=4, elapse_ns=200 * MS, wait_ns=190 * MS,
    transfer_ns=9 * MS, idle_ns=1 * MS, hidden_ns=0, waste=0.95, bytes=244_000_000, algorithm_gb_per_s=55.0,
    bus_gb_per_s=96.25, least_bus_gb_per_s=96.25, slowest=(0, 1), transport="HCCS", of_link=0.53,
)  # fmt: skip
GROUP = GroupOp(
    group="dp", parallel="dp", parallel_source="name", members=(0, 1), members_source="recorded", size=2, ranks=(0, 1),
    op="all_reduce",
    library="hccl", operations=4, rows=8, split_rows=8, unmatched=0, elapse_ns=200 * MS + 1, split_elapse_ns=200 * MS,
    wait_ns=190 * MS, transfer_ns=9 * MS, idle_ns=1 * MS, hidden_ns=0, waste=0.95, error_ns=None, bytes=None,
    transfer_median_ns=2 * MS, algorithm_gb_per_s=None, bus_gb_per_s=None, transport=None, link_gb_per_s=None,
    link_limit_gb_per_s=None, of_link=None,
)  # fmt: skip
SLOW = SlowRank(
    rank=5, collected=False, operations=4, last=3, blocks=1, blocks_last=1, held_ns=93 * MS, median_lead_ns=8 * MS,
    own_wait_ns=0, error_ns=0, p_value=1.0,
)  # fmt: skip
LINK = LinkPair(
    rank=0, peer=1, transport="HCCS", source="tasks", transfers=80, bytes=760_000_000, time_ns=191 * MS, gb_per_s=3.97,
    of_link=None, ratio=5.0, compared=24, slower=24, excess_ns=153 * MS, p_value=1e-6,
)  # fmt: skip
STALL = Stall(
    rank=3, what="ROCE", counted=90, stalled=2, excess_ns=80 * MS, longest_ns=40 * MS,
    longest_at_ns=1_736_412_474_721_169_590,
)  # fmt: skip
LINE = Pipeline(
    source="group", micro_batches=2, structural_share=1 / 3, bubble_share=0.4, imbalance=0.25,
    stages=(
        Stage(stage=0, ranks=(0,), steps=1, window_ns=9 * MS, compute_ns=4 * MS, bubble_ns=5 * MS, transfer_ns=None,
              estimated=True),
    ),
)  # fmt: skip
ALL = (KIND, GROUP, GROUP, SLOW, LINK, STALL)


def text_of(report: Report) -> str:
    out = io.StringIO()
    render_text(report, Console(file=out, width=120))
    return out.getvalue()


def test_the_terminal_says_what_is_a_notable_share_and_why(real: Report) -> None:
    text = text_of(with_rows(real, ALL))
    assert "all_reduce of dp: 95.0% waiting for the last member, then 96.2 GB/s on the bus, 53.0% of what" in text
    assert "all others waited 93.0 ms for rank 5 alone, which was not collected" in text
    assert "(latest in 1 of 1 step; too few steps to rule out chance)" in " ".join(text.split())
    assert "link 0 to 1 (HCCS): 3.97 GB/s, 5 times the time of its peers" in text


def test_the_terminal_says_nothing_of_what_is_small_hidden_or_unproven(real: Report) -> None:
    small = (
        replace(KIND, hidden_ns=199 * MS),
        replace(SLOW, held_ns=MS),
        replace(LINK, p_value=0.5),
        replace(STALL, excess_ns=MS),
    )
    assert "notable share" not in text_of(with_rows(real, small))
    assert "notable share" not in text_of(real)


def test_a_rank_that_only_passes_a_delay_on_is_not_blamed(real: Report) -> None:
    passing = replace(SLOW, own_wait_ns=90 * MS)
    assert "alone" not in text_of(with_rows(real, [passing]))


def test_the_pipeline_is_told_against_what_its_schedule_costs(real: Report) -> None:
    said = " ".join(text_of(with_rows(real, [LINE])).split())
    assert "pipeline of 1 stages: bubble 40.0% of the step, 33.3% by its schedule alone" in said


def test_the_page_has_a_section_for_each_with_its_tables(real: Report) -> None:
    matrix = rank_matrix((0, 1), [("window", "ns", {0: 130e6, 1: 129e6})])
    page = render_html(with_rows(real, (*ALL, LINE, matrix)))
    for key in (
        "collectives",
        "structure",
        "communication-kinds",
        "communication-groups",
        "communication-slow_ranks",
        "communication-link_pairs",
        "communication-stalls",
        "pipeline",
        "rank_matrix",
    ):
        assert f'id="{key}"' in page
    assert 'href="#collectives"' in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert '"190000000"' in page.split('id="data"')[1]
    # What has no rows has no table.
    assert 'id="communication-contention"' not in page
    assert 'id="collectives"' not in render_html(real)


def test_names_of_groups_are_harmless_everywhere(real: Report) -> None:
    evil = replace(KIND, kind="<script>alert(1)</script>\x1b[2J\u202e", elapse_ns=2_000 * MS)
    report = with_rows(real, [evil])
    assert "<script>alert" not in render_html(report)
    assert not set("\x1b\u202e") & set(text_of(report)) | set("\x1b\u202e") & set(to_json(report))


def test_times_are_milliseconds_that_give_back_the_nanosecond_and_moments_stay(real: Report) -> None:
    made = json.loads(to_json(with_rows(real, ALL)))["communication"]
    (first, _) = made["groups"]
    assert round(first["elapse_ms"] * 1e6) == 200 * MS + 1
    assert (first["error_ms"], first["bytes"], first["members"]) == (None, None, [0, 1])
    assert made["stalls"][0]["longest_at_ns"] == 1_736_412_474_721_169_590


def test_a_job_of_thousands_of_ranks_stays_a_small_document(real: Report) -> None:
    ranks = range(4_096)
    groups = (replace(GROUP, members=(rank, rank + 1)) for rank in ranks)
    slow_ranks = (replace(SLOW, rank=rank) for rank in ranks)
    matrix = rank_matrix(ranks, [(name, "ns", dict.fromkeys(ranks, 1.0)) for name in "abcdefghijklm"])
    report = with_rows(real, (*groups, *slow_ranks, matrix))
    made = json.loads(to_json(report))
    assert (len(made["communication"]["groups"]), len(made["communication"]["slow_ranks"])) == (1_024, 64)
    assert (len(made["rank_matrix"]["rows"]), made["rank_matrix"]["ranks_per_row"]) == (128, 32)
    assert "32 ranks a row" in render_html(report)
