"""The list of files that Hermes reads is the list that its readers know, and stands in hints."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.each import each

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.knowledge.input_files import INPUT_FILES, InputFiles
from hermes.profiles.load import load
from hermes.profiles.read.ascend import memscope
from hermes.profiles.read.ascend.capture_folders import is_profiler_file
from hermes.store.cache import Cache

OF_ASCEND = [one for one in INPUT_FILES if one.program in ("torch_npu and MindSpore", "msprof")]


@each(OF_ASCEND, lambda one: one.program)
def test_readers_know_each_file_of_ascend(one: InputFiles) -> None:
    for name in (*one.names, *one.beside):
        if not name.endswith("/"):
            samples = [name.replace("*", sample) for sample in ("0", "20251104120001")]
            assert any(map(is_profiler_file, samples)), name


def test_readers_know_the_files_of_the_memory_tool() -> None:
    (names,) = (one.names for one in INPUT_FILES if one.program == "msMemScope")
    assert all(memscope._NAME.match(name.replace("*", "20250101000000")) for name in names)


def test_the_hint_of_a_refused_folder_names_every_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError) as refused:
        load([tmp_path], Cache(tmp_path / "cache"))
    hint = say(refused.value.hint)
    assert [name for one in INPUT_FILES for name in (one.program, *one.names) if name not in hint] == []
