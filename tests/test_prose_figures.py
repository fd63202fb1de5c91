"""Checks that the figures on prose count only sentences of prose, and leave out code, tables and headings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from prose_figures import figures, main, sentences, texts

PAGE = """# A title that is no sentence

You run `hermes analyze`. It writes [a long report](report.html) so that **you** can read it. Short.

```sh
hermes analyze so that you see no code
```

    hermes of indented code that you run

| a table | of which | nothing counts |
|---|---|---|

- One bullet is one sentence
- A bullet of two lines goes on
  in the second one
"""
TITLED = """A title
=======

.. code:: shell

   you run that it

Read ``this page`` and :doc:`the next one <next>`::

   so that you see
"""


def test_sentences_are_those_of_prose() -> None:
    assert [*sentences(PAGE)] == [
        "You run CODE.",
        "It writes a long report so that **you** can read it.",
        "One bullet is one sentence",
        "A bullet of two lines goes on in the second one",
    ]
    assert [*sentences(TITLED, restructured=True)] == ["Read CODE and the next one:"]


def test_long_hanging_and_addressing_sentences_are_counted() -> None:
    counted = figures([(PAGE, False), ("word " * 31, False)])
    assert (counted.sentences, counted.words) == (5, 3 + 11 + 5 + 11 + 31)
    assert (counted.long, counted.hanging, counted.you) == (1, 1, 2)


def test_docstrings_and_messages_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('"""What a file holds."""\nLIMIT = 3\n"""More than this is long."""\n', "utf-8")
    (tmp_path / "en.po").write_text('msgid "x.late"\nmsgstr "Rank {rank} is late."\n', "utf-8")
    said = texts([tmp_path / "a.py", tmp_path / "en.po"])
    assert [one for text, _ in said for one in sentences(text)] == [
        "What a file holds.", "More than this is long.", "Rank 7 is late.",
    ]  # fmt: skip


def test_it_prints_a_row_for_each_group(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["prose_figures.py"])
    main()
    rows = capsys.readouterr().out.splitlines()[2:]
    names = [row.split("|")[1].strip() for row in rows]
    assert names[:3] == ["docs", "rule pages", "cases"]
    assert all(int(row.split("|")[2]) > 50 for row in rows)
