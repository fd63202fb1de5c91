"""Values as the JSON report writes them: exact milliseconds, finite numbers, text that UTF-8 can say."""

from __future__ import annotations

import math
from collections.abc import Iterable


def ms(ns: int | None) -> float | None:
    """Milliseconds; `round(ms * 1e6)` gives back the nanosecond."""
    # Whole over whole is rounded once, so the shortest text of the result still names the nanosecond.
    return None if ns is None else ns / 1_000_000


def us(ns: int | None) -> float | None:
    """Microseconds, likewise."""
    return None if ns is None else ns / 1_000


def finite(value: float | None) -> float | None:
    """The value; None where it is no number."""
    return value if value is not None and math.isfinite(value) else None


def maybe(text: str | None) -> str | None:
    """The text, or None."""
    return None if text is None else text_of(text)


def texts(many: Iterable[str]) -> list[str]:
    """Each text."""
    return [text_of(text) for text in many]


def text_of(text: str) -> str:
    """The text without lone surrogates."""
    # A path or a name with broken bytes holds lone surrogates, which UTF-8 cannot say.
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if not text.isprintable() else text
