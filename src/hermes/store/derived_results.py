"""Stores results computed from cached tables beside the tables: valid only for the same content and the same code."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import hermes.version
from hermes.base.write_atomic import write_atomic
from hermes.store.private_folders import private_folder
from hermes.store.serialize_rows import dumps, loads

T = TypeVar("T")
FOLDER = "measured"
_CODE = ("base", "knowledge", "model", "profiles", "report", "store")


class DerivedResults:
    """Stored results of functions, keyed by the inputs of the functions; without a cache nothing is stored."""

    def __init__(self, root: Path | None) -> None:
        self.root = root

    def or_make(self, make: Callable[[], T], *of: str) -> T:
        """The stored result for the same inputs, or else the result that `make` computes now."""
        if self.root is None:
            return make()
        path = self.root / FOLDER / _name(of)
        try:
            found: T = loads(path.read_bytes())
        except (OSError, ValueError):
            found = make()
            _keep(path, dumps(found))
        return found


def _name(of: tuple[str, ...]) -> str:
    digest = hashlib.sha256("\0".join((code(), *of)).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest[:2]}/{digest}.json"


def _keep(path: Path, raw: bytes) -> None:
    """Store a result; a failure is ignored, since a missing cache only costs time."""
    with contextlib.suppress(OSError):
        private_folder(path.parent)
        with write_atomic(path) as file:
            file.write(raw)


@cache
def code() -> str:
    """A digest of the measuring code: if any line of that code changes, all results are computed anew."""
    here = Path(hermes.version.__file__).parent
    whole = hashlib.sha256()
    for room in _CODE:
        for path in sorted(found for found in (here / room).rglob("*.*") if found.suffix != ".pyc" and found.is_file()):
            whole.update(f"{path.relative_to(here)}\0".encode())
            whole.update(path.read_bytes())
    return whole.hexdigest()
