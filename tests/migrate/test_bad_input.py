"""Files and trees that are broken or odd: each is read, or named with the reason; nothing is lost or half written."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.skips import bound_by_modes

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.migrate import find_files
from hermes.migrate.scan_model import Style, Target, TreeChange
from hermes.migrate.scan_source_tree import convert_tree, scan_tree
from hermes.migrate.write import write_beside_tree, write_in_place_of_tree

CUDA = "import torch\ntorch.cuda.synchronize()\n"


def _change(root: Path) -> TreeChange:
    return convert_tree(root, Target(), Style.NATIVE)


def _why(root: Path) -> dict[str, str]:
    return {one.where: say(one.message) for one in scan_tree(root, Target()).skipped}


@pytest.mark.parametrize(("text", "why"), [
    ("def f(:\n", "cannot be parsed as Python, line 1"),
    ("print 'x'\n", "Python 2"),
    ("try:\n    f()\nexcept E, e:\n    pass\n", "Python 2"),
    ("x = (" * 2000, "cannot be parsed"),
    ("x = '\x00'\n", "not text"),
])  # fmt: skip
def test_what_is_no_python_is_named_and_copied_as_it_is(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "bad.py").write_text(text)
    (tmp_path / "a" / "good.py").write_text(CUDA)
    assert why in _why(tmp_path / "a")["bad.py"]
    write_beside_tree(_change(tmp_path / "a"), tmp_path / "out")
    assert (tmp_path / "out" / "bad.py").read_text() == text
    assert "accelerator" in (tmp_path / "out" / "good.py").read_text()


def test_a_loop_of_links_ends_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text(CUDA)
    (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "dead.py").symlink_to(tmp_path / "nowhere")
    why = _why(tmp_path)
    assert "read already" in why["a/again/"]
    assert "nowhere" in why["dead.py"]


@pytest.mark.parametrize("data", [
    b"\xef\xbb\xbf" + CUDA.encode(),
    b"# -*- coding: gbk -*-\n# \xc4\xe3\xba\xc3\n" + CUDA.encode(),
    b"# \xff\xfe caf\xe9\n" + CUDA.encode(),
    CUDA.replace("\n", "\r\n").encode(),
    "import torch\nx = '你好'; torch.cuda.synchronize()  # é\n".encode(),
    CUDA.encode().rstrip(b"\n"),
])  # fmt: skip
def test_other_encodings_and_newlines_keep_every_other_byte(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_bytes(data)
    write_beside_tree(_change(tmp_path / "a"), tmp_path / "out")
    assert (tmp_path / "out" / "x.py").read_bytes() == data.replace(b"torch.cuda.", b"torch.accelerator.")


def test_a_large_file_is_named(tmp_path: Path) -> None:
    with (tmp_path / "x.py").open("wb") as stream:
        stream.truncate(11 * 2**20)
    assert "11.5 MB" in _why(tmp_path)["x.py"]


def test_a_notebook_is_read_by_its_cells_and_not_changed(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["torch.cuda"]},
        {"cell_type": "code", "source": ["%pip install x\n", "import torch\n"]},
        {"cell_type": "code", "source": ["\n", "torch.cuda.synchronize()"]},
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    ((_, place),) = scan_tree(tmp_path, Target()).places
    assert (say(place.what), place.line) == ("cell 3: torch.cuda.synchronize", 2)
    assert not _change(tmp_path).changed


def test_a_broken_notebook_is_named(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text("{")
    assert "notebook" in _why(tmp_path)["n.ipynb"]


@pytest.mark.parametrize("make", [scan_tree, convert_tree])
@pytest.mark.parametrize("files", [{}, {"x.py": ""}, {"x.py": "print(1)\n"}, {"README.md": "cuda\n"}, {"c.json": "{}"}])
def test_a_tree_that_is_no_program_of_torch_is_no_answer(make: Any, files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError):
        make(tmp_path, Target(), *((Style.NATIVE,) if make is convert_tree else ()))


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such"):
        scan_tree(tmp_path / "x", Target())


def test_a_single_file_is_scanned_and_converted(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(CUDA)
    assert len(scan_tree(tmp_path / "x.py", Target()).places) == 1
    write_beside_tree(_change(tmp_path / "x.py"), tmp_path / "out")
    assert "accelerator" in (tmp_path / "out" / "x.py").read_text()


def _git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


@pytest.mark.live
def test_in_place_refuses_an_uncommitted_tree_until_forced(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(CUDA)
    with pytest.raises(InputError, match="in no git repository"):
        write_in_place_of_tree(_change(tmp_path), force=False)
    _git(tmp_path, "init", "-q")
    with pytest.raises(InputError, match="uncommitted"):
        write_in_place_of_tree(_change(tmp_path), force=False)
    assert (tmp_path / "x.py").read_text() == CUDA
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-qm", "x")
    write_in_place_of_tree(_change(tmp_path), force=False)
    assert "accelerator" in (tmp_path / "x.py").read_text()
    (tmp_path / "x.py").write_text(CUDA)
    write_in_place_of_tree(_change(tmp_path), force=True)
    assert "accelerator" in (tmp_path / "x.py").read_text()


def _with_submodule(tmp_path: Path) -> tuple[Path, Path]:
    """A committed tree, and a submodule of it; files of both have a filter that no configuration names yet."""
    root, below = tmp_path / "tree", tmp_path / "tree" / "below"
    for folder in (below, root):
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "x.py").write_text(CUDA)
        (folder / ".gitattributes").write_text("*.py filter=evil\n")
        (folder / ".gitignore").write_text("more\n")
        _git(folder, "init", "-q")
        if folder == root:
            _git(root, "submodule", "add", "-q", "./below", "below")
        _git(folder, "add", "-A")
        _git(folder, "commit", "-qm", "x")
    return root, below


def _config(folder: Path) -> Path:
    told = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "--absolute-git-dir"], check=True, capture_output=True
    )
    return Path(told.stdout.decode().strip()) / "config"


@pytest.mark.live
def test_nothing_that_the_tree_tells_git_is_run(tmp_path: Path) -> None:
    """Its filters, in files that it includes too, in a submodule, and a program to fetch what a partial clone lacks."""
    ran = tmp_path / "ran"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    evil.chmod(0o755)
    root, below = _with_submodule(tmp_path)
    for folder in (root, below):
        (folder / "more").write_text(f'[filter "evil"]\nclean = {evil}\nprocess = {evil}\nrequired\n')
        for name, value in (("include.path", folder / "more"), ("core.fsmonitor", evil), ("core.hooksPath", tmp_path)):
            subprocess.run(["git", "config", "--file", str(_config(folder)), name, str(value)], check=True)
        os.utime(folder / "x.py", (1, 1))
    write_in_place_of_tree(_change(root), force=False)
    assert not ran.exists()
    assert all("accelerator" in (folder / "x.py").read_text() for folder in (root, below))


@pytest.mark.live
def test_changes_in_a_submodule_are_seen(tmp_path: Path) -> None:
    root, below = _with_submodule(tmp_path)
    (below / "x.py").write_text(CUDA + "# mine\n")
    with pytest.raises(InputError, match="uncommitted"):
        write_in_place_of_tree(_change(root), force=False)


def _linked(tmp_path: Path) -> tuple[Path, list[Path]]:
    """A tree with links to files and folders outside of it and in it, and the files that must stay as they are."""
    root, apart = tmp_path / "tree", tmp_path / "apart"
    (apart / "deep").mkdir(parents=True)
    root.mkdir()
    kept = [apart / "file.py", apart / "deep" / "x.py", apart / "deep" / "y.txt", root / "real.py"]
    for path in kept:
        path.write_text(CUDA)
    (root / "file.py").symlink_to(apart / "file.py")
    (root / "up.py").symlink_to("../apart/file.py")
    (root / "real_too.py").symlink_to(root / "real.py")
    (root / "near.py").symlink_to("real.py")
    (root / "deep").symlink_to(apart / "deep")
    os.mkfifo(root / "pipe.py")
    return root, kept


def test_a_copy_changes_nothing_behind_links(tmp_path: Path) -> None:
    root, kept = _linked(tmp_path)
    out = tmp_path / "out"
    write_beside_tree(_change(root), out)
    assert {path.read_text() for path in kept} == {CUDA}
    for name in ("file.py", "up.py", "real.py", "real_too.py", "near.py", "deep/x.py"):
        assert "accelerator" in (out / name).read_text(), name
    assert (out / "near.py").readlink() == Path("real.py")
    assert (out / "deep" / "y.txt").read_text() == CUDA
    assert not (out / "pipe.py").exists()


def test_in_place_changes_nothing_outside_of_the_tree(tmp_path: Path) -> None:
    root, kept = _linked(tmp_path)
    with pytest.raises(InputError, match="leads out of the tree"):
        write_in_place_of_tree(_change(root), force=True)
    assert {path.read_text() for path in kept} == {CUDA}


def test_in_place_keeps_mode_and_links_and_leaves_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text(CUDA)
    (tmp_path / "real.py").chmod(0o755)
    (tmp_path / "link.py").symlink_to("real.py")
    write_in_place_of_tree(_change(tmp_path), force=True)
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "real.py").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.py", "real.py"]


def test_a_read_only_tree_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(CUDA)
    (tmp_path / "x.py").chmod(0o444)
    with bound_by_modes(), pytest.raises(InputError, match="read-only"):
        write_in_place_of_tree(_change(tmp_path), force=True)


def test_a_read_only_tree_is_converted_beside(tmp_path: Path) -> None:
    root = tmp_path / "a"
    (root / "b").mkdir(parents=True)
    (root / "b" / "x.py").write_text(CUDA)
    (root / "b" / "x.py").chmod(0o444)
    (root / "b").chmod(0o555)
    try:
        write_beside_tree(_change(root), tmp_path / "out")
    finally:
        (root / "b").chmod(0o755)
    assert "accelerator" in (tmp_path / "out" / "b" / "x.py").read_text()


def test_the_result_is_not_written_over_something_or_into_the_original(tmp_path: Path) -> None:
    root = tmp_path / "a"
    root.mkdir()
    (root / "x.py").write_text(CUDA)
    with pytest.raises(InputError, match="into the original"):
        write_beside_tree(_change(root), root / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "y").write_text("")
    with pytest.raises(InputError, match="not empty"):
        write_beside_tree(_change(root), tmp_path / "full")


def test_a_name_of_ours_that_the_program_uses_for_itself_is_respected(tmp_path: Path) -> None:
    text = 'import torch\n_ACCELERATOR = "mine"\nx = torch.ones(2, device="cuda")\n'
    (tmp_path / "x.py").write_text(text)
    assert not _change(tmp_path).changed


def test_what_may_not_be_looked_at_is_passed_over_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(CUDA)
    (tmp_path / "processes").symlink_to("/proc")
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "x.py").write_text(CUDA)
    (tmp_path / "half").chmod(0o400)
    try:
        with bound_by_modes():
            found, skipped = find_files.find(tmp_path)
    finally:
        (tmp_path / "half").chmod(0o700)
    assert [one.relative for one in found] == ["train.py"]
    assert {one.where for one in skipped} == {"processes/", "closed/", "half/x.py"}
    monkeypatch.setenv("HERMES_LIMIT_FILES", "3")
    with pytest.raises(InputError, match="at most 3 files and folders"):
        find_files.find(tmp_path)


@pytest.mark.parametrize("source", [
    "files = !ls -Art\ntorch.cuda.empty_cache()", "if new:\n  !git clone x\ntorch.cuda.empty_cache()",
    "!pip install \\\n  apex\ntorch.cuda.empty_cache()", "%matplotlib inline\nt = %timeit -o f()\ntorch.cuda.empty_cache()",
    "torch.ones?\nf??\ntorch.cuda.empty_cache()", "x = a != b\ntorch.cuda.empty_cache()",
])  # fmt: skip
def test_commands_in_a_cell_do_not_hide_its_python(tmp_path: Path, source: str) -> None:
    cells = [
        {"cell_type": "code", "source": "%%bash\nfor i in *; do rm $i; done"},
        {"cell_type": "code", "source": f"import torch\n{source}"},
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    (scanned,) = scan_tree(tmp_path, Target()).files
    assert scanned.skipped is None
    assert [(one.rule, one.line) for one in scanned.places] == [("cuda-call", source.count("\n") + 2)]
