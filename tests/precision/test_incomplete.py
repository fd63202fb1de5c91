"""Two runs agree only where everything in the golden run was met: what is missing is said first, with exit code 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.precision.test_check import PLAIN, write
from tests.precision.test_compare import X, both, chain, network

from hermes.precision.api import Comparison, check, compare


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rank0" / "index.jsonl").read_text().splitlines()]


def rewrite(folder: Path, found: list[dict[str, Any]]) -> None:
    (folder / "rank0" / "index.jsonl").write_text("\n".join(map(json.dumps, found)) + "\n")


def gaps(found: Comparison) -> set[str]:
    return {one.identifier.removeprefix("precision.") for one in found.gaps}


def changed(tmp_path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Comparison:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target")
    rewrite(target, change(lines(target)))
    return compare(golden, target, jobs=1)


def test_a_target_that_crashed_in_its_forward_pass_is_no_agreement(tmp_path: Path) -> None:
    def cut(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return found[: [line.get("op") for line in found].index("aten.tanh.default")]

    found = changed(tmp_path, cut)
    assert (found.verdict, found.first) == ("incomplete", None)
    assert gaps(found) == {"gap.operators", "gap.end"}
    assert found.answer.identifier == "precision.incomplete"
    assert next(one["n"] for one in found.gaps if one.identifier == "precision.gap.operators") == 4


def test_a_target_without_operators_is_no_agreement(tmp_path: Path) -> None:
    found = changed(tmp_path, lambda found: [line for line in found if "op" not in line])
    assert (found.verdict, found.answer.identifier) == ("incomplete", "precision.incomplete.nothing")


def test_a_target_whose_operators_have_other_names_is_no_agreement(tmp_path: Path) -> None:
    def rename(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**line, "op": f"mine.{at}.default"} if "op" in line else line for at, line in enumerate(found)]

    found = changed(tmp_path, rename)
    assert (found.verdict, found.answer.identifier) == ("incomplete", "precision.incomplete.nothing")


def test_a_target_with_no_number_recorded_is_no_agreement(tmp_path: Path) -> None:
    def bare(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{name: value for name, value in line.items() if name != "stats"} for line in found]

    assert gaps(changed(tmp_path, bare)) == {"gap.values", "gap.nothing"}


def test_steps_and_ranks_that_the_target_lacks_are_said(tmp_path: Path) -> None:
    for side, ranks in (("golden", (0, 1)), ("target", (0,))):
        for rank in ranks:
            network(tmp_path / side / str(rank), rank=rank)
            (tmp_path / side / str(rank) / f"rank{rank}").rename(tmp_path / side / f"rank{rank}")
    found = compare(tmp_path / "golden", tmp_path / "target", jobs=1)
    assert (found.verdict, gaps(found), found.gaps[0]["rank"]) == ("incomplete", {"gap.steps"}, 1)
    # What only the target has is no part of the golden run.
    assert compare(tmp_path / "target", tmp_path / "golden", jobs=1).verdict == "agree"


def test_a_golden_run_that_is_cut_off_shows_nothing_of_its_rest(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "golden", whole=False), network(tmp_path / "target")
    found = compare(golden, target, jobs=1)
    assert (found.verdict, gaps(found)) == ("incomplete", {"gap.end"})


def test_a_last_step_that_ends_on_neither_side_is_met_where_its_operators_are(tmp_path: Path) -> None:
    golden, target = (network(tmp_path / name, whole=False) for name in ("golden", "target"))
    assert compare(golden, target, jobs=1).verdict == "agree"
    found = lines(target)
    rewrite(target, found[:-1])
    assert gaps(compare(golden, target, jobs=1)) == {"gap.operators"}


def test_lines_of_the_golden_run_that_cannot_be_read_are_no_agreement(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target")
    index = golden / "rank0" / "index.jsonl"
    text = index.read_text().splitlines()
    text.insert(-1, "{ damaged")
    index.write_text("\n".join(text) + "\n")
    assert gaps(compare(golden, target, jobs=1)) == {"gap.damaged"}


def test_a_fused_operator_meets_those_that_it_stands_for(tmp_path: Path) -> None:
    parts = [("aten.neg.default", ["x"], "a", -X), ("aten.exp.default", ["a"], "b", np.exp(-X)),
             ("aten.sin.default", ["b"], "c", np.sin(np.exp(-X)))]  # fmt: skip
    fused = [("npu.neg_exp.default", ["x"], "b", np.exp(-X)), parts[-1]]
    found = compare(chain(tmp_path / "a", *parts), chain(tmp_path / "b", *fused), jobs=1)
    assert (found.verdict, found.gaps) == ("agree", ())


def test_a_result_that_nobody_uses_is_missing_where_the_target_does_not_compute_it(tmp_path: Path) -> None:
    kept = ("aten.sin.default", ["x"], "a", np.sin(X))
    golden = chain(tmp_path / "a", kept, ("aten.exp.default", ["x"], "b", np.exp(X)))
    found = compare(golden, chain(tmp_path / "b", kept), jobs=1)
    assert (found.verdict, gaps(found), found.gaps[0]["operator"]) == (
        "incomplete", {"gap.operators"}, "aten.exp.default"
    )  # fmt: skip


def test_a_copy_that_nobody_uses_need_not_be_in_the_target(tmp_path: Path) -> None:
    kept = ("aten.sin.default", ["x"], "a", np.sin(X))
    golden = chain(tmp_path / "a", kept, ("aten.detach.default", ["a"], "b", np.sin(X)))
    assert compare(golden, chain(tmp_path / "b", kept), jobs=1).verdict == "agree"


def test_an_inserted_operator_of_the_target_leaves_the_golden_run_met(tmp_path: Path) -> None:
    assert both(tmp_path, insert=0).verdict == "agree"


def snapshot(path: Path, found: dict[str, Any]) -> Path:
    return write(path, {"format": PLAIN["format"], **found})


CUT = {name: value for name, value in PLAIN.items() if name not in ("optimizers", "policy", "parameters")}
OTHER = {**PLAIN, "parameters": {"Else.w": {"shape": [3], "dtype": "float32", "print": "1"}}}


@pytest.mark.parametrize(("found", "verdict"), [({}, "incomplete"), (CUT, "incomplete"), (OTHER, "differ")],
                         ids=["empty", "truncated", "unrelated"])  # fmt: skip
def test_a_snapshot_that_lacks_what_the_golden_one_has_is_no_agreement(
    tmp_path: Path, found: dict[str, Any], verdict: str
) -> None:
    golden, target = write(tmp_path / "a.zip", PLAIN), snapshot(tmp_path / "b.zip", found)
    shown = check(golden, target)
    assert (shown.verdict, bool(shown.gaps)) == (verdict, verdict == "incomplete")


def test_two_empty_snapshots_are_no_agreement(tmp_path: Path) -> None:
    sides = [snapshot(tmp_path / name, {}) for name in ("a.zip", "b.zip")]
    assert [one.identifier for one in check(*sides).gaps] == ["precision.check.gap.nothing"]


def test_a_snapshot_with_fewer_batches_is_no_agreement(tmp_path: Path) -> None:
    golden = write(tmp_path / "a.zip", PLAIN)
    target = snapshot(tmp_path / "b.zip", {**PLAIN, "batches": PLAIN["batches"][:1]})
    assert [one.identifier for one in check(golden, target).gaps] == ["precision.check.gap.batches"]
