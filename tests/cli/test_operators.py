"""`hermes operators` in each of its forms; the script that it writes runs, where PyTorch is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.shared_jobs import TWO, Jobs

from hermes.cli.operators import run
from hermes.knowledge import run_operators
from hermes.report.operator_work import as_script


def said(*arguments: str) -> str:
    result = CliRunner().invoke(run, [*arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_each_operator_stands_with_its_cost_its_limit_and_what_to_try(jobs: Jobs) -> None:
    text = said(str(jobs.folder(TWO, "ascend-db")), "--most", "3")
    assert text.count("limited by") == 3
    assert " of compute), " in text


def test_json_and_the_list_for_the_tuner_name_the_same_operators(jobs: Jobs) -> None:
    path = str(jobs.folder(TWO, "ascend-db"))
    listed = json.loads(said(path, "--format", "json"))
    assert listed["schema"] == "hermes.operators/1"
    tuned = json.loads(said(path, "--format", "tuning"))
    assert tuned == {"tune_ops_type": [*dict.fromkeys(one["operator"] for one in listed["operators"])]}


def test_what_ran_alone_stands_beside_the_time_in_the_step(jobs: Jobs, tmp_path: Path) -> None:
    path = str(jobs.folder(TWO, "ascend-db"))
    first = json.loads(said(path, "--format", "json", "--most", "1"))["operators"][0]
    line = {name: first[name] for name in ("operator", "shapes", "dtypes")} | {"median_us": 12.5}
    (tmp_path / "alone.json").write_text(json.dumps(line) + '\n{"not_run": "why"}\n')
    assert "; alone 12.5 us" in said(path, "--most", "1", "--alone", str(tmp_path / "alone.json"))


def test_what_msprof_op_measured_stands_beside_the_calls_of_the_step(jobs: Jobs, tmp_path: Path) -> None:
    path = str(jobs.folder(TWO, "ascend-db"))
    first = json.loads(said(path, "--format", "json", "--most", "1"))["operators"][0]["operator"]
    (tmp_path / "OpBasicInfo.csv").write_text(
        f"Op Name,Op Type,Task Duration(us),Block Dim\n{first}_1e04_mix_aic,mix,7.5,20\n"
    )
    text = said(path, "--most", "1", "--alone", str(tmp_path))
    assert f"{first}_1e04_mix_aic  7.50 us, 20 blocks" in text
    assert "in the step: " in text
    (alone,) = json.loads(said(path, "--format", "json", "--most", "1", "--alone", str(tmp_path)))["alone"]
    assert (alone["duration_ns"], alone["operators"]) == (7500, [first])


@pytest.mark.parametrize("text", ["{", "[]", '{"median_us": 1}', '{"median_us": "x", "operator": "a"}', "\x00"])
def test_what_the_script_did_not_print_is_refused(text: str, jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "alone.json").write_text(text)
    result = CliRunner().invoke(run, [str(jobs.folder(TWO, "ascend-db")), "--alone", str(tmp_path / "alone.json")])
    assert result.exit_code != 0


def test_the_script_holds_the_cases_and_is_python(jobs: Jobs) -> None:
    text = said(str(jobs.folder(TWO, "ascend-db")), "--format", "script", "--most", "4")
    compile(text, "run_operators.py", "exec")
    assert '"operator": ' in text.split("CASES", 2)[1]
    assert as_script(()).replace("[\n]", "[]") == Path(run_operators.__file__).read_text("utf-8")


CASES = [
    ("aten::mm", "64,32;32,16", "float;float"),
    ("aten::addmm", "16;8,32;32,16;;", "float;float;float;Scalar;Scalar"),
    ("aten::cat", "4,8;4,8;", "TensorList;Scalar"),
    ("aten::native_layer_norm", "2,8,16;;16;16;", "float;ScalarList;float;float;Scalar"),
    ("aten::index_select", "100,8;;12", "float;Scalar;long int"),
    ("MatMulV2", "8,32;16,32;16", "FLOAT;FLOAT;FLOAT"),
    ("aten::no_such_thing", "4", "float"),
]


@pytest.mark.live
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_operators_run_alone_and_those_that_cannot_say_why(tmp_path: Path) -> None:
    cases = [{"operator": one, "shapes": two, "dtypes": three, "median_us": 1.0} for one, two, three in CASES]
    text = Path(run_operators.__file__).read_text("utf-8").replace("Any]] = []", f"Any]] = {cases!r}")
    (tmp_path / "run.py").write_text(text)
    made = subprocess.run([sys.executable, tmp_path / "run.py", "--repeats", "2"], capture_output=True, check=True)
    lines = [json.loads(line) for line in made.stdout.splitlines()]
    assert [line["operator"] for line in lines if line.get("median_us", 0) > 0] == [one for one, _, _ in CASES[:-1]]
    assert lines[-1]["not_run"] == "PyTorch has no operator of this name here"
