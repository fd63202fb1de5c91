"""The two rounds over the ranks: what a rank sends is small and plain, and a measure is found where it is declared."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hermes.base.number_ranges import packed, unpacked
from hermes.base.say import say
from hermes.profiles.load import Loaded
from hermes.profiles.measure import registry
from hermes.profiles.measure.registry import RankTables, every_measure, needed, per_rank
from hermes.profiles.pipeline import rank_measures as rounds
from hermes.profiles.pipeline.analyze import outlined
from hermes.profiles.pipeline.combine_ranks import combine
from hermes.profiles.pipeline.rank_exchange import exchange
from hermes.profiles.pipeline.rank_measures import measure
from hermes.profiles.pipeline.rank_outline import outline
from hermes.store.serialize_rows import dumps, loads

MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Longest:
    """The longest kernel of a rank."""

    rank: int
    ns: int


@pytest.fixture
def declared() -> Iterator[None]:
    """A measure of this test alone."""
    every_measure()

    @per_rank(Longest, needs={"kernel": ("dur_ns",)})
    def longest(rank: RankTables) -> Longest:
        return Longest(rank=rank.rank, ns=int(rank.table("kernel")["dur_ns"].to_numpy().max()))

    every_measure.cache_clear()
    needed.cache_clear()
    yield
    registry._FOUND.pop(f"{longest.__module__}.{longest.__qualname__}")
    every_measure.cache_clear()
    needed.cache_clear()


@pytest.mark.usefixtures("declared")
def test_a_measure_is_found_by_its_declaration_alone(loaded: Loaded) -> None:
    job = outlined(loaded)
    made = [measure(RankTables(rank)) for rank in loaded.ranks]
    given = job.given()
    told = [exchange(RankTables(rank), given[rank.rank], 2, alone=False) for rank in loaded.ranks]
    found = combine(job, made, told, 1.0)
    expected = [max(rank.table("kernel")["dur_ns"]) for rank in loaded.ranks]
    assert [(row.rank, row.ns) for row in found.rows(Longest)] == list(enumerate(expected))


def test_what_a_rank_sends_is_plain_and_small(loaded: Loaded) -> None:
    job = outlined(loaded)
    (rank, *_) = loaded.ranks
    sent = (
        outline(rank),
        measure(RankTables(rank)),
        exchange(RankTables(rank), job.given()[0], 2, alone=False),
    )
    raw = dumps(sent)
    assert len(raw) <= MOST_BYTES
    assert len(dumps(loads(raw))) == pytest.approx(len(raw), rel=0.01)
    assert len(dumps(pickle.loads(pickle.dumps(sent)))) == pytest.approx(len(raw), rel=0.01)


def test_the_order_in_which_ranks_come_back_does_not_matter(loaded: Loaded) -> None:
    job = outlined(loaded)
    made = [measure(RankTables(rank)) for rank in loaded.ranks]
    given = job.given()
    told = [exchange(RankTables(rank), given[rank.rank], 2, alone=False) for rank in loaded.ranks]
    there, back = combine(job, made[:], told[:], 1.0), combine(job, made[::-1], told[::-1], 1.0)
    assert len(there.kinds) > 30
    assert all(there.rows(kind) == back.rows(kind) for kind in there.kinds)
    assert there.kinds == back.kinds


def test_rows_beyond_the_bound_are_left_out_and_said(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MOST_ROWS", 3)
    found = measure(RankTables(loaded.ranks[0]))
    kinds = [type(row).__name__ for row in found.rows]
    assert max(map(kinds.count, kinds)) == 3
    assert any("rows of KernelTop; the first 3 are taken" in say(note.message) for note in found.notes)


def test_measures_on_several_threads_are_those_on_one(loaded: Loaded) -> None:
    one, four = (measure(RankTables(loaded.ranks[0]), threads=count) for count in (1, 4))
    assert dumps(one) == dumps(four)


@pytest.mark.parametrize("numbers", [(), (5,), (0, 1, 2, 3), (0, 8, 16), (0, 1, 8, 9), (3, 2, 1, 7), (1, 1, 1)])
def test_members_come_back_in_their_order(numbers: tuple[int, ...]) -> None:
    assert unpacked(packed(numbers)) == numbers


def test_ten_thousand_members_are_one_run() -> None:
    assert packed(range(10_000)) == ((0, 10_000, 1),)
    assert len(json.dumps(packed(range(0, 80_000, 8)))) < 30
