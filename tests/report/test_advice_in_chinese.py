"""The known causes of an action are told in Chinese."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.shared_jobs import TWO, Jobs

from hermes.knowledge.cases import case, cases, in_chinese
from hermes.model.report import Report
from hermes.report.advice_in_chinese import advice_in_chinese
from hermes.report.html import render_html
from hermes_testing import Fault


@pytest.fixture
def known(jobs: Jobs) -> Report:
    real = jobs.report(replace(TWO, faults=(Fault(kind="gc_pause"),)), "kineto")
    found = case("CPU-14")
    assert found is not None
    one = replace(
        real.plan.actions[0], case=found.id, cure=found.cure, confirm=found.confirm, risk=found.risk, after=found.after,
        doubts=found.not_measured, others=("IO-02 Samples are prepared in the training process itself (lead)", "mine"),
    )  # fmt: skip
    return replace(real, plan=replace(real.plan, actions=(one, *real.plan.actions[1:])))


def test_sentences_of_known_causes_are_chinese_and_what_is_no_case_stays(known: Report) -> None:
    found, other = case("CPU-14"), case("IO-02")
    assert found is not None
    assert other is not None
    one = advice_in_chinese(known.plan.actions[0])
    assert (one.cure, one.confirm, one.risk) == (
        in_chinese(found).cure,
        in_chinese(found).confirm,
        in_chinese(found).risk,
    )
    assert one.after == found.after
    assert one.others == (f"IO-02 {in_chinese(other).cause}（线索）", "mine")


def test_the_chinese_page_holds_no_sentence_of_a_case_in_english(known: Report) -> None:
    said = {text for one in cases() for text in (one.cure, one.confirm)}
    english, chinese = render_html(known), render_html(known, "zh")
    assert [text for text in said if text in english]
    assert not [text for text in said if text in chinese.split("<script", 1)[0]]
