"""No command takes a truncated, an empty or an unrelated input for a whole one, or says nothing of an empty selection.

Every command has an entry here. What is said first names what is missing, or the exit code is that of an error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Hermes, Ran  # type: ignore[import-not-found]
from tests.each import sampled
from tests.skips import profiles

from hermes.cli.app import app
from hermes.cli.exit_codes import Exit, codes_of
from hermes_testing import Job, generate

FORMATS = ("ascend-text", "ascend-db", "kineto")
QUERY = "select count(*) from kernel"

IN, WHOLE, OUT = "the input", "a whole profile", "a file to write"
PROFILES = {
    "analyze": [IN], "whatif": [IN], "operators": [IN], "tables": [IN], "sql": [IN, QUERY],
    "export": [IN, "--perfetto", OUT], "compare": [WHOLE, IN],
}  # fmt: skip
"""Commands that read profiles, with their words."""
LOGS = {"detect": [IN]}
TREES = {"migrate scan": [IN], "migrate convert": [IN], "migrate verify": [IN, "--", sys.executable, "train.py"]}
NAMES = {
    "explain": ["XXX001"], "schema": ["nothing"], "cases": ["flux-capacitor"], "chips": ["flux-capacitor"],
    "watch": ["--once", "no-such-job"],
    "profile": ["no-such-job"], "stacks": ["no-such-job"], "thresholds": ["no-such-job"],
}  # fmt: skip
"""Commands that take the name of something, with a name that nothing has."""
PROGRAMS = {
    "run": ["--"], "precision record": ["-o", OUT, "--"], "precision snapshot": ["-o", OUT, "--"],
    "precision golden": ["-o", OUT, "--"],
}  # fmt: skip
"""Commands that run a program, which is not there."""
ELSEWHERE = {
    "precision compare", "precision check", "precision replay", "fleet check", "fleet probe", "fleet status",
    "fleet watch", "fleet profile", "fleet stop", "fleet stacks", "fleet measure", "fleet host",
    "fleet report",
}  # fmt: skip
"""`test_precision_laws.py` and `tests/fleet` hold the same of these."""
WITHOUT_INPUT = {
    "rules": "lists all", "cache": "lists all", "affinity": "asks the machine alone",
    "serve": "shows what analyze says", "exporter": "tells of all that runs here",
}  # fmt: skip


def leaves(group: click.Group, *before: str) -> Iterator[tuple[str, click.Command]]:
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            yield from leaves(one, *before, name)
        else:
            yield " ".join((*before, name)), one


COMMANDS = dict(leaves(app))


def test_every_command_has_an_entry() -> None:
    tables = (PROFILES, LOGS, TREES, NAMES, PROGRAMS, ELSEWHERE, WITHOUT_INPUT)
    assert sorted(name for table in tables for name in table) == sorted(COMMANDS)


# Profiles ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two ranks of four steps in each format."""
    place = tmp_path_factory.mktemp("whole")
    return {one: generate(place / one, Job(ranks=2, steps=4, layers=1), formats=[one]) for one in FORMATS}


def of_rank_1(folder: Path) -> list[Path]:
    """The files of a profile that hold most: rank 1 is not the first."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "truth.json"]
    own = [path for path in files if "rank1" in path.name or "_3101" in str(path.relative_to(folder))]
    return sorted(own, key=lambda path: -path.stat().st_size)[:2]


def truncated(whole: Path, at: Path) -> Path:
    shutil.copytree(whole, at)
    for path in of_rank_1(at):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return at


def cut_at_a_line(whole: Path, at: Path) -> Path:
    """No file shows that anything is missing; as when whole rows were not written any more."""
    shutil.copytree(whole, at)
    for path in at.rglob("kernel_details.csv"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: len(lines) // 2]))
    return at


def without_a_rank(whole: Path, at: Path) -> Path:
    shutil.copytree(whole, at)
    for path in at.iterdir():
        if "rank1" in path.name:
            path.unlink()
        elif "_3101" in path.name:
            shutil.rmtree(path)
    return at


def emptied(whole: Path, at: Path) -> Path:
    shutil.copytree(whole, at)
    for path in (path for path in at.rglob("*") if path.is_file()):
        path.write_bytes(b"")
    return at


def empty(_: Path, at: Path) -> Path:
    at.mkdir()
    return at


def unrelated(_: Path, at: Path) -> Path:
    at.mkdir()
    (at / "README.md").write_text("# Nothing of this is a profile\n")
    (at / "settings.json").write_text('{"model": "gpt", "layers": [1, 2, 3]}')
    (at / "table.csv").write_text("city,people\nBern,134000\n")
    return at


def words(given: list[str], path: Path, other: Path, folder: Path) -> list[str]:
    return [{IN: str(path), WHOLE: str(other), OUT: str(folder / "written")}.get(word, word) for word in given]


def said_first(ran: Ran) -> str:
    """What a reader sees first: an error or a note, else the answer."""
    return next(iter((ran.err + ran.out).splitlines()), "")


def check(name: str, ran: Ran) -> None:
    assert "Traceback" not in ran.err + ran.out
    assert ran.code in codes_of(COMMANDS[name]), ran.err
    if ran.code == Exit.UNUSABLE:
        assert ran.out == ""
        assert ran.err.startswith("hermes: ")


@pytest.mark.parametrize(
    ("name", "form"),
    sampled([(name, form) for name in PROFILES for form in FORMATS],
            *[(name, FORMATS[at % len(FORMATS)]) for at, name in enumerate(PROFILES)]),
)  # fmt: skip
def test_a_truncated_profile_is_never_a_clean_answer(
    hermes: Hermes, tmp_path: Path, whole: dict[str, Path], name: str, form: str
) -> None:
    cut = truncated(whole[form], tmp_path / "cut")
    ran = hermes(*name.split(), *words(PROFILES[name], cut, whole[form], tmp_path))
    check(name, ran)
    first = said_first(ran)
    expected = {"compare": "Only a part of the runs was compared: the input is not complete", "analyze": "Coverage: "}
    assert first.startswith(expected.get(name, "hermes: ")), first
    assert ran.code == (Exit.NO if name == "compare" else Exit.DONE)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("spoilt", [emptied, empty, unrelated])
@pytest.mark.parametrize("name", PROFILES)
def test_an_empty_or_unrelated_profile_is_an_error(
    hermes: Hermes, tmp_path: Path, whole: dict[str, Path], name: str, form: str, spoilt: type
) -> None:
    other = spoilt(whole[form], tmp_path / "other")
    ran = hermes(*name.split(), *words(PROFILES[name], other, whole[form], tmp_path))
    check(name, ran)
    assert ran.code == Exit.UNUSABLE
    assert not (tmp_path / "written").exists()


SPOILT = ("cut", "without a rank", "another model", "fewer steps")


@pytest.mark.parametrize(
    ("form", "other"),
    sampled([*((form, other) for form in FORMATS for other in SPOILT), ("ascend-text", "cut at a line")],
            *[(FORMATS[at % len(FORMATS)], other) for at, other in enumerate(SPOILT)]),
)  # fmt: skip
@pytest.mark.parametrize("swapped", [False, True], ids=["as after", "as before"])
def test_a_comparison_holds_only_of_runs_that_share_everything(
    hermes: Hermes, tmp_path: Path, whole: dict[str, Path], form: str, other: str, *, swapped: bool
) -> None:
    made = {
        "cut": lambda at: truncated(whole[form], at), "cut at a line": lambda at: cut_at_a_line(whole[form], at),
        "without a rank": lambda at: without_a_rank(whole[form], at),
        "another model": lambda at: generate(at, Job(ranks=2, steps=4, layers=3), formats=[form]),
        "fewer steps": lambda at: generate(at, Job(ranks=2, steps=3, layers=1), formats=[form]),
    }[other](tmp_path / "other")  # fmt: skip
    ran = hermes("compare", *[whole[form], made][:: -1 if swapped else 1])
    check("compare", ran)
    assert (ran.code, said_first(ran).startswith("Only a part of the runs was compared: ")) == (Exit.NO, True), (
        said_first(ran)
    )


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_work_is_as_fast(hermes: Hermes, tmp_path: Path, whole: dict[str, Path], form: str) -> None:
    again = generate(tmp_path / "again", Job(ranks=2, steps=4, layers=1), formats=[form])
    ran = hermes("compare", whole[form], again)
    assert (ran.code, ran.err, said_first(ran).startswith("As fast as before: ")) == (Exit.DONE, "", True)


def test_a_real_profile_that_was_cut_is_not_the_same(hermes: Hermes, tmp_path: Path) -> None:
    real = profiles() / "ascend" / "alexnet_text_level2"
    shutil.copytree(real, tmp_path / "cut")
    largest = max((one for one in (tmp_path / "cut").rglob("kernel_details.csv")), key=lambda one: one.stat().st_size)
    lines = largest.read_bytes().splitlines(keepends=True)
    largest.write_bytes(b"".join(lines[: len(lines) // 2]))
    for pair in ((real, tmp_path / "cut"), (tmp_path / "cut", real)):
        ran = hermes("compare", *pair)
        assert (ran.code, said_first(ran).startswith("Only a part of the runs was compared: ")) == (Exit.NO, True), (
            said_first(ran)
        )


# Selections ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        ["analyze", IN, "--ranks", "7"], ["analyze", IN, "--steps", "700"], ["analyze", IN, "--capture", "none"],
        ["compare", IN, IN, "--ranks", "0:7"], ["compare", IN, IN, "--steps", "700"],
        ["export", IN, "--perfetto", OUT, "--ranks", "7"], ["export", IN, "--perfetto", OUT, "--steps", "700"],
        ["whatif", IN, "--set", "op:Nope=0"], ["whatif", IN, "--set", "comm:overlap", "--set", "op:Nope=0"],
        ["whatif", IN, "--set", "rank:7=median"], ["sql", IN, "select * from nothing"],
        ["operators", IN, "--alone", OUT],
    ],
    ids=lambda given: "-".join(word for word in given if word not in (IN, OUT)),
)  # fmt: skip
def test_a_selection_that_matches_nothing_is_an_error(
    hermes: Hermes, tmp_path: Path, whole: dict[str, Path], given: list[str]
) -> None:
    if "--alone" in given:
        line = '{"operator": "another", "shapes": "1", "dtypes": "float32", "median_us": 3.5}\n'
        (tmp_path / "written").write_text(line)
    ran = hermes(*words(given, whole["ascend-db"], whole["ascend-db"], tmp_path))
    check(given[0], ran)
    assert ran.code == Exit.UNUSABLE
    assert "what to do:" in ran.err


@pytest.mark.parametrize(
    ("given", "missing"), [(["--ranks", "0,7"], "rank 7"), (["--steps", "10,700"], "step 700")], ids=["ranks", "steps"]
)
def test_a_part_of_a_selection_that_matches_nothing_is_said(
    hermes: Hermes, tmp_path: Path, whole: dict[str, Path], given: list[str], missing: str
) -> None:
    path = whole["ascend-db"]
    ran = hermes("analyze", path, *given, "--strict", "--full")
    assert (ran.code, missing in " ".join(ran.out.split())) == (Exit.PARTLY, True)
    ran = hermes("export", path, "--perfetto", tmp_path / "out", *given)
    assert ran.code == Exit.DONE
    assert (ran.err.startswith("hermes: "), missing in ran.err) == (True, True)
    assert missing in ran.err
    ran = hermes("compare", path, path, *given)
    assert (ran.code, missing in said_first(ran)) == (Exit.NO, True)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_nothing_has_is_an_error(
    hermes: Hermes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HERMES_RUN_DIR", str(tmp_path))
    ran = hermes(name, *NAMES[name])
    assert ran.code == Exit.UNUSABLE
    assert ran.err.startswith("hermes: ")
    assert "what to do:" in ran.err


# Logs, trees and programs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"city,people\n", b'{"loss": 1.5}\n', b"[STEPTIME]:"], ids=repr)
def test_a_log_without_a_step_is_an_error(hermes: Hermes, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "perf_pt_1_0.log").write_bytes(content)
    for path in (tmp_path, tmp_path / "perf_pt_1_0.log", tmp_path / "none"):
        ran = hermes("detect", path)
        check("detect", ran)
        assert ran.code == Exit.UNUSABLE, ran.out


def test_a_log_that_was_cut_says_so_first(hermes: Hermes, tmp_path: Path) -> None:
    log = tmp_path / "perf_pt_1_0.log"
    log.write_text("".join(f"[STEPTIME]:{at},{at + 100}\n" for at in range(0, 5_000, 100))[:-4])
    ran = hermes("detect", log)
    assert (ran.code, said_first(ran).startswith("Coverage: ")) == (Exit.DONE, True)


@pytest.mark.live
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("spoilt", ["truncated", "empty", "unrelated"])
def test_a_tree_that_is_no_whole_program_is_never_a_yes(hermes: Hermes, tmp_path: Path, name: str, spoilt: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    if spoilt == "truncated":
        (tree / "train.py").write_text("import torch\n\ndef main():\n    x = torch.zeros(3, device=(\n")
    elif spoilt == "unrelated":
        (tree / "README.md").write_text("# No program\n")
    ran = hermes(*name.split(), *words(TREES[name], tree, tree, tmp_path))
    check(name, ran)
    assert ran.code in (Exit.NO, Exit.UNUSABLE)
    if ran.code == Exit.NO:
        assert said_first(ran).startswith("Coverage: ")


@pytest.mark.live
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_not_there_is_never_a_success(tmp_path: Path, name: str) -> None:
    given = words(PROGRAMS[name], tmp_path, tmp_path, tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "hermes", *name.split(), *given, "/nowhere/program"], capture_output=True, text=True,
        timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == Exit.UNUSABLE if name == "precision golden" else ran.returncode not in (0, 1)
    assert "Traceback" not in ran.stderr
    assert "/nowhere/program" in ran.stderr
