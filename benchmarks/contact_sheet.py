"""Draws every page of several inputs on one sheet: both themes, both languages, a desktop and a phone window.

    python benchmarks/contact_sheet.py FOLDER NAME=PATH… [--pages overview,ranks] [--themes light] [--languages zh]
                                       [--widths 390] [--whole]

FOLDER gets a picture of each page and `index.html` with all of them, a row a page; `sheet-NAME.png` is the sheet of one
input as a picture. Without `--whole` a picture shows the part that is visible without scrolling. At the end, errors
that pages logged and pages wider than the window are printed, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import html
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

_THEMES, _LANGUAGES, _WIDTHS = ("light", "dark"), ("en", "zh"), ("1440", "390")
_HEIGHTS = {"1440": 900, "390": 844}
_TALLEST = 6_000
_PATIENCE_MS = 120_000
_DRAWN_MS = 1_500
"""Milliseconds for which the timeline still draws its tracks after it has loaded."""
_COMPLETE = """() => !document.querySelector("main :is(p, li).wait")
  && [...document.querySelectorAll("section.data")].every((one) => one.dataset.ready || one.querySelector(".wrong"))"""
_REFUSED = ("Content-Security-Policy", "Content Security Policy")
_STYLE = """body{font:14px sans-serif;margin:12px;background:#888;color:#000}
h1,h2{margin:8px 0}figure{display:inline-block;margin:4px;vertical-align:top}figcaption{font-size:11px}
img{display:block;height:300px;border:1px solid #444}"""


@dataclass
class _Sheet:
    folder: Path
    pictures: list[tuple[str, str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add(self, given: str, page: str, look: str, file: str) -> None:
        self.pictures.append(
            (given, page, f'<figure><img src="{file}" loading="lazy"><figcaption>{look}</figcaption></figure>')
        )

    def text(self, only: str | None = None) -> str:
        rows: dict[tuple[str, str], list[str]] = {}
        for given, page, figure in self.pictures:
            if only in (None, given):
                rows.setdefault((given, page), []).append(figure)
        parts = [f"<h2>{html.escape(given)}: {page}</h2>{''.join(figures)}" for (given, page), figures in rows.items()]
        return f"<!doctype html><meta charset=utf-8><title>Hermes</title><style>{_STYLE}</style>{''.join(parts)}"


def main() -> int:
    """Draw the sheet, and return the exit status."""
    from playwright.sync_api import sync_playwright

    given = _given()
    given.folder.mkdir(parents=True, exist_ok=True)
    sheet = _Sheet(given.folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given.chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, _, path in (item.partition("=") for item in given.inputs):
            with served([path]) as (link, base):
                _look_at(browser, sheet, name, link, base, given)
            (given.folder / "index.html").write_text(sheet.text(), "utf-8")
            _picture(browser, sheet, name)
        browser.close()
    print(*sheet.faults, f"{len(sheet.pictures)} pictures: {given.folder / 'index.html'}", sep="\n")
    return bool(sheet.faults)


def _given() -> argparse.Namespace:
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("folder", type=Path)
    wanted.add_argument("inputs", nargs="+", metavar="NAME=PATH")
    for name, all_of_them in (("themes", _THEMES), ("languages", _LANGUAGES), ("widths", _WIDTHS)):
        wanted.add_argument(f"--{name}", type=lambda text: tuple(text.split(",")), default=all_of_them)
    wanted.add_argument("--pages", type=lambda text: tuple(text.split(",")), default=())
    wanted.add_argument("--whole", action="store_true", help="each page to its end")
    wanted.add_argument("--chromium", default="/usr/bin/chromium")
    return wanted.parse_args()


@contextmanager
def served(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A link to a server started with these arguments, and the server's address."""
    command = [str(Path(sys.executable).parent / "hermes"), "serve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            link = re.search(r"http://\S+", server.stdout.readline())
            assert link is not None, "the server printed no link"
            yield link[0], link[0].partition("/?")[0]
        finally:
            server.terminate()


def _look_at(browser: Any, sheet: _Sheet, name: str, link: str, base: str, given: argparse.Namespace) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector(".verdict h1, .failure", timeout=_PATIENCE_MS)
    where = ""

    def told(message: Any) -> None:
        # The viewer of the timeline requests addresses that the policy forbids, and logs the refusals.
        if message.type == "error" and not any(said in message.text for said in _REFUSED):
            sheet.faults.append(f"{name} {where}: {message.text}")

    page.on("console", told)
    every = page.locator("nav a").evaluate_all("links => links.map((link) => link.getAttribute('href').slice(1))")
    for language, theme in product(given.languages, given.themes):
        page.evaluate(f"localStorage.setItem('hermes-language', {language!r})")
        page.evaluate(f"localStorage.setItem('hermes-theme', {theme!r})")
        for path, width in product(every, given.widths):
            shown = path or "overview"
            if given.pages and shown not in given.pages:
                continue
            where = f"{shown} {theme} {language} {width}"
            page.set_viewport_size({"width": int(width), "height": _HEIGHTS[width]})
            page.goto(f"{base}/{path}")
            page.wait_for_selector(f'main[data-page="{shown}"]', timeout=_PATIENCE_MS)
            page.wait_for_function(_COMPLETE, timeout=_PATIENCE_MS)
            if page.locator("iframe.perfetto").count():
                page.wait_for_selector("iframe[data-landed]", timeout=_PATIENCE_MS)
                page.wait_for_timeout(_DRAWN_MS)
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                sheet.faults.append(f"{name} {where}: wider than the window")
            file = f"{name}-{shown}-{width}-{theme}-{language}.png"
            height = min(_TALLEST, page.evaluate("document.documentElement.scrollHeight")) if given.whole else 0
            clip = {"clip": {"x": 0, "y": 0, "width": int(width), "height": height}, "full_page": True}
            page.screenshot(path=sheet.folder / file, **(clip if height else {}))
            sheet.add(name, shown, f"{width} {theme} {language}", file)
    context.close()


def _picture(browser: Any, sheet: _Sheet, name: str) -> None:
    """Draw the sheet of one input as one picture."""
    context = browser.new_context(viewport={"width": 2400, "height": 900})
    page = context.new_page()
    drawn = sheet.folder / f"{name}.html"
    drawn.write_text(sheet.text(name).replace(' loading="lazy"', ""), "utf-8")
    page.goto(drawn.resolve().as_uri())
    page.screenshot(path=sheet.folder / f"sheet-{name}.png", full_page=True)
    context.close()


if __name__ == "__main__":
    sys.exit(main())
