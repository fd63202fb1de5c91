"""The HTML page in a browser, offline: it reports no error, loads nothing, and its tables work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.report.html import render_html
from hermes.report.model import Report

CHROMIUM = Path("/usr/bin/chromium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no chromium at /usr/bin/chromium"),
]
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Visit:
    """A page opened from a file, and everything it did that it should not."""

    def __init__(self, browser: object, path: Path, html: str, *, width: int = 1280, scheme: str = "light") -> None:
        path.write_text(html, encoding="utf-8")
        self.context = browser.new_context(  # type: ignore[attr-defined]
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.uri = path.as_uri()

    def _dialog(self, dialog: object) -> None:
        self.faults.append("a dialog opened")
        dialog.dismiss()  # type: ignore[attr-defined]

    def column(self, table: str, at: int) -> list[str]:
        """The cells of one column that are shown, from the top."""
        script = "(rows, at) => rows.filter(r => !r.hidden).map(r => r.cells[at].textContent.trim())"
        return list(self.page.eval_on_selector_all(f"#{table} tbody tr", script, at))

    def overflow(self) -> int:
        """How many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@pytest.fixture
def visit(browser: object, tmp_path: Path) -> Iterator[object]:
    visits: list[Visit] = []

    def open_page(report: Report, *, width: int = 1280, scheme: str = "light") -> Visit:
        visits.append(Visit(browser, tmp_path / "report.html", render_html(report), width=width, scheme=scheme))
        return visits[-1]

    yield open_page
    for each in visits:
        each.context.close()


@pytest.mark.parametrize("name", ["real", "hostile", "many", "unmeasured", "empty"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_error_request_or_overflow(
    request: pytest.FixtureRequest, visit: object, name: str, width: int
) -> None:
    seen = visit(request.getfixturevalue(name), width=width)  # type: ignore[operator]
    seen.page.wait_for_timeout(50)
    assert seen.faults == []
    assert [url for url in seen.requests if url not in {seen.uri, "data:,"}] == []
    assert seen.overflow() <= 0


def test_focus_on_a_hostile_name_runs_nothing_and_breaks_no_layout(visit: object, hostile: Report) -> None:
    seen = visit(hostile)  # type: ignore[operator]
    seen.page.focus("#kernels tbody th span[tabindex]")
    seen.page.hover("#kernels tbody th span[tabindex]")
    assert seen.faults == []
    assert seen.overflow() <= 0


def test_a_click_sorts_by_value_and_a_second_click_turns_it_round(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    median = seen.page.locator("#kernels thead th", has_text="Median")
    median.get_by_role("button").click()
    down = seen.column("kernels", 5)
    assert down == ["651 us", "179 us", "138 us", "82.2 us", "52.3 us", "24.4 us", "4.13 us"]
    assert median.get_attribute("aria-sort") == "descending"
    median.get_by_role("button").click()
    assert seen.column("kernels", 5) == down[::-1]


def test_the_keyboard_sorts(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    seen.page.locator("#kernels thead th", has_text="Name").get_by_role("button").focus()
    seen.page.keyboard.press("Enter")
    names = seen.column("kernels", 0)
    assert names == sorted(names, key=str.lower)
    assert names[0].startswith("aclnnAddmm")


def test_what_was_not_measured_sorts_last_both_ways(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    heading = seen.page.locator("#clocks thead th", has_text="Error").get_by_role("button")
    for _ in range(2):
        heading.click()
        assert seen.column("clocks", 2)[-1] == "not measured"


def test_the_filter_keeps_the_rows_that_hold_every_word(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    seen.page.get_by_label("Filter Kernels").fill("matmul addmm")
    assert seen.column("kernels", 0) == ["aclnnAddmm_MatMulCommon_MatMulV2"]
    assert "1 of 7 rows" in seen.page.locator("#kernels .shown").inner_text()
    seen.page.get_by_label("Filter Kernels").fill("")
    assert len(seen.column("kernels", 0)) == 7


def test_a_copy_as_csv_holds_exact_values_of_the_rows_shown(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    seen.page.get_by_label("Filter Kernels").fill("addmm")
    seen.page.get_by_label("Copy Kernels as CSV").click()
    seen.page.get_by_text("Copied as CSV").wait_for(state="attached")
    copied = seen.page.evaluate("navigator.clipboard.readText()").splitlines()
    assert copied[0] == "Name,Type,Total (ns),Share,Count,Median (ns),Least (ns),Most (ns),Ranks"
    assert copied[1:] == ["aclnnAddmm_MatMulCommon_MatMulV2,MatMulV2,1074681,0.0605,6,179113,89556,358226,0 and 1"]


def test_a_copied_name_is_no_formula_and_no_markdown(visit: object, hostile: Report) -> None:
    seen = visit(hostile)  # type: ignore[operator]
    texts = []
    for kind in ("CSV", "Markdown"):
        seen.page.get_by_label(f"Copy Operators as {kind}").click()
        seen.page.get_by_text(f"Copied as {kind}").wait_for(state="attached")
        texts.append(seen.page.evaluate("navigator.clipboard.readText()"))
    assert "\n'=HYPERLINK(1)," in texts[0]
    assert "| a\\|b\\`c\\\\d\\<e\\> |" in texts[1]


def test_the_theme_follows_the_system_until_the_button_turns_it(visit: object, real: Report) -> None:
    seen = visit(real, scheme="dark")  # type: ignore[operator]
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = seen.page.evaluate(ground)
    seen.page.get_by_role("button", name="Switch to the light theme").click()
    assert seen.page.evaluate(ground) == "rgb(255, 255, 255)" != dark
    seen.page.get_by_role("button", name="Switch to the dark theme").click()
    assert seen.page.evaluate(ground) == dark


def test_focus_is_visible(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    for _ in range(3):
        seen.page.keyboard.press("Tab")
    style = seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


def test_the_page_is_complete_without_its_script(browser: object, tmp_path: Path, real: Report) -> None:
    path = tmp_path / "report.html"
    path.write_text(render_html(real), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False, offline=True)  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(path.as_uri())
    shown = page.inner_text("body")
    context.close()
    assert "aclnnForeachAddListV2_ForeachAddListV2_ForeachAddList" in shown
    assert "Copy CSV" not in shown
