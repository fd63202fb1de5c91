"""Converts times that profilers write into integer nanoseconds, exactly and never through a float; and back to text."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
INT64_MAX = 2**63 - 1
_MOST_DIGITS = 18
NOT_MEASURED = "not measured"
_TIMES = (("us", NS_PER_US), ("ms", NS_PER_MS), ("s", NS_PER_S))
# The default context rounds a product to 28 digits: a longer text would be rounded twice.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def whole_number(text: str) -> int | None:
    """The number that a text of ASCII digits stands for; None for any other text, and for a number beyond 64 bits.

    Every number in a name of an input is read by this function: `int` raises, and accepts digits of other scripts.
    """
    if not (text.isascii() and text.isdecimal()) or len(text.lstrip("0")) > _MOST_DIGITS + 1:
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= INT64_MAX else None


def ns_of_us(text: str) -> int:
    """Nanoseconds of a decimal text in microseconds, rounded half up.

    `1736412474721169.590` gives 1736412474721169590. Raises `ValueError` for text that is no finite number, or
    whose nanoseconds do not fit 64 bits.
    """
    return _scaled(text, 1_000)


def ns_of_ms(text: str) -> int:
    """Nanoseconds of a decimal text in milliseconds, rounded half up; raises as `ns_of_us`."""
    return _scaled(text, 1_000_000)


def bytes_of(text: str, unit: int) -> int:
    """Bytes of a decimal text whose unit holds `unit` bytes, rounded half up; raises as `ns_of_us`."""
    return _scaled(text, unit)


def _scaled(text: str, factor: int) -> int:
    try:
        number = Decimal(text.strip())
    except InvalidOperation as broken:
        raise ValueError(f"not a finite decimal number: {text[:40]!r}") from broken
    if not number.is_finite():
        raise ValueError(f"not a finite decimal number: {text[:40]!r}")
    # Check the exponent before any arithmetic: `1e999999` would become a million digits.
    if number and number.adjusted() > _MOST_DIGITS:
        raise ValueError(f"does not fit 64 bits: {text[:40]!r}")
    whole = int(_EXACT.multiply(number, factor).to_integral_value(rounding=ROUND_HALF_UP))
    if abs(whole) > INT64_MAX:
        raise ValueError(f"does not fit 64 bits: {text[:40]!r}")
    return whole


def duration(ns: int | None) -> str:
    """A duration with three significant digits, unit by size: `301 ms`, `12.4 us`, `1.50 h`; None is "not measured"."""
    if ns is None:
        return NOT_MEASURED
    if ns < 0:
        return f"-{duration(-ns)}"
    if ns < 1_000:
        return f"{ns} ns" if ns else "0"
    for unit, factor in _TIMES:
        digits = three_digits(ns, factor)
        if len(digits) < 4 or "." in digits:
            return f"{digits} {unit}"
    unit, factor = ("min", 60 * NS_PER_S) if ns < 100 * 60 * NS_PER_S else ("h", 3_600 * NS_PER_S)
    return f"{three_digits(ns, factor)} {unit}"


def three_digits(value: int, factor: int) -> str:
    """`value / factor` as text with three significant digits, four from 1000 on; computed with integers throughout."""
    scaled = decimals = 0
    for decimals in (2, 1, 0):
        scaled = (value * 10**decimals + factor // 2) // factor
        if scaled < 1_000:
            break
    if not decimals:
        return str(scaled)
    whole, part = divmod(scaled, 10**decimals)
    return f"{whole}.{part:0{decimals}d}"


def bytes_text(count: int) -> str:
    """A size in bytes as decimal units with three significant digits: `37.8 MB`."""
    if count < 1_000:
        return f"{count} B"
    for unit, factor in (("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12)):
        digits = three_digits(count, factor)
        if len(digits) < 4 or "." in digits:
            return f"{digits} {unit}"
    return f"{digits} {unit}"
