"""`hermes chips`: the list, a chip by a driver's name, a part of a name, and a name that no chip has."""

from __future__ import annotations

import json

from tests.cli.test_cases import Hermes

from hermes.knowledge.identify_chip import CHIPS


def test_all_chips_are_listed_with_their_peaks(hermes: Hermes) -> None:
    found = json.loads(hermes("chips", "--format", "json").out)
    assert [row["chip"] for row in found["chips"]] == [*CHIPS]
    (a100,) = (row for row in found["chips"] if row["chip"] == "A100 80GB SXM")
    assert (a100["fp16_tflops"], a100["memory_bytes"], a100["memory_gb_per_second"]) == (312, 80_000_000_000, 2039)


def test_the_name_that_a_driver_gives_finds_the_chip_with_its_sources(hermes: Hermes) -> None:
    said = hermes("chips", "NVIDIA A100-SXM4-80GB").out
    assert said.startswith("A100 80GB SXM (nvidia): 108 cores")
    assert "bandwidth 2,039 GB/s: NVIDIA A100 80GB data sheet" in said


def test_a_part_of_a_name_lists_those_that_have_it(hermes: Hermes) -> None:
    found = json.loads(hermes("chips", "mi300", "--format", "json").out)
    assert (
        {"MI300X", "MI300A"} <= {row["chip"] for row in found["chips"]} <= {name for name in CHIPS if "MI300" in name}
    )


def test_each_chip_is_printed_in_both_languages(hermes: Hermes) -> None:
    for name, chip in CHIPS.items():
        for lang in ("en", "zh"):
            said = hermes("chips", name, "--lang", lang).out
            assert all(one in said for one in (name, *chip.matrix, chip.sources["bandwidth"][:30])), said


def test_a_name_that_no_chip_has_is_an_error_that_offers_others(hermes: Hermes) -> None:
    ran = hermes("chips", "H1000")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[0] == "hermes: no known chip is called H1000"
    assert "H100 SXM" in ran.err
