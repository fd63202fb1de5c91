"""Answers that both the shell and the data behind it give: JSON, and errors as pages understand them."""

from __future__ import annotations

from starlette.responses import Response

from hermes.base.errors import HermesError, InputError
from hermes.base.say import say
from hermes.web.documents import told

KINDS = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".json": "application/json", ".svg": "image/svg+xml", ".wasm": "application/wasm", ".woff2": "font/woff2",
    ".png": "image/png",
}  # fmt: skip
"""The media types of the files that are served, by ending."""


class NotReadyError(HermesError):
    """The input is still being read or analysed."""


class FullError(HermesError):
    """More pages listen than are served."""


def answer(value: object, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(told(value), status_code=status, media_type="application/json")


def refusal(error: HermesError) -> Response:
    """What went wrong as JSON, with the status that fits it."""
    status = 503 if isinstance(error, (NotReadyError, FullError)) else 404 if isinstance(error, InputError) else 500
    return answer({"error": spelt(error)}, status)


def spelt(error: HermesError) -> dict[str, str]:
    """An error as its parts."""
    return {"what": say(error.what), "where": error.where, "lost": say(error.lost), "hint": say(error.hint)}
