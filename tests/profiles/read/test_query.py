"""Microseconds to nanoseconds in SQL, against decimals."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.profiles.read.query import ns_of_double, ns_sql

CON = duckdb.connect()
REFUSED = "a time that a double does not hold"

WHOLE = st.one_of(st.integers(0, 10**6), st.integers(10**11, 2**42), st.integers(10**15, 4 * 10**15))
FRACTION = st.one_of(
    st.just(""), st.integers(0, 999).map(".{:03d}".format), st.from_regex(r"\.[0-9]{1,6}", fullmatch=True)
)
TEXTS = st.builds("{}{}{}".format, st.sampled_from(["", "-"]), WHOLE, FRACTION)


def of_text(text: str) -> int | None:
    (row,) = CON.execute(f"SELECT {ns_sql('t')} FROM (SELECT ?::VARCHAR AS t)", [text]).fetchall()
    return row[0]


def of_double(number: float) -> int | str | None:
    try:
        (row,) = CON.execute(f"SELECT {ns_of_double('t')} FROM (SELECT ?::DOUBLE AS t)", [number]).fetchall()
    except duckdb.Error as refused:
        return REFUSED if REFUSED in str(refused) else str(refused)
    return row[0]


def exact(text: str) -> int:
    return int((Decimal(text) * 1000).quantize(Decimal(1), ROUND_HALF_UP))


@given(TEXTS)
def test_a_text_gives_exact_nanoseconds(text: str) -> None:
    assert of_text(text) == exact(text)


@pytest.mark.parametrize(
    "text", ["0.0005", "1.0005", "2199023255551.9995", "1712867402348256.0005", "9007199254740.993", "1e3", "1.5e9"]
)
def test_ties_and_borders_round_half_up(text: str) -> None:
    assert of_text(text) == exact(text)


@pytest.mark.parametrize("text", ["", "abc", "nan", "inf", "1e40", "12.5.3", "0x10"])
def test_what_is_no_time_is_null(text: str) -> None:
    assert of_text(text) is None


@given(TEXTS.map(json.loads))
def test_a_number_gives_what_its_text_gives_or_is_refused(number: float) -> None:
    assert of_double(number) in (exact(repr(number)), REFUSED)


@pytest.mark.parametrize("number", [0.125, 2_199_023_255_551.999, 1_712_867_402_348_256.0, -3.5])
def test_a_number_that_a_double_holds_is_not_refused(number: float) -> None:
    assert of_double(number) == exact(repr(number))
