"""The terminal's text in Chinese: sentences are told, names, numbers and code stay."""

from __future__ import annotations

import html
import io
import re

from rich.console import Console
from tests.shared_jobs import Jobs

from hermes.model.report import Report
from hermes.report.chinese_sentences import in_chinese, language
from hermes.report.html import render_html
from hermes.report.localized_texts import teller
from hermes.report.text import render_text
from hermes_testing import Fault, Job

ENGLISH = r"(?<![\w./:=(\-])[A-Za-z][a-z']+(?:[,;:]? [A-Za-z]?[a-z']+){3,}"
DEMO = Job(faults=(Fault(kind="recompilation", ranks=(5,)), Fault(kind="gc_pause", ranks=(5,))))


def test_the_text_of_a_job_leaves_no_english_sentence(jobs: Jobs) -> None:
    out = io.StringIO()
    render_text(jobs.report(DEMO, "ascend-text"), Console(file=out, width=160), tell=teller("zh"))
    text = out.getvalue()
    assert "算子编译" in text
    lines = [line for line in text.splitlines() if "gc.collect()" not in line and "hermes profile" not in line]
    left = re.findall(ENGLISH, "\n".join(lines))
    assert left == []


def test_the_report_of_a_job_leaves_no_english_sentence(jobs: Jobs) -> None:
    page = render_html(jobs.report(DEMO, "ascend-text"), "zh")
    assert '<html lang="zh-CN">' in page
    # Code is no sentence, and a source keeps the title that one finds it by.
    shown = re.sub(
        r"<(script|style|pre|code)\b.*?</\1>|<dt>来源</dt><dd>.*?</dd>|bandwidth [^<]*",
        "<",
        page,
        flags=re.S,
    )
    texts = [*re.findall(r">([^<]+)<", shown), *re.findall(r' (?:title|aria-label|data-label)="([^"]*)"', shown)]
    left = {one for text in texts for one in re.findall(ENGLISH, html.unescape(text))}
    assert {one for one in left if not one.istitle()} == set()


def test_a_page_in_chinese_keeps_names_and_its_script(real: Report) -> None:
    english, chinese = render_html(real), render_html(real, "zh")
    for part in (r"<script type=\"module\">.*?</script>", r"<style>.*?</style>", r'content="default-src[^"]*"'):
        assert re.findall(part, english, re.S) == re.findall(part, chinese, re.S)
    assert "ProfilerStep#50" not in english or "ProfilerStep#50" in chinese
    assert "解释，按时间去向排列" in chinese


def test_names_numbers_and_space_around_stay() -> None:
    assert in_chinese("  aten::copy_  ") == "  aten::copy_  "
    said = "52% of the step is exposed communication, with nothing computed beside it"
    assert in_chinese(said) == "步的 52% 为未被掩盖的通信"
    assert in_chinese("12.3 ms") == "12.3 ms"


def test_the_language_is_that_of_the_locale() -> None:
    assert language({"LANG": "zh_CN.UTF-8"}) == "zh"
    assert language({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}) == "en"
    assert language({}) == "en"


def test_a_code_and_a_line_stay_before_what_is_said_of_them() -> None:
    of = "HOT001 train.py:47 `train`: time in no recorded call, 23% of the step"
    do = "train.py:47 `train`: make it an operator, do it rarely, or take it out of the step"
    first, then = in_chinese(f"{of} To do: {do}").split("。怎么做：")
    assert first == "HOT001 train.py:47 `train`: 不在任何已记录调用内的时间，占步 23%"
    assert then == "train.py:47 `train`: 做成算子、减少次数，或移出步外"
