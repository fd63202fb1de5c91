"""The HTML page in a browser, offline: it reports no error, loads nothing, and its tables and charts work."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.each import sampled
from tests.shared_jobs import Jobs

from hermes.model.report import Report
from hermes.model.structure_measures import PipelineBox, RankMatrix
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.report import format, shared_assets
from hermes.report.html import render_html
from hermes.report.shared_assets import bundled
from hermes.store.cache import Cache
from hermes_testing import Job, generate

CHROMIUM = Path("/usr/bin/chromium")
# Of rows that are alike axe looks at the first ones.
SAMPLE = "{exclude: [['tbody tr:nth-child(n+7)'], ['li:nth-child(n+14)']]}"
# The text of every cell as the file has it, and as the script has drawn it, by table; of long tables the rows in view.
WRITTEN = """html => Object.fromEntries(
  [...new DOMParser().parseFromString(html, "text/html").querySelectorAll(".data")].map(one => [one.id,
    [...one.querySelectorAll("tr")].map(row => [...row.cells].map(cell => cell.textContent.trim()))]))"""
DRAWN = """() => Object.fromEntries([...document.querySelectorAll(".data:not(.forprint)")]
  .map(one => [one.id, [...one.querySelectorAll("table.rows tr:not(.gap)")]
    .map(row => [...row.cells].map(cell => cell.textContent.trim()))]))"""

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no chromium at /usr/bin/chromium"),
]
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module")
def browser(chromium: object) -> object:
    return chromium


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
        self.context.set_default_timeout(120_000)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn]", state="attached")
        self.uri = path.as_uri()

    def _dialog(self, dialog: object) -> None:
        self.faults.append("a dialog opened")
        dialog.dismiss()  # type: ignore[attr-defined]

    def column(self, table: str, at: int) -> list[str]:
        """The cells of one column that are shown, from the top."""
        script = "(rows, at) => rows.map(row => row.cells[at].textContent.trim())"
        return list(self.page.eval_on_selector_all(f"#{table} tbody tr:not(.gap)", script, at))

    def barriers(self, axe: str) -> list[tuple[str, str]]:
        """What keeps people out, by axe-core: serious and critical violations, with an element that shows each."""
        self.page.evaluate(axe)
        found = self.page.evaluate(f"axe.run({SAMPLE}, {{resultTypes: ['violations']}})")["violations"]
        return [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in ("serious", "critical")]

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


@pytest.mark.parametrize("name", sampled(["real", "hostile", "many", "unmeasured", "empty"], "real", "hostile"))
@pytest.mark.parametrize("width", sampled([1280, 390], 390))
def test_the_page_opens_without_error_request_or_overflow(
    request: pytest.FixtureRequest, visit: object, name: str, width: int
) -> None:
    seen = visit(request.getfixturevalue(name), width=width)  # type: ignore[operator]
    assert seen.faults == []
    assert [url for url in seen.requests if url not in {seen.uri, "data:,"}] == []
    assert seen.overflow() <= 0


def test_focus_on_a_hostile_name_runs_nothing_and_breaks_no_layout(visit: object, hostile: Report) -> None:
    seen = visit(hostile)  # type: ignore[operator]
    seen.page.focus("#top-kernels tbody bdi[tabindex]")
    seen.page.hover("#top-kernels tbody bdi[tabindex]")
    assert seen.faults == []
    assert seen.overflow() <= 0


@pytest.mark.smoke
def test_a_click_sorts_by_value_and_a_second_click_turns_it_round(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    median = seen.page.locator("#top-kernels thead th", has_text="Median")
    median.get_by_role("button").click()
    down = seen.column("top-kernels", 7)
    assert down == ["651 us", "179 us", "138 us", "82.2 us", "52.3 us", "24.4 us", "4.13 us"]
    assert median.get_attribute("aria-sort") == "descending"
    median.get_by_role("button").click()
    assert seen.column("top-kernels", 7) == down[::-1]


def test_the_keyboard_sorts(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    seen.page.locator("#top-kernels thead th", has_text="Name").get_by_role("button").focus()
    seen.page.keyboard.press("Enter")
    names = seen.column("top-kernels", 0)
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
    seen.page.locator("#top-kernels .shown", has_text="1 of 7 rows").wait_for()
    assert seen.column("top-kernels", 0) == ["aclnnAddmm_MatMulCommon_MatMulV2"]
    seen.page.get_by_label("Filter Kernels").fill("")
    seen.page.locator("#top-kernels .shown:text-is('7 rows')").wait_for()
    assert len(seen.column("top-kernels", 0)) == 7


def test_a_copy_as_csv_holds_exact_values_of_the_rows_shown(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    seen.page.get_by_label("Filter Kernels").fill("addmm")
    seen.page.locator("#top-kernels .shown", has_text="1 of 7 rows").wait_for()
    seen.page.get_by_label("Copy Kernels as CSV").click()
    seen.page.locator("#top-kernels .shown", has_text="Copied 1 row").wait_for()
    copied = seen.page.evaluate("navigator.clipboard.readText()").splitlines()
    assert copied[0] == "Name,Detail,Ranks,Count,Total (ns),Share,Least (ns),Median (ns),Most (ns)"
    assert copied[1:] == ["aclnnAddmm_MatMulCommon_MatMulV2,MatMulV2,0 and 1,6,1074681,0.0605,89556,179113,358226"]


@pytest.mark.smoke
def test_a_copied_name_is_no_formula_and_no_markdown(visit: object, hostile: Report) -> None:
    seen = visit(hostile)  # type: ignore[operator]
    texts = []
    for kind in ("CSV", "Markdown"):
        seen.page.evaluate("navigator.clipboard.writeText('')")
        seen.page.get_by_label(f"Copy Operators of the host as {kind}").click()
        seen.page.wait_for_function("async () => await navigator.clipboard.readText() !== ''")
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


@pytest.mark.smoke
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


def test_every_cell_is_drawn_with_the_text_that_it_is_written_with(visit: object, any_report: Report) -> None:
    seen = visit(any_report)  # type: ignore[operator]
    written, drawn = seen.page.evaluate(WRITTEN, render_html(any_report)), seen.page.evaluate(DRAWN)
    assert written.keys() == drawn.keys()
    for key, rows in written.items():
        assert drawn[key] == rows[: len(drawn[key])], key
        assert len(drawn[key]) == len(rows) or len(rows) == 201
    assert seen.faults == []


@pytest.fixture(params=sampled(["real", "hostile", "many", "unmeasured", "generated", "profiled"], "real", "hostile"))
def any_report(request: pytest.FixtureRequest) -> Report:
    report = request.getfixturevalue(request.param)
    assert isinstance(report, Report)
    return report


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A job of eight ranks, analysed."""
    folder = generate(tmp_path_factory.mktemp("html") / "job", Job(ranks=8, steps=3, layers=1), formats=["ascend-text"])
    return analyze(load([folder], Cache(tmp_path_factory.mktemp("html-cache"))))


@pytest.fixture
def profiled(jobs: Jobs) -> Report:
    """Two ranks that an Ascend profiler recorded."""
    return jobs.real_report("ascend/alexnet_text_level2")


def test_bars_are_drawn_from_the_numbers_that_they_are_written_with(visit: object, any_report: Report) -> None:
    seen = visit(any_report)  # type: ignore[operator]
    written = """html => [...new DOMParser().parseFromString(html, "text/html").querySelectorAll("td.bar svg")]
      .map(bar => [[...bar.querySelectorAll("rect:not(.unknown)")].map(part => [part.classList[0], part.textContent]),
        bar.ariaLabel])"""
    drawn = """() => [...document.querySelectorAll("td.bar .stack")].map(bar => [
      [...bar.querySelectorAll(".seg:not(.unknown)")].map(part => [part.classList[1], part.title]), bar.ariaLabel])"""
    before, after = seen.page.evaluate(written, render_html(any_report)), seen.page.evaluate(drawn)
    assert len(before) == len(after)
    for (thick, spoken), (parts, said) in zip(before, after, strict=True):
        # Nothing is drawn of what took no time; what took less than a ten-thousandth is drawn by the script alone.
        words = [part.removeprefix("split ") for part in spoken.partition("; ")[2].split(", ")]
        assert [part for part in words if not part.endswith(" 0 0.0%")] == said.split(", ")
        told = [[kind, title.replace(": ", " ").replace(", ", " ")] for kind, title in parts]
        assert [one for one in told if one in thick] == thick


def test_times_and_shares_are_written_alike_in_python_and_in_the_browser(browser: object) -> None:
    chance = random.Random(6)
    times = [0, 1, 999, 1_000, 9_994, 9_995, 9_999, 12_345, 99_950, 999_499, 999_500, 1_005_000, 12_250_000, 99_949_999]
    times += [99_950_000, 999_500_000, 1_234_500_000, 999_500_000_000, 1_234_567_890_123]
    times += [chance.randrange(10 ** chance.randrange(1, 14)) for _ in range(3_000)]
    pairs = [(part, part + chance.randrange(10 ** chance.randrange(1, 12))) for part in times] + [
        (1, 2_000),
        (1, 2_001),
    ]
    modules = {name: body.decode() for name, body in shared_assets.files().items()}
    script = bundled("format.js", modules).replace("const $format =", "window.format =")
    context = browser.new_context()  # type: ignore[attr-defined]
    page = context.new_page()
    page.evaluate(script)
    said = page.evaluate(
        "([times, pairs]) => [times.map(format.duration), times.map(format.bytes), pairs.map(p => format.share(...p))]",
        [times, pairs],
    )
    context.close()
    assert said[0] == [format.duration(ns) for ns in times]
    assert said[1] == [format.bytes_text(count) for count in times]
    assert said[2] == [format.share(*pair) for pair in pairs]


@pytest.mark.slow
def test_a_long_table_holds_more_than_is_written_and_draws_what_is_seen(visit: object, many: Report) -> None:
    seen = visit(many)  # type: ignore[operator]
    assert seen.page.locator("#steps tbody tr").count() < 100
    assert seen.page.locator("#steps .shown").inner_text() == "512 rows"
    assert "more row" not in seen.page.locator("#steps .about").inner_text()
    seen.page.locator("#steps thead th", has_text="Rank").get_by_role("button").click()
    seen.page.locator("#steps .scroll").focus()
    seen.page.keyboard.press("End")
    seen.page.locator("#steps tbody tr[aria-rowindex='513']").wait_for()
    assert seen.column("steps", 0)[-1] == "0"
    # Filtered to what fits, all of it is there.
    seen.page.get_by_label("Filter Steps").fill("51")
    seen.page.locator("#steps .shown", has_text=" of 512 rows").wait_for()
    assert set(seen.column("steps", 0)) == {"51"}
    assert f"{len(seen.column('steps', 0))} of 512 rows" == seen.page.locator("#steps .shown").inner_text()


@pytest.mark.slow
def test_print_has_the_rows_that_the_page_is_written_with(visit: object, many: Report) -> None:
    seen = visit(many)  # type: ignore[operator]
    steps = seen.page.locator(".forprint").filter(has=seen.page.locator("caption", has_text="Steps"))
    assert (steps.is_visible(), seen.page.locator("#steps").is_visible()) == (False, True)
    seen.page.emulate_media(media="print")
    assert (steps.is_visible(), seen.page.locator("#steps").is_visible()) == (True, False)
    assert steps.locator("tbody tr").count() == 200
    assert seen.page.locator("#top-kernels table.rows").is_visible()


def test_what_the_script_draws_has_each_id_once_and_every_link_its_target(visit: object, any_report: Report) -> None:
    seen = visit(any_report)  # type: ignore[operator]
    ids = seen.page.eval_on_selector_all("[id]", "all => all.map(one => one.id)")
    assert len(ids) == len(set(ids))
    links = seen.page.eval_on_selector_all("a[href^='#']", "all => all.map(one => one.getAttribute('href').slice(1))")
    assert set(links) <= set(ids)


@pytest.mark.parametrize(("name", "width", "scheme"), [("real", 1280, "light"), ("generated", 390, "dark")])
def test_the_page_keeps_nobody_out(
    request: pytest.FixtureRequest, visit: object, axe: str, name: str, width: int, scheme: str
) -> None:
    seen = visit(request.getfixturevalue(name), width=width, scheme=scheme)  # type: ignore[operator]
    assert seen.barriers(axe) == []
    assert seen.overflow() <= 0


def test_an_address_within_the_page_is_where_one_lands(visit: object, real: Report) -> None:
    seen = visit(real)  # type: ignore[operator]
    seen.page.goto(f"{seen.uri}#top-kernels")
    seen.page.reload()
    seen.page.wait_for_selector("html[data-drawn]", state="attached")
    seen.page.wait_for_function(
        "() => Math.abs(document.getElementById('top-kernels').getBoundingClientRect().top) < 40"
    )


@pytest.mark.slow
def test_the_matrix_and_the_roofline_are_the_apps_own(visit: object, generated: Report) -> None:
    seen = visit(generated)  # type: ignore[operator]
    matrix = generated.rows(RankMatrix).only
    assert matrix is not None
    shown = seen.page.locator("#rank_matrix .heat tbody tr").all()
    assert len(shown) == len(matrix.rows) == 8
    for line, row in zip(shown, matrix.rows, strict=True):
        times = [
            "" if cell is None else format.duration(round(cell.most))
            for cell, metric in zip(row.cells, matrix.metrics, strict=True)
            if metric.unit == "ns"
        ]
        drawn = line.locator("td").all_inner_texts()
        assert [text for text, metric in zip(drawn, matrix.metrics, strict=True) if metric.unit == "ns"] == times
    seen.page.locator("#rank_matrix .heatbox").focus()
    seen.page.keyboard.press("ArrowDown")
    assert seen.page.locator("#rank_matrix .readout").inner_text().startswith("rank 1, ")
    assert seen.page.locator("#roofline circle").count() > 0
    assert seen.faults == []


@pytest.mark.slow
def test_the_boxes_of_a_pipeline_are_the_apps_own(visit: object, jobs: Jobs) -> None:
    report = jobs.report(Job(ranks=4, steps=2, layers=4, pp=4, micro_batches=6), "ascend-text")
    seen = visit(report)  # type: ignore[operator]
    assert seen.page.locator("#structure .passes .box").count() == len(report.rows(PipelineBox))
    seen.page.locator("#passes .passes").focus()
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.locator("#passes .readout").inner_text().startswith("rank 0: forward 0, ")
    assert seen.faults == []


def test_without_ranks_to_compare_there_is_no_matrix_and_no_block_is_held_for_it(real: Report) -> None:
    held = render_html(real).split('id="data">')[1].split("</script>")[0]
    assert json.loads(held)["document"]["rank_matrix"] is None
