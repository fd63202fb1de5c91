"""Opens a link in this machine's browser, with the token in a file that only the user can read."""

from __future__ import annotations

import contextlib
import html
import threading
from collections.abc import Callable, Iterator

from hermes.base.end_on_signal import folder_aside

_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Hermes</title>'
    '<meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0;url={link}"><p><a href="{link}">Hermes</a></p></html>\n'
)


@contextlib.contextmanager
def opened_in_browser(link: str, failed: Callable[[], None]) -> Iterator[None]:
    """Show a page that leads to `link`, and remove that page at the end. Only this user can read the page.

    The call does not wait for the browser: a terminal browser ends when its reader does. `failed` is called without a
    browser.
    """
    with folder_aside("hermes-open-") as folder:
        page = folder / "open.html"
        page.touch(mode=0o600, exist_ok=False)
        page.write_text(_PAGE.format(link=html.escape(link)), "utf-8")
        threading.Thread(target=_show, args=(page.as_uri(), failed), name="hermes-browser", daemon=True).start()
        yield


def _show(address: str, failed: Callable[[], None]) -> None:
    import webbrowser

    with contextlib.suppress(webbrowser.Error, OSError):
        if webbrowser.open(address):
            return
    failed()
