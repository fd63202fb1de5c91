"""Opens a served job in a browser, and keeps everything that the browser did and logged."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

# Of equal rows, axe checks the first ones.
SAMPLE = "{exclude: [['tbody tr:nth-child(n+7)'], ['svg a:nth-of-type(n+7)'], ['li:nth-child(n+14)']]}"
# The page waits for nothing, and every table has its rows.
COMPLETE = """() => !document.querySelector("main :is(p, li).wait")
  && [...document.querySelectorAll("section.data")].every((one) => one.dataset.ready || one.querySelector(".wrong"))"""


class Visit:
    """A browser with a key, and the list of its forbidden actions."""

    def __init__(
        self, chromium: Any, served: Any, *, width: int = 1280, scheme: str = "light", locale: str = "en-US"
    ) -> None:
        self.served = served
        self.context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, locale=locale, bypass_csp=False
        )
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.faults: list[str] = []
        self.outside: list[str] = []
        self.blocked: list[str] = []
        # A page on a busy machine is slow, which is no reason to fail.
        self.context.set_default_timeout(120_000)
        self.page = self.context.new_page()
        self.page.on(
            "console",
            lambda message: self.faults.append(message.text) if message.type in ("error", "warning") else None,
        )
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        # The console does not say which address was not found.
        self.page.on(
            "response", lambda got: self.faults.append(f"{got.status} {got.url}") if got.status >= 400 else None
        )
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)
        self.page.on("requestfailed", lambda request: self.blocked.append(f"{request.url} {request.failure}"))
        self.page.goto(served.link())
        self.page.wait_for_selector(".verdict h1, .failure", timeout=60_000)

    def _dialog(self, dialog: Any) -> None:
        self.faults.append("a dialog opened")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.served.base, "data:", "blob:")):
            self.outside.append(request.url)

    def open(self, path: str) -> Any:
        self.page.goto(f"{self.served.base}/{path}")
        name = re.split(r"[?#]", path)[0] or "overview"
        self.page.wait_for_selector(f'main[data-page="{name}"] .page', timeout=60_000)
        self.page.wait_for_function(COMPLETE, timeout=60_000)
        assert self.page.locator(".failure").count() == 0
        return self.page

    def retell(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the document that pages get from now on."""
        told = json.loads(self.served.study.summary())
        change(told["document"])
        self.page.route("**/api/report", lambda route: route.fulfill(json=told))

    def overflow(self) -> int:
        """How many pixels wider than the window the page is, once its layout has had time to settle."""
        from playwright.sync_api import TimeoutError as TooLongError

        with contextlib.suppress(TooLongError):
            self.page.wait_for_function(
                "() => document.documentElement.scrollWidth <= window.innerWidth", timeout=5_000
            )
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def barriers(self, axe: str) -> list[tuple[str, str]]:
        """Barriers for people with disabilities, by axe-core: every violation, with an element that shows it."""
        self.page.evaluate(axe)
        found = self.page.evaluate(f"axe.run({SAMPLE}, {{resultTypes: ['violations']}})")["violations"]
        return [(one["id"], one["nodes"][0]["html"][:200]) for one in found]
