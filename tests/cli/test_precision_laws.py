"""`hermes precision` never exits with 0 on an input that is truncated, empty or unrelated."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Hermes  # type: ignore[import-not-found]
from tests.precision.drawn import Drawing, random
from tests.precision.test_check import PLAIN, write
from tests.precision.test_compare import network
from tests.precision.test_msprobe import network as dumped


def whole(folder: Path) -> Path:
    return network(folder, tensors=True)


def unrelated(folder: Path) -> Path:
    draw = Drawing(folder, tensors=True)
    draw.op("aten.linalg_qr.default", [draw.value(random(7, 3, 3))], random(8, 3, 3), random(9, 3, 3), module="Other")
    return draw.close()


def empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def without_operators(folder: Path) -> Path:
    return Drawing(folder).close()


def truncated(folder: Path) -> Path:
    index = whole(folder) / "rank0" / "index.jsonl"
    index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])
    return folder


SIDES = pytest.mark.parametrize("swapped", [False, True], ids=["as target", "as golden run"])


@SIDES
@pytest.mark.parametrize("other", [unrelated, empty, without_operators, truncated])
@pytest.mark.parametrize("command", ["compare", "replay"])
def test_a_recording(
    hermes: Hermes, tmp_path: Path, command: str, other: Callable[[Path], Path], *, swapped: bool
) -> None:
    sides = [whole(tmp_path / "whole"), other(tmp_path / "other")]
    done = hermes("precision", command, *sides[:: -1 if swapped else 1])
    assert done.code in (1, 2), done.out
    assert "Traceback" not in done.err
    if command == "compare" and other in (without_operators, truncated):
        assert done.code == 1
        said = " ".join(done.out.split())
        assert "Nothing of the runs was compared:" in said or "Only a part of the golden run was compared:" in said


@SIDES
@pytest.mark.parametrize("content", [b"", b"{", b'{"data": {}}', b'{"data": {"Torch.other.0.forward": {}}}'])
def test_a_dump_of_msprobe(hermes: Hermes, tmp_path: Path, content: bytes, *, swapped: bool) -> None:
    sides = [dumped(tmp_path / "a"), dumped(tmp_path / "b")]
    (sides[1] / "step0/rank0/dump.json").write_bytes(content)
    assert hermes("precision", "compare", *sides[:: -1 if swapped else 1]).code in (1, 2)


def packed(path: Path, **files: bytes) -> Path:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    path.write_bytes(held.getvalue())
    return path


def _cut(path: Path) -> Path:
    path.write_bytes(write(path, PLAIN).read_bytes()[:-40])
    return path


@SIDES
@pytest.mark.parametrize(
    "other",
    [
        lambda path: write(path, {"format": PLAIN["format"]}), _cut, packed,
        lambda path: packed(path, env=b"{}"), lambda path: packed(path, env=b"{}", pip=b"torch=1.0"),
        lambda path: write(path, {name: value for name, value in PLAIN.items() if name != "parameters"}),
        lambda path: write(path, {**PLAIN, "failed": ["parameters: ValueError"]}),
    ],
    ids=["empty", "cut", "empty zip", "empty pack", "pack of packages", "without parameters", "not whole"],
)  # fmt: skip
def test_a_snapshot(hermes: Hermes, tmp_path: Path, other: Callable[[Path], Path], *, swapped: bool) -> None:
    sides = [write(tmp_path / "a.zip", PLAIN), other(tmp_path / "b.zip")]
    done = hermes("precision", "check", *sides[:: -1 if swapped else 1], "--format", "json")
    assert done.code in (1, 2), done.out


def test_what_is_whole_and_the_same_exits_with_0(hermes: Hermes, tmp_path: Path) -> None:
    for one, two, command in (
        (whole(tmp_path / "a"), whole(tmp_path / "b"), "compare"),
        (dumped(tmp_path / "c"), dumped(tmp_path / "d"), "compare"),
        (write(tmp_path / "a.zip", PLAIN), write(tmp_path / "b.zip", PLAIN), "check"),
    ):  # fmt: skip
        assert hermes("precision", command, one, two).code == 0
