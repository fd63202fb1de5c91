"""Names may be any text: whatever an input calls its groups, streams, ranks, steps and operators, it is read.

Every place of a file where a text or a number stands is one that another maker may fill otherwise.
"""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.each import sampled

from hermes.base.units import INT64_MAX, whole_number
from hermes_testing import Job, generate

ODD: tuple[Any, ...] = (
    "", " ", "²", "٣", "-1", "1e9", "9" * 30, "9" * 5_000, "nan", "pp0", "a@b@c", "__", "x__y", "hcom_a__²_0_1",
    "hcom_allReduce__706", "#", "ProfilerStep#", "ProfilerStep#²", "ProfilerStep#" + "9" * 30, "Group ² Communication",
    "Group Communication", "Plane", "-", "3-", "-3", "0-²", "0x1", "1_000", "+1", "1.0", "None", "step", "step²",
    "stream ²", "🦆", "'", "%s {} \\", "a:b", "a/b", ";;", "[[", "2,3;", 0, -1, 2**63, 1.5, None, True, [], {}, ["1"],
)  # fmt: skip
TEXTS = [one for one in ODD if isinstance(one, str)]
SHARE = 0.15
"""Of the kinds of places each is filled otherwise by this chance, so that some of a file are still good."""


class Odd:
    """Chooses for each kind of place in a file whether it is filled otherwise, and by what."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, place: str, value: Any, among: Any = ODD) -> Any:
        """The same value in some places of a kind, another for others of it."""
        chance = random.Random(f"{self._seed} {place}")
        if chance.random() >= SHARE:
            return value
        return random.Random(f"{self._seed} {place} {str(value)[:40]}").choice(among)


def in_json(odd: Odd, value: Any, place: str) -> Any:
    if isinstance(value, dict):
        made = {}
        for key, one in value.items():
            # Keys are names where they vary: those of groups and operations, and steps.
            varies = re.sub(r"[0-9]+", "#", key) != key
            name = odd(f"{place} keys", key, TEXTS) if varies or "@" in key else key
            made[name] = in_json(odd, one, f"{place}.{re.sub('[0-9]+', '#', key)}")
        return made
    if isinstance(value, list):
        return [in_json(odd, one, f"{place}[]") for one in value]
    return odd(place, value) if value is None or isinstance(value, (str, int, float)) else value


def in_file(odd: Odd, path: Path) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps(in_json(odd, json.loads(path.read_text()), path.name)))
    elif path.suffix == ".csv":
        with path.open(newline="") as text:
            head, *rows = list(csv.reader(text))
        with path.open("w", newline="") as text:
            made = csv.writer(text)
            made.writerow(head)
            made.writerows(
                [odd(f"{path.name} {name}", cell, TEXTS) for name, cell in zip(head, row, strict=False)] for row in rows
            )
    elif path.suffix == ".db":
        in_database(odd, path)


def in_database(odd: Odd, path: Path) -> None:
    database = sqlite3.connect(path)
    database.create_function("odd", 2, lambda place, value: _for_sqlite(odd(place, value)))
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for _, column, _, _, _, of_key in database.execute(f'PRAGMA table_info("{table}")').fetchall():
            if of_key:
                continue  # SQLite itself takes nothing but a number there.
            place = f"{path.name} {table}.{column}"
            database.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = odd(?, "{column}")', (place,))
    database.commit()
    database.close()


def _for_sqlite(value: Any) -> Any:
    fits = not isinstance(value, int) or abs(value) <= INT64_MAX
    return value if isinstance(value, (str, int, float, type(None))) and fits else str(value)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("good")

    def made(form: Any) -> Path:
        if not (root / form).exists():
            generate(root / form, Job(ranks=2, steps=2, layers=1, tp=2), formats=[form])
        return root / form

    return made


FORMATS = ("ascend-text", "ascend-db", "kineto", "ascend-raw")


@pytest.mark.parametrize(
    ("form", "seed"), sampled([(form, seed) for form in FORMATS for seed in range(8)],
                              *[(form, seed) for form in FORMATS for seed in range(2)])
)  # fmt: skip
def test_odd_names_are_read(
    form: str, seed: int, good: Callable[[str], Path], hermes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HERMES_TRACEBACK", "1")
    folder = shutil.copytree(good(form), tmp_path / "job")
    odd = Odd(seed)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "truth.json":
            in_file(odd, path)
    ended = hermes("analyze", folder, "-o", tmp_path / "out")
    assert ended.code in (0, 2), ended.err


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_a_whole_number_or_none(text: str) -> None:
    number = whole_number(text)
    assert number is None or (0 <= number <= INT64_MAX and text.isascii() and int(text) == number)


def test_numbers_of_64_bits_are_whole() -> None:
    assert [whole_number(text) for text in ("0", "007", str(INT64_MAX), str(INT64_MAX + 1))] == [0, 7, INT64_MAX, None]
    assert whole_number("0" * 5_000 + "7") == 7


def test_groups_keep_the_names_that_a_file_gives(good: Callable[[str], Path], hermes: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(good("ascend-text"), tmp_path / "job")
    for path in folder.rglob("communication*.json"):
        keys = sorted(set(re.findall(r"@(\d+)", path.read_text())))
        assert keys
        text = path.read_text()
        for number, key in enumerate(keys):
            text = text.replace(f"@{key}", f"@dp{number}")
        path.write_text(text)
    for path in folder.rglob("trace_view.json"):
        path.write_text(re.sub(r"Group \d{7,} Communication", "Group 0 Communication", path.read_text()))
    assert hermes("analyze", folder).code == 0
    listed = hermes("sql", folder, 'select distinct "group" from comm_op order by 1', "--format", "csv")
    assert "dp0" in listed.out.split()
    assert not [one for one in listed.out.split() if "…" in one]
