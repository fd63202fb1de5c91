"""The programs as people write them: each has a script, its mistake stands there, and so does what mends it."""

from __future__ import annotations

from bench.judgement.programs.__main__ import Outcome, row
from bench.judgement.programs.truth import PROGRAMS, SCRIPTS, Program
from tests.each import each

from hermes.model.fault import Fault


def test_each_script_has_a_truth_and_each_truth_a_script() -> None:
    scripts = {path.stem for path in SCRIPTS.glob("*.py")} - {"__init__"}
    assert scripts == {one.name for one in PROGRAMS}
    assert len(PROGRAMS) > 100
    assert sum(one.healthy for one in PROGRAMS) > 20


@each(PROGRAMS, lambda one: one.name)
def test_a_truth_says_what_is_wrong_where(one: Program) -> None:
    script = (SCRIPTS / f"{one.name}.py").read_text("utf-8")
    assert bool(one.mistake) != one.healthy
    assert {*one.causes} <= {fault.value for fault in Fault}
    assert [old for old, _ in one.mended if script.count(old) != 1] == []
    if one.place:
        name, _, line = one.place.partition(":")
        assert name == f"{one.name}.py"
        assert script.splitlines()[int(line) - 1].strip()


def test_an_answer_is_right_by_its_cause_or_by_the_line_that_stands_first() -> None:
    slow = Program(name="a", mistake="a loop", functions=("update",), causes=("host_loop",))
    sound = Program(name="b")
    assert Outcome(entry=slow, said="x", causes=("host_loop",)).right
    assert Outcome(entry=slow, said="x", lines=("a.py:3 `update`", "a.py:9 `main`")).right
    assert not Outcome(entry=slow, said="x", lines=("a.py:9 `main`", "a.py:3 `update`")).right
    assert Outcome(entry=sound, said="x").right
    assert not Outcome(entry=sound, said="x", causes=("straggler",)).right
    assert not Outcome(entry=sound, said="").right
    assert "not captured" in row(Outcome(entry=sound, said=""))
