"""Setups that differ are told apart by what matters; msProbe's packs are read too."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.inside.record.layout import SNAPSHOT
from hermes.precision.api import Check, check

PLAIN: dict[str, Any] = {
    "format": SNAPSHOT,
    "environment": {"NCCL_ALGO": "Ring", "HOME": "/a"},
    "packages": {"torch": "2.13.0", "numpy": "2.0", "left": "1"},
    "command": {"arguments": ["train.py", "--lr", "0.1", "--out", "x"], "configurations": {}},
    "random": {"torch": "aa", "torch seed": 0, "numpy": "bb", "python": "cc"},
    "batches": [
        {
            "model": "Net",
            "random": "aa",
            "tensors": [{"shape": [2], "dtype": "float32", "print": "1", "unordered": "9"}],
        },
        {"model": "Net", "random": "ab", "tensors": []},
    ],
    "parameters": {
        "Net.w": {"kind": "parameter", "trained": True, "shape": [2], "dtype": "float32", "print": "7"},
        "Net.b": {"kind": "parameter", "trained": True, "shape": [2], "dtype": "float32", "print": "8"},
    },
    "loaders": [{"sampler": "SequentialSampler", "drop_last": False, "workers": 2}],
    "optimizers": [{"type": "AdamW", "groups": [{"lr": 0.1, "weight_decay": 0.0, "tensors": 2}]}],
    "policy": {"cudnn.allow_tf32": True},
}


def write(path: Path, found: Any) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("snapshot.json", json.dumps(found))
    return path


def changed(tmp_path: Path, change: Callable[[Any], object]) -> Check:
    other = copy.deepcopy(PLAIN)
    change(other)
    return check(write(tmp_path / "a.zip", PLAIN), write(tmp_path / "b.zip", other))


def test_equal_setups_have_no_difference(tmp_path: Path) -> None:
    found = changed(tmp_path, lambda other: None)
    assert (found.differences, found.verdict, say(found.answer)) == ((), "agree", "The setups of both runs are equal.")


@pytest.mark.parametrize(
    ("change", "severity", "part", "word"),
    [
        (lambda o: o["random"].update({"torch seed": 1, "torch": "zz"}), "error", "random", "seed is 1 instead of 0"),
        (lambda o: o["random"].update({"torch": "zz"}), "error", "random", "drew more"),
        (lambda o: o["batches"][1].update(random="zz"), "error", "random", "from batch 1 on"),
        (lambda o: o["batches"][0]["tensors"][0].update(print="2"), "error", "data", "another order"),
        (lambda o: o["batches"][0]["tensors"][0].update(print="2", unordered="3"), "error", "data", "other elements"),
        (lambda o: o["parameters"].pop("Net.b"), "error", "parameters", "1 parameter only in the golden run: Net.b"),
        (
            lambda o: o["parameters"]["Net.w"].update(print="0"),
            "error",
            "parameters",
            "1 parameter with other values: Net.w",
        ),
        (
            lambda o: o["optimizers"][0]["groups"][0].update(weight_decay=0.1),
            "error",
            "optimizer",
            "weight_decay is 0.1",
        ),
        (lambda o: o["loaders"][0].update(drop_last=True), "error", "data", "drop_last is True"),
        (lambda o: o["loaders"][0].update(workers=4), "warning", "data", "workers is 4"),
        (lambda o: o["policy"].update({"cudnn.allow_tf32": False}), "error", "arithmetic", "allow_tf32 is False"),
        (lambda o: o["command"]["arguments"].__setitem__(2, "0.2"), "error", "configuration", "--lr is 0.2"),
        (lambda o: o["command"]["arguments"].__setitem__(4, "y"), "note", "configuration", "--out is y"),
        (lambda o: o["environment"].update(NCCL_ALGO="Tree"), "error", "environment", "HCCL_ALGO is Tree"),
        (lambda o: o["packages"].update(numpy="1.26"), "warning", "packages", "numpy is 1.26 instead of 2.0"),
        (lambda o: o["packages"].update(left="2"), "note", "packages", "left is 2 instead of 1"),
    ],
)
def test_a_difference_has_its_severity(
    tmp_path: Path, change: Callable[[Any], object], severity: str, part: str, word: str
) -> None:
    (found,) = changed(tmp_path, change).differences
    assert (found.severity, found.part) == (severity, part)
    assert word in say(found.what)


def test_the_worst_comes_first(tmp_path: Path) -> None:
    found = changed(tmp_path, lambda o: (o["packages"].update(left="2"), o["parameters"].pop("Net.b")))
    assert [one.severity for one in found.differences] == ["error", "note"]


def test_a_pack_of_msprobe_with_a_missing_parameter_is_an_error(tmp_path: Path) -> None:
    entry = {"max": 1.0, "min": 0.0, "mean": 0.5, "norm": 1.0}
    for name, weights in (("a", {"w": entry, "b": entry}), ("b", {"w": entry})):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as file:
            file.writestr("env", "{}")
            file.writestr("pip", "torch=2.13.0\n")
            file.writestr("weights/step0/rank0/weight.json", json.dumps(weights))
    (found,) = check(tmp_path / "a.zip", tmp_path / "b.zip").differences
    assert (found.severity, found.part) == ("error", "parameters")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04junk", b"{}"])
def test_what_is_no_snapshot_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(InputError):
        check(tmp_path / "a.zip", write(tmp_path / "b.zip", PLAIN))


@pytest.mark.parametrize("wrong", [[], {"format": "x"}, {**PLAIN, "parameters": []}])
def test_a_snapshot_of_another_make_is_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InputError):
        check(write(tmp_path / "a.zip", wrong), write(tmp_path / "b.zip", PLAIN))
