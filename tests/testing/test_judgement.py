"""What counts as a wrong judgement: each rule of it, on a report that breaks it; and what an opinion may be."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from bench.judgement.__main__ import main, paths
from bench.judgement.first_contact import COMMITS, FIRST
from bench.judgement.judge import foreign, judge, unexplaining
from bench.judgement.opinion import Measured, Opinion
from bench.judgement.opinions import OPINIONS
from bench.judgement.page import answer, into_page, summary
from tests.shared_jobs import TWO, Jobs

from hermes.model.fault import Fault
from hermes.model.leaf import Leaf
from hermes.model.report import Report
from hermes_testing import Fault as Planted

SLOW = replace(TWO, faults=(Planted(kind="data_wait"),))


@pytest.fixture
def report(jobs: Jobs) -> Report:
    return jobs.report(SLOW, "ascend-db")


def _opinion(report: Report, **changes: object) -> Opinion:
    assert report.verdict.leaf is not None
    said = Opinion(
        name="some", path="some.json.gz", job="a job", leaf=report.verdict.leaf, share=0.5, evidence="",
        devices=("ascend", "cuda", "rocm"),
    )  # fmt: skip
    return replace(said, **changes)  # type: ignore[arg-type]


def test_the_leaf_of_the_expert_is_right(report: Report) -> None:
    found = judge(report, _opinion(report))
    assert (found.wrong, found.faults) == ("", ())


def test_another_leaf_is_wrong_and_the_second_cause_is_right(report: Report) -> None:
    other = _opinion(report, leaf=Leaf.SORT)
    assert judge(report, other).wrong == "leaf"
    assert judge(report, replace(other, also=report.verdict.leaf)).wrong == ""


def test_a_rank_counts_only_where_the_expert_names_one(report: Report) -> None:
    assert (
        judge(
            report,
            _opinion(report, rank=report.verdict.rank if report.verdict.awaited is None else report.verdict.awaited),
        ).wrong
        == ""
    )
    assert judge(report, _opinion(report, rank=99)).wrong == "rank"


def test_the_measured_gain_is_looked_up_in_the_range_of_its_leaf(report: Report) -> None:
    first = report.plan.actions[0]
    inside = Measured(share=(first.share_low + first.share_high) / 2, source="")
    about = _opinion(report, leaf=first.about)
    assert judge(report, replace(about, measured=inside)).holds_measured
    assert judge(report, replace(about, measured=replace(inside, share=0.99))).holds_measured is False
    assert judge(report, about).holds_measured is None


def test_what_contradicts_itself_is_told(report: Report) -> None:
    first, *others = report.findings
    dear = replace(first, cost_ns=100 * report.plan.floor.step_ns)
    assert any("costs" in fault for fault in judge(replace(report, findings=(dear, *others)), _opinion(report)).faults)


def test_a_first_action_about_a_leaf_that_takes_no_time_is_told(report: Report) -> None:
    assert not [*unexplaining(report)]
    first, *others = report.plan.actions
    plan = replace(report.plan, actions=(replace(first, fault=Fault.LOW_CLOCK), *others))
    assert len([*unexplaining(replace(report, plan=plan))]) == 1


def test_words_of_other_chips_and_of_training_are_told(report: Report) -> None:
    first, *others = report.plan.actions
    changed = replace(first, after="torch.npu.synchronize()  # GradScaler")
    plan = replace(report.plan, actions=(changed, *others))
    found = [*foreign(replace(report, plan=plan), _opinion(report, devices=("cuda",), inference=True))]
    assert any("torch.npu." in one for one in found)
    assert any("GradScaler" in one for one in found)


def test_each_opinion_has_its_profile_once_and_a_sentence_of_evidence() -> None:
    assert len({one.path for one in OPINIONS}) == len({one.name for one in OPINIONS}) == len(OPINIONS)
    assert all(one.evidence.endswith(".") for one in OPINIONS)


def test_a_second_cause_differs_by_less_than_a_tenth_of_the_step() -> None:
    assert [one.name for one in OPINIONS if one.also and abs(one.share - one.also_share) >= 0.1] == []


def test_first_contact_is_kept_of_each_profile() -> None:
    assert FIRST.keys() == {one.name for one in OPINIONS}
    assert sum(COMMITS.values()) == len(FIRST)


def test_what_could_not_be_read_counts_as_wrong(report: Report, tmp_path: Path) -> None:
    judged = judge(report, _opinion(report))
    assert summary([answer(judged)], 2).startswith("first leaf 1 of 2, with its rank 1 of 2")
    page = tmp_path / "page.md"
    page.write_text("<!-- results judgement -->\n<!-- end judgement -->\n")
    into_page(page, [judged.opinion, replace(judged.opinion, name="lost")], [judged])
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    assert [row.split(" | ")[-1].strip(" |") for row in rows] == ["same", "**not read**"]


def test_without_profiles_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 2
    assert "no such profiles" in capsys.readouterr().err


def test_packed_reports_are_unpacked_and_patterns_name_files(report: Report, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.sqlite.gz").write_bytes(gzip.compress(b"rows"))
    (found,) = paths(tmp_path, _opinion(report, path="a/*.gz"), tmp_path)
    assert (found.name, found.read_bytes()) == ("one.sqlite", b"rows")
    assert paths(tmp_path, _opinion(report, path="a"), tmp_path) == [tmp_path / "a"]
