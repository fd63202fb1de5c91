"""The tree of times on the overview: under the verdict, opened and closed, adding up, and the same as in the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="no chromium at /usr/bin/chromium"),
]
# The text of each line of a tree, and what of it is open.
LINES = """(root) => [...root.querySelectorAll(".timetree .limb > p, .timetree summary, .leafrows > li")].map((line) =>
  [line.textContent.replace(/\\s+/g, ""), line.querySelector("rect")?.getAttribute("class") ?? "",
   Boolean(line.parentElement.open)])"""
WRITTEN = f"""(html) => ({LINES})(new DOMParser().parseFromString(html, "text/html"))"""
SHARES = """(all) => all.map((one) => parseFloat(one.querySelectorAll(".n")[1].textContent.replace("<", "")))"""


@pytest.fixture(params=["en-US", "zh-CN"])
def locale(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_tree_stands_under_the_verdict_and_adds_up(served: Any, visit: Any, locale: str) -> None:
    seen = visit(served, locale=locale)
    page = seen.page
    page.wait_for_selector(".timetree")
    top = "(one) => one.getBoundingClientRect().top"
    places = [page.locator(one).first.evaluate(top) for one in (".verdict", ".timetree", ".plan", ".finding")]
    assert places == sorted(places)
    assert sum(page.locator(".limb > p").evaluate_all(SHARES)) == pytest.approx(100, abs=0.3)
    for limb in page.locator(".limb").all():
        (whole,) = limb.locator("> p").evaluate_all(SHARES)
        assert sum(limb.locator("summary").evaluate_all(SHARES)) == pytest.approx(whole, abs=0.5)
    assert seen.faults == []


def test_the_leaf_of_the_verdict_is_open_and_others_open_by_click_and_key(served: Any, visit: Any) -> None:
    page = visit(served).page
    page.wait_for_selector(".timetree")
    assert page.locator(".leaf[open]").count() == 1
    assert "named by the verdict" in page.locator(".leaf[open] summary").inner_text()
    closed = page.locator(".leaf:not(.chosen)").first
    rows = closed.locator(".leafrows > li")
    assert not rows.first.is_visible()
    closed.locator("summary").click()
    assert rows.first.is_visible()
    (whole,) = closed.locator("summary").evaluate_all(SHARES)
    assert sum(rows.evaluate_all(SHARES)) == pytest.approx(whole, abs=0.5)
    assert "curable: " in rows.first.inner_text()
    page.keyboard.press("Enter")
    assert not rows.first.is_visible()


@pytest.mark.smoke
def test_the_page_and_the_report_draw_the_same_tree(served: Any, client: Any, visit: Any, locale: str) -> None:
    page = visit(served, locale=locale).page
    page.wait_for_selector(".timetree")
    answer = client.get(f"/api/download/report.html?lang={locale[:2]}")
    assert answer.status == 200, answer.body
    written = answer.body.decode()
    drawn = page.evaluate(f"({LINES})(document)")
    assert len(drawn) > 10
    assert drawn == page.evaluate(WRITTEN, written)


def test_names_in_the_tree_are_text(served: Any, visit: Any) -> None:
    seen = visit(served)
    bad = "<img src=x onerror=alert(1)>\u202e"

    def change(document: dict[str, Any]) -> None:
        for row in document["tree"]:
            row.update(what=bad, place=f"{bad}:1")

    seen.retell(change)
    page = seen.open("")
    page.locator(".chosen .leafrows code", has_text="<img src=x onerror=alert(1)>").first.wait_for()
    assert page.locator("main img").count() == 0
    assert "\u202e" not in page.locator(".timetree").inner_text()
    assert seen.faults == []


def test_what_is_not_known_to_be_curable_is_said_so(served: Any, visit: Any) -> None:
    seen = visit(served)
    seen.retell(lambda document: [row.update(curable_ms=None) for row in document["tree"]])
    page = seen.open("")
    assert "curable: not known" in page.locator(".chosen .leafrows").inner_text()
    assert "at most" not in page.locator(".timetree").inner_text()
