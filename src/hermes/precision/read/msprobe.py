"""Reads dumps of msProbe: `dump.json`, `stack.json` and `construct.json`, with statistics, md5 or tensors.

Traps: a NaN is a bare token. Call numbers of the backward pass count in their own order. Names hold dots (module
paths). A single process is `proc{pid}`, ranks are `rank{N}`. `stack.json` lists the innermost frame first, in lines of
text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hermes.base.errors import Diagnostic, InputError
from hermes.base.limits import DUMP_BYTES
from hermes.precision import recording_notes
from hermes.precision.recorded_step import (
    WHERE_THE_FILE_SAYS,
    ElementsPlace,
    Frame,
    OperatorCall,
    RecordedStep,
    RecordedValue,
    Recording,
)
from hermes.store.input_files import refuse_hollow

_STEP = re.compile(r"step(\d{1,9})")
_RANK = re.compile(r"(?:rank|proc)(\d{0,9})")
_NAME = re.compile(r"(?P<head>.+?)\.(?P<call>\d+)\.(?P<phase>forward|backward)")
_MODULE = re.compile(r"(?P<head>(?:Module|Cell)\..+)\.(?P<phase>forward|backward)\.(?P<call>\d+)")
_GRADS = re.compile(r"(?P<head>(?:Module|Cell)\..+)\.parameters_grad(?:\.\d+)?")
_FRAME = re.compile(r'File "?(?P<file>.*?)"?, line (?P<line>\d+), in (?P<function>[^,\n]*),?\s*(?P<text>.*)', re.S)
_FILE_NAME = re.compile(r"[\w.\-]{1,250}\.(?:pt|npy)")
TENSORS = "dump_tensor_data"
"""The folder of tensor files, in the folder of dump.json."""
_FILES = ("dump.json", "debug.json")
_INNER = ("/torch/", "/mindspore/", "/msprobe/")
"""Parts of paths of frames that are not the user's code."""
_IGNORED = frozenset(["empty", "empty_like", "numpy", "__setitem__", "new_empty", "empty_strided", "new_empty_strided"])


def is_dump(path: Path) -> bool:
    """Whether a path is a dump folder, a step or rank of a dump, or a dump.json."""
    return bool(folders(path))


def folders(path: Path) -> list[tuple[int, str, Path]]:
    """The step, rank name and file of each part of a dump, of a step or of a rank; empty if there are none."""
    if path.is_file():
        return [(_step_of(path.parent), path.parent.name, path)] if path.suffix == ".json" else []
    found = []
    for depth in ("", "*/", "*/*/"):
        for name in _FILES:
            for file in path.glob(f"{depth}{name}"):
                found.append((_step_of(file.parent), file.parent.name, file))
        if found:
            break
    return sorted(found, key=lambda one: (one[0], _rank_number(one[1]), one[1]))


def _step_of(folder: Path) -> int:
    for part in (folder, folder.parent):
        match = _STEP.fullmatch(part.name)
        if match:
            return int(match[1])
    return 0


def _rank_number(name: str) -> int:
    match = _RANK.fullmatch(name)
    return int(match[1] or 0) if match else 0


def read(path: Path, place: tuple[int, int] | None = None) -> Recording:
    """The dump as a `Run`; `place` gives the rank and step of a lone dump.json.

    Raises `InputError` if none of the dump's files can be read.
    """
    diagnostics: list[Diagnostic] = []
    parts: dict[tuple[int, int], Path] = {}
    for step in sorted({one for one, _, _ in folders(path)}):
        here = [(name, file) for one, name, file in folders(path) if one == step]
        for at, (name, file) in enumerate(here):
            # Processes have the numbers that the system gave them: two runs share only the order of processes.
            rank = _rank_number(name) if name.startswith("rank") else at
            parts[(rank, step) if place is None else place] = file
    documents = {}
    for key, file in parts.items():
        try:
            documents[key] = document(file)
        except InputError as broken:
            told = Diagnostic(
                level="degraded", message=broken.what, where=str(file), lost=recording_notes.THIS_STEP, hint=broken.hint
            )
            diagnostics.append(told)
    if not documents:
        raise InputError(recording_notes.NO_DUMP, where=str(path), hint=recording_notes.WAS_IT_KILLED)
    one = next(iter(documents.values()))
    what = {"tensor": "tensors"}.get(str(one.get("task")), "statistics")
    if any("md5" in tensor or "xor" in tensor for tensor in _some_tensors(one)) and what == "statistics":
        what = "fingerprint"
    return Recording(
        path=path, kind="msprobe", framework=str(one.get("framework", ""))[:40], what=what,
        level=str(one.get("level", ""))[:40], steps=tuple(sorted(documents)), diagnostics=diagnostics,
        loader=Loader(parts, documents, diagnostics),
    )  # fmt: skip


def document(file: Path) -> dict[str, Any]:
    """The content of a dump.json; raises `InputError` for any other file."""
    try:
        found = _parsed(file)
    except (OSError, ValueError, RecursionError) as broken:
        raise InputError(recording_notes.unreadable(reason=str(broken)[:200]), where=str(file)) from broken
    if not isinstance(found, dict) or not isinstance(found.get("data"), dict):
        raise InputError(recording_notes.NO_DATA, where=str(file))
    return found


def _parsed(file: Path) -> Any:
    """The JSON of a file of at most a dump's size; otherwise raises `InputError`, `ValueError` or `OSError`."""
    refuse_hollow(file)
    if file.stat().st_size > DUMP_BYTES.now():
        raise InputError(recording_notes.too_large(limit=DUMP_BYTES.now()), where=str(file), hint=DUMP_BYTES.hint())
    return json.loads(file.read_bytes())


def _some_tensors(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in list(document["data"].values())[:50]:
        if isinstance(entry, dict):
            for part in entry.values():
                yield from (one for one in part if isinstance(one, dict)) if isinstance(part, list) else ()


class Loader:
    """Converts the files of one rank and step of a dump into a `Step`."""

    def __init__(self, parts: dict[tuple[int, int], Path], documents: dict[Any, Any], said: list[Diagnostic]) -> None:
        self._parts = parts
        self._documents = documents
        self._said = said

    def load(self, rank: int, step: int) -> RecordedStep:
        """The step of one rank."""
        file = self._parts[rank, step]
        document = self._documents[rank, step]
        builder = _Builder(file.parent, document, _stacks(file.parent / "stack.json"), _parents(file.parent))
        return builder.build(rank, step)


class _Builder:
    def __init__(self, folder: Path, document: dict[str, Any], stacks: dict[str, Any], parents: dict[str, str]) -> None:
        self._folder = folder / TENSORS
        self._data: dict[str, Any] = document["data"]
        self._stacks = stacks
        self._parents = parents
        self._values: list[RecordedValue] = []
        self._made: dict[Any, int] = {}
        self._ops: list[OperatorCall] = []

    def build(self, rank: int, step: int) -> RecordedStep:
        for name, entry in self._data.items():
            if isinstance(entry, dict):
                self._add(str(name), entry)
        return RecordedStep(rank=rank, step=step, rng="", ops=tuple(self._ops), values=tuple(self._values), whole=False)

    def _add(self, name: str, entry: dict[str, Any]) -> None:
        kind, phase, module = self._split(name)
        if kind.split(".")[-1] in _IGNORED:
            return
        number = len(self._ops)
        backward = phase == "backward"
        given = ("input",) if backward else ("input_args", "input_kwargs", "parameters", "input")
        inputs, args = [], []
        for part in given:
            for tensor, plain in _leaves(entry.get(part)):
                if tensor is None:
                    args.append(plain)
                else:
                    inputs.append(self._value(tensor, None))
                    args.append(f"@{len(inputs) - 1}")
        if _GRADS.fullmatch(name):
            outputs = [self._value(tensor, number) for tensor, _ in _leaves(list(entry.values())) if tensor is not None]
        else:
            outputs = [self._value(tensor, number) for tensor, _ in _leaves(entry.get("output")) if tensor is not None]
        self._ops.append(
            OperatorCall(kind, number, phase, module, self._stacks.get(name, ()), tuple(inputs), tuple(outputs), args)
        )

    def _split(self, name: str) -> tuple[str, str, str]:
        """The operator, phase and module in an entry's name."""
        match = _MODULE.fullmatch(name)
        if match:
            path, _, kind = match["head"].partition(".")[2].rpartition(".")
            return f"module.{kind}", match["phase"], path
        match = _GRADS.fullmatch(name)
        if match:
            path, _, kind = match["head"].partition(".")[2].rpartition(".")
            return f"module.{kind} gradients", "gradient", path
        match = _NAME.fullmatch(name)
        if not match:
            return name, "forward", ""
        return match["head"], match["phase"], self._module_of(name)

    def _module_of(self, name: str) -> str:
        parent = self._parents.get(name)
        match = _MODULE.fullmatch(parent) if parent else None
        return match["head"].partition(".")[2].rpartition(".")[0] if match else ""

    def _value(self, tensor: dict[str, Any], maker: int | None) -> int:
        number = len(self._values)
        found = value(tensor, number, maker, self._folder)
        key = (found.mark or found.stats, found.shape, found.dtype)
        if maker is None and key[0] is not None:
            # The source of an input is the latest output with the same shape and numbers: nothing else records it.
            found = found._replace(by=self._made.get(key))
        self._values.append(found)
        if maker is not None:
            self._made[key] = maker
        return number


def value(tensor: dict[str, Any], number: int, maker: int | None, folder: Path) -> RecordedValue:
    """The value that a tensor's entry describes; the tensor files are in `folder`."""
    shape = tensor.get("shape")
    shape = tuple(one for one in shape if type(one) is int and 0 <= one < 1 << 50) if isinstance(shape, list) else ()
    dtype = str(tensor.get("dtype", "")).removeprefix("torch.")[:40].lower()
    mark = tensor.get("md5") or tensor.get("xor") or ""
    name = tensor.get("data_name")
    place = None
    if isinstance(name, str) and _FILE_NAME.fullmatch(name):
        place = ElementsPlace(folder / name, 0, WHERE_THE_FILE_SAYS)
    return RecordedValue(number, dtype, shape, _stats(tensor), str(mark)[:64], place, maker)


def _stats(tensor: dict[str, Any]) -> tuple[float, ...] | None:
    found = [_number(tensor.get(name)) for name in ("Min", "Max", "Mean", "Norm")]
    if found[0] is None and found[3] is None:
        return None
    low, high, mean, norm = [math.nan if one is None else one for one in found]
    nan = float(any(one is not None and math.isnan(one) for one in found))
    inf = float(any(one is not None and math.isinf(one) for one in found))
    return (low, high, mean, norm, nan, inf, 0.0)


def _number(found: Any) -> float | None:
    if isinstance(found, bool):
        return float(found)
    return float(found) if isinstance(found, (int, float)) else None


def _leaves(found: Any, depth: int = 0) -> Iterator[tuple[dict[str, Any] | None, Any]]:
    """Tensors and plain arguments of an entry, in their order."""
    if depth > 8:
        return
    if isinstance(found, dict):
        kind = found.get("type")
        if isinstance(kind, str) and ("Tensor" in kind or "Parameter" in kind) and "shape" in found:
            yield found, None
        elif isinstance(kind, str):
            yield None, found.get("value")
        else:
            for part in found.values():
                yield from _leaves(part, depth + 1)
    elif isinstance(found, list):
        for part in found:
            yield from _leaves(part, depth + 1)


def _stacks(path: Path) -> dict[str, tuple[Frame, ...]]:
    try:
        document = _parsed(path)
    except (InputError, OSError, ValueError, RecursionError):
        return {}
    found = {}
    for entry in document.values() if isinstance(document, dict) else ():
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(one, list) for one in entry):
            frames = tuple(frame for text in entry[1][:40] if (frame := _frame(text)) is not None)
            users = tuple(one for one in frames if not any(part in one.file for part in _INNER))
            for name in entry[0]:
                found[str(name)] = users[:6] or frames[:1]
    return found


def _frame(text: Any) -> Frame | None:
    match = _FRAME.search(text) if isinstance(text, str) else None
    if not match:
        return None
    return Frame(match["file"][:400], int(match["line"]), match["function"].strip()[:80], match["text"].strip()[:200])


def _parents(folder: Path) -> dict[str, str]:
    try:
        document = _parsed(folder / "construct.json")
    except (InputError, OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {str(name): parent for name, parent in document.items() if isinstance(parent, str)}
