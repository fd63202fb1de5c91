"""The ten questions of docs/questions.md are answered after the clicks that stand there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.live,
    pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="no chromium at /usr/bin/chromium"),
]
Step = Callable[[Any], object]
FOUND = """([where, answer]) => [...document.querySelectorAll(where)]
  .some((one) => RegExp(answer, "s").test(one.innerText))"""


def page_of(name: str) -> Step:
    return lambda page: page.locator("#nav").get_by_role("link", name=name, exact=True).click()


def clicked(selector: str) -> Step:
    return lambda page: page.locator(selector).first.click()


ANSWERS: dict[int, tuple[list[Step], str, str]] = {
    1: ([], ".page", r"garbage.*more on rank 2 than on others.*in all 3 steps"),
    2: ([], ".verdict", r"of each step .*Next:"),
    3: ([clicked(".go[aria-label*='rank 2, step 11']")], ".page-timeline .lead + *, .page-timeline form", r"Ranks"),
    4: ([page_of("Operators"), clicked("table.rows td.go a")], ".page-timeline form", r"Ranks"),
    5: ([], ".timetree", r"device idle"),
    6: ([page_of("Communication")], ".heat", r"rank 0"),
    7: ([page_of("What-if"), clicked(".changes label:has-text('garbage') input")], ".outcome", r"becomes"),
    8: ([page_of("Host and input")], ".flame, .frame", r"\w"),
    9: ([page_of("Compare")], ".compare, .page-compare", r"garbage"),
    10: ([page_of("Data"), lambda page: page.get_by_role("button", name="Ask").click()], ".wide table.plain", r"calls"),
}


@pytest.mark.parametrize("number", ANSWERS)
def test_a_question_is_answered_after_as_many_clicks_as_the_page_says(number: int, served: Any, visit: Any) -> None:
    clicks, where, answer = ANSWERS[number]
    rows = re.findall(
        r"^\| (\d+) \|[^|]*\| (\d+) \|", (Path(__file__).parents[2] / "docs/questions.md").read_text(), re.M
    )
    assert dict(rows)[str(number)] == str(len(clicks))
    page = visit(served).page
    page.wait_for_selector(".timetree")
    for click in clicks:
        click(page)
    place = page.locator(where).first
    place.wait_for()
    page.wait_for_function(FOUND, arg=[where, answer], timeout=60_000)
