"""The tree of times as the terminal and the report draw it: parts, leaves and rows that add up, in both languages."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from tests.shared_jobs import Jobs
from tests.with_rows import with_rows

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import JobLeaf
from hermes.model.report import Report
from hermes.report.html import render_html
from hermes.report.tree import TimeTree, time_tree
from hermes_testing import Fault, Job


def made(report: Report) -> TimeTree:
    tree = time_tree(report)
    assert tree is not None
    return tree


def section(page: str) -> str:
    """The words of the tree of a page."""
    inside = page.split('<section id="tree"')[1].split("</section>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", inside.split(">", 1)[1])).split())


@pytest.mark.parametrize("name", ["real", "hostile", "unmeasured"])
def test_rows_add_up_to_leaves_leaves_to_parts_and_parts_to_all(name: str, request: pytest.FixtureRequest) -> None:
    tree = made(request.getfixturevalue(name))
    assert sum(part.ns for part in tree.parts if tree.of_steps(part)) == tree.whole_ns
    for part in tree.parts:
        assert sum(leaf.ns for leaf in part.leaves) == part.ns
        for leaf in part.leaves:
            assert sum(row.ns for row in leaf.shown) == leaf.ns


def test_parts_and_leaves_are_in_order_and_small_ones_are_one(real: Report) -> None:
    tree = made(real)
    assert [part.part for part in tree.parts] == ["communication", "idle", "compute", "copy"]
    compute = tree.parts[2].leaves
    assert [leaf.leaf for leaf in compute] == [Leaf.CONVOLUTION, None]
    assert [row.how for row in compute[1].rows] == [Leaf.NORM.message, Leaf.REDUCTION.message]
    assert compute[1].rows[0].curable_ns is None


def test_what_lies_outside_of_the_steps_comes_last_and_is_no_share_of_them(real: Report) -> None:
    rows = real.rows(JobLeaf)
    end = replace(rows[0], leaf=Leaf.END, what="", place="", total_ns=10 * sum(row.total_ns for row in rows))
    tree = made(with_rows(real, (*rows, end)))
    assert (tree.whole_ns, tree.parts[-1].part) == (made(real).whole_ns, "outside")
    assert [bool(tree.of_steps(part)) for part in tree.parts] == [True] * (len(tree.parts) - 1) + [False]


def test_the_leaf_of_the_verdict_is_told_apart_however_small(real: Report) -> None:
    tree = made(replace(real, verdict=replace(real.verdict, leaf=Leaf.REDUCTION)))
    assert [leaf.leaf for leaf in tree.parts[2].leaves] == [Leaf.CONVOLUTION, Leaf.REDUCTION, Leaf.NORM]


def test_of_many_rows_the_largest_are_shown_and_the_others_are_one(real: Report) -> None:
    (row,) = [row for row in real.rows(JobLeaf) if row.leaf is Leaf.CONVOLUTION]
    rows = tuple(replace(row, what=f"conv{at}", curable_ns=at) for at in range(30))
    (leaf,) = made(with_rows(real, rows)).parts[0].leaves
    assert len(leaf.shown) == 11
    assert leaf.shown[-1].ns == 20 * row.total_ns
    assert leaf.shown[-1].curable_ns == sum(range(10, 30))


def test_the_tree_of_a_page_stands_under_the_verdict_with_the_leaf_of_the_verdict_open(real: Report) -> None:
    page = render_html(real)
    assert page.index('id="verdict-title"') < page.index('id="tree"') < page.index('id="losses"')
    (opened,) = re.findall(r"<details class=\"leaf[^>]* open>.*?</details>", page, re.DOTALL)
    assert "waiting for another rank" in opened
    said = section(page)
    assert "96.0 ms 73.8% exposed communication 90.0 ms 69.2% waiting for another rank named by the verdict" in said
    assert "waits for rank 5 curable: at most 90.0 ms" in said
    assert "operators that launch aten::mm in train.py:12 `step` curable: at most 20.0 ms" in said
    assert "7.90 ms 6.1% Conv2D curable: not known" in said


def test_without_a_device_the_host_computes_or_is_beside_operators(unmeasured: Report) -> None:
    said = section(render_html(unmeasured))
    assert "78.3% compute" in said
    assert "21.7% beside operators" in said


def test_the_tree_is_told_in_chinese_and_names_stay(real: Report) -> None:
    said = section(render_html(real, "zh"))
    assert "时间去向" in said
    assert "69.2% 等待其他卡 结论所指" in said
    assert "下发算子 aten::mm 位于 train.py:12 `step` 可优化：至多 20.0 ms" in said
    assert re.findall(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", said) == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_words_under_the_tree_deny_it(real: Report, unmeasured: Report, language: str) -> None:
    for report in (replace(real, findings=()), unmeasured):
        page = html.unescape(render_html(report, language)).lower()
        for denied in ("no loss", "found a loss", "found one in what", "未发现", "没有发现损失", "没有规则发现"):
            assert denied not in page.split('<script type="application/json"')[0]


def test_actions_that_do_not_explain_the_leaf_of_the_verdict_say_so(jobs: Jobs) -> None:
    report = jobs.report(Job(ranks=2, steps=2, layers=1, faults=(Fault(kind="gc_pause", ranks=(1,)),)), "ascend-text")
    assert report.plan.actions
    words = "No rule explains the first leaf"
    for fault in (None, report.findings[0].fault):
        page = render_html(replace(report, verdict=replace(report.verdict, leaf=Leaf.DISPATCH, fault=fault)))
        assert (words in page) == (fault is None)


def test_nothing_is_drawn_where_nothing_was_accounted_for(empty: Report) -> None:
    assert time_tree(empty) is None
    assert 'id="tree"' not in render_html(empty)
