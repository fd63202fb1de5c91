"""Makes HTTP answers for all pages: JSON, and errors in the form that pages expect."""

from __future__ import annotations

from starlette.responses import Response

from hermes.base.errors import HermesError, InputError
from hermes.base.say import say
from hermes.web.document_pages import json_value

KINDS = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".json": "application/json", ".svg": "image/svg+xml", ".wasm": "application/wasm", ".woff2": "font/woff2",
    ".png": "image/png",
}  # fmt: skip
"""Media types of the served files, by file ending."""
LONGEST_DEFECT = 479
"""Largest number of characters that are shown of an unexpected exception."""


class NotReadyError(HermesError):
    """The input is still being read or analysed."""


class FullError(HermesError):
    """More pages listen for running jobs than the server keeps up to date."""


def answer(value: object, status: int = 200) -> Response:
    """An HTTP answer with a value as JSON."""
    return Response(json_value(value), status_code=status, media_type="application/json")


def refusal(error: HermesError) -> Response:
    """An error as JSON, with the fitting HTTP status."""
    status = 503 if isinstance(error, (NotReadyError, FullError)) else 404 if isinstance(error, InputError) else 500
    return answer({"error": spelt(error)}, status)


def spelt(error: HermesError) -> dict[str, str]:
    """The parts of an error: what happened, where, and what to do."""
    return {"what": say(error.what), "where": error.where, "lost": say(error.lost), "hint": say(error.hint)}
