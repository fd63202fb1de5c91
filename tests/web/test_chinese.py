"""Chinese throughout: every page of the demo's job is walked in Chinese, and no English sentence is left on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.shared_jobs import Jobs
from tests.web.visits import COMPLETE

from hermes.report.chinese_sentences import in_chinese
from hermes.report.shared_assets import sentences
from hermes.web.page_server import PAGES
from hermes_testing import Fault, Job

DEMO = Job(faults=(Fault(kind="recompilation", ranks=(5,)), Fault(kind="gc_pause", ranks=(5,))))
# Four English words in a row, in what people read: not in code, and not parts of a path or a call.
ENGLISH = r"""() => {
  const found = new Set();
  const words = /(?<![\w./:=(\-])[A-Za-z][a-z']+(?:[,;:]? [A-Za-z]?[a-z']+){3,}(?![\w/(=_])/g;
  const look = (text) => { for (const [one] of text.matchAll(words)) found.add(one); };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const literal = "code, pre, kbd, script, style, textarea, option, .subject";
  while (walk.nextNode()) if (!walk.currentNode.parentElement.closest(literal)) look(walk.currentNode.data);
  for (const one of document.querySelectorAll("[title], [aria-label], [placeholder]")) {
    for (const name of ["title", "aria-label", "placeholder"]) look(one.getAttribute(name) ?? "");
  }
  return [...found];
}"""


def walked(seen: Any, paths: tuple[str, ...]) -> dict[str, list[str]]:
    found = {}
    for path in paths:
        page = seen.open(path)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.wait_for_timeout(300)
        found[path] = page.evaluate(ENGLISH)
        for tab in page.locator("[role=tab]:visible").all()[1:]:
            tab.click()
            page.wait_for_function(COMPLETE, timeout=60_000)
            found[path] += page.locator(".tabpanel").evaluate(ENGLISH)
    return {path: left for path, left in found.items() if left}


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="no chromium at /usr/bin/chromium")
def test_no_english_sentence_is_left_on_a_chinese_page_of_the_demo(jobs: Jobs, serve: Any, visit: Any) -> None:
    with serve([jobs.folder(DEMO, "ascend-text")], jobs.cache) as running:
        paths = (*(page for page in PAGES if page != "timeline"), "ranks?rank=5", "data?table=kernel")
        assert walked(visit(running, locale="zh-CN", width=1440), paths) == {}


# Kernels and calls, as compilers and Python spell them, and what a source is called.
NAMES = re.compile(
    r"(?:(?:float|false|true|int|long|unsigned|at)[,; ]*)+|method \w+ of .*|Architecture white paper.*|the same at .*"
    r"|data sheet.*|counter, gc, sample, group|attention, matmul, batched matmul"
    r"|Evaluating whether to run chil.*|Not running child profiler|Tracing will end in"
)


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="no chromium at /usr/bin/chromium")
@pytest.mark.parametrize(
    "name",
    [
        "ascend/alexnet_text_level2", "kineto/v100_dlrm_8ranks.tar.gz", "kineto/h100_qwen1.5-0.5b.json.gz",
        "kineto/b200_vllm_inference.json.gz", "kineto/cpu_only_rank34.json.gz",
    ],
)  # fmt: skip
def test_no_english_sentence_is_left_on_chinese_pages_of_real_profiles(
    name: str, shared: Path, jobs: Jobs, serve: Any, visit: Any
) -> None:
    with serve([shared / name], jobs.cache) as running:
        paths = tuple(page for page in PAGES if page != "timeline")
        found = walked(visit(running, locale="zh-CN", width=1440), paths)
        left = {path: [text for text in texts if not NAMES.fullmatch(text)] for path, texts in found.items()}
        assert {path: texts for path, texts in left.items() if texts} == {}


@pytest.mark.live
@pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="no chromium at /usr/bin/chromium")
def test_sentences_of_the_analysis_are_told_in_chinese_and_names_stay(served: Any, visit: Any) -> None:
    page = visit(served, locale="zh-CN").page
    assert "卡 2" in page.locator(".verdict h1").inner_text()
    page.get_by_role("button", name="English").click()
    page.get_by_text(served.study.document["verdict"]["message"]["text"]).wait_for()
    told = """async (text) => { const { told } = await import("/static/sentences.js");
      const { teach } = await import("/static/sentences.js");
      teach({"{} of the step is {}": "步的 {1} 为{2}", "copying": "拷贝"});
      return [told(text), told("aten::copy_ of MatMul"), told(" copying ")]; }"""
    assert page.evaluate(told, "52% of the step is copying") == ["步的 52% 为拷贝", "aten::copy_ of MatMul", " 拷贝 "]


@pytest.mark.live
@pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="no chromium at /usr/bin/chromium")
def test_choices_and_short_titles_are_in_chinese_too(served: Any, visit: Any) -> None:
    seen = visit(served, locale="zh-CN")
    assert seen.open("host").locator("option").first.inner_text() == "卡 0"
    assert seen.open("path").locator("option").first.inner_text().startswith("卡 ")
    heads = seen.open("ranks").locator(".heat").last.locator("thead th").all_inner_texts()
    assert len(heads) > 5
    assert [one for one in heads if not re.search(r"[一-鿿]", one)] == []


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("only ranks 0 and 1 of 8 were collected", "8 卡中只采集了卡 0 和 1"),
        ("only rank 0 of 64 was collected", "64 卡中只采集了卡 0"),
        (
            "Saving or logging leaves the device free for 7% of the step on rank 3",
            "保存或写日志使卡 3 的设备空闲步的 7%",
        ),
        ("Let segments grow", "允许内存段扩展"),
    ],
)
def test_what_is_missing_and_what_to_do_is_told_in_chinese(said: str, meant: str) -> None:
    assert in_chinese(said) == meant


def test_each_gap_of_a_sentence_stands_in_what_it_means() -> None:
    for sentence, said in sentences().items():
        used = {int(number) for number in re.findall(r"\{(\d)\}", said)}
        assert used == set(range(1, sentence.count("{}") + 1)), sentence
        assert re.search(r"[一-鿿]", said), sentence
