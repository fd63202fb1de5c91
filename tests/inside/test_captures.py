"""A capture whose Python stacks outgrow the largest trace begins again without them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.patience import until

from hermes.inside.profile import captures as captures_module
from hermes.inside.profile.captures import Captures
from hermes.inside.wire.control import Control

pytestmark = pytest.mark.live


@dataclass
class Recorder:
    """Stands for a profiler: with stacks, each recorded step takes 600 bytes of the trace."""

    folder: Path
    stacks: bool
    did: list[str] = field(default_factory=list)
    steps: int = 0

    def start(self) -> None:
        self.did.append("start with stacks" if self.stacks else "start")

    def mark(self, step: int) -> None:
        self.did.append(f"mark {step}")
        self.steps += 1

    def note(self, name: str, value: object) -> None:
        pass

    def stop(self) -> None:
        self.did.append("stop")

    def save(self) -> Path:
        return self.folder / "trace"

    def discard(self) -> None:
        self.did.append("discard")

    def needed_bytes(self, calls: int = 0) -> int:
        return 0

    def file_bytes(self) -> int:
        return 600 * self.steps if self.stacks else 0


@pytest.mark.parametrize(
    ("largest", "named", "wanted"),
    [
        (1_000, False, ["start with stacks", "mark 9", "discard", "start", "mark 10", "mark 11", "stop"]),
        (2_000, False, ["start with stacks", "mark 9", "mark 10", "stop"]),
        (1_000, True, ["start with stacks", "mark 9", "mark 10", "stop"]),
    ],
    ids=["too large", "small enough", "asked for by name"],
)
def test_stacks_that_outgrow_the_largest_trace_in_the_first_step_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int, named: bool, wanted: list[str]
) -> None:
    did: list[str] = []
    monkeypatch.setattr(captures_module, "choose", lambda *_, stacks: Recorder(tmp_path, stacks=stacks, did=did))
    monkeypatch.setattr(captures_module, "_READY_S", 60.0)
    monkeypatch.setattr(captures_module, "free_bytes", lambda: None)
    control = Control.create(tmp_path / "control", {"job": "a"})
    captures = Captures(control, control.claim(0), 0, lambda _: None)
    control.ask(captures_module.Request(
        action="profile", start_step=9, steps=2, level="standard", reason="", out=str(tmp_path / "out"),
        deadline_ns=1 << 61, largest_bytes=largest, options={"stack": "yes"} if named else {},
    ))  # fmt: skip
    for step in range(5, 13):
        captures.poll(step, 10)
    until(lambda: captures.poll(13, 10) is False and control.slots()[0].state == "finished", 60)
    assert did == wanted
    assert ("without Python stacks" in control.slots()[0].text) is ("start" in wanted)
