"""What all commands print alike: errors, and where the cache is."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError, InputError
from hermes.base.say import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.profiles.api import Engine, Loaded
    from hermes.store.cache import Cache

_M_ARENA_MAX = -8
"""The number of `mallopt(3)` for how many arenas there are."""


def show_error(error: HermesError) -> None:
    """What, where, what is lost, what to do, on stderr."""
    print(f"hermes: {plain(say(error.what))}", file=sys.stderr)
    for label, text in (("where", error.where), ("lost", error.lost), ("what to do", error.hint)):
        if text:
            print(f"  {label + ':':<12}{plain(say(text))}", file=sys.stderr)


def plain(text: str) -> str:
    """Text from a file without control characters, so that it cannot steer the terminal."""
    return "".join(character if character.isprintable() or character == "\n" else "�" for character in text)


def refuse_inside(folder: Path, paths: Sequence[Path | str], what: str) -> None:
    """Raise `InputError` if a folder to write into lies in one of the profiles."""
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
    """The cache of this user."""
    from hermes.store.cache import Cache, default_root

    return Cache(default_root(os.environ, Path.home()))


def load_profiles(
    paths: Sequence[Path | str],
    capture: str,
    meanwhile: Callable[[], None] | None = None,
    engine: Engine | None = None,
    ranks: frozenset[int] | None = None,
    steps: frozenset[int] | None = None,
) -> Loaded:
    """The tables of the profiles; files that changed are hashed while the libraries load.

    `meanwhile` runs beside the reading, which for the most part leaves the interpreter free: it imports what the
    command needs next.
    """
    from hermes.store.files import Digests
    from hermes.store.index import Index

    _save_memory()
    cache = open_cache()
    local = [path for path in paths if isinstance(path, Path)]
    with Digests(local, Index(cache.root, local)) as digests:
        from hermes.profiles.api import load

        if meanwhile:
            # The reading needs the interpreter a thousand times for a moment, and should not wait 5 ms each time.
            sys.setswitchinterval(0.000_5)
            threading.Thread(target=meanwhile, daemon=True).start()
        return load(paths, cache, capture=capture, digests=digests, engine=engine, tell=_tell, ranks=ranks, steps=steps)


def _save_memory() -> None:
    """Tell libraries, before they are loaded, that few threads ask for memory here.

    It is said here and not for every command, since some of them hand their environment on to the user's program.
    """
    # A library for linear algebra, of which there is none here, would start threads that wake to look for work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Polars keeps memory for as many threads as there might be; here what it frees goes back to the system soon. It
    # leaves its own wishes in the environment of whatever a process starts: the last of them counts.
    own = "narenas:2,dirty_decay_ms:50,muzzy_decay_ms:0"
    os.environ["_RJEM_MALLOC_CONF"] = ",".join(filter(None, (os.environ.get("_RJEM_MALLOC_CONF"), own)))
    # The C library would keep an arena for each thread; where it is another one it has no such wish.
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _tell(text: str) -> None:
    print(f"hermes: {plain(text)}", file=sys.stderr, flush=True)
