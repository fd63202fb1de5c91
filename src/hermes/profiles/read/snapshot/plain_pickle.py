"""Reads plain data from a pickle without running it: lists, dictionaries, texts and numbers only.

A pickle is a program that can call anything. This reader knows the instructions that make plain values. Reading ends at
a class, a call or an unknown instruction: nothing in the file is ever run. It reads protocols 2 to 5, as Python
documents the instructions in `pickletools`.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any, BinaryIO

from hermes.base.failure_message import MessageError
from hermes.profiles.read import refusal_messages as refusals

_MARK = object()
_MOST_STEPS = 200_000_000
_MOST_DEPTH = 10_000


class NotPlainError(MessageError, ValueError):
    """Raised when a pickle holds something other than plain data."""


class _Reader:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def marked(self) -> list[Any]:
        """The values above the last mark, removed from the stack together with the mark."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                found = self.stack[place + 1 :]
                del self.stack[place:]
                return found
        raise NotPlainError(refusals.PICKLE_NO_MARK)

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def append(self, _: Any) -> None:
        value = self.stack.pop()
        self._list().append(value)

    def appends(self, _: Any) -> None:
        values = self.marked()
        self._list().extend(values)

    def set_item(self, _: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._dict()[_key(key)] = value

    def set_items(self, _: Any) -> None:
        values = self.marked()
        if len(values) % 2:
            raise NotPlainError(refusals.PICKLE_KEY_ALONE)
        target = self._dict()
        for place in range(0, len(values), 2):
            target[_key(values[place])] = values[place + 1]

    def tuple_of(self, count: int) -> None:
        values = self.stack[len(self.stack) - count :] if count else []
        if len(values) < count or _MARK in values:
            raise NotPlainError(refusals.PICKLE_SHORT_TUPLE)
        del self.stack[len(self.stack) - count :]
        self.stack.append(tuple(values))

    def keep(self, place: int | None) -> None:
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def fetch(self, place: int) -> None:
        self.stack.append(self.memo[place])

    def _list(self) -> list[Any]:
        if not isinstance(self.stack[-1], list):
            raise NotPlainError(refusals.PICKLE_NO_LIST)
        return self.stack[-1]

    def _dict(self) -> dict[Any, Any]:
        if not isinstance(self.stack[-1], dict):
            raise NotPlainError(refusals.PICKLE_NO_DICTIONARY)
        return self.stack[-1]


def _key(value: Any) -> Any:
    if not isinstance(value, str | int | float | bool | None):
        raise NotPlainError(refusals.PICKLE_ODD_KEY)
    return value


_VALUES = (
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG", "BINFLOAT", "FLOAT", "SHORT_BINUNICODE",
    "BINUNICODE", "BINUNICODE8", "UNICODE", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "SHORT_BINSTRING", "BINSTRING",
)  # fmt: skip
_NOTHING = ("PROTO", "FRAME")
_Step = Callable[[_Reader, Any], None]
_STEPS: dict[str, _Step] = {
    "NONE": lambda reader, _: reader.push(None),
    "NEWTRUE": lambda reader, _: reader.push(True),
    "NEWFALSE": lambda reader, _: reader.push(False),
    "EMPTY_LIST": lambda reader, _: reader.push([]),
    "EMPTY_DICT": lambda reader, _: reader.push({}),
    "EMPTY_TUPLE": lambda reader, _: reader.push(()),
    "MARK": lambda reader, _: reader.push(_MARK),
    "LIST": lambda reader, _: reader.push(reader.marked()),
    "TUPLE": lambda reader, _: reader.push(tuple(reader.marked())),
    "TUPLE1": lambda reader, _: reader.tuple_of(1),
    "TUPLE2": lambda reader, _: reader.tuple_of(2),
    "TUPLE3": lambda reader, _: reader.tuple_of(3),
    "APPEND": _Reader.append,
    "APPENDS": _Reader.appends,
    "SETITEM": _Reader.set_item,
    "SETITEMS": _Reader.set_items,
    "MEMOIZE": lambda reader, _: reader.keep(None),
    "BINPUT": _Reader.keep,
    "LONG_BINPUT": _Reader.keep,
    "BINGET": _Reader.fetch,
    "LONG_BINGET": _Reader.fetch,
    **dict.fromkeys(_VALUES, _Reader.push),
}


def plain(file: BinaryIO) -> Any:
    """The value in a pickle of plain data. Raises `NotPlainError` for other pickles, `ValueError` for a damaged one."""
    reader = _Reader()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
            if opcode.name == "STOP":
                return reader.stack[-1]
            if opcode.name in _NOTHING:
                continue
            step = _STEPS.get(opcode.name)
            if step is None:
                raise NotPlainError(refusals.pickle_not_plain(instruction=opcode.name))
            if count > _MOST_STEPS or len(reader.stack) > _MOST_DEPTH * 1_000:
                raise NotPlainError(refusals.PICKLE_TOO_LARGE)
            step(reader, argument)
    except (IndexError, KeyError, TypeError, OverflowError) as broken:
        raise NotPlainError(refusals.pickle_damaged(error=type(broken).__name__)) from broken
    raise NotPlainError(refusals.PICKLE_ENDS_EARLY)
