"""An operator of a recording is computed again, in float64, and none that does more than compute."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.precision.drawn import Drawing, random

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.precision import compute_operator
from hermes.precision.compare import compare
from hermes.precision.replay import Replay, replay

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]


def computed(folder: Path, name: str, inputs: list[np.ndarray], args: list[Any], *outputs: np.ndarray) -> Replay:
    """The replay of one operator that both sides recorded."""
    for side in ("golden", "target"):
        drawn = Drawing(folder / side, tensors=True)
        drawn.op(name, [drawn.value(one) for one in inputs], *outputs, module="layer", args=args)
        drawn.close()
    return replay(compare(folder / "golden", folder / "target"), "layer")


def test_a_product_is_compared_with_the_exact_one(tmp_path: Path) -> None:
    one, two = random(1, 8, 8), random(2, 8, 8)
    found = computed(tmp_path, "aten.mm.default", [one, two], ["@0", "@1"], one @ two)
    assert [side.roundoffs < 8 for side in found.sides] == [True, True]
    wrong = computed(tmp_path / "wrong", "aten.mm.default", [one, two], ["@0", "@1"], one @ two * 1.5)
    assert [round(side.apart, 3) for side in wrong.sides] == [0.5, 0.5]


def test_two_sides_that_are_off_alike_are_not_called_near(tmp_path: Path) -> None:
    one, two = random(1, 8, 8), random(2, 8, 8)
    found = computed(tmp_path, "aten.mm.default", [one, two], ["@0", "@1"], one @ two * 1.5)
    assert (found.off, found.both_off, found.verdict) == (None, True, "differ")
    assert "both sides are off" in say(found.answer)
    odd = one @ two
    odd[0, 0] = np.nan
    found = computed(tmp_path / "nan", "aten.mm.default", [one, two], ["@0", "@1"], odd)
    assert found.verdict == "differ"
    assert say(found.answer) == "aten.mm.default in layer: the results of both sides are off, by inf roundoffs or more."


def test_a_nan_of_one_side_is_that_sides(tmp_path: Path) -> None:
    one, two = random(1, 8, 8), random(2, 8, 8)
    for side in ("golden", "target"):
        result = one @ two
        result[0, 0] = np.nan if side == "target" else result[0, 0]
        drawn = Drawing(tmp_path / side, tensors=True)
        drawn.op("aten.mm.default", [drawn.value(one), drawn.value(two)], result, module="l", args=["@0", "@1"])
        drawn.close()
    found = replay(compare(tmp_path / "golden", tmp_path / "target"), "l")
    assert found.off is not None
    assert (found.off.name, found.off.roundoffs) == ("target", float("inf"))


def test_a_result_that_is_rightly_infinite_is_near(tmp_path: Path) -> None:
    one = np.full(4, 1e30, np.float32)
    result = np.array([np.inf] * 4, np.float32)
    found = computed(tmp_path, "aten.mul.Tensor", [one, one], ["@0", "@1"], result)
    assert found.verdict == "agree"


def test_an_operator_that_writes_in_place_is_computed_as_the_one_that_does_not(tmp_path: Path) -> None:
    one, two = random(1, 4), random(2, 4)
    found = computed(tmp_path, "aten.add_.Tensor", [one, two], ["@0", "@1", {"alpha": 2}], one + 2 * two)
    assert found.sides[0].roundoffs < 8


def test_words_types_and_several_results_are_handed_on(tmp_path: Path) -> None:
    one = random(1, 6)
    found = computed(tmp_path, "aten.gelu.default", [one], ["@0", {"approximate": "tanh"}], one)
    assert found.sides[0].apart > 0.01
    ordered = np.sort(one)
    found = computed(tmp_path / "sort", "aten.sort.default", [one], ["@0"], ordered, np.argsort(one))
    assert found.sides[0].apart == 0


def test_no_operator_touches_a_file(tmp_path: Path) -> None:
    victim = tmp_path / "made"
    with pytest.raises(InputError, match="it takes filename, which is str"):
        computed(tmp_path, "aten.from_file.default", [], [str(victim), True, 4], random(1, 4))
    assert not victim.exists()


@pytest.mark.parametrize("name", [
    "aten.rand.default", "aten.bernoulli.p", "aten.set_.source_Storage", "aten.save.default",
    "aten.warn.default", "aten.record_stream.default", "aten.mm.out", "aten.item.default", "aten.nothing.default",
    "aten.add.__class__", "aten.__class__.mro", "aten.mm.overloads", "aten.native_dropout.default",
])  # fmt: skip
def test_what_does_more_than_compute_is_refused_with_a_reason(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not computed: it|torch has no operator"):
        compute_operator.find(importlib.import_module("torch"), name)


def test_by_its_schema_no_operator_that_is_computed_takes_a_path_a_storage_or_a_stream() -> None:
    torch: Any = importlib.import_module("torch")
    schemas = [one for one in torch._C._jit_get_all_schemas() if one.name.startswith("aten::")]
    allowed = [one for one in schemas if not compute_operator.refusal(one, ())]
    kinds = {str(one.type) for schema in allowed for one in schema.arguments if one.name != "device"}
    assert not [one for one in kinds if any(word in one for word in ("Storage", "Stream", "Device", "Any", "Dict"))]
    assert not [schema.name for schema in allowed if schema.name.endswith(("from_file", "save", "warn", "_print"))]
    names = {schema.name for schema in allowed}
    assert {"aten::mm", "aten::convolution", "aten::_softmax", "aten::native_layer_norm", "aten::embedding",
            "aten::sum", "aten::_to_copy", "aten::div", "aten::index", "aten::cat"} <= names  # fmt: skip


def test_a_result_that_outgrows_what_was_recorded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"can't allocate memory|elements"):
        computed(tmp_path, "aten.repeat.default", [random(1, 4)], ["@0", [1 << 34]], random(1, 4))
    with pytest.raises(InputError, match="it gives 40000 elements, and 4 were recorded"):
        computed(tmp_path / "less", "aten.repeat.default", [random(1, 4)], ["@0", [10_000]], random(1, 4))


CLOSED = """
import os, socket, sys, runpy
made = runpy.run_path(sys.argv[1], run_name="made")
import torch
made["_load"](torch)
made["close_in"](0)
tries = {
    "file": lambda: open(sys.argv[2], "w"), "read": lambda: open("/etc/passwd"), "socket": socket.socket,
    "memory": lambda: torch.zeros(1 << 34), "growth": lambda: os.write(int(sys.argv[3]), b"x"), "pipe": os.pipe,
    "more": lambda: made["resource"].setrlimit(made["resource"].RLIMIT_NPROC, (9, 8)),
}
for name, attempt in tries.items():
    try:
        attempt()
        print(name, "done")
    except (OSError, RuntimeError, ValueError) as refused:
        print(name, type(refused).__name__)
"""


def test_the_process_that_computes_opens_nothing_and_its_memory_is_bounded(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-c", "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)" + CLOSED,
             compute_operator.__file__, str(tmp_path / "new"), str(log.fileno())],
            capture_output=True, text=True, check=False, pass_fds=[log.fileno()], env={**os.environ},
        )  # fmt: skip
    told = dict(line.split() for line in done.stdout.splitlines())
    assert "done" not in told.values(), done.stdout
    assert set(told) == {"file", "read", "socket", "memory", "growth", "pipe", "more"}, done.stderr
    assert not (tmp_path / "new").exists()


def test_types_that_are_no_types_are_refused(tmp_path: Path) -> None:
    for word in ("torch.load", "torch.ops", "torch.serialization"):
        with pytest.raises(InputError, match="is no type of torch"):
            computed(tmp_path / word, "aten._to_copy.default", [random(1, 4)], ["@0", {"dtype": word}], random(1, 4))


def test_modules_where_it_is_started_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("torch", "json", "site", "resource"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')")
    one = random(1, 4)
    assert computed(tmp_path / "run", "aten.neg.default", [one], ["@0"], -one).sides[0].apart == 0
    assert not (tmp_path / "mark").exists()


def test_the_request_stands_in_no_argument_that_other_accounts_see(tmp_path: Path) -> None:
    seen, python = tmp_path / "seen", tmp_path / "python"
    python.write_text(f'#!/bin/sh\nprintf \'%s\\n\' "$@" > {seen}\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    one = random(1, 6)
    for side in ("golden", "target"):
        drawn = Drawing(tmp_path / side, tensors=True)
        drawn.op("aten.gelu.default", [drawn.value(one)], one, module="layer", args=["@0", {"approximate": "tanh"}])
        drawn.close()
    found = replay(compare(tmp_path / "golden", tmp_path / "target"), "layer", python=str(python))
    assert found.sides[0].apart > 0.01
    assert [line for line in seen.read_text().splitlines() if "gelu" in line or "tanh" in line] == []
