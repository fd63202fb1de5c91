"""Reads recordings of Hermes, also of killed processes; damaged parts are left out and noted."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from hermes.base.errors import Diagnostic, InputError
from hermes.base.limits import INDEX_BYTES
from hermes.base.message import Message
from hermes.inside.record.layout import DATA_START, DTYPES, FORMAT, INDEX, STATISTICS
from hermes.precision import recording_notes
from hermes.precision.recorded_step import (
    ElementsPlace,
    Frame,
    OperatorCall,
    RecordedStep,
    RecordedValue,
    Recording,
    ValueView,
)
from hermes.store.input_files import refuse_hollow

_RANK = re.compile(r"rank(\d{1,6})")
_PART = re.compile(r"step\d{1,12}\.\d{3,9}\.safetensors")
_SHARED = re.compile(rb'\n\{\s*"(?:format|module|stack|step)"')
"""Lines, recognised by their first key, that belong to several steps, or that begin a step after another's end."""
_LONGEST_LINE = 64 << 20
_AT_ONCE = 4 << 20
"""The bytes of lines that are parsed together."""
_MOST_VALUES = 20_000_000
_LARGEST = 1 << 50
_TEXT = 400
_NUMBERS = frozenset([int])
_OBJECTS = {dict}
_new = tuple.__new__
"""Makes tuples, by the hundred thousand, in half the time of a constructor with named fields."""


def is_recording(path: Path) -> bool:
    """Whether a folder is a recording, or one rank of a recording."""
    return (path / INDEX).is_file() or any(path.glob(f"rank*/{INDEX}"))


def read(path: Path) -> Recording:
    """The recording in a folder; raises `InputError` if no part can be read."""
    diagnostics: list[Diagnostic] = []
    folders = [path] if (path / INDEX).is_file() else sorted(path.glob("rank*"), key=_rank_of)
    ranks = {}
    for folder in folders:
        if (folder / INDEX).is_file() and not folder.is_symlink():
            index = Index(folder, diagnostics)
            if index.head:
                ranks[index.rank] = index
    steps = tuple((rank, step) for rank in sorted(ranks) for step in sorted(ranks[rank].spans))
    if not ranks:
        refused = next((one for one in diagnostics if one.hint), None)
        if refused:
            raise InputError(refused.message, where=refused.where, lost=refused.lost, hint=refused.hint)
        raise InputError(recording_notes.NO_RANK, where=str(path), hint=recording_notes.SEE_RECORD)
    head = next(iter(ranks.values())).head
    options = head.get("options")
    options = options if isinstance(options, dict) else {}
    return Recording(
        path=path, kind="hermes", framework=_text(head.get("framework")), what=_text(options.get("what")),
        level=_text(options.get("level")), steps=steps, loader=_Loader(ranks), diagnostics=diagnostics,
    )  # fmt: skip


class _Loader:
    def __init__(self, ranks: dict[int, Index]) -> None:
        self._ranks = ranks

    def load(self, rank: int, step: int) -> RecordedStep:
        """The step of one rank."""
        return self._ranks[rank].load(step)

    def largest(self) -> int:
        """The bytes of index that the largest step takes."""
        spans = [spans for index in self._ranks.values() for spans in index.spans.values()]
        return max((sum(end - begin for begin, end in one) for one in spans), default=0)


class Index:
    """The index of one rank: where its steps begin, and the modules and stacks that its steps share."""

    def __init__(self, folder: Path, diagnostics: list[Diagnostic]) -> None:
        self._folder = folder
        self._diagnostics = diagnostics
        self.head: dict[str, Any] = {}
        self.rank = _rank_of(folder)
        self.modules: dict[int, str] = {}
        self.stacks: dict[int, tuple[Frame, ...]] = {}
        self.spans: dict[int, list[tuple[int, int]]] = {}
        """For each step, the byte ranges of its lines in the file, which are read only on request."""
        self._damaged = 0
        self._scan()

    def _scan(self) -> None:
        text = self._text()
        begins: list[tuple[int, int]] = []
        for start in itertools.chain([0], (match.start() + 1 for match in _SHARED.finditer(text))):
            end = text.find(b"\n", start)
            line = _line(text[start : end if end >= 0 else len(text)])
            if line is None:
                continue  # `load` counts damaged lines
            if "format" in line:
                if line["format"] != FORMAT:
                    self._say(recording_notes.other_format(name=_text(line["format"])), recording_notes.THIS_RANK)
                    return
                self.head = line
                self.rank = _int(line.get("rank"), self.rank, 0, 1 << 20)
            elif "module" in line and "path" in line:
                self.modules[_int(line["module"], -1)] = _text(line["path"])
            elif "frames" in line:
                self.stacks[_int(line.get("stack"), -1)] = _frames(line["frames"])
            elif "step" in line and "rng" in line:
                begins.append((_int(line["step"], -1), start))
        for (step, begin), (_, end) in itertools.pairwise([*begins, (-1, len(text))]):
            self.spans.setdefault(step, []).append((begin, end))
        if not self.head and (self.spans or self.modules):
            self._say(recording_notes.NO_HEAD, recording_notes.THIS_RANK)

    def _text(self) -> bytes:
        """The whole index; empty if it would take more memory than a recording does."""
        path = self._folder / INDEX
        try:
            refuse_hollow(path)
            if path.stat().st_size > INDEX_BYTES.now():
                raise INDEX_BYTES.exceeded(f"the index is {path.stat().st_size:,} bytes long", where=str(path))
        except InputError as large:
            told = Diagnostic(
                level="degraded", message=large.what, where=large.where, lost=recording_notes.THIS_RANK, hint=large.hint
            )
            self._diagnostics.append(told)
            return b""
        return path.read_bytes()

    def _lines(self, step: int) -> Iterator[dict[str, Any]]:
        damaged = 0
        with (self._folder / INDEX).open("rb") as file:
            for begin, end in self.spans[step]:
                file.seek(begin)
                while file.tell() < end:
                    left = end - file.tell()
                    text = file.read(min(_AT_ONCE, left))
                    text += file.readline(left - len(text))
                    if not text:
                        break  # the file was cut off just now
                    whole = _all_at_once(text)
                    if whole is None:
                        found = [_line(raw) for raw in filter(bytes.strip, text.split(b"\n"))]
                        whole = [line for line in found if line is not None]
                        damaged += len(found) - len(whole)
                    yield from whole
        if damaged:
            self._damaged += damaged
            self._say(recording_notes.damaged_lines(n=damaged), recording_notes.THEIR_CONTENT)

    def load(self, step: int) -> RecordedStep:
        """A step, as far as it can be read."""
        self._damaged = 0
        lines = self._lines(step)
        head = next(lines, {})
        values: list[RecordedValue] = []
        ops: list[OperatorCall] = []
        ends: dict[int, int] = {}
        complete, dropped, wrong = False, 0, 0
        for line in lines:
            try:
                if "value" in line:
                    values.append(self._value(line, len(values)))
                elif "op" in line:
                    ops.append(self._op(line, len(ops), len(values)))
                    if "done" in line:
                        ends[len(ops) - 1] = _int(line["done"], len(ops))
                elif "end" in line:
                    complete, dropped = True, _int(line.get("dropped"), 0)
            except (KeyError, TypeError, ValueError, IndexError, OverflowError):
                wrong += 1
                _stand_in(line, values, ops)
            if len(values) > _MOST_VALUES:
                break
        if ends:
            values, ops = _by_end(values, ops, ends)
        self._tell(step, wrong, dropped, complete=complete)
        return RecordedStep(
            rank=self.rank, step=step, rng=_text(head.get("rng")), ops=tuple(ops), values=tuple(values),
            complete=complete, dropped=dropped, damaged=wrong + self._damaged, whole=self._whole(),
        )  # fmt: skip

    def _whole(self) -> bool:
        asked = self.head.get("options")
        return not isinstance(asked, dict) or (asked.get("level") != "modules" and not asked.get("operators"))

    def _tell(self, step: int, wrong: int, dropped: int, *, complete: bool) -> None:
        if wrong:
            self._say(recording_notes.damaged_entries(n=wrong, step=step), recording_notes.THEIR_CONTENT)
        if not complete:
            self._say(recording_notes.no_end(step=step), recording_notes.REST_OF_STEP)
        if dropped:
            self._say(recording_notes.over_limit(n=dropped, step=step), recording_notes.EXACT_ELEMENTS)

    def _value(self, line: dict[str, Any], number: int) -> RecordedValue:
        get = line.get
        dtype = line["dtype"]
        if line["value"] != number or type(dtype) is not str:
            raise ValueError("out of order, or no dtype")
        shape = _possible(tuple(line["shape"]))
        stats, by, name, role = get("stats"), get("by"), get("name"), get("role")
        more = (by is not None) + (name is not None) + (role is not None)
        by = by if type(by) is int and by >= 0 else None
        name, role = _text(name) if name else "", _text(role) if role else ""
        if stats is not None and len(line) == 5 + more and "device" in line:
            # Nine of ten entries take only this path.
            return _new(
                RecordedValue, (number, dtype[:_TEXT], shape, _stats(stats), "", None, by, None, name, role, (), 0)
            )
        view = get("view")
        return RecordedValue(
            number, _text(dtype), shape, _stats(stats) if stats is not None else None, _text(get("print")),
            self._place(line, dtype, shape), by,
            ValueView(_index(view[0], number), tuple(_ints(view[1])), _int(view[2], 0)) if view else None,
            name, role, tuple(_ints(get("stride", ()))), _int(get("offset"), 0),
        )  # fmt: skip

    def _place(self, line: dict[str, Any], dtype: str, shape: tuple[int, ...]) -> ElementsPlace | None:
        data = line.get("data")
        if data is None:
            return None
        part, begin, end = data
        if not isinstance(part, str) or not _PART.fullmatch(part):
            raise ValueError("a part of another name")
        sample = _int(line.get("sample"), 1, 1)
        count = math.prod(shape)
        kept = count if sample == 1 else -(-count // sample)
        begin, end = _int(begin, -1, 0), _int(end, -1, 0)
        if end - begin != kept * DTYPES[dtype][1]:
            raise ValueError("not as many bytes as its shape says")
        return ElementsPlace(self._folder / part, begin + DATA_START, end + DATA_START, sample)

    def _op(self, line: dict[str, Any], number: int, values: int) -> OperatorCall:
        get = line.get
        inputs, outputs = tuple(line["in"]), tuple(line["out"])
        for one in inputs + outputs:
            if type(one) is not int or not 0 <= one < values:
                raise ValueError("a value that is not there")
        module = get("module")
        path = self.modules.get(module, "") if module is not None else ""
        return _new(OperatorCall, (
            _text(line["op"]), number, _text(line["phase"]), path, self.stacks.get(get("stack", -1), ()), inputs,
            outputs, get("args"), _maybe(get("for")), get("random"),
            _text(get("parameter")) if "parameter" in line else "",
        ))  # fmt: skip

    def _say(self, what: Message, lost: Message) -> None:
        self._diagnostics.append(Diagnostic(level="degraded", message=what, where=str(self._folder / INDEX), lost=lost))


def _by_end(
    values: list[RecordedValue], ops: list[OperatorCall], ends: dict[int, int]
) -> tuple[list[RecordedValue], list[OperatorCall]]:
    """Values and operators in the order of results: a module comes after its operators, and is not blamed for them."""
    order = sorted(range(len(ops)), key=lambda at: (ends[at] - 0.5, -at) if at in ends else (at, 0))
    place = {before: now for now, before in enumerate(order)}
    moved = [
        ops[before]._replace(number=now, forward=place.get(forward) if forward is not None else None)
        for now, before in enumerate(order)
        for forward in (ops[before].forward,)
    ]
    return [one if one.by is None else one._replace(by=place.get(one.by)) for one in values], moved


def _stand_in(line: dict[str, Any], values: list[RecordedValue], ops: list[OperatorCall]) -> None:
    """Add a placeholder for an invalid entry, so that later entries keep their numbers."""
    if "value" in line:
        values.append(RecordedValue(len(values), "unknown", ()))
    elif "op" in line:
        ops.append(OperatorCall("unknown", len(ops), "", "", (), (), (), None))


def _line(raw: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(raw) if len(raw) < _LONGEST_LINE else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _all_at_once(text: bytes) -> list[dict[str, Any]] | None:
    """All lines parsed at once, which is faster; None if a line is damaged or has an unknown encoding."""
    try:
        found = orjson.loads(b"[" + text.rstrip(b"\n").replace(b"\n", b",") + b"]")
    except ValueError:
        return None
    return found if set(map(type, found)) <= _OBJECTS else None


def _stats(row: list[Any]) -> tuple[float, ...]:
    if len(row) != len(STATISTICS):
        raise ValueError("another number of statistics")
    try:
        sum(row)  # whole numbers stay whole
    except TypeError:
        return tuple(map(float, row))  # some numbers are the text nan or inf
    return tuple(row)


def _frames(frames: Any) -> tuple[Frame, ...]:
    try:
        return tuple(Frame(_text(one[0]), _int(one[1], 0), _text(one[2]), _text(one[3])) for one in frames[:32])
    except (TypeError, IndexError, KeyError):
        return ()


@functools.lru_cache(maxsize=10_000)
def _possible(found: tuple[int, ...]) -> tuple[int, ...]:
    if len(found) > 64 or any(type(one) is not int or one < 0 for one in found) or math.prod(found) > _LARGEST:
        raise ValueError("no shape")
    return found


def _ints(found: Any) -> list[int]:
    if type(found) is list and set(map(type, found)) <= _NUMBERS:
        return found
    if not isinstance(found, (list, tuple)) or not all(type(one) is int for one in found):
        raise ValueError("no list of numbers")
    return list(found)


def _index(found: Any, below: int) -> int:
    if type(found) is not int or not 0 <= found < below:
        raise ValueError("no value before it")
    return found


def _maybe(found: Any) -> int | None:
    return found if type(found) is int and found >= 0 else None


def _int(found: Any, otherwise: int, low: int = -_LARGEST, high: int = _LARGEST) -> int:
    return found if type(found) is int and low <= found <= high else otherwise


def _text(found: Any) -> str:
    return found[:_TEXT] if isinstance(found, str) else ""


def _rank_of(folder: Path) -> int:
    match = _RANK.fullmatch(folder.name)
    return int(match[1]) if match else 0
