"""Which of the processes that ask are the ranks of a job, from what the system says of them; and which are refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.base.errors import InputError, QueryError
from hermes.base.say import say
from hermes.inside.wire.process import own_identity
from hermes.jobs.kineto_daemon.asking_processes import (
    ProcessFacts,
    of_job,
    of_ranks,
    parent_processes,
    process_facts,
    refusal,
    trainings,
)
from hermes.jobs.kineto_daemon.libkineto_support import RESTRICTED

PLAIN = ProcessFacts(pid=10, started=1, parent=1, command="python train.py", torch="2.13.0+cpu")


def rank(number: int, pid: int, parent: int = 5) -> ProcessFacts:
    return replace(PLAIN, pid=pid, parent=parent, rank=number, here=2, world=2)


def proc(tmp_path: Path, maps: str = "", environ: bytes = b"RANK=1\0LOCAL_WORLD_SIZE=2\0WORLD_SIZE=4\0") -> Path:
    """A folder as /proc has it, of process 10."""
    folder = tmp_path / "proc" / "10"
    folder.mkdir(parents=True)
    (folder / "environ").write_bytes(environ)
    (folder / "cmdline").write_bytes(b"python\0train.py\0--lr\0")
    (folder / "stat").write_text("10 (a ) b) S 5 " + " ".join(map(str, range(1_000_005, 1_000_053))))
    (folder / "maps").write_text(maps)
    return tmp_path / "proc"


def with_torch(tmp_path: Path, text: str) -> Path:
    home = tmp_path / "root" / "site" / "torch"
    (home / "lib").mkdir(parents=True)
    (home / "version.py").write_text(text)
    made = proc(
        tmp_path,
        "7f00-7f01 r--p 0 08:01 1 /usr/lib/libc.so\n7f02-7f03 r-xp 0 08:01 2   /site/torch/lib/libtorch_cpu.so\n",
    )
    (made / "10" / "root").symlink_to(tmp_path / "root")
    return made


def test_a_process_is_what_the_system_says(tmp_path: Path) -> None:
    made = with_torch(tmp_path, "from x import y\n__version__ = '2.13.0+cpu'\ndebug = False\n")
    found = process_facts(10, made)
    assert found == ProcessFacts(
        pid=10, started=1_000_022, parent=5, command="python train.py --lr", torch="2.13.0+cpu", rank=1, here=2,
        world=4, library=made / "10" / "root" / "site" / "torch" / "lib" / "libtorch_cpu.so",
    )  # fmt: skip
    assert not found.alive
    assert (found.job, replace(found, rank=None).job) == (5, 10)


def test_this_process_is_known_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    found = process_facts(os.getpid())
    assert found is not None
    assert (found.pid, found.started, found.alive) == (*own_identity(), True)
    assert parent_processes(os.getpid())[:2] == (os.getpid(), os.getppid())
    assert process_facts(10, tmp_path) is None
    assert parent_processes(10, tmp_path) == (10,)


WORDS = ("PROFILE_START_ITERATION", "ACTIVITIES_ITERATIONS")


def with_library(tmp_path: Path, *words: str, **changes: str) -> ProcessFacts:
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(b"\0".join((b"\x7fELF", *(word.encode() for word in words), b"")))
    return replace(PLAIN, library=library, torch="3.1.0a0+git1", **changes)


def test_a_torch_of_any_version_is_asked_if_its_library_knows_the_words(tmp_path: Path) -> None:
    assert refusal(with_library(tmp_path, *WORDS), WORDS, Path("/captures")) is None


def test_a_word_that_the_library_does_not_hold_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    found = refusal(with_library(tmp_path, WORDS[0]), WORDS, Path("/captures"))
    assert found is not None
    assert say(found[0]) == "the libkineto of process 10 (torch 3.1.0a0+git1) does not know ACTIVITIES_ITERATIONS"


def test_a_library_that_cannot_be_read_is_asked_and_its_trace_tells(tmp_path: Path) -> None:
    assert refusal(PLAIN, WORDS, Path("/captures")) is None
    assert refusal(replace(PLAIN, library=tmp_path / "absent"), WORDS, Path("/captures")) is None
    (tmp_path / "empty").touch()
    assert refusal(replace(PLAIN, library=tmp_path / "empty"), WORDS, Path("/captures")) is None


def test_a_library_that_writes_into_one_folder_alone_is_asked_for_no_other(tmp_path: Path) -> None:
    of = with_library(tmp_path, *WORDS, RESTRICTED)
    assert refusal(of, WORDS, Path("/tmp/mine")) is None
    found = refusal(of, WORDS, Path("/captures"))
    assert found is not None
    assert "writes traces only below /tmp" in say(found[0])
    assert RESTRICTED in say(found[1])
    assert refusal(replace(of, traces="/captures"), WORDS, Path("/captures/x")) is None


def test_a_torch_without_a_version_is_told_as_one(tmp_path: Path) -> None:
    found = process_facts(10, with_torch(tmp_path, "x = 2"))
    assert found is not None
    assert found.torch == ""


def test_launchers_and_workers_are_no_ranks() -> None:
    found = {5: replace(PLAIN, pid=5), 20: rank(1, 20), 10: rank(0, 10), 11: rank(0, 11, parent=10)}
    over = {5: (5, 1), 20: (20, 5, 1), 10: (10, 5, 1), 11: (11, 10, 5, 1)}
    assert [of.pid for of in trainings(found, over)] == [10, 20]


def test_without_ranks_all_may_train() -> None:
    found = {10: PLAIN, 11: replace(PLAIN, pid=11, parent=10)}
    assert [of.pid for of in trainings(found, {10: (10, 1), 11: (11, 10, 1)})] == [10, 11]


def test_a_job_is_the_only_one_or_is_named() -> None:
    ranks, other = [rank(0, 10), rank(1, 20)], replace(PLAIN, pid=30, command="python tune.py")
    over = {10: (10, 5), 20: (20, 5), 30: (30, 1)}
    assert of_job(ranks, "", over) == ranks
    assert of_job([*ranks, other], "tune", over) == [other]
    assert of_job([*ranks, other], "5", over) == ranks
    assert of_job([*ranks, other], "30", over) == [other]
    with pytest.raises(QueryError, match="several jobs ask this daemon") as both:
        of_job([*ranks, other], "", over)
    assert say(both.value.hint) == "name one process by its number: 5: python train.py and 30: python tune.py"
    with pytest.raises(QueryError, match="no process called 'x' asks this daemon"):
        of_job(ranks, "x", over)


def test_ranks_are_those_of_the_launcher_and_others_are_numbered_on() -> None:
    assert of_ranks([rank(3, 10)], ()) == {3: rank(3, 10)}
    two = [PLAIN, replace(PLAIN, pid=11)]
    assert of_ranks(two, ()) == {0: two[0], 1: two[1]}
    assert of_ranks(two, (1,)) == {1: two[1]}
    with pytest.raises(InputError, match="rank 2 does not ask"):
        of_ranks(two, (1, 2))
