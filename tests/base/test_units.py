"""Times and sizes as text become whole numbers, to the last digit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.units import INT64_MAX, bytes_of, ns_of_ms, ns_of_us

PARTS = st.tuples(st.integers(0, 10**15), st.text("0123456789", max_size=40))


@given(st.integers(-INT64_MAX, INT64_MAX))
def test_nanoseconds_written_as_microseconds_come_back(ns: int) -> None:
    sign = "-" if ns < 0 else ""
    assert ns_of_us(f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}") == ns


@given(st.integers(0, INT64_MAX))
def test_nanoseconds_written_as_milliseconds_come_back(ns: int) -> None:
    assert ns_of_ms(f"{ns // 10**6}.{ns % 10**6:06d}") == ns


@given(PARTS, st.sampled_from([(ns_of_us, 1_000), (ns_of_ms, 1_000_000)]))
def test_any_number_of_digits_is_rounded_once_and_half_up(
    parts: tuple[int, str], conversion: tuple[Callable[[str], int], int]
) -> None:
    convert, factor = conversion
    text = f"{parts[0] % 10**12}.{parts[1]}"
    exact = Fraction(text.rstrip(".")) * factor
    assert convert(text) == floor(exact + Fraction(1, 2))


def test_the_time_of_an_epoch_keeps_its_last_digit() -> None:
    # A double near 1.7e15 steps by a quarter: it would give …500 or …750.
    assert ns_of_us("1736412474721169.590") == 1_736_412_474_721_169_590
    assert ns_of_us("1736412474721169.591") == 1_736_412_474_721_169_591


@pytest.mark.parametrize(("text", "ns"), [("0.0004", 0), ("0.0005", 1), ("0.0014999", 1), ("-0.0005", -1)])
def test_a_part_of_a_nanosecond_is_rounded_half_away_from_zero(text: str, ns: int) -> None:
    assert ns_of_us(text) == ns


def test_spaces_and_tabs_around_a_number_do_not_matter() -> None:
    assert ns_of_us("\t 12.5 \n") == 12_500


def test_a_number_with_an_exponent_is_read_exactly() -> None:
    assert ns_of_us("1.5e3") == 1_500_000


@pytest.mark.parametrize(
    "text",
    ["", " ", "N/A", "nan", "inf", "-Infinity", "1,5", "0x10", "12 34", "1.2.3", "--1", "sNaN"],
)
def test_what_is_no_finite_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a finite decimal number"):
        ns_of_us(text)


@pytest.mark.parametrize("text", ["1e999999", "1e400000000", "9e999990", "-1e999999", "9223372036854775.808"])
def test_what_does_not_fit_64_bits_is_refused_and_not_worked_out(text: str) -> None:
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        ns_of_us(text)


def test_a_number_too_small_to_see_is_zero() -> None:
    assert ns_of_us("1e-999999") == 0


def test_a_long_text_is_rounded_once() -> None:
    assert ns_of_us("0.0004" + "9" * 30) == 0


def test_zero_is_zero_with_any_exponent() -> None:
    assert ns_of_us("0e999999") == 0


def test_the_largest_number_of_64_bits_fits() -> None:
    assert ns_of_us("9223372036854775.807") == INT64_MAX
    assert ns_of_us("-9223372036854775.807") == -INT64_MAX


@given(st.text(max_size=12))
def test_junk_raises_nothing_but_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(ns_of_us(text), int)


def test_an_error_shows_the_beginning_of_a_long_text() -> None:
    with pytest.raises(ValueError, match=r"x{40}'$"):
        ns_of_us("x" * 10_000)


@pytest.mark.parametrize(
    ("text", "unit", "size"), [("1.5", 1024, 1536), ("0.0005", 1000, 1), ("29.9744", 10**6, 29_974_400)]
)
def test_sizes_count_in_the_unit_that_is_given(text: str, unit: int, size: int) -> None:
    assert bytes_of(text, unit) == size
