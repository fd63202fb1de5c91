"""Every command: what it prints, how it ends, and that it never touches the profile."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from tests.each import each

from hermes.model.tables import TABLES
from hermes.profiles.rules import ALL
from hermes.version import __version__
from hermes_testing import Job, generate


class Ran(Protocol):
    """How one command ended."""

    code: int
    out: str
    err: str


Hermes = Callable[..., Ran]


@pytest.fixture
def partial(profile: Path, tmp_path: Path) -> Path:
    """One rank of two: readable, and not whole."""
    (info,) = profile.rglob("profiler_info_1.json")
    return Path(shutil.copytree(info.parent, tmp_path / "alone" / info.parent.name))


@pytest.fixture
def doubtful(profile: Path, tmp_path: Path) -> Path:
    """Two folders that both say they are rank 0."""
    (info,) = profile.rglob("profiler_info_0.json")
    for name in ("a_20250109084754000_ascend_pt", "b_20250109084754000_ascend_pt"):
        shutil.copytree(info.parent, tmp_path / "doubtful" / name)
    return tmp_path / "doubtful"


def tree(folder: Path) -> dict[str, str]:
    """Every path below a folder with the hash of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def is_calm(ran: Ran) -> bool:
    return "Traceback" not in ran.err + ran.out


# analyze -----------------------------------------------------------------------------------------------------------


def test_analyze_says_what_bounds_the_step(hermes: Hermes, profile: Path) -> None:
    ran = hermes("analyze", profile)
    assert ran.code == 0
    assert re.match(r"\d+ steps? of ", ran.out)
    assert not ran.err


def test_analyze_prints_one_json_document_of_the_promised_form(hermes: Hermes, profile: Path) -> None:
    ran = hermes("analyze", profile, "--format", "json")
    report = json.loads(ran.out)
    assert (ran.code, report["schema"], report["tool"]) == (
        0,
        "hermes.report/1",
        {"name": "hermes", "version": __version__},
    )
    assert set(report) >= {
        "inputs", "coverage", "steps", "totals", "critical_path", "findings", "diagnostics",
    }  # fmt: skip
    assert [one["rank"] for one in report["inputs"]] == [0, 1]


def test_the_printed_json_is_the_same_each_time(hermes: Hermes, profile: Path) -> None:
    assert hermes("analyze", profile, "--format", "json").out == hermes("analyze", profile, "--format", "json").out


@pytest.mark.live
def test_a_process_that_reads_what_another_kept_prints_the_same(profile: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from hermes.cli import main; main()", "analyze", str(profile), "--format", "json"]
    environment = {"HERMES_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""}
    first, second = (subprocess.run(command, env=environment, capture_output=True, check=True).stdout for _ in range(2))
    assert first == second


def test_analyze_prints_a_page(hermes: Hermes, profile: Path) -> None:
    ran = hermes("analyze", profile, "--format", "html")
    assert ran.code == 0
    assert ran.out.lower().startswith("<!doctype html>")


def test_analyze_writes_both_reports_and_names_them(hermes: Hermes, profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    ran = hermes("analyze", profile, "-o", out)
    assert ran.code == 0
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "report.json"]
    assert json.loads((out / "report.json").read_text("utf-8"))["schema"] == "hermes.report/1"
    assert str(out / "report.html") in ran.out.replace("\n", "")


def test_analyze_writes_a_spreadsheet_beside_the_reports(hermes: Hermes, profile: Path, tmp_path: Path) -> None:
    ran = hermes("analyze", profile, "--format", "xlsx", "-o", tmp_path / "out")
    assert ran.code == 0
    assert (tmp_path / "out" / "report.xlsx").read_bytes().startswith(b"PK")
    assert str(tmp_path / "out" / "report.xlsx") in ran.out.replace("\n", "")


def test_nothing_is_written_beside_the_profile(hermes: Hermes, profile: Path, tmp_path: Path) -> None:
    before = tree(profile.parent)
    hermes("analyze", profile, "-o", tmp_path / "out")
    hermes("tables", profile)
    hermes("sql", profile, "select 1")
    assert tree(profile.parent) == before


@pytest.mark.parametrize("place", ["", "out", "a/b/c"])
def test_a_report_is_never_written_into_the_profile(place: str, hermes: Hermes, profile: Path) -> None:
    before = tree(profile)
    ran = hermes("analyze", profile, "-o", profile / place)
    assert ran.code == 2
    assert "into the profile" in ran.err
    assert tree(profile) == before


def test_a_link_does_not_lead_the_report_into_the_profile(hermes: Hermes, profile: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(profile)
    assert hermes("analyze", profile, "-o", tmp_path / "link" / "out").code == 2


def test_a_report_is_not_written_beside_a_lone_file(hermes: Hermes, partial: Path) -> None:
    (file,) = partial.rglob("ascend_pytorch_profiler_1.db")
    ran = hermes("analyze", file, "-o", file.parent)
    assert ran.code == 2
    assert "into the profile" in ran.err


def test_a_report_that_cannot_be_written_is_said_calmly(hermes: Hermes, profile: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        ran = hermes("analyze", profile, "-o", out)
        assert (ran.code, is_calm(ran)) == (2, True)
        assert "what to do:" in ran.err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_doubtful_input_ends_well_unless_strictness_is_asked_for(hermes: Hermes, doubtful: Path) -> None:
    assert hermes("analyze", doubtful).code == 0
    ran = hermes("analyze", doubtful, "--strict", "--format", "json")
    assert ran.code == 3
    assert any(note["level"] == "degraded" for note in json.loads(ran.out)["diagnostics"])


def test_a_whole_input_passes_strictly(hermes: Hermes, profile: Path) -> None:
    assert hermes("analyze", profile, "--strict").code == 0


def test_a_missing_rank_is_said_first(hermes: Hermes, partial: Path) -> None:
    ran = hermes("analyze", partial)
    assert ran.code == 0
    assert "only rank 1 of 2 was collected" in ran.out.splitlines()[0]


def test_a_capture_can_be_chosen(hermes: Hermes, profile: Path) -> None:
    ran = hermes("analyze", profile, "--capture", "nope")
    assert ran.code == 2
    assert "no capture is called 'nope'" in ran.err


def junk(folder: Path) -> None:
    for name in ("trace_view.json", "ascend_pytorch_profiler_0.db", "kernel_details.csv", "rank0.pt.trace.json"):
        (folder / name).write_bytes(b"\x00\xffnot a profile")


WRONG: dict[str, Callable[[Path], Path]] = {
    "nothing there": lambda tmp: tmp / "typo",
    "an empty folder": lambda tmp: _folder(tmp / "empty"),
    "no profile in it": lambda tmp: _file(_folder(tmp / "notes") / "notes.txt", b"hello").parent,
    "an empty file": lambda tmp: _file(tmp / "trace_view.json", b""),
    "junk by every name": lambda tmp: _junk(_folder(tmp / "junk")),
    "a device": lambda tmp: Path("/dev/null"),
}


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _junk(folder: Path) -> Path:
    junk(folder)
    return folder


@pytest.mark.parametrize(
    "command", [("analyze",), ("tables",), ("sql", "select 1")], ids=lambda command: str(command[0])
)
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_input_ends_with_2_and_a_way_out(
    case: str, command: tuple[str, ...], hermes: Hermes, tmp_path: Path
) -> None:
    name, *rest = command
    ran = hermes(name, WRONG[case](tmp_path), *rest)
    assert (ran.code, ran.out, is_calm(ran)) == (2, "", True)
    assert ran.err.startswith("hermes: ")
    assert "what to do:" in ran.err


def test_a_capture_of_one_illegible_file_ends_with_2(hermes: Hermes, tmp_path: Path) -> None:
    assert hermes("analyze", _file(tmp_path / "kernel_details.csv", b"\x00\xffnot a profile")).code == 2


def test_a_cache_that_cannot_be_written_is_said_calmly(
    hermes: Hermes, profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_CACHE_DIR", str(_file(tmp_path / "file", b"") / "cache"))
    ran = hermes("analyze", profile)
    assert (ran.code, is_calm(ran)) == (2, True)
    assert "HERMES_CACHE_DIR" in ran.err


def test_control_characters_of_a_name_do_not_reach_the_terminal(hermes: Hermes, tmp_path: Path) -> None:
    ran = hermes("analyze", tmp_path / "\x1b[31mred\x07")
    assert ran.code == 2
    assert "\x1b" not in ran.err
    assert "\x07" not in ran.err


# sql and tables ----------------------------------------------------------------------------------------------------

SUM = 'select rank, count(*) as n from "rank" group by 1 order by 1'


def test_a_run_beside_itself_has_not_changed(hermes: Hermes, profile: Path) -> None:
    ran = hermes("compare", profile, profile)
    # Two steps tell nothing of chance.
    assert (ran.code, ran.out.splitlines()[0].startswith("Not known whether the step is as fast: ")) == (1, True)
    assert "stayed" in ran.out
    assert "came" not in ran.out
    made = json.loads(hermes("compare", profile, profile, "--format", "json").out)
    assert made["schema"] == "hermes.compare/1"
    assert {row["change_ms"] for row in (made["step"], *made["parts"], *made["kernels"])} <= {0, None}


def test_ranks_and_steps_of_two_runs_stand_side_by_side(hermes: Hermes, profile: Path) -> None:
    steps = json.loads(hermes("compare", profile, profile, "--by", "step", "--format", "json").out)["beside"]
    assert {row["rank"] for row in steps} == {0, 1}
    assert all(row["step_before"] == row["step_after"] and row["window_change_ms"] == 0 for row in steps)
    ran = hermes("compare", profile, profile, "--by", "rank")
    assert "Side by side" in ran.out
    assert re.search(r"rank 1\b", ran.out)


@pytest.mark.parametrize("command", ["analyze", "compare", "whatif", "operators"])
def test_every_document_begins_with_the_same_envelope(hermes: Hermes, profile: Path, command: str) -> None:
    paths = (profile, profile) if command == "compare" else (profile,)
    made = json.loads(hermes(command, *paths, "--format", "json").out)
    assert list(made)[:5] == ["schema", "tool", "inputs", "coverage", "findings"]
    assert re.fullmatch(r"hermes\.\w+/1", made["schema"])
    assert made["tool"] == {"name": "hermes", "version": __version__}
    assert all(one["path"] for one in made["inputs"])


def test_one_rank_is_held_against_another(hermes: Hermes, profile: Path) -> None:
    made = json.loads(hermes("compare", profile, profile, "--ranks", "0:1", "--format", "json").out)
    assert [one["ranks"] for one in made["inputs"]] == [1, 1]
    made = json.loads(hermes("compare", profile, profile, "--ranks", "0:1", "--by", "rank", "--format", "json").out)
    assert [one["rank"] for one in made["beside"]] == [0]
    for ranks in ("0:x", "0,1:0"):
        assert hermes("compare", profile, profile, "--ranks", ranks).code == 2


def test_compare_refuses_what_is_no_profile(hermes: Hermes, profile: Path, tmp_path: Path) -> None:
    ran = hermes("compare", profile, tmp_path / "none")
    assert (ran.code, ran.out) == (2, "")


def test_sql_prints_a_table(hermes: Hermes, profile: Path) -> None:
    ran = hermes("sql", profile, SUM)
    assert ran.code == 0
    assert [line.split() for line in ran.out.splitlines()] == [["rank", "n"], ["0", "1"], ["1", "1"]]


def test_sql_says_that_there_are_no_rows(hermes: Hermes, profile: Path) -> None:
    assert hermes("sql", profile, "select * from kernel where false").out == "0 rows\n"


def test_sql_into_a_pipe_keeps_a_row_on_a_line(hermes: Hermes, profile: Path) -> None:
    ran = hermes("sql", profile, "select repeat('x', 300) as a, repeat('y', 300) as b")
    assert len(ran.out.splitlines()) == 2


def test_sql_prints_csv(hermes: Hermes, profile: Path) -> None:
    ran = hermes("sql", profile, SUM, "--format", "csv")
    assert list(csv.DictReader(io.StringIO(ran.out))) == [{"rank": "0", "n": "1"}, {"rank": "1", "n": "1"}]


def test_sql_prints_json(hermes: Hermes, profile: Path) -> None:
    assert json.loads(hermes("sql", profile, SUM, "--format", "json").out) == [{"rank": 0, "n": 1}, {"rank": 1, "n": 1}]


def test_a_wrong_query_ends_with_2_and_the_words_of_the_database(hermes: Hermes, profile: Path) -> None:
    ran = hermes("sql", profile, "select nme from kernel")
    assert (ran.code, is_calm(ran)) == (2, True)
    assert "nme" in ran.err
    assert "hermes schema" in ran.err


def test_tables_counts_the_rows_of_every_table(hermes: Hermes, profile: Path) -> None:
    ran = hermes("tables", profile)
    rows = [line.split() for line in ran.out.split("\n\n")[0].splitlines()]
    assert ran.code == 0
    assert [row[0] for row in rows] == list(TABLES)
    assert rows[0][:2] == ["rank", "2"]


# schema, rules, explain, cache -------------------------------------------------------------------------------------


def test_schema_lists_every_table(hermes: Hermes) -> None:
    ran = hermes("schema")
    assert [line.split()[0] for line in ran.out.splitlines()] == list(TABLES)


@each(TABLES)
def test_schema_explains_every_column_of_a_table(name: str, hermes: Hermes) -> None:
    ran = hermes("schema", name)
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()[2:]] == list(TABLES[name].names)


def test_schema_of_no_table_names_those_there_are(hermes: Hermes) -> None:
    ran = hermes("schema", "kernels")
    assert ran.code == 2
    assert "kernel, pmu" in ran.err


def test_rules_lists_every_rule_with_its_fault(hermes: Hermes) -> None:
    lines = hermes("rules").out.splitlines()
    assert lines == [f"{rule.code}  {rule.page.splitlines()[0]}" for rule in ALL]


@each([*(rule.code for rule in ALL), "com001"])
def test_explain_prints_the_page_of_a_rule(code: str, hermes: Hermes) -> None:
    ran = hermes("explain", code)
    assert ran.code == 0
    assert ran.out.startswith(code.upper())
    assert "## How to check" in ran.out


def test_explain_of_no_rule_names_those_there_are(hermes: Hermes) -> None:
    ran = hermes("explain", "XYZ999")
    assert ran.code == 2
    assert "COM001" in ran.err


def test_cache_shows_and_clears_what_was_kept(
    hermes: Hermes, profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_CACHE_DIR", str(tmp_path / "own"))
    assert "0 entries" in hermes("cache").out
    hermes("tables", profile)
    shown = hermes("cache").out
    assert f"{tmp_path / 'own'}: 2 entries" in shown
    assert "rank 1" in shown
    assert "removed 2 entries" in hermes("cache", "--clear").out
    assert "0 entries" in hermes("cache").out


def test_version_is_printed(hermes: Hermes) -> None:
    assert hermes("--version").out == f"hermes {__version__}\n"


@pytest.mark.parametrize("arguments", [("analyze",), ("explain",), ("nonsense",), ("analyze", "x", "--format", "pdf")])
def test_a_wrong_call_ends_with_2(arguments: tuple[str, ...], hermes: Hermes) -> None:
    ran = hermes(*arguments)
    assert (ran.code, is_calm(ran)) == (2, True)


@pytest.mark.parametrize("command", ["analyze", "sql", "tables", "schema", "rules", "explain", "cache"])
def test_every_command_has_help(command: str, hermes: Hermes) -> None:
    ran = hermes(command, "--help")
    assert ran.code == 0
    assert f"hermes {command}" in ran.out


# The process -------------------------------------------------------------------------------------------------------


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.live
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["analyze", "--help"], ["rules"]], ids=" ".join)
def test_help_does_not_pay_for_engines(arguments: list[str]) -> None:
    done = python(f"""
import sys
sys.argv = ["hermes", *{arguments!r}]
from hermes.cli import main
try:
    main()
except SystemExit:
    pass
heavy = {{"duckdb", "adbc_driver_sqlite", "pyarrow", "jinja2", "fsspec"}}
if "rules" not in sys.argv:
    heavy |= {{"polars", "numpy"}}
print("heavy:", sorted(heavy & set(sys.modules)))
""")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "heavy: []"


@pytest.mark.live
@pytest.mark.parametrize("form", ["ascend-text", "kineto"])
def test_a_trace_is_analysed_without_pyarrow(form: str, tmp_path: Path) -> None:
    """Its import takes a tenth of a second and 40 MB, and DuckDB and Polars hand frames over without it."""
    made = generate(tmp_path / "profile", Job(ranks=1, steps=2, layers=1), formats=[form])
    done = python(
        f"""
import sys
sys.argv = ["hermes", "analyze", {str(made)!r}, "-o", {str(tmp_path / "out")!r}]
from hermes.cli import main
try:
    main()
except SystemExit:
    pass
print("pyarrow:", "pyarrow" in sys.modules)
""",
        HERMES_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "pyarrow: False"


@pytest.mark.live
def test_a_job_gets_the_environment_of_its_user(tmp_path: Path) -> None:
    told = "import os; print('threads:', os.environ.get('OPENBLAS_NUM_THREADS'), flush=True)"
    command = "from hermes.cli import command; command()"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", command, "run", sys.executable, "-c", told],
        env={**environment, "HERMES_RUN_DIR": str(tmp_path / "jobs")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "threads: None" in done.stdout.splitlines(), done.stderr


@pytest.mark.live
@pytest.mark.smoke
def test_a_closed_pipe_ends_quietly(profile: Path) -> None:
    command = f'"{sys.executable}" -c "from hermes.cli import main; main()" schema kernel | head -n 1'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith("kernel:")
    assert done.stderr == ""


def test_whatif_lists_changes_and_replays_those_asked_for(hermes: Hermes, profile: Path) -> None:
    listed = hermes("whatif", profile)
    assert listed.code == 0
    assert "--set " in listed.out
    told = json.loads(hermes("whatif", profile, "--set", "op:*=0.5", "--format", "json").out)
    assert told["changes"][0]["set"] == ["op:*=0.5"]
    assert told["changes"][0]["gain_ms"]["low"] <= told["changes"][0]["gain_ms"]["high"]
    for missing in ("op:Nope*=0.5", "rank:9=median", "copy:nothing=0", "layers:7=0.5"):
        none = hermes("whatif", profile, "--set", "comm:overlap", "--set", missing)
        assert (none.code, none.out, missing in none.err) == (2, "", True)
    wrong = hermes("whatif", profile, "--set", "faster")
    assert wrong.code == 2
    assert "such as" in wrong.err


def test_export_writes_a_timeline_and_says_how_large(hermes: Hermes, profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "timeline.pftrace"
    done = hermes("export", profile, "--perfetto", out, "--ranks", "0", "--window", "0-50")
    assert done.code == 0, done.err
    assert out.stat().st_size > 1_000
    assert "events" in done.out
    for option, value in (("--ranks", "a"), ("--steps", "3-"), ("--window", "5-2")):
        wrong = hermes("export", profile, "--perfetto", out, option, value)
        assert (wrong.code, option in wrong.err) == (2, True)
    inside = hermes("export", profile, "--perfetto", profile / "x.pftrace")
    assert inside.code == 2
    assert "into the profile" in inside.err
