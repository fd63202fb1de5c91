"""Measures the speed of the web app in Chromium: first content, pages, tables of a million rows, What-if, many ranks.

    python benchmarks/web.py ASCEND_SET [--work FOLDER] [--docs docs/benchmarks.md] [--chromium PATH]

ASCEND_SET is the 309 MB set that `../shared/tools/make_big_ascend.py` makes; jobs of 64 and 1024 ranks are generated in
the work folder. Every input is analysed once before, so its tables and its analysis are in the cache, as at a user's
second visit. Times are a person's waiting times: from the click, the key or the command until the page has drawn the
requested content. A script inside the page measures the times and checks every frame.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import machine
from benchmarks.page import replace_block, table
from hermes.web.page_server import PAGES

_REPEATS = 5
_EXPORTS = 3
_PATIENCE_MS = 120_000
_Input = tuple[str, Callable[[], Path], Callable[[Any], Iterator[tuple[str, str]]]]
"""The name of an input, its path, and the measurements on it beside its first content."""

# The script checks after every frame, so a time lasts until something was drawn, and never less.
_UNTIL = """async () => {{
  const began = performance.now();
  {act};
  for (;;) {{
    await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
    if ({done}) return performance.now() - began;
    if (performance.now() - began > {patience}) throw new Error("never drawn");
  }}
}}"""
# Milliseconds since the page was requested.
_DRAWN = """() => new Promise((done) => {
  const look = () => (document.querySelector(".verdict h1") ? done(performance.now()) : requestAnimationFrame(look));
  look();
})"""
_TABLE = "Number(document.querySelector('section.data').dataset.ready)"
_ELSEWHERE = ("migrate", "precision", "timeline", "live")
"""Pages that do not show the input, or are another app."""
_PAGES = (*(page for page in PAGES if page and page not in _ELSEWHERE), "")


def main() -> None:
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("ascend", type=Path, help="the 309 MB set")
    wanted.add_argument("--work", type=Path, default=Path.home() / ".cache" / "hermes-bench")
    wanted.add_argument("--most", type=int, default=1024, help="leave out jobs of more ranks")
    wanted.add_argument("--docs", type=Path, help="page whose block `results web` is replaced")
    wanted.add_argument("--chromium", default="/usr/bin/chromium")
    given = wanted.parse_args()
    os.environ["HERMES_CACHE_DIR"] = str(given.work / "web-cache")
    facts = machine.about()
    inputs: list[_Input] = [("309 MB", lambda: given.ascend, _large)]
    inputs += [
        (f"{ranks} ranks", partial(job, given.work, ranks), looks)
        for ranks, looks in ((64, _usual), (1024, _many))
        if ranks <= given.most
    ]
    rows = []
    for row in _rows(inputs, given.chromium):
        print(*row, sep=": ", flush=True)
        rows.append(row)
    text = machine.sentence(facts) + "\n\n" + table(("what", "seconds"), rows)
    print(text)
    if given.docs:
        given.docs.write_text(replace_block(given.docs.read_text("utf-8"), "web", text), "utf-8")


def _rows(inputs: Sequence[_Input], chromium: str) -> Iterator[tuple[str, str]]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, made, looks in inputs:
            path = made()
            with _opened(browser, path):
                pass  # From here on the analysis is in the cache.
            commands = [_begun(browser, path) for _ in range(_REPEATS)]
            yield f"{name}: from the command to the first content of Overview", _seconds(*commands)
            with _opened(browser, path) as (page, base):
                opened = [_reopened(page, base) for _ in range(_REPEATS)]
                yield f"{name}: Overview opened while the server runs, to its first content", _seconds(*opened)
                yield from ((f"{name}: {what}", figures) for what, figures in looks(page))
            if looks is _large:
                yield _exported(path)
        browser.close()


def job(work: Path, ranks: int) -> Path:
    """A generated job of `ranks` ranks, made once."""
    from hermes_testing import Job, generate

    folder = work / f"job{ranks}"
    return folder if folder.exists() else generate(folder, Job(ranks=ranks, steps=3, layers=1), formats=["kineto"])


@contextmanager
def _opened(browser: Any, path: Path) -> Iterator[tuple[Any, str]]:
    """The page Overview in a new browser over a new server, as soon as its first content is there."""
    command = [str(Path(sys.executable).parent / "hermes"), "serve", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            link = re.search(r"http://\S+", server.stdout.readline())
            assert link is not None, "the server printed no link"
            context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")
            page = context.new_page()
            page.goto(link[0])
            page.wait_for_selector(".verdict h1", timeout=_PATIENCE_MS * 10)
            yield page, link[0].partition("/?")[0]
            context.close()
        finally:
            server.terminate()


def _begun(browser: Any, path: Path) -> float:
    began = time.perf_counter()
    with _opened(browser, path):
        return time.perf_counter() - began


def _exported(path: Path) -> tuple[str, str]:
    """The time and size of the whole timeline as a file for Perfetto."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).parent / "hermes"), "export", str(path)]
        command += ["--perfetto", str(Path(folder) / "out.pftrace")]
        took = []
        for _ in range(_EXPORTS):
            began = time.perf_counter()
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            took.append(time.perf_counter() - began)
    events = re.search(r"(\d+) events", done.stdout)
    assert events is not None, done.stdout
    return f"309 MB: `hermes export --perfetto`, {events[1]} events", _seconds(*took)


def _reopened(page: Any, base: str) -> float:
    page.goto(f"{base}/")
    return float(page.evaluate(_DRAWN)) / 1e3


def _until(page: Any, act: str, done: str) -> float:
    """Seconds from an action until the page shows the requested content."""
    page.wait_for_load_state("networkidle")
    return float(page.evaluate(_UNTIL.format(act=act, done=done, patience=_PATIENCE_MS))) / 1e3


def _clicked(page: Any, name: str) -> float:
    """Seconds from a click on a page's link until nothing in the page waits."""
    there = f"document.querySelector('main').dataset.page === '{name or 'overview'}'"
    act = f"document.querySelector('nav a[href=\"/{name}\"]').click()"
    return _until(page, act, f"{there} && !document.querySelector('main :is(p, li).wait')")


def _pages(page: Any) -> Iterator[tuple[str, str]]:
    for again in ("the first time", "again"):
        took = {name: _clicked(page, name) for name in _PAGES}
        worst = max(took, key=lambda name: took[name])
        yield f"a page by its link, {again}: median of {len(took)} pages", _seconds(median(took.values()))
        yield f"a page by its link, {again}: the slowest, {worst or 'overview'}", _seconds(took[worst])


def _usual(page: Any) -> Iterator[tuple[str, str]]:
    yield from _pages(page)
    yield from _changed(page)


def _large(page: Any) -> Iterator[tuple[str, str]]:
    yield from _pages(page)
    page.goto(f"{page.url.rsplit('/', 1)[0]}/data?table=host_op")
    page.wait_for_selector("section.data[data-ready]")
    rows = int(page.locator("table.rows").get_attribute("aria-rowcount")) - 1
    for again in ("the first time", "again"):
        for what, act in _TABLE_ACTS.items():
            yield (
                f"{rows} host calls, {what}, {again}",
                _seconds(_until(page, f"window.round = {_TABLE}; {act}", _TABLE_DONE)),
            )
        end = f"document.querySelector('tr[aria-rowindex=\"{rows + 1}\"] .name')"
        scroll = "const box = document.querySelector('.scroll'); box.scrollTop = box.scrollHeight"
        yield f"{rows} host calls, scrolled to the end, {again}", _seconds(_until(page, scroll, end))
    page.keyboard.press("/")
    typed = "const box = document.querySelector('dialog input'); box.value = 'matmul';"
    typed += "box.dispatchEvent(new Event('input'))"
    yield (
        "search over all names, the first time",
        _seconds(_until(page, typed, "document.querySelector('#found .more:not(:empty)')")),
    )
    page.keyboard.press("Escape")
    yield from _changed(page)


_TABLE_DONE = f"{_TABLE} > window.round"
_TABLE_ACTS = {
    "sorted by time": "document.querySelector('th[data-name=\"dur_ns\"] button').click()",
    "sorted by name": "document.querySelector('th[data-name=\"name\"] button').click()",
    "filtered by a word": "const box = document.querySelector('.tools input'); box.value = 'aten::add';"
    "box.dispatchEvent(new Event('input'))",
    "filter taken off": "const box = document.querySelector('.tools input'); box.value = '';"
    "box.dispatchEvent(new Event('input'))",
}  # fmt: skip


def _changed(page: Any) -> Iterator[tuple[str, str]]:
    """Measure What-if: until the step is there, until its changes are there, and for one more change."""
    page.locator("nav a[href='/']").click()
    first = _until(
        page, "document.querySelector('nav a[href=\"/whatif\"]').click()",
        "document.querySelector('.whatif .stack, .whatif .outcome')",
    )  # fmt: skip
    yield "What-if, the step as measured", _seconds(first)
    step = _until(page, "0", "document.querySelector('.bench:not([aria-busy]) .outcome')")
    every = _until(page, "0", "!document.querySelector('.changes li.wait')")
    yield "What-if, then until changes can be switched on", _seconds(step)
    yield "What-if, then until every change was replayed", _seconds(every)
    toggle = "window.round = Number(document.querySelector('.bench').dataset.round);"
    toggle += "document.querySelectorAll('.changes input')[{at}].click()"
    done = "Number(document.querySelector('.bench').dataset.round) > window.round"
    took = [_until(page, toggle.format(at=at), done) for at in range(3)]
    yield "What-if, one more change switched on", _seconds(*took)


def _many(page: Any) -> Iterator[tuple[str, str]]:
    yield "Ranks by its link, the first time", _seconds(_clicked(page, "ranks"))
    yield "Steps by its link, the first time", _seconds(_clicked(page, "steps"))


def _seconds(*values: float) -> str:
    """One time as text, or the median and the largest of several."""
    return f"{values[0]:.2f}" if len(values) == 1 else f"{median(values):.2f} (at most {max(values):.2f})"


if __name__ == "__main__":
    main()
