"""What a recording is asked for: steps, scopes, and the configurations of the tutorial and of msProbe."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import InputError
from hermes.inside.record.options import Options, OptionsError, of_config, steps
from hermes.precision.launch_recording import environment, options, prepare

TUTORIAL = """{ "dump": {
  "common_dump_settings": { "dump_mode": "api", "dump_path": "./dump // here",
    "dump_iter": "10|20" // only these
  },
  "api_list": [ { "name": "torch.nn.functional.conv2d", "api_type": "forward" },
                { "name": "torch.nn.functional.relu", "api_type": "forward" } ] } }"""


@pytest.mark.parametrize(
    ("asked", "found"),
    [("10|20", {10, 20}), ("0-3", {0, 1, 2, 3}), ("1,5", {1, 5}), (4, {4}), (["0", "4-6"], {0, 4, 5, 6}), ("", set())],
)
def test_steps_are_spelled_in_several_ways(asked: Any, found: set[int]) -> None:
    assert steps(asked) == found


@pytest.mark.parametrize("asked", ["x", "1-", "-1", "0-99999999", "1..2"])
def test_what_is_no_step_is_refused(asked: str) -> None:
    with pytest.raises(OptionsError):
        steps(asked)


def test_the_tutorials_configuration_is_accepted_as_it_is(tmp_path: Path) -> None:
    config = tmp_path / "msprobe.json"
    config.write_text(TUTORIAL)
    found = Options(options({}, config))
    assert found.steps == {10, 20}
    assert found.out == "./dump // here"
    assert found.what == "tensors"
    assert found.wants("aten.convolution.default", "Net.conv1", "forward")
    assert found.wants("aten.relu.default", "Net", "forward")
    assert not found.wants("aten.convolution_backward.default", "Net.conv1", "backward")
    assert not found.wants("aten.addmm.default", "Net", "forward")


def test_the_tutorials_module_paths_become_a_scope() -> None:
    dump = {"common_dump_settings": {"dump_iter": "1"}, "api_list": [{"name": "my_model.layer1.0.conv1"}]}
    found = Options(of_config({"dump": dump}))
    assert found.level == "modules"
    assert found.wants("module.Conv2d", "ResNet.layer1.0.conv1", "forward")
    assert not found.wants("module.Conv2d", "ResNet.layer1.0.conv10", "forward")


def test_msprobes_configuration_is_accepted_as_it_is() -> None:
    config = {
        "task": "statistics", "dump_path": "/d", "rank": [], "step": [3, "5-6"], "level": "mix",
        "statistics": {"scope": [], "list": ["Functional.linear.0.forward"], "data_mode": ["forward"], "summary_mode":
        "md5"},
    }  # fmt: skip
    found = Options(of_config(config))
    assert (found.steps, found.level, found.what) == ({3, 5, 6}, "both", "fingerprint")
    assert found.wants("aten.addmm.default", "", "forward")
    assert not found.wants("aten.addmm.default", "", "backward")


def test_a_command_line_goes_before_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"task": "tensor", "dump_path": "/d", "step": [3]}))
    assert options({"steps": "7", "out": "here"}, config)["steps"] == "7"


@pytest.mark.parametrize(
    ("asked", "word"), [({"what": "all"}, "what"), ({"level": "L9"}, "level"), ({"steps": "x"}, "step"), ({}, "folder")]
)
def test_a_wrong_option_is_refused_by_name(asked: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        options({"out": "o", **asked} if asked else {}, None)


def test_a_ring_keeps_no_whole_tensors() -> None:
    with pytest.raises(OptionsError, match="ring"):
        Options({"ring": 3, "what": "tensors"})


def test_a_folder_with_something_in_it_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        prepare(tmp_path, 1)


def test_the_environment_asks_for_a_recording_and_keeps_the_users_path() -> None:
    found = environment(
        {"PYTHONPATH": "/mine", "HERMES_SNAPSHOT": "old"}, record={"out": "o", "steps": "1"}, snapshot=None
    )
    assert found["PYTHONPATH"].endswith(":/mine")
    assert json.loads(found["HERMES_RECORD"])["steps"] == "1"
    assert "HERMES_SNAPSHOT" not in found


@pytest.mark.live
def test_a_command_that_steps_no_optimizer_is_told_how_else_to_record(tmp_path: Path) -> None:
    nothing = [sys.executable, "-c", "pass"]
    command = [sys.executable, "-m", "hermes", "precision", "record", "-o", str(tmp_path / "out"), "--", *nothing]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0
    assert "with hermes.precision.record(OUT):" in done.stderr
