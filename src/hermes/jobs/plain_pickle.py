"""Reads a pickle of plain values without unpickling it: only dicts, lists, tuples, text and numbers.

PyTorch writes the dumps of its flight recorder as such pickles. Codes that would import, call or build objects are
refused, because this reader does not know them. Codes are those of `pickletools` in Python's documentation, protocol 2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

_MOST_VALUES = 4_000_000
_CONSTANTS: dict[int, Any] = {ord("N"): None, 0x88: True, 0x89: False}
_LENGTHS: dict[int, str] = {ord("K"): "<B", ord("M"): "<H", ord("J"): "<i", ord("G"): ">d"}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_MARK = object()


class NotPlainError(ValueError):
    """A pickle holds something other than plain values, or is broken."""


def read_plain(data: bytes) -> Any:
    """The plain value in a pickle. Raises `NotPlainError`."""
    try:
        return _Reading(data).value()
    except NotPlainError:
        raise
    except (LookupError, TypeError, ValueError, struct.error) as broken:
        raise NotPlainError from broken


class _Reading:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._codes: dict[int, Callable[[], object]] = {
            0x80: lambda: self._skip(1), ord("}"): lambda: self._push({}), ord("]"): lambda: self._push([]),
            ord(")"): lambda: self._push(()), ord("("): lambda: self._stack.append(_MARK), ord("u"): self._set,
            ord("e"): self._extend, ord("X"): self._text, ord("q"): lambda: self._keep(self._number("<B")),
            ord("r"): lambda: self._keep(self._number("<I")), ord("h"): lambda: self._take(self._number("<B")),
            ord("j"): lambda: self._take(self._number("<I")), 0x8A: self._long,
            ord("t"): lambda: self._push(tuple(self._marked())),
            ord("a"): lambda: self._append(self._stack.pop()), ord("s"): self._set_one,
        }  # fmt: skip

    def value(self) -> Any:
        for _ in range(_MOST_VALUES):
            code = self._data[self._at]
            self._at += 1
            if code == ord("."):
                (whole,) = self._stack
                return whole
            if code in _CONSTANTS:
                self._push(_CONSTANTS[code])
            elif code in _LENGTHS:
                self._push(self._number(_LENGTHS[code]))
            elif code in _TUPLES:
                count = _TUPLES[code]
                self._stack[-count:] = [tuple(self._stack[-count:])]
            elif code in self._codes:
                self._codes[code]()
            else:
                raise NotPlainError(hex(code))
        raise NotPlainError

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _skip(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) != count:
            raise NotPlainError
        self._at += count
        return part

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._skip(struct.calcsize(form)))[0]

    def _text(self) -> None:
        self._push(self._skip(self._number("<I")).decode("utf-8", "surrogatepass"))

    def _long(self) -> None:
        self._push(int.from_bytes(self._skip(self._number("<B")), "little", signed=True))

    def _keep(self, place: int) -> None:
        self._memo[place] = self._stack[-1]

    def _take(self, place: int) -> None:
        self._push(self._memo[place])

    def _marked(self) -> list[Any]:
        """The values above the stack's last mark, which are removed together with the mark."""
        found = []
        while (one := self._stack.pop()) is not _MARK:
            found.append(one)
        return found[::-1]

    def _extend(self) -> None:
        items = self._marked()
        self._list().extend(items)

    def _append(self, item: Any) -> None:
        self._list().append(item)

    def _list(self) -> list[Any]:
        last = self._stack[-1]
        if type(last) is not list:
            raise NotPlainError
        return last

    def _set(self) -> None:
        items = self._marked()
        self._dict().update(zip(items[::2], items[1::2], strict=True))

    def _set_one(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._dict()[key] = value

    def _dict(self) -> dict[Any, Any]:
        last = self._stack[-1]
        if type(last) is not dict:
            raise NotPlainError
        return last
