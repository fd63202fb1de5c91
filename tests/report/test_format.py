"""How values are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.report import format


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "not measured"),
        (0, "0"),
        (640, "640 ns"),
        (12_400, "12.4 us"),
        (999_499, "999 us"),
        (999_500, "1.00 ms"),
        (9_995_000, "10.0 ms"),
        (99_950_000, "100 ms"),
        (301_168_770, "301 ms"),
        (1_240_000_000, "1.24 s"),
        (999_400_000_000, "999 s"),
        (3_720_000_000_000, "62.0 min"),
        (36_000_000_000_000, "10.0 h"),
        (-2_310, "-2.31 us"),
    ],
)
def test_a_duration_has_the_unit_of_its_scale_and_three_digits(ns: int | None, text: str) -> None:
    assert format.duration(ns) == text


@given(st.integers(min_value=1, max_value=10**18))
def test_a_duration_is_never_further_off_than_half_a_per_cent(ns: int) -> None:
    digits, unit = format.duration(ns).split()
    factor = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3_600 * 10**9}[unit]
    assert abs(float(digits) * factor - ns) <= max(ns * 0.0051, 0.5)


def test_a_range_names_a_shared_unit_once() -> None:
    assert format.between(60_000_000, 84_000_000) == "60.0 to 84.0 ms"


def test_a_range_over_two_units_names_both() -> None:
    assert format.between(640_000, 12_400_000) == "640 us to 12.4 ms"


def test_microseconds_keep_three_decimals_and_the_sign() -> None:
    assert [format.microseconds(ns) for ns in (8_868_240, -125, 5)] == ["8868.240", "-0.125", "0.005"]


def test_a_small_share_is_not_nothing() -> None:
    assert format.share(12_000, 129_862_875) == "<0.1%"


def test_no_share_is_zero() -> None:
    assert format.share(0, 129_862_875) == "0.0%"


def test_a_share_of_nothing_is_not_written() -> None:
    assert format.share(5, 0) == ""


def test_a_number_that_is_none_is_not_measured() -> None:
    assert {format.number(float("nan")), format.number(None), format.fraction(float("inf"))} == {"not measured"}


def test_runs_of_ranks_are_shortened() -> None:
    assert format.ranks([0, 1, 2, 3, 9, 12]) == "ranks 0 to 3, 9 and 12"


def test_a_long_list_of_ranks_says_how_many_more() -> None:
    assert format.ranks(range(0, 64, 2)) == "ranks 0, 2, 4 and 29 more"


def test_line_breaks_become_spaces() -> None:
    assert format.harmless_line("a\r\nb\tc\u2028d") == "a  b c d"


def test_what_steers_a_terminal_or_turns_text_is_replaced() -> None:
    assert format.harmless_line("\x1b[31m\x9b\u202e\u2066\u200b\udcff") == "�[31m�����"


@given(st.text())
def test_clean_text_is_one_harmless_line(text: str) -> None:
    done = format.harmless_line(text)
    assert len(done) == len(text)
    done.encode("utf-8")
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in done)


def test_a_cut_text_says_how_much_is_gone() -> None:
    assert format.clip("abcdef", 4) == "abcd… (2 more characters)"


def test_a_number_of_nanoseconds_or_bytes_a_step_has_the_unit_of_its_scale() -> None:
    assert format.number(72_204_000, "ns a step") == "72.2 ms a step"
    assert format.number(1_500_000, "bytes a step") == "1.50 MB a step"
