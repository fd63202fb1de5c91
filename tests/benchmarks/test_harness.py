"""The harness measures what it says it measures, and writes only where the page has room for it."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import pytest
from benchmarks.contest import Bench, missed, score_table, verdict
from benchmarks.inputs import Inputs, MissingError, size_of
from benchmarks.measure import Sample, measure
from benchmarks.page import MarkerError, cost, gigabytes, replace_block, seconds, table
from benchmarks.peers import remark
from benchmarks.run import PAGE, main
from benchmarks.suites import SUITES, further_cost
from benchmarks.summary import Summary, interleave, ratio, summarise

MB = 1_000_000


def python(code: str, folder: Path, *, limit_s: float = 60.0) -> Sample:
    return measure((sys.executable, "-c", code), log=folder / "log", limit_s=limit_s)


def sample(
    *, wall_ms: int = 1_000, peak_mb: int = 10, together_mb: int = 20, exit_code: int = 0, tail: str = ""
) -> Sample:
    return Sample(
        command=("x",),
        wall_ns=wall_ms * 1_000_000,
        cpu_ns=wall_ms * 2_000_000,
        peak_bytes=peak_mb * MB,
        together_bytes=together_mb * MB,
        exit_code=exit_code,
        tail=tail,
        load=0.0,
    )


def summary(*, wall_ms: int, cpu_ms: int = 0, memory_mb: int = 10) -> Summary:
    return Summary(
        runs=1,
        wall_ns=wall_ms * 1_000_000,
        cpu_ns=(cpu_ms or wall_ms) * 1_000_000,
        peak_bytes=memory_mb * MB,
        together_bytes=memory_mb * MB,
        exit_code=0,
    )


def ours() -> int:
    """Bytes: the kernel counts what this process had when it started a command, after a long test run more than its."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.live
def test_a_process_that_does_nothing_costs_a_little_of_everything(tmp_path: Path) -> None:
    start = time.perf_counter_ns()
    idle = python("pass", tmp_path)
    assert not idle.failed
    assert 0 < idle.wall_ns <= time.perf_counter_ns() - start
    assert idle.cpu_ns > 0
    assert idle.peak_bytes > MB


@pytest.mark.live
def test_the_memory_of_the_process_is_seen(tmp_path: Path) -> None:
    large = python("x = b'1' * 700_000_000", tmp_path)
    assert 700 * MB < large.peak_bytes < max(900 * MB, 1.1 * ours())


@pytest.mark.live
def test_the_processor_time_of_a_child_is_counted(tmp_path: Path) -> None:
    code = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.3: pass"], check=True)
"""
    assert python(code, tmp_path).cpu_ns >= 300_000_000


@pytest.mark.live
def test_processes_that_live_together_are_added_up(tmp_path: Path) -> None:
    code = """
import subprocess, sys
one = [sys.executable, "-c", "x = bytearray(b'1') * 200_000_000; import time; time.sleep(1)"]
both = subprocess.Popen(one), subprocess.Popen(one)
assert [child.wait() for child in both] == [0, 0]
"""
    both = python(code, tmp_path)
    assert both.peak_bytes < max(300 * MB, 1.1 * ours())
    assert both.together_bytes > 400 * MB


@pytest.mark.live
def test_a_command_beyond_its_limit_is_stopped_and_has_failed(tmp_path: Path) -> None:
    stopped = python("import time; time.sleep(60)", tmp_path, limit_s=0.3)
    assert stopped.failed
    assert stopped.wall_ns < 30_000_000_000


@pytest.mark.live
def test_what_a_command_prints_and_its_exit_code_are_kept(tmp_path: Path) -> None:
    wrong = python("import sys; print('why'); sys.exit(7)", tmp_path)
    assert (wrong.exit_code, wrong.tail) == (7, "why\n")


@pytest.mark.live
def test_a_command_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        measure((str(tmp_path / "nothing"),), log=tmp_path / "log")


def test_times_are_medians_and_memory_is_the_largest() -> None:
    runs = [sample(wall_ms=900, peak_mb=5), sample(wall_ms=100, peak_mb=9), sample(wall_ms=200, peak_mb=7)]
    assert (summarise(runs).wall_ns, summarise(runs).peak_bytes) == (200_000_000, 9 * MB)


def test_one_failed_run_makes_the_summary_a_failure() -> None:
    assert summarise([sample(), sample(exit_code=3), sample()]).exit_code == 3


def test_no_runs_have_no_summary() -> None:
    with pytest.raises(ValueError, match="no run"):
        summarise([])


def test_commands_take_turns() -> None:
    assert interleave((3, 1, 2)) == (0, 1, 2, 0, 2, 0)


def test_a_ratio_says_how_many_times_more_a_peer_needs() -> None:
    how = ratio(summary(wall_ms=1_000, cpu_ms=600, memory_mb=40), summary(wall_ms=100, cpu_ms=200, memory_mb=10))
    assert (how.wall, how.cpu, how.memory) == (10.0, 3.0, 4.0)


def test_the_cost_of_what_is_added_leaves_out_what_every_run_costs() -> None:
    runs = [summary(wall_ms=1_000), summary(wall_ms=1_500), summary(wall_ms=2_500)]
    assert further_cost([1, 2, 4], runs) == [0.5, 0.5]


def test_a_table_has_figures_to_the_right_and_no_bar_of_its_own_in_a_cell() -> None:
    assert table(("a", "b"), [("x|y", "1")]) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |"


def test_units_are_told() -> None:
    assert (seconds(81_000_000), seconds(12_345_000_000)) == ("0.081", "12.35")
    assert (gigabytes(20 * MB), gigabytes(600 * MB)) == ("20 MB", "0.60 GB")
    assert cost(summary(wall_ms=1_000, cpu_ms=2_000)) == ("1.00", "2.00", "10 MB", "10 MB")


def test_a_block_is_replaced_and_the_rest_of_the_page_stays() -> None:
    page = "a\n<!-- results x -->\nold\n<!-- end x -->\nb\n<!-- results y -->\n<!-- end y -->\n"
    once = replace_block(page, "x", "new")
    assert once == page.replace("old", "new")
    assert replace_block(once, "x", "new") == once


@pytest.mark.parametrize("page", ["", "<!-- results x -->", "<!-- end x --> <!-- results x -->"])
def test_a_page_without_room_for_a_result_is_refused(page: str) -> None:
    with pytest.raises(MarkerError, match="results x"):
        replace_block(page, "x", "new")


def test_the_page_of_the_project_has_room_for_every_suite() -> None:
    page = PAGE.read_text("utf-8")
    for name in SUITES:
        assert "\nfigures\n" in replace_block(page, name, "figures")


def test_a_missed_budget_is_counted() -> None:
    text = "\n".join(verdict("fast", holds=holds, measured="1 s") for holds in (True, False, False))
    assert missed(text) == 2


def test_a_peer_that_fails_after_loading_is_shown_as_failed(tmp_path: Path) -> None:
    told = 'noise\nRESULT {"load_s": 61.24, "breakdown_s": 0.5, "failed": "AssertionError"}\n'
    assert remark(sample(exit_code=1, tail=told)) == "61.2 s of it loading; the breakdown then fails: AssertionError"
    assert remark(sample(exit_code=9, tail="killed")) == "failed, exit 9"
    assert remark(sample()) == ""


def bench(work: Path) -> Bench:
    inputs = Inputs(folder=work / "inputs", given={}, say=lambda text: None)
    return Bench(work=work, inputs=inputs, repeats=2, peer_repeats=1, peers=False, say=lambda text: None)


def test_each_run_has_an_empty_cache_of_its_own(tmp_path: Path) -> None:
    entrant = bench(tmp_path).analyze(tmp_path)
    assert entrant.environment(tmp_path / "1") != entrant.environment(tmp_path / "2")


@pytest.mark.live
def test_a_modelled_job_is_made_once_and_can_be_analyzed(tmp_path: Path) -> None:
    here = bench(tmp_path)
    path = here.inputs.modelled("ascend-text", ranks=1, steps=2)
    made = path.stat().st_mtime_ns
    assert here.inputs.modelled("ascend-text", ranks=1, steps=2).stat().st_mtime_ns == made
    assert size_of(path) > 100_000
    (ours,) = here.play("test", [here.analyze(path)])
    assert (ours.summary.exit_code, ours.summary.runs, len(here.samples)) == (0, 2, 2)
    assert (tmp_path / "runs/2/report/report.json").exists()
    assert "hermes analyze" in score_table(ours, [])


def test_a_large_input_without_its_maker_is_missing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.inputs.SHARED", tmp_path / "shared")
    with pytest.raises(MissingError, match="make_big_ascend"):
        bench(tmp_path).inputs.ascend()


def test_an_input_that_is_given_is_not_made(tmp_path: Path) -> None:
    inputs = Inputs(folder=tmp_path, given={"ascend": tmp_path / "mine"}, say=lambda text: None)
    assert inputs.ascend() == tmp_path / "mine"


def test_a_suite_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "there is no suite 'nothing'" in capsys.readouterr().err
