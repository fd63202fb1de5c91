"""Pages of tables say the same as the tables: order, filter, stretch, exact values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.each import each

from hermes.model.tables import TABLES
from hermes.profiles.load import Loaded, load
from hermes.store.cache import Cache
from hermes.web.analysis_session import AnalysisSession
from hermes.web.cached_columns import Numbers, ResultCache, Texts
from hermes.web.document_pages import TableRequest, safe, summary
from hermes.web.listed_tables import GROUPINGS, listed
from hermes.web.table_pages import TableBrowser


@pytest.fixture(scope="module")
def loaded(job: Path, cache: Cache) -> Loaded:
    return load([job], cache)


def kernels(loaded: Loaded) -> pl.DataFrame:
    return pl.concat([rank.table("kernel") for rank in loaded.ranks])


def test_a_sorted_page_is_that_stretch_of_the_sorted_table(client: Any, loaded: Loaded) -> None:
    rows = client.rows("table=kernel&sort=dur_ns&desc=1&offset=40&limit=25")
    expected = kernels(loaded).sort("dur_ns", descending=True)["dur_ns"].slice(40, 25).to_list()
    assert [row["dur_ns"] for row in rows] == expected


def test_pages_put_together_are_the_whole_table_once(client: Any, loaded: Loaded) -> None:
    found = [row for at in range(0, 3_000, 500) for row in client.rows(f"table=kernel&sort=name&offset={at}&limit=500")]
    whole = kernels(loaded)
    assert len(found) == min(whole.height, 3_000)
    assert len({(row["rank"], row["kernel_id"]) for row in found}) == len(found)


def test_times_beyond_a_double_come_as_text(client: Any, loaded: Loaded) -> None:
    (row,) = client.rows("table=kernel&rank=1&limit=1")
    assert row["start_ns"] == str(loaded.ranks[1].table("kernel")["start_ns"][0])


def test_every_word_of_the_filter_must_occur(client: Any, loaded: Loaded) -> None:
    page = client.json("/api/rows?table=kernel&filter=MATMUL+compute&limit=5")
    whole = kernels(loaded)
    texts = [column.name for column in TABLES["kernel"].columns if column.kind == "text"]
    joined = pl.concat_str(texts, separator="\n", ignore_nulls=True).str.to_lowercase()
    expected = whole.filter(joined.str.contains("matmul") & joined.str.contains("compute")).height
    assert 0 < page["matching"] == expected < page["total"] == whole.height


@pytest.mark.parametrize("word", ["%", "_", "' OR 1=1 --", '"', "\\", "$1", "?"])
def test_what_is_typed_is_text_and_no_pattern(client: Any, word: str, loaded: Loaded) -> None:
    from urllib.parse import quote

    page = client.json(f"/api/rows?table=kernel&filter={quote(word)}&limit=1")
    names = kernels(loaded).select(pl.col(pl.String)).to_dicts()
    words = word.lower().split()
    expected = sum(
        all(part in "\n".join(value for value in row.values() if value).lower() for part in words) for row in names
    )
    assert page["matching"] == expected


def test_an_equal_column_chooses_rows(client: Any, loaded: Loaded) -> None:
    rows = client.rows("table=kernel&rank=0&only=component=copy&limit=1000")
    assert len(rows) == loaded.ranks[0].table("kernel").filter(pl.col("component") == "copy").height > 0


def test_a_moment_shows_the_blocks_that_lived_then(client: Any, loaded: Loaded) -> None:
    blocks = loaded.ranks[0].table("allocation")
    at = blocks["alloc_ns"].sort()[blocks.height // 2]
    rows = client.rows(f"table=allocation&rank=0&first_ns={at}&last_ns={at}&limit=1000")
    lived = blocks.filter((pl.col("alloc_ns") <= at) & (pl.col("release_ns").is_null() | (pl.col("release_ns") > at)))
    assert sorted(row["bytes"] for row in rows) == sorted(lived["bytes"].to_list())
    assert 0 < lived.height < blocks.height


@pytest.mark.parametrize("query", [
    "table=nothing", "table=kernel&sort=nothing", "table=kernel&only=nothing=1", "table=kernel&rank=99",
    "table=setting&first_ns=1&last_ns=2", 'table=kernel&sort=name"', "table=../rank", "table=kernels.type&sort=nope",
    "table=steps&sort=nope",
])  # fmt: skip
def test_what_is_not_there_is_said(client: Any, query: str) -> None:
    answer = client.get(f"/api/rows?{query.replace(chr(34), '%22')}")
    assert answer.status == 404
    assert b'"error"' in answer.body


@pytest.mark.parametrize(
    "query",
    [
        "table=kernel&limit=5000",
        "table=kernel&offset=-1",
        "table=kernel&rank=x",
        "",
        "table=kernel&filter=" + "x" * 600,
    ],
)
def test_what_makes_no_sense_is_refused(client: Any, query: str) -> None:
    assert client.get(f"/api/rows?{query}").status == 422


@each(sorted(GROUPINGS))
def test_every_grouping_answers_for_one_rank_and_for_all(table: str, client: Any) -> None:
    for rank in ("", "&rank=1"):
        page = client.json(f"/api/rows?table={table}{rank}")
        assert page["matching"] == page["total"]


@each(sorted(TABLES))
def test_every_cached_table_can_be_paged(table: str, client: Any, loaded: Loaded) -> None:
    page = client.json(f"/api/rows?table={table}&rank=0")
    assert page["total"] == loaded.ranks[0].table(table).height


def test_kernels_by_type_add_up_to_the_table(client: Any, loaded: Loaded) -> None:
    rows = client.rows("table=kernels.type&limit=1000")
    whole = kernels(loaded).filter(pl.col("component").is_in(["compute", "comm", "copy"]))
    assert sum(row["total_ns"] for row in rows) == whole["dur_ns"].sum()
    assert sum(row["calls"] for row in rows) == whole.height
    assert sum(row["share"] for row in rows) == pytest.approx(1)


def test_the_deviation_of_kernels_is_that_of_the_table_and_one_call_has_none(client: Any, loaded: Loaded) -> None:
    rows = client.rows("table=kernels.name&limit=1000")
    for row in rows:
        own = kernels(loaded).filter(pl.col("name") == row["name"], pl.col("component") == row["component"])["dur_ns"]
        deviation = own.std()
        assert row["deviation_ns"] == (None if deviation is None else pytest.approx(deviation, abs=1))
    assert any(row["deviation_ns"] for row in rows)


def test_tables_that_nobody_described_are_listed_by_their_place() -> None:
    found = listed({
        "schema": "x", "host": {"syncs": [{"rank": 0, "wait_ms": 1.5}, {"rank": 1, "note": "a"}], "cores": 3},
        "deep": {"er": {"rows": [{"a": 1}]}}, "empty": [], "plain": [1, 2],
    })  # fmt: skip
    assert {key: (one.columns, len(one.rows)) for key, one in found.items()} == {
        "host.syncs": (("rank", "wait_ms", "note"), 2),
        "deep.er": (("a",), 1),
    }


def test_columns_of_mixed_kinds_sort_without_an_error(job: Path, cache: Cache) -> None:
    study = AnalysisSession([job], cache)
    study.run()
    study.document["odd"] = [{"a": value} for value in (3, "x", None, [1, 2], 2.5, True)]
    browser = TableBrowser(study)
    for descending in (False, True):
        page = browser.page(TableRequest(table="odd", sort="a", descending=descending))
        assert page.matching == 6
        assert page.rows[-1] == (None,)


def test_values_that_javascript_would_bend_become_text_or_nothing() -> None:
    assert safe({"a": [2**53, float("nan"), -(2**60), 2**53 - 1, True, None]}) == {
        "a": [str(2**53), None, str(-(2**60)), 2**53 - 1, True, None]
    }


def test_a_curve_keeps_every_peak(client: Any, loaded: Loaded) -> None:
    curve = client.json("/api/curve?table=memory&rank=0&key=PTA&buckets=7")
    rows = loaded.ranks[0].table("memory").filter(pl.col("component") == "PTA")
    points = curve["columns"]["allocated_bytes"]
    assert max(point[2] for point in points) == rows["allocated_bytes"].max()
    assert min(point[1] for point in points) == rows["allocated_bytes"].min()
    assert len(points) <= 7


def test_a_search_finds_names_on_all_ranks_the_longest_first(client: Any) -> None:
    import json

    found = json.loads(client.get("/api/search?q=matmul").body)
    totals = [one["total_ns"] for one in found]
    assert found
    assert all("matmul" in one["name"].lower() for one in found)
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize("column", ["name", "type", "input_shapes", "component"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("word", ["", "matmul"])
def test_rows_sorted_by_text_are_the_sorted_table(
    loaded: Loaded, local: Any, column: str, descending: bool, word: str
) -> None:
    """Equal texts stay in the order of the table, rows without one come last, in both directions."""
    whole = kernels(loaded)
    chosen = whole.filter(
        pl.concat_str(pl.col("name", "type"), ignore_nulls=True).str.to_lowercase().str.contains(word)
    )
    expected = chosen.sort(column, descending=descending, nulls_last=True, maintain_order=True)
    ask = TableRequest(table="kernel", sort=column, descending=descending, words=(word,) if word else (), limit=1_000)
    page = TableBrowser(local.study).page(ask)
    names = [name for name, _ in page.columns]
    at, rank, row = (names.index(name) for name in (column, "rank", "kernel_id"))
    shown = expected.select(column, "rank", "kernel_id").head(1_000).rows()
    assert [(own[at], own[rank], own[row]) for own in page.rows] == shown
    assert page.matching == expected.height


@given(
    files=st.lists(st.lists(st.one_of(st.none(), st.text(max_size=2)), max_size=12), min_size=1, max_size=3),
    descending=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_columns_of_texts_order_and_filter_rows_as_the_texts_do(
    files: list[list[str | None]], descending: bool
) -> None:
    texts = [text for own in files for text in own]
    known = sorted((one for one in enumerate(texts) if one[1] is not None), key=lambda one: one[1].encode())  # type: ignore[union-attr]
    if descending:
        known.sort(key=lambda one: one[1].encode(), reverse=True)  # type: ignore[union-attr]
    absent = [one for one in enumerate(texts) if one[1] is None]
    column = Texts.of(pl.Series("text", texts, dtype=pl.String))
    assert column.ordered(descending=descending).tolist() == [row for row, _ in known + absent]
    assert column.picked(np.arange(len(texts))) == texts
    assert column.equal("a").tolist() == [text == "a" for text in texts]
    assert column.holding("A").tolist() == ["a" in (text or "").lower() for text in texts]


@given(
    values=st.lists(st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**62), 2**62)), max_size=20),
    descending=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_columns_of_numbers_order_rows_as_the_numbers_do(values: list[int | None], descending: bool) -> None:
    known = sorted((one for one in enumerate(values) if one[1] is not None), key=lambda one: one[1])
    if descending:
        known.sort(key=lambda one: one[1], reverse=True)
    absent = [one for one in enumerate(values) if one[1] is None]
    column = Numbers(values=pl.Series("value", values, dtype=pl.Int64))
    assert column.ordered(descending=descending).tolist() == [row for row, _ in known + absent]
    assert column.picked(np.arange(len(values))) == values


def test_no_more_is_kept_than_there_is_room_for() -> None:
    room, made = ResultCache(10), []

    def of(key: str) -> str:
        return room.of(key, lambda: made.append(key) or key, lambda _: 4)  # type: ignore[func-returns-value]

    assert [of(key) for key in "aabbcca"] == list("aabbcca")
    assert made == ["a", "b", "c", "a"]


def test_what_cannot_be_made_leaves_nothing_behind() -> None:
    room = ResultCache(10)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            room.of("a", lambda: 1 / 0)
    assert not room._making
    assert room.of("a", lambda: "made") == "made"


def test_what_is_made_twice_counts_once() -> None:
    room = ResultCache(10)
    room._hold("a", "first", 6)
    room._hold("a", "second", 6)
    assert room.of("b", lambda: "b", lambda _: 4) == "b"
    assert room.of("a", lambda: pytest.fail("made again")) == "second"


def test_orders_of_long_tables_have_an_end(local: Any) -> None:
    browser = TableBrowser(local.study)
    browser._orders = ResultCache(20_000)
    found = [
        browser.page(TableRequest(table="host_op", rank=0, words=(word,), limit=0)).matching
        for word in ("a", "e", "o", "t")
    ]
    assert min(found) > 100
    assert sum(made.nbytes for made, _ in browser._orders._held.values()) <= max(20_000, 8 * max(found))
    assert len(browser.page(TableRequest(table="host_op", rank=0, limit=5)).rows) == 5
    held = set(browser._orders._held)
    browser.page(TableRequest(table="kernel", rank=0, limit=5))
    assert set(browser._orders._held) == held


def test_the_flame_view_is_that_of_a_step_with_all_its_time(client: Any, local: Any) -> None:
    answer = client.json("/api/flame?rank=1")
    frames = answer["frames"]
    assert answer["step"] in answer["steps"]
    assert all(parent < place for place, (_, _, parent, *_) in enumerate(frames))
    roots = [place for place, frame in enumerate(frames) if frame[2] < 0]
    assert roots
    for place in roots:
        assert sum(frame[4] for frame in frames if frame[2] == place) <= frames[place][4] <= 2 * answer["ns"]
    whole = client.json("/api/flame?rank=1&whole=1")
    assert whole["step"] is None
    assert whole["ns"] > 2 * answer["ns"]
    assert client.get("/api/flame?rank=1&step=999").status == 404
    assert client.get("/api/flame?rank=77").status == 404


def test_short_tables_come_with_the_document_as_they_are_asked_for(client: Any) -> None:
    found = client.json("/api/report")["pages"]
    assert {"inputs", "clocks"} <= found.keys()
    for key in list(found)[:6]:
        assert client.json(f"/api/rows?table={key}&offset=0&limit=100") == found[key]


def test_lists_of_plain_values_are_whole_and_long_tables_are_not() -> None:
    rows = [{"rank": rank, "ms": 1.0, "ranks": list(range(500))} for rank in range(500)]
    made = json.loads(summary({"coverage": {"ranks_seen": list(range(500))}, "steps": rows, "clocks": rows}))
    assert made["document"]["coverage"]["ranks_seen"] == list(range(500))
    assert len(made["document"]["clocks"]) == 500
    assert len(made["document"]["steps"]) == 1
    assert {table["key"]: table["rows"] for table in made["tables"]} == {"steps": 500, "clocks": 500}
    assert made["pages"] == {}
