"""What goes wrong around a profile: paths, folders, captures, locks, the cache and the place for the report."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.each import sampled

from hermes.profiles.read.table_sink import Sink
from hermes_testing import Job, generate

pytestmark = pytest.mark.live

DB = "ascend_pytorch_profiler_0.db"
INFO = "profiler_info_0.json"


def assert_refused(ended: Any, *words: str) -> None:
    assert (ended.code, ended.out) == (2, ""), ended
    assert "Traceback" not in ended.err
    assert "what to do:" in ended.err
    for word in words:
        assert word in ended.err


def degraded(document: dict[str, Any]) -> list[dict[str, str]]:
    return [note for note in document["diagnostics"] if note["level"] == "degraded"]


def test_an_empty_folder_is_refused(tmp_path: Path, hermes: Any) -> None:
    (tmp_path / "in" / "inner").mkdir(parents=True)
    assert_refused(hermes("analyze", tmp_path / "in"), str(tmp_path / "in"), "no file", "lost:")


def test_a_path_that_is_not_there_is_refused(tmp_path: Path, hermes: Any) -> None:
    assert_refused(hermes("analyze", tmp_path / "nowhere"), str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    "files",
    [
        {"notes.txt": b"hello", "picture.png": b"\x89PNG"},
        {"package.json": b'{"name": "x"}', "list.json": b"[1, 2]", "settings.json": b'{"a": {"b": []}}'},
        {"data.csv": b"a,b\n1,2\n", "other.db": b"SQLite format 3\x00"},
    ],
    ids=["no profile", "unrelated JSON", "unrelated tables"],
)
def test_the_wrong_folder_is_refused_and_named(files: dict[str, bytes], tmp_path: Path, hermes: Any) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    assert_refused(hermes("analyze", folder), str(folder), "is a profile (", "lost:")


def test_only_the_settings_of_a_profile_are_no_profile(profile: Any, hermes: Any) -> None:
    folder = profile("text")
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("profiler_"):
            path.unlink()
    assert_refused(hermes("analyze", folder), "is a profile (", "profiler_info_0.json")


@pytest.mark.parametrize(
    ("form", "file"),
    [("text", "trace_view.json"), ("text", "kernel_details.csv"), ("db", DB), ("kineto", "*.pt.trace.json")],
)
def test_a_file_may_be_given_in_place_of_its_folder(form: str, file: str, profile: Any, one: Any, hermes: Any) -> None:
    ended = hermes("analyze", "--format", "json", one(profile(form), file))
    assert ended.code == 0
    assert ended.document()["totals"]


def test_a_loop_of_links_is_walked_once(profile: Any, hermes: Any, healthy: Any) -> None:
    folder = profile("text")
    (folder / "again").symlink_to(folder)
    (folder / "nowhere").symlink_to(folder / "nowhere")
    document = hermes("analyze", "--strict", "--format", "json", folder).document()
    assert document["steps"] == healthy["text"]["steps"]
    assert len(document["inputs"]) == 1
    assert degraded(document) == []


def test_a_link_to_itself_is_refused(tmp_path: Path, hermes: Any) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert_refused(hermes("analyze", tmp_path / "loop"), str(tmp_path / "loop"))


ODD_NAMES = ("with space", 'it\'s "quoted"', "[a]*?{b}", "größe-日本-🚀", "%41#x?y=1", "a\nb")


@pytest.mark.parametrize(
    ("name", "form"),
    sampled(
        [(name, form) for name in ODD_NAMES for form in ("db", "kineto")] + [("it's [a]*?", "text")],
        ("[a]*?{b}", "db"),
        ("%41#x?y=1", "kineto"),
        ("a\nb", "db"),
    ),
)
def test_any_legal_path_is_read(name: str, form: str, profile: Any, hermes: Any, healthy: Any, tmp_path: Path) -> None:
    folder = profile(form).rename(tmp_path / name)
    ended = hermes("analyze", "--strict", "--format", "json", folder)
    assert ended.code == 0
    assert ended.document()["steps"] == healthy[form]["steps"]


def test_a_path_of_bytes_that_are_no_text_is_read(profile: Any, hermes: Any, tmp_path: Path) -> None:
    folder = profile("kineto").rename(Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd-\xff\xfe")))
    ended = hermes("analyze", "--format", "json", folder)
    assert ended.code == 0
    ended.out.encode("utf-8")
    assert hermes("analyze", folder).code == 0


def test_two_captures_of_a_rank_are_told_apart_by_their_stamps(profile: Any, hermes: Any) -> None:
    folder = profile("text")
    (first,) = folder.iterdir()
    later = first.name.replace("20250109", "20250110")
    shutil.copytree(first, folder / later)
    ended = hermes("analyze", "--strict", "--format", "json", folder)
    assert ended.code == 0
    assert ended.document()["inputs"][0]["path"].endswith(later)
    assert "captured 2 times" in ended.out
    chosen = hermes("analyze", "--format", "json", "--capture", "20250109", folder).document()
    assert chosen["inputs"][0]["path"].endswith(first.name)
    assert_refused(hermes("analyze", "--capture", "2031", folder), "2031")


def test_two_folders_that_say_the_same_rank_are_doubtful(profile: Any, hermes: Any, healthy: Any) -> None:
    folder = profile("text")
    (first,) = folder.iterdir()
    shutil.copytree(first, folder / first.name.replace("_31", "_99", 1))
    ended = hermes("analyze", "--strict", "--format", "json", folder)
    assert ended.code == 3
    (note,) = degraded(ended.document())
    assert "all give rank 0 as their rank" in note["message"]["text"]
    assert first.name in note["where"]
    assert ended.document()["steps"] == healthy["text"]["steps"]


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(
        tmp_path_factory.mktemp("eight"),
        Job(ranks=8, steps=1, layers=1, level="Level0"),
        formats=["ascend-db", "kineto"],
    )


@pytest.mark.parametrize(
    ("form", "file", "content"),
    [
        ("ascend-db", "ascend_pytorch_profiler_5.db", b""),
        ("ascend-db", "ascend_pytorch_profiler_5.db", b"hello" * 50),
        ("kineto", "rank5.pt.trace.json", b""),
        ("kineto", "rank5.pt.trace.json", bytes(4096)),
        ("kineto", "rank5.pt.trace.json", b'{"schemaVersion": 1, "traceEvents": []}'),
    ],
)
def test_one_broken_rank_of_eight_leaves_seven(
    form: str, file: str, content: bytes, eight: Path, tmp_path: Path, one: Any, hermes: Any
) -> None:
    folder = Path(shutil.copytree(eight / form, tmp_path / "in"))
    broken = one(folder, file)
    for beside in broken.parent.glob("analysis.db"):
        beside.unlink()
    broken.write_bytes(content)
    ended = hermes("analyze", "--strict", "--format", "json", folder)
    assert ended.code == 3
    document = ended.document()
    assert document["coverage"]["ranks_seen"] == [0, 1, 2, 3, 4, 6, 7]
    assert any(file in note["where"] and note["lost"]["text"] and note["hint"]["text"] for note in degraded(document))


@pytest.mark.parametrize("form", ["text", "kineto"])
def test_a_file_that_grows_while_it_is_read_is_refused(
    form: str, profile: Any, one: Any, hermes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = profile(form)
    trace = one(folder, "*trace*.json")
    fill = Sink.fill

    def grow(self: Sink) -> None:
        with trace.open("ab") as raw:
            raw.write(b"\n")
        fill(self)

    monkeypatch.setattr(Sink, "fill", grow)
    assert_refused(hermes("analyze", folder), "changed while it was being read", trace.name, "lost:")


def test_a_folder_with_communication_only_is_marked(profile: Any, hermes: Any) -> None:
    folder = profile("text")
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith(("communication", "profiler_")):
            path.unlink()
    ended = hermes("analyze", "--strict", "--format", "json", folder)
    assert ended.code == 3
    messages = [note["message"]["text"] for note in degraded(ended.document())]
    assert "trace_view.json is missing" in messages
    assert "no device task was recorded" in messages


@pytest.mark.parametrize(
    ("form", "rank"),
    [("text", rank) for rank in ("zero", "0", -1, 10**30, [], True)] + [("db", "zero"), ("db", 10**30), ("db", None)],
)
def test_a_rank_that_is_no_rank_never_ends_the_analysis(
    form: str, rank: object, profile: Any, one: Any, hermes: Any
) -> None:
    folder = profile(form)
    path = one(folder, INFO)
    content = json.loads(path.read_text())
    path.unlink()
    path.with_name("profiler_info.json").write_text(json.dumps({**content, "rank_id": rank}))
    for name in ("profiler_metadata.json",):
        one(folder, name).unlink()
    document = hermes("analyze", "--format", "json", folder).document()
    assert document["coverage"]["ranks_seen"] == [0]
    if form == "text" and rank != "0":
        assert any("names the rank of this capture" in note["message"]["text"] for note in document["diagnostics"])


HOLD = """
import sqlite3, sys
con = sqlite3.connect(sys.argv[1], isolation_level=None)
con.execute("BEGIN EXCLUSIVE")
if sys.argv[2] == "change":
    con.execute("PRAGMA cache_size = 1")
    con.execute("DELETE FROM TASK")
    con.execute("CREATE TABLE filler AS SELECT zeroblob(100000)")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["hold", "change"])
def test_a_database_that_another_program_writes_to_is_read_and_marked(
    how: str, profile: Any, one: Any, hermes: Any, healthy: Any
) -> None:
    folder = profile("db")
    path = one(folder, DB)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        ended = hermes("analyze", "--strict", "--format", "json", folder)
    finally:
        holder.communicate(b"")
    assert ended.code == 3
    (note,) = degraded(ended.document())
    assert str(holder.pid) in note["message"]["text"]
    assert path.name in note["where"]
    assert ended.document()["steps"] == healthy["db"]["steps"]


def test_rows_that_are_only_in_the_log_of_a_database_are_read(
    profile: Any, one: Any, hermes: Any, healthy: Any
) -> None:
    folder = profile("db")
    path = one(folder, DB)
    con = sqlite3.connect(path, isolation_level=None)
    con.execute("PRAGMA journal_mode = wal")
    con.execute("PRAGMA wal_autocheckpoint = 0")
    con.execute("CREATE TABLE moved AS SELECT * FROM TASK")
    con.execute("DELETE FROM TASK")
    con.execute("INSERT INTO TASK SELECT * FROM moved")
    before = sorted(folder.rglob("*"))
    ended = hermes("analyze", "--strict", "--format", "json", folder)
    assert sorted(folder.rglob("*")) == before
    con.close()
    assert ended.code == 0
    assert ended.document()["steps"] == healthy["db"]["steps"]


def test_a_profile_that_may_not_be_written_to_is_read(profile: Any, hermes: Any) -> None:
    for form in ("text", "db", "kineto"):
        folder = profile(form)
        places = [folder, *folder.rglob("*")]
        for path in places:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            assert hermes("analyze", "--strict", folder).code == 0
        finally:
            for path in places:
                path.chmod(0o755)


def a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file"


@pytest.mark.parametrize("place", [a_file, lambda folder: a_file(folder) / "below", lambda _: Path("/proc/hermes")])
def test_a_cache_that_cannot_be_made_is_a_message(
    place: Callable[[Path], Path], profile: Any, hermes: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HERMES_CACHE_DIR", str(place(tmp_path)))
    assert_refused(hermes("analyze", profile("kineto")), "cache", "HERMES_CACHE_DIR")


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
from hermes.cli import command
command()
"""


@pytest.mark.parametrize(
    ("form", "limit"), [("text", 20_000), ("text", 4_000), ("db", 1_000), ("kineto", 4_000), ("kineto", 0)]
)
def test_a_disk_that_fills_up_is_a_message(form: str, limit: int, profile: Any, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FULL, str(limit), "analyze", str(profile(form))],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HERMES_CACHE_DIR": str(tmp_path / "cache")},
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "HERMES_CACHE_DIR" in ended.stderr
    assert not any((tmp_path / "cache").rglob("*.parquet"))


@pytest.mark.parametrize("place", [a_file, lambda folder: a_file(folder) / "below", lambda _: Path("/proc/hermes")])
def test_a_report_that_cannot_be_written_is_a_message(
    place: Callable[[Path], Path], profile: Any, hermes: Any, tmp_path: Path
) -> None:
    ended = hermes("analyze", profile("kineto"), "-o", place(tmp_path))
    assert_refused(ended, "-o")


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_an_output_that_is_full_is_a_message(form: str, profile: Any, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [
                sys.executable,
                "-c",
                "from hermes.cli import main; main()",
                "analyze",
                "--format",
                form,
                str(profile("kineto")),
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "the output" in ended.stderr


def test_a_pipe_in_the_folder_stops_nothing(profile: Any, hermes: Any) -> None:
    folder = profile("text")
    os.mkfifo(folder / "trace_view.json")
    assert hermes("analyze", "--strict", folder).code == 0


def test_a_report_is_not_written_into_the_profile(profile: Any, hermes: Any) -> None:
    folder = profile("kineto")
    assert_refused(hermes("analyze", folder, "-o", folder / "out"), "into the profile")
    assert not (folder / "out").exists()
