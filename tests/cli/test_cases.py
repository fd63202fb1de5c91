"""`hermes cases`: the list, the search, and one entry whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hermes.cli.cases import Layer
from hermes.knowledge import cases


class Ran(Protocol):
    """How one command ended."""

    code: int
    out: str
    err: str


Hermes = Callable[..., Ran]


def test_cases_without_words_lists_them_all(hermes: Hermes) -> None:
    ran = hermes("cases")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines() if "-" in line[:5]] == [one.id for one in cases.cases()]


def test_cases_of_one_layer_are_of_that_layer_only(hermes: Hermes) -> None:
    ran = hermes("cases", "--layer", "memory")
    listed = [line.split()[0] for line in ran.out.splitlines() if "-" in line[:5]]
    assert listed == [one.id for one in cases.cases_of("memory")]
    assert [layer.value for layer in Layer] == list(cases.LAYERS)


def test_cases_with_words_lists_what_has_them_all(hermes: Hermes) -> None:
    ran = hermes("cases", "workers", "prefetch_factor")
    assert ran.code == 0
    assert "IO-07" in ran.out
    assert "COM-01" not in ran.out


def test_cases_with_an_id_prints_the_entry_with_symptoms_change_gain_and_source(hermes: Hermes) -> None:
    ran = hermes("cases", "io-01")
    for expected in ("IO-01  Too few", "input.wait_share > 0.05", "num_workers=12", "90 ms to 18 ms", "Hermes, USENIX"):
        assert expected in ran.out


def test_a_lead_says_that_it_is_one(hermes: Hermes) -> None:
    lead = next(one for one in cases.cases() if one.is_lead)
    assert "A lead, to be checked" in hermes("cases", lead.id).out
    assert f"{lead.cause}  (lead)" in hermes("cases").out


def test_words_that_no_case_has_are_an_error(hermes: Hermes) -> None:
    ran = hermes("cases", "flux", "capacitor")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[0] == "hermes: no case contains the words flux and capacitor"
    near = hermes("cases", "io-99")
    assert (near.code, "IO-0" in near.err) == (2, True)
