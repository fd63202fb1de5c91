"""Finds where in the user's code an operator was called: stacks of frames outside torch, each with a number."""

from __future__ import annotations

import linecache
import sys
from typing import Any

_DEEPEST = 6
"""Largest number of frames kept of one call; a finding names the line of the innermost frame."""


_ENGINE = "_engine_run_backward"
"""The function from which torch calls its backward engine: frames beyond it belong to the caller of the backward
pass."""


class Frames:
    """The numbered stacks of a recording. `new` returns the stacks that have not been written yet."""

    def __init__(self) -> None:
        self._inner: dict[Any, bool] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        self._fresh: list[tuple[int, tuple[Any, ...]]] = []

    def here(self, depth: int) -> int:
        """The number of the stack of user frames, `depth` frames above the caller."""
        frame = sys._getframe(depth)
        found: list[Any] = []
        inner = self._inner
        at: Any = frame
        while at is not None and len(found) < 2 * _DEEPEST:
            code = at.f_code
            skip = inner.get(code)
            if skip is None:
                skip = inner[code] = _is_inner(code.co_filename)
            if not skip:
                found.append(code)
                found.append(at.f_lineno)
            at = at.f_back
        return self._number(found)

    def inside_backward(self, depth: int) -> int | None:
        """The number of the user's stack inside a backward pass that runs the user's own autograd function or a
        recomputation. None if only torch runs there."""
        found: list[Any] = []
        at: Any = sys._getframe(depth)
        while at is not None and at.f_code.co_name != _ENGINE:
            code = at.f_code
            skip = self._inner.get(code)
            if skip is None:
                skip = self._inner[code] = _is_inner(code.co_filename)
            if not skip and len(found) < 2 * _DEEPEST:
                found += [code, at.f_lineno]
            at = at.f_back
        return self._number(found) if found else None

    def _number(self, found: list[Any]) -> int:
        key = tuple(found)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._known)
            self._fresh.append((number, key))
        return number

    def new(self) -> list[dict[str, Any]]:
        """Lines for the recording's index: the stacks that are new since the last call."""
        fresh, self._fresh = self._fresh, []
        return [{"stack": number, "frames": _frames(key)} for number, key in fresh]


def _is_inner(filename: str) -> bool:
    """Whether a frame belongs to torch, Python or Hermes, and so not to the user's code."""
    plain = filename.replace("\\", "/")
    return (
        "/site-packages/torch/" in plain
        or "/dist-packages/torch/" in plain
        or "/site-packages/mindspore/" in plain
        or "/hermes/inside/" in plain
        or plain.startswith("<")
        or plain.endswith(("/contextlib.py", "/functools.py", "/threading.py", "/runpy.py"))
    )


def _frames(key: tuple[Any, ...]) -> list[list[Any]]:
    frames = []
    for code, line in zip(key[::2], key[1::2]):
        text = linecache.getline(code.co_filename, line).strip()[:200]
        frames.append([code.co_filename, line, code.co_name, text])
    return frames
