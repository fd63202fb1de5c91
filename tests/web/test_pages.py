"""What pages show of what they have: at a glance, on a phone, of running jobs, in words and not in keys."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.shared_jobs import Jobs

from hermes.inside.wire.rundir import JOB_FILE
from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.alarm_findings import of_alarm
from hermes.knowledge.kernel_names import plain_kernel_name
from hermes.report.findings_json import finding_document
from hermes.report.shared_assets import declared_words
from hermes.store.cache import Cache
from hermes.web.document_pages import summary
from hermes_testing import Fault, Job, generate

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="no chromium at /usr/bin/chromium"),
]
PAGES = ("", "steps", "ranks", "path", "operators", "communication", "host", "memory", "whatif", "data")
KEYS = """() => document.querySelector("main").innerText
  .match(/\\b(col|table|part|component|about|leaf|how|tree)\\.[a-z_.]+/g) ?? []"""
# What text in charts measures on the screen, in pixels.
SMALL = """() => [...document.querySelectorAll("main svg text")].filter((one) => one.textContent.trim())
  .map((one) => parseFloat(getComputedStyle(one).fontSize) * one.ownerSVGElement.getScreenCTM().a)
  .filter((size) => size < 11)"""


def test_the_words_of_measures_come_with_the_document_that_has_them(served: Any) -> None:
    words = json.loads(served.study.summary())["words"]
    assert words["table.critical_path"] == declared_words()["table.critical_path"]
    assert json.loads(summary({}))["words"] == declared_words()


def test_no_page_shows_the_key_of_a_word_for_the_word(served: Any, visit: Any) -> None:
    seen = visit(served)
    for path in PAGES:
        assert seen.open(path).evaluate(KEYS) == [], path


def test_what_asks_for_coordinates_fits_a_phone(ungrouped: Any, visit: Any) -> None:
    seen = visit(ungrouped, width=390)
    page = seen.open("ranks")
    assert page.locator(".wrong").count() == 0
    page.get_by_text("Say how the job is parallel").click()
    assert seen.overflow() <= 0


def test_the_page_that_is_open_is_in_sight_of_the_row_of_pages_on_a_phone(ungrouped: Any, visit: Any) -> None:
    page = visit(ungrouped, width=390).open("live")
    box = page.locator("#nav [aria-current]").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_a_capture_without_steps_is_called_one(tmp_path: Path, cache: Cache, serve: Any, visit: Any) -> None:
    folder = generate(tmp_path / "job", Job(ranks=1, steps=1, layers=1), formats=["kineto"])
    for path in folder.rglob("*.json"):
        trace = json.loads(path.read_text())
        if "traceEvents" in trace:
            events = [event for event in trace["traceEvents"] if not str(event.get("name")).startswith("ProfilerStep")]
            path.write_text(json.dumps(trace | {"traceEvents": events}))
    with serve([folder], cache) as running:
        seen = visit(running)
        assert "taken as a whole" in seen.open("steps").locator("main").inner_text()
        said = seen.open("").locator("main").inner_text()
    assert "to be won in this capture" in said
    assert "possible gain per step" not in said


def test_a_long_command_is_wrapped_on_a_phone(ungrouped: Any, visit: Any) -> None:
    seen = visit(ungrouped, width=390)
    page = seen.open("compare")
    assert page.locator(".copied pre").inner_text().startswith("hermes serve /")
    assert page.locator(".copied pre").evaluate("(one) => one.clientHeight") > 40
    assert seen.overflow() <= 0


def test_text_in_charts_is_readable_on_a_phone(served: Any, visit: Any) -> None:
    seen = visit(served, width=390)
    for path in PAGES:
        assert seen.open(path).evaluate(SMALL) == [], path
        assert seen.overflow() <= 0, path


def test_the_overview_shows_the_verdict_and_its_leaf_before_one_scrolls(served: Any, visit: Any) -> None:
    page = visit(served, width=1440).page
    chosen = page.locator(".timetree .chosen")
    chosen.wait_for()
    assert "more on rank 2 than on others" in chosen.inner_text()
    assert chosen.evaluate("(one) => one.getBoundingClientRect().bottom") < 900
    # Since when is said below, by the first findings.
    page.locator(".finding .since", has_text="in all 3 steps").first.wait_for()


def test_the_map_of_the_overview_shows_any_measure(served: Any, visit: Any) -> None:
    page = visit(served).page
    chosen = page.locator(".glance select")
    assert chosen.input_value() == "held"
    chosen.select_option("comm")
    page.wait_for_url("**/?of=comm")
    page.locator(".glance .about", has_text="exposed communication").first.wait_for()
    page.reload()
    page.locator(".glance .about", has_text="exposed communication").first.wait_for()


def test_who_holds_the_others_up_is_the_strongest_cell_and_the_first_row(served: Any, visit: Any) -> None:
    page = visit(served).open("ranks")
    assert page.locator(".picker select").first.input_value() == "held"
    shade = "all => all.map(one => [one.innerText, parseInt(one.style.getPropertyValue('--much'))])"
    cells = page.locator(".heat").first.locator(".cell").evaluate_all(shade)
    assert max(cells, key=lambda cell: cell[1])[0] == "▸ 2"
    assert page.locator(".heat").nth(1).locator("tbody th").first.inner_text() == "2"


def test_a_finding_leads_to_its_moment_on_every_rank_that_it_concerns(served: Any, visit: Any) -> None:
    page = visit(served).page
    found = next(one for one in served.study.document["findings"] if one["code"] == "COM002")
    assert {at["rank"] for at in found["moments"]} == {*found["where"]["ranks"], 2}
    asked = page.locator("#COM002 .onranks a").evaluate_all(
        "all => all.map((one) => [...new URL(one.href).searchParams.entries()].slice(0, 2))"
    )
    assert [dict(one)["at"] for one in asked] == [str(at["start_ns"]) for at in found["moments"]]
    # The rank itself first, since the moment is on its clock, and the others beside it.
    assert [dict(one)["ranks"].split(",")[0] for one in asked] == [str(at["rank"]) for at in found["moments"]]
    assert all(set(dict(one)["ranks"].split(",")) == {"0", "1", "2"} for one in asked)
    page.locator("#COM002 summary").last.click()
    links = page.locator("#COM002 .evidence a")
    assert links.count() == sum(item["at"] is not None for item in found["evidence"]) > 0


def test_a_finding_from_search_is_brought_into_sight(served: Any, visit: Any) -> None:
    page = visit(served).page
    page.set_viewport_size({"width": 1280, "height": 500})
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill("COM002")
    page.keyboard.press("Enter")
    page.locator("#COM002.meant").wait_for()
    top = page.locator("#COM002").evaluate("(one) => one.getBoundingClientRect().top")
    assert page.evaluate("scrollY") > 0
    assert 0 <= top < 500


def test_the_strip_of_the_critical_path_covers_the_whole_step(served: Any, visit: Any) -> None:
    seen = visit(served)
    # Of a long path only the longest stretches are told: the first of them begins later, and the last ends sooner.
    seen.retell(lambda document: document.update(critical_path_stretches=document["critical_path_stretches"][9:-9]))
    page = seen.open("path")
    chief = served.study.document["critical_path"][0]
    window = next(
        row["window_ms"]
        for row in served.study.document["steps"]
        if (row["rank"], row["step"]) == (chief["rank"], chief["step"])
    )
    feet = page.locator("svg.strips text.foot").all_text_contents()
    assert feet[0] == "0"
    assert float(feet[1].split()[0]) == pytest.approx(window, rel=0.01)


NUMBERS = """async () => { const { value } = await import("/static/findings.js");
  const { percent } = await import("/static/format.js");
  const { groupName, shortGroups, text } = await import("/static/cells.js");
  const scaled = [value(72204000, "ns a step"), value(1.5e6, "bytes a step"), percent(294.4)];
  const units = [text("gb_per_s", 3.3e-4), text("tflops", 12.5), text("mhz", 1410), text("mfu", 0.313)];
  const groups = [groupName("11022204950826225271"), shortGroups("group 11022204950826225271")];
  return [...scaled, ...units, ...groups, shortGroups("from 1736412474757072620 ns on in /a/20250101123456789")];
}"""


def test_numbers_have_the_unit_of_their_scale(served: Any, visit: Any) -> None:
    page = visit(served).page
    scaled, units, groups, whole = (page.evaluate(NUMBERS)[part] for part in (slice(3), slice(3, 7), slice(7, 9), 9))
    assert scaled == ["72.2 ms a step", "1.50 MB a step", "294×"]
    assert units == ["330 kB/s", "12.5 TFLOP/s", "1\u202f410 MHz", "31.3%"]
    assert groups == ["…225271", "group …225271"]
    assert whole == "from 1736412474757072620 ns on in /a/20250101123456789"
    lengths = """(one) => one.textContent.match(/(for|of|long|took|longest) \\d{6,} ns/g)"""
    assert page.locator("main").evaluate(lengths) is None


KERNELS = [
    "void cutlass::device_kernel<dpsk::gemm::fp8::GemmKernel>(dpsk::gemm::fp8::GemmKernel::Params)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::Array<c, 3> >(int)",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)",
    "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16>(int4*, float*)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float> > >(R)",
    "aclnnMatMul_MatMulCommon_MatMulV2", "Memcpy DtoD (Device -> Device)", "aten::add_", "torch/module.py(1)",
    "void cutlass::device_kernel<dpsk::gemm::fp8_ptp…", "<b>", "volta_sgemm_128x32_nt",
]  # fmt: skip


def test_kernels_are_called_what_the_terminal_calls_them(served: Any, visit: Any) -> None:
    said = visit(served).page.evaluate(
        """async (names) => { const { plain } = await import("/static/kernels.js"); return names.map(plain); }""",
        KERNELS,
    )
    assert said == [plain_kernel_name(name) for name in KERNELS]


def test_times_that_hardly_differ_are_painted_alike(served: Any, visit: Any) -> None:
    page = visit(served).page
    shades = page.evaluate(
        """async () => { const { contrast } = await import("/static/charts.js");
        return [1000, 1000.3, 999.9].map((one) => contrast(one, 999.9, 1000.3)); }"""
    )
    assert max(shades) < 0.01


@pytest.mark.slow
def test_a_matrix_of_64_ranks_is_whole(jobs: Jobs, serve: Any, visit: Any) -> None:
    job = Job(ranks=64, steps=2, layers=1, faults=(Fault(kind="gc_pause", ranks=(13,)),))
    with serve([jobs.folder(job, "kineto")], jobs.cache) as running:
        page = visit(running).open("ranks")
        for box in page.locator(".heatbox").all():
            assert box.evaluate("(one) => one.scrollHeight - one.clientHeight") <= 1
        assert page.locator(".heat").first.locator(".cell").count() == 64
        assert page.locator(".heat").nth(1).locator("tbody th").first.inner_text() == "13"


def test_tables_stand_behind_tabs_and_an_address_restores_the_chosen_one(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.open("communication")
    tabs = page.locator("[role=tab]:visible")
    assert tabs.count() > 3
    assert page.locator(".tabpanel section.data").count() == 1
    tabs.nth(2).click()
    chosen = page.locator(".tabpanel h3").inner_text()
    assert tabs.nth(2).inner_text().startswith(chosen)
    page.keyboard.press("ArrowLeft")
    assert tabs.nth(1).get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowRight")
    page.reload()
    page.locator(".tabpanel h3", has_text=chosen).wait_for()


def test_tables_without_rows_are_named_in_one_line_and_take_no_room(served: Any, visit: Any) -> None:
    page = visit(served).open("host")
    assert "Queues of the input pipeline" in page.locator(".tabbed .none").inner_text()
    assert page.locator("[role=tab]:visible", has_text="Queues of the input pipeline").count() == 0


def test_tabs_take_one_line_of_a_phone(served: Any, visit: Any) -> None:
    page = visit(served, width=390).open("host")
    assert page.locator("[role=tab]:visible").count() > 6
    assert page.locator(".tabs").evaluate("(one) => one.getBoundingClientRect().height") < 60


DIM = """(theme) => {
  document.documentElement.dataset.theme = theme;
  const frame = Object.assign(document.createElement("iframe"), { className: "perfetto" });
  document.querySelector("main").append(frame);
  return getComputedStyle(frame).filter;
}"""


def test_the_timeline_is_dark_in_the_dark_theme(served: Any, visit: Any) -> None:
    page = visit(served).page
    assert page.evaluate(DIM, "light") == "none"
    assert "invert" in page.evaluate(DIM, "dark")
    # Of itself the theme is the one of the system, unless another was chosen.
    page.emulate_media(color_scheme="dark")
    assert "invert" in page.evaluate(DIM, "")
    assert page.evaluate(DIM, "light") == "none"


def lowered(route: Any) -> None:
    """Passes a curve on, all but the first as a tenth of what it is."""
    curve = route.fetch().json()
    if "key=PTA" not in route.request.url:
        for points in curve["columns"].values():
            points[:] = [[place, least // 10, most // 10] for place, least, most in points]
    route.fulfill(json=curve)


def test_charts_of_memory_share_their_axes_and_show_the_steps(served: Any, visit: Any) -> None:
    seen = visit(served)
    seen.page.route("**/api/curve?*", lowered)
    page = seen.open("memory?rank=0")
    charts = page.locator("figure.lines svg")
    assert charts.count() == 2
    # All but the line itself: what each is labelled with.
    first, second = (one.locator("text").all_text_contents() for one in charts.all())
    assert first == second
    assert [text for text in first if text.startswith("step ")] == ["step 10", "step 11", "step 12"]


def test_memory_that_is_only_reserved_is_not_called_allocated(served: Any, visit: Any) -> None:
    page = visit(served).open("memory?rank=0&component=APP")
    said = page.locator("section.block .about").first.inner_text()
    assert "reserved; what of it was allocated is not recorded" in said


@pytest.fixture(scope="module")
def ungrouped(tmp_path_factory: pytest.TempPathFactory, cache: Cache, serve: Any) -> Iterator[Any]:
    """One step of four ranks as PyTorch wrote it before it knew process groups: nothing tells where a rank stands."""
    folder = generate(tmp_path_factory.mktemp("ungrouped") / "job", Job(ranks=4, steps=1, layers=1), formats=["kineto"])
    for path in folder.rglob("*.json"):
        trace = json.loads(path.read_text())
        if "traceEvents" in trace:
            trace.get("distributedInfo", {}).pop("pg_config", None)
            for event in trace["traceEvents"]:
                event["args"] = {k: v for k, v in event.get("args", {}).items() if not k.startswith("Process Group")}
            path.write_text(json.dumps(trace))
    with serve([folder], cache) as running:
        yield running


def columns_of(page: Any) -> list[str]:
    return page.locator(".heat").first.locator("thead th").all_inner_texts()


def test_coordinates_can_be_typed_in_where_nothing_tells_them(ungrouped: Any, visit: Any) -> None:
    seen = visit(ungrouped)
    page = seen.open("ranks")
    page.get_by_text("Say how the job is parallel").click()
    page.get_by_label("tp", exact=True).fill("3")
    page.get_by_role("button", name="Apply").click()
    page.get_by_text("4 ranks cannot be divided into parts of 3.").first.wait_for()
    page.get_by_label("tp", exact=True).fill("1")
    page.get_by_label("pp", exact=True).fill("4")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**/ranks?*pp=4*")
    page.locator(".heat").first.locator("thead th", has_text="pp 3").wait_for()
    assert columns_of(page) == ["pp 0", "pp 1", "pp 2", "pp 3"]
    # Overview's map has them too, in this browser.
    seen.open("").locator(".glance .heat th", has_text="pp 2").wait_for()
    page = seen.open("ranks")
    page.get_by_role("button", name="Forget them").click()
    page.locator(".heat th", has_text="pp 2").first.wait_for(state="detached")
    assert seen.faults == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.sh", "torchrun pretrain.py --tensor-model-parallel-size 2 \\\n  --seq-length 4096"),
        ("ds.json", '{"tensor_parallel": {"autotp_size": 2}, "zero_optimization": {"stage": 1}}'),
        ("model.yaml", "tensor_model_parallel_size: 2\npipeline_model_parallel_size: 1\n"),
    ],
)
def test_coordinates_are_read_from_a_configuration(ungrouped: Any, visit: Any, name: str, text: str) -> None:
    page = visit(ungrouped).open("ranks")
    page.get_by_text("Say how the job is parallel").click()
    page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/plain", "buffer": text.encode()})
    page.wait_for_url("**/ranks?*tp=2*")
    page.locator(".heat").first.locator("thead th", has_text="tp 1").wait_for()
    # Neighbours by tensor, and data parallelism is what remains.
    assert columns_of(page) == ["dp", "tp 0", "tp 1"]
    assert page.locator(".heat").first.locator("tbody th").all_inner_texts() == ["dp 0", "dp 1"]


def test_the_one_step_of_a_capture_is_shown_as_bars(ungrouped: Any, visit: Any) -> None:
    page = visit(ungrouped).open("steps")
    assert page.locator(".barlist .barrow").count() == 4
    assert page.locator(".controls .picker").count() == 0


def test_every_long_stretch_of_the_critical_path_has_a_name(served: Any, visit: Any) -> None:
    # Short ones too: what many calls share is named by its reason.
    for row in served.study.document["critical_path_stretches"]:
        assert row["name"], row
    shown = visit(served).open("path").locator("section.data").first
    assert shown.locator("thead th:nth-child(3)").inner_text().startswith("Name")
    names = shown.locator("tr[aria-rowindex] td:nth-child(3)").all_inner_texts()
    assert len(names) > 5
    assert all(name.strip("– ") for name in names)


def test_what_is_missing_on_several_ranks_is_said_once_with_the_ranks(
    job: Path, tmp_path: Path, serve: Any, visit: Any
) -> None:
    damaged = shutil.copytree(job, tmp_path / "job")
    gone = sorted(damaged.rglob("kernel_details.csv"))[:2]
    for path in gone:
        path.unlink()
    with serve([damaged], Cache(tmp_path / "cache")) as running:
        seen = visit(running)
        said = seen.page.locator("aside.notice li").all_inner_texts()
        assert [line for line in said if "kernel_details.csv" in line] == [
            "kernel_details.csv is missing: lost operator types, shapes and units of kernels; on ranks 0 and 1"
        ]
        seen.page.get_by_role("button", name="中文").click()
        seen.page.locator("aside.notice li", has_text=re.compile("；在 .*0、1 上")).first.wait_for()


def test_what_if_shows_the_step_as_measured_while_its_changes_are_prepared(served: Any, visit: Any) -> None:
    page = visit(served).page
    page.route("**/api/whatif", lambda route: None)  # never answered
    page.locator("nav a[href='/whatif']").click()
    page.locator(".whatif .stack").wait_for(timeout=5_000)
    assert page.locator(".whatif p.wait").inner_text().startswith("Reading the step")


def test_next_and_the_list_name_the_same_first_action(served: Any, visit: Any) -> None:
    seen = visit(served)
    # What is to be done first need not cure what was found first.
    seen.retell(lambda document: document["plan"]["actions"].reverse())
    page = seen.open("")
    said = page.locator(".next a").inner_text()
    assert said == served.study.document["plan"]["actions"][-1]["title"]["text"]
    assert page.locator(".actions.plan > li strong").first.inner_text() == said


ROOFLINE = """async () => {
  const { doc } = await import("/static/data.js");
  const { roofline } = await import("/static/roofline.js");
  const row = (flops, bytes, tflops, total_ms) => ({ operator: "mm", shapes: "", flops, bytes, tflops, total_ms });
  const operators = [row(1e12, 1e10, 200, 40), row(4e11, 1e10, 90, 9), row(1, 1e6, 1e-6, 0.001)];
  doc().compute = { chips: [], operators };
  document.querySelector("main").replaceChildren(roofline());
}"""


def test_kernels_of_no_weight_do_not_stretch_the_roofline(served: Any, visit: Any) -> None:
    page = visit(served).page
    page.evaluate(ROOFLINE)
    assert page.locator("main svg.roof circle").count() == 2
    assert page.locator("main svg.roof .tick").count() <= 3


NOTICED = Alarm(rank=3, kind=AlarmKind.SHIFT, step=510, since=500, before_ns=10**7, after_ns=2 * 10**7, score=9.0)
ALARM = {
    "rank": 3, "kind": "shift", "since": 500, "step": 510, "before_ns": 10**7, "after_ns": 2 * 10**7,
    "cause": None, "share": None, "do": None, "finding": finding_document(of_alarm(NOTICED, None, (3,))),
}  # fmt: skip


def live(visit: Any, served: Any, events: list[dict[str, Any]], **more: Any) -> Any:
    """The page Live, told of one job."""
    job = {
        "job": "one", "running": True, "command": "train.py", "folder": "/jobs/one", "created_ns": "0", "ranks": [],
        "alarms": [ALARM], "capture": None, "events": events, **more,
    }  # fmt: skip
    seen = visit(served)
    told = f"data: {json.dumps({'jobs': [job], 'levels': ['standard']})}\n\n"
    seen.page.route("**/api/live", lambda route: route.fulfill(body=told, content_type="text/event-stream"))
    seen.page.goto(f"{served.base}/live")
    notice = seen.page.locator("aside.notice")
    notice.wait_for()
    return notice


def finding(name: str, at: int) -> dict[str, Any]:
    said = {"en": f"of {name}", "zh": f"{name} 的"}
    return {"kind": "finding", "said": said, "report": f"/j/reports/{name}/report.html", "time_ns": str(at)}


TOLD = {"kind": "alarm", "rank": "3", "since": "500", "time_ns": "2000"}


def test_an_alarm_shows_the_finding_of_its_own_capture_alone(served: Any, visit: Any) -> None:
    assert "of later" in live(visit, served, [finding("later", 3000), TOLD, finding("earlier", 1000)]).inner_text()
    assert "of earlier" not in live(visit, served, [TOLD, finding("earlier", 1000)]).inner_text()
    # What this page noticed itself stands in no list of events.
    assert "of earlier" not in live(visit, served, [finding("earlier", 1000)]).inner_text()
    capture = {
        "level": "standard", "first": 520, "steps": 2, "reason": "", "folder": "/j/captures/own", "done": True,
        "ranks": [],
    }  # fmt: skip
    assert "of own" in live(visit, served, [finding("own", 3000)], capture=capture).inner_text()


def test_an_alarm_without_capture_says_that_an_earlier_one_used_up_the_interval(served: Any, visit: Any) -> None:
    before = {"kind": "capture", "folder": "/j/captures/before", "time_ns": "1000"}
    assert "used up this interval" in live(visit, served, [TOLD, before]).inner_text()


def test_findings_lead_to_their_report(served: Any, visit: Any) -> None:
    notice = live(visit, served, [finding("later", 3000), TOLD])
    assert notice.get_by_role("link").get_attribute("href") == "/live/reports/one/later"


def test_captures_lead_to_their_report(served: Any, visit: Any) -> None:
    taken = {"kind": "capture", "folder": "/j/captures/later", "time_ns": "2500"}
    capture = {
        "level": "standard", "first": 520, "steps": 2, "reason": "", "folder": "/j/captures/later", "done": True,
        "ranks": [],
    }  # fmt: skip
    page = live(visit, served, [finding("later", 3000), taken, TOLD], capture=capture).page
    event = page.locator(".noticed li", has_text="/j/captures/later")
    for link in (page.locator(".capture a"), event.locator("a")):
        assert link.get_attribute("href") == "/live/reports/one/later"


def test_a_job_without_captures_opens_on_its_live_page(tmp_path: Path, serve: Any, chromium: Any) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / JOB_FILE).write_text("{}")
    with serve([folder], Cache(tmp_path / "cache")) as running:
        page = chromium.new_page()
        page.goto(running.link())
        page.wait_for_selector('main[data-page="live"]')
        page.close()
