"""The file that torch_npu watches: its keys and values, and what is never written over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hermes.base.errors import HermesError, InputError, QueryError
from hermes.cli import main
from hermes.jobs.dynamic_config import FILE, ProfileRequest, config, write_config

# As torch_npu 2.13.0 makes it when a job starts.
MADE = """
{"activities":["CPU","NPU"],"prof_dir":"./","analyse":false,"async_mode":false,"record_shapes":false,
 "profile_memory":false,"with_stack":false,"with_flops":false,"with_modules":false,
 "active":1,"warmup":0,"start_step":0,"is_rank":false,"rank_list":[],
 "experimental_config":{"profiler_level":"Level0","aic_metrics":"AiCoreNone","l2_cache":false,"op_attr":false,
   "gc_detect_threshold":null,"data_simplification":true,"record_op_args":false,"export_type":["text"],
   "msprof_tx":false,"mstx":false,"host_sys":[],"mstx_domain_include":[],"mstx_domain_exclude":[],
   "sys_io":false,"sys_interconnection":false}}
"""
WHEEL = Path(__file__).parents[1] / "inside" / "torch_npu-2.13.0.json"


def asked(**changes: object) -> ProfileRequest:
    plain = {"steps": 2, "level": "standard", "out": Path("/out"), "options": {}}
    return ProfileRequest(**{**plain, **changes})  # type: ignore[arg-type]


def test_the_keys_are_those_of_the_file_that_torch_npu_makes() -> None:
    made, ours = json.loads(MADE), config(asked())
    assert ours.keys() == made.keys()
    assert ours["experimental_config"].keys() == made["experimental_config"].keys()  # type: ignore[attr-defined]


@pytest.mark.parametrize("level", ["light", "standard", "full"])
def test_the_values_are_names_that_the_wheel_knows(level: str) -> None:
    wheel = json.loads(WHEEL.read_text())
    inner: dict[str, object] = config(asked(level=level))["experimental_config"]  # type: ignore[assignment]
    assert inner["profiler_level"] in wheel["ProfilerLevel"]
    assert inner["aic_metrics"] in wheel["AiCMetrics"]
    assert inner.keys() <= {name for name, *_ in wheel["_ExperimentalConfig"]["__init__"]}


def test_a_wish_is_said_in_its_words() -> None:
    ours = config(asked(ranks=(0, 3), start_step=70, options={"memory": "yes", "aic_metrics": "Memory"}))
    assert (ours["active"], ours["start_step"], ours["is_rank"], ours["rank_list"]) == (2, 70, True, [0, 3])
    assert (ours["profile_memory"], ours["with_stack"], ours["record_shapes"]) == (True, True, True)
    assert config(asked(options={"stack": "no"}))["with_stack"] is False
    assert ours["experimental_config"]["aic_metrics"] == "Memory"  # type: ignore[index]
    assert config(asked())["start_step"] == -1


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(QueryError, match="no level 'deep'"):
        config(asked(level="deep"))


def test_a_file_that_asks_for_nothing_is_replaced_whole_and_later(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text(MADE)
    path.chmod(0o644)
    before = int(path.stat().st_mtime)
    assert write_config(tmp_path, asked(), replace=False) == path
    assert json.loads(path.read_text()) == config(asked())
    # torch_npu compares whole seconds.
    assert int(path.stat().st_mtime) > before
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    write_config(tmp_path, asked(), replace=False)
    assert json.loads((tmp_path / FILE).read_text())["prof_dir"] == "/out"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (MADE.replace('"start_step":0', '"start_step":70'), "from step 70"),
        (MADE.replace('"start_step":0', '"start_step":-1'), "from the next step"),
        ("{", "cannot be read"),
        ("[]", "is no configuration"),
        ('{"start_step": "0"}', "is no configuration"),
    ],
)
def test_a_file_in_use_or_of_others_stays_unless_told(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / FILE
    path.write_text(text)
    with pytest.raises(InputError, match=why):
        write_config(tmp_path, asked(), replace=False)
    assert path.read_text() == text
    write_config(tmp_path, asked(), replace=True)
    assert json.loads(path.read_text()) == config(asked())


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this folder does not exist"):
        write_config(tmp_path / "absent", asked(), replace=False)


def test_the_command_writes_the_file_for_the_ranks_and_steps_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--steps", "3", "--level", "light", "--ranks", "1-2", "--start-step", "9", "--mstx"]
    monkeypatch.setattr("sys.argv", ["hermes", "profile", "--dynamic-config", str(tmp_path), *words])
    main()
    assert capsys.readouterr().out.startswith(f"written: {tmp_path / FILE}\n")
    wish = asked(steps=3, level="light", ranks=(1, 2), start_step=9, out=tmp_path, options={"mstx": "yes"})
    assert json.loads((tmp_path / FILE).read_text()) == config(wish)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--replace"], "--replace needs --dynamic-config"),
        (["--every", "9"], "--every needs --kineto-daemon"),
        (["--dynamic-config", ".", "train-1-2"], "JOB cannot be used with --dynamic-config"),
        (["--dynamic-config", ".", "--every", "9"], "--every cannot be used with --dynamic-config"),
        (["--dynamic-config", ".", "--kineto-daemon"], "--kineto-daemon cannot be used with --dynamic-config"),
        (["--kineto-daemon", "--cancel"], "--cancel cannot be used with --kineto-daemon"),
        (["--kineto-daemon", "--memory"], "--memory cannot be used with --kineto-daemon"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: list[str], why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["hermes", "profile", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_what_levels_leave_out_can_be_asked_for() -> None:
    inner = config(asked(options={"l2_cache": "yes", "host_sys": "cpu", "gc_detect_threshold": "2"}))
    experimental: dict[str, object] = inner["experimental_config"]  # type: ignore[assignment]
    assert (experimental["l2_cache"], experimental["host_sys"], experimental["gc_detect_threshold"]) == (
        True, ["cpu"], 2.0
    )  # fmt: skip
    with pytest.raises(QueryError, match="host_sys"):
        config(asked(options={"host_sys": "gpu"}))


def test_a_link_where_a_draft_may_be_expected_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", "utf-8")
    watched = tmp_path / "watched"
    watched.mkdir()
    for name in (f".{FILE}.{os.getpid()}", f".{FILE}.part", f".{FILE}"):
        (watched / name).symlink_to(victim)
    path = write_config(watched, ProfileRequest(steps=1, level="light", out=tmp_path, options={}), replace=False)
    assert victim.read_text("utf-8") == "mine"
    assert json.loads(path.read_bytes())["active"] == 1


@pytest.mark.parametrize("replace", [False, True])
def test_a_link_or_a_pipe_in_the_place_of_the_file_is_not_opened(tmp_path: Path, replace: bool) -> None:
    victim = tmp_path / "victim"
    victim.write_text('{"start_step": 0}', "utf-8")
    ask = ProfileRequest(steps=1, level="light", out=tmp_path, options={})
    for kind in ("link", "pipe"):
        watched = tmp_path / kind
        watched.mkdir()
        (watched / FILE).symlink_to(victim) if kind == "link" else os.mkfifo(watched / FILE)
        if replace and kind == "link":
            assert json.loads(write_config(watched, ask, replace=True).read_bytes())["active"] == 1
        else:
            with pytest.raises(HermesError):
                write_config(watched, ask, replace=replace)
    assert victim.read_text("utf-8") == '{"start_step": 0}'
