"""Prints what all commands share, errors and documents, and opens the cache and the profiles for them."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hermes.base.end_on_signal import clear_on_signal
from hermes.base.errors import HermesError, InputError
from hermes.base.sanitize_text import clean_lines, harmless_line, shell_command
from hermes.base.say import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

    from hermes.model.document import Document
    from hermes.profiles.api import Engine, Loaded
    from hermes.store.cache import Cache

_FILE_WIDTH = 120
_NOTES = 8
"""Largest number of notes on the input that are printed by a command that prints something else."""
_M_ARENA_MAX = -8
"""The number in `mallopt(3)` for the count of arenas."""


def show_error(error: HermesError) -> None:
    """Print an error on stderr: what happened, where, what is lost, and what to do."""
    show_line(f"hermes: {say(error.what)}", to=sys.stderr)
    for label, text in (("where", error.where), ("lost", error.lost), ("what to do", error.hint)):
        if text:
            show_line(f"  {label + ':':<12}{say(text)}", to=sys.stderr)


def show_document(
    document: Document, form: str, lang: str | None, out: Path | None = None, *, whole: bool = False
) -> None:
    """Print a document, or write it into a file: `text`, `json`, `html` or `xlsx`, in the reader's language.

    With `whole`, the text leaves nothing out. Raises `HermesError` for a file that cannot be written.
    """
    from hermes.report.chinese_sentences import language

    spoken = lang or language()
    if form == "text" and out is None:
        _draw(document, None, spoken, whole=whole)
        return
    content = _file(document, form, spoken, whole=whole)
    if out is None:
        if form == "xlsx" and sys.stdout.isatty():
            raise InputError("a spreadsheet is no text for a terminal", where="--format xlsx", hint="add -o FILE")
        if form == "xlsx":
            sys.stdout.buffer.write(content)
        else:
            show_data(content.decode(), end="")
        return
    try:
        out.write_bytes(content)
    except OSError as refused:
        raise HermesError(
            f"the file cannot be written ({refused.strerror})", where=str(out), hint="give -o another file"
        ) from refused


def write_files(files: Mapping[str, bytes], out: Path) -> list[str]:
    """Write files with these names into a folder; returns their paths. Raises `HermesError` if that is not possible."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (out / name).write_bytes(content)
    except OSError as refused:
        raise HermesError(
            f"the report cannot be written ({refused.strerror})",
            where=str(refused.filename or out),
            hint="give -o another folder",
        ) from refused
    return [str(out / name) for name in files]


def _file(document: Document, form: str, language: str, *, whole: bool) -> bytes:
    """A document in the given form, as the content of a file."""
    if form == "json":
        from hermes.report.document_json import document_json

        return document_json(document).encode()
    if form == "html":
        from hermes.report.document_html import document_html

        return document_html(document, language).encode()
    if form == "xlsx":
        from hermes.report.document_sheet import document_sheets

        return document_sheets(document, language)
    drawn = io.StringIO()
    _draw(document, drawn, language, whole=whole)
    return drawn.getvalue().encode()


def _draw(document: Document, file: TextIO | None, language: str, *, whole: bool) -> None:
    from rich.console import Console

    from hermes.report.document_text import render_document
    from hermes.report.localized_texts import teller

    console = Console(file=file, width=None if file is None else _FILE_WIDTH)
    render_document(document, console, tell=teller(language), whole=whole)


def plain(text: str) -> str:
    """Text of several lines without control characters that would steer the terminal."""
    return clean_lines(text)


def show_line(text: str, *, to: TextIO | None = None) -> None:
    """Print one line, whatever a name in it contains. `to` defaults to the standard output."""
    print(harmless_line(text), file=to or sys.stdout, flush=True)


def show_lines(text: str, *, to: TextIO | None = None) -> None:
    """Print text of several lines. `to` defaults to the standard output."""
    print(clean_lines(text), file=to or sys.stdout, flush=True)


def show_data(text: str, *, end: str = "\n") -> None:
    """Print data for another program exactly; on a terminal, control characters are left out."""
    print(clean_lines(text) if sys.stdout.isatty() else text, end=end, flush=True)


def refuse_inside(folder: Path, paths: Sequence[Path | str], what: str) -> None:
    """Raise `InputError` if an output folder lies in one of the profiles."""
    target = folder.resolve()
    for path in (path for path in paths if isinstance(path, Path)):
        root = path.resolve()
        inside = (target == root or root in target.parents) if path.is_dir() else target == root.parent
        if inside:
            raise InputError(
                f"{what} would be written into the profile",
                where=str(folder),
                hint="give a folder outside of what is analysed",
            )


def open_cache() -> Cache:
    """The cache of profile tables of this user."""
    from hermes.store.cache import Cache, default_root
    from hermes.store.unfinished_folders import sweep

    root = default_root(os.environ, Path.home())
    # At its end the process removes its unfinished files; its worker processes are ended.
    clear_on_signal(lambda: sweep(root))
    return Cache(root)


def load_profiles(
    paths: Sequence[Path | str],
    capture: str,
    meanwhile: Callable[[], None] | None = None,
    engine: Engine | None = None,
    ranks: frozenset[int] | None = None,
    steps: frozenset[int] | None = None,
    lacks: Literal["said", "in the answer"] = "said",
) -> Loaded:
    """The tables of the profiles; changed files are hashed while the libraries load.

    Missing parts of the input are printed at once on stderr, unless the command's answer lists them. `meanwhile` runs
    beside the reading, which mostly leaves the interpreter free: it imports modules that the command needs next.
    """
    from hermes.store.file_index import Index
    from hermes.store.input_files import Digests

    _save_memory()
    cache = open_cache()
    local = [path for path in paths if isinstance(path, Path)]
    with Digests(local, Index(cache.root, local)) as digests:
        from hermes.profiles.api import load

        if meanwhile:
            # The reading needs the interpreter a thousand times for a moment, and should not wait 5 ms each time.
            sys.setswitchinterval(0.000_5)
            threading.Thread(target=meanwhile, daemon=True).start()
        loaded = load(
            paths, cache, capture=capture, digests=digests, engine=engine, tell=_tell, ranks=ranks, steps=steps
        )
    if lacks == "said":
        _show_lacks(loaded)
    return loaded


def _show_lacks(loaded: Loaded) -> None:
    from hermes.cli.messages import do_analyze, more_notes

    notes = [note for note in loaded.notes if note.level == "degraded"]
    for note in notes[:_NOTES]:
        show_error(HermesError(note.message, where=note.where, lost=note.lost, hint=note.hint))
    if len(notes) > _NOTES:
        command = shell_command("hermes", "analyze", *map(str, loaded.paths))
        show_error(HermesError(more_notes(n=len(notes) - _NOTES), hint=do_analyze(command=command)))


def _save_memory() -> None:
    """Tell libraries, before they are loaded, that few threads allocate memory in this process.

    The settings are made here and not for every command, since some commands pass their environment on to the user's
    program.
    """
    # A library for linear algebra would start threads that wake to look for work, and there is none here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Polars keeps memory for as many threads as there might be; with this setting freed memory soon returns to the
    # system. Polars leaves its own setting in the environment of child processes: the last setting counts.
    own = "narenas:2,dirty_decay_ms:50,muzzy_decay_ms:0"
    os.environ["_RJEM_MALLOC_CONF"] = ",".join(filter(None, (os.environ.get("_RJEM_MALLOC_CONF"), own)))
    few_arenas()


def few_arenas() -> None:
    """Limit the arenas of the C library, which keeps one for each thread; another C library has no such setting."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _tell(text: str) -> None:
    show_line(f"hermes: {text}", to=sys.stderr)
