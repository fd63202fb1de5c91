"""Numbers the parts of a model, modules or cells, by path, for any framework."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar


class NumberedModules:
    """The numbered parts of a model. A part called outside all other parts is a root; its class name begins its parts'
    paths."""

    wrappers: ClassVar[dict[str, str]] = {}
    """Classes that wrap a model, with the attribute that holds the model: this attribute is not part of a path."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._names: list[str] = []
        self._types: list[str] = []
        self._roots: set[str] = set()
        self._fresh: list[int] = []
        self.tensors: dict[int, tuple[str, str]] = {}
        """Names of parameters and buffers, each with the word parameter or buffer."""

    def _children(self, part: Any) -> Iterator[tuple[str, Any]]:
        """The direct parts of a part, with their names."""
        raise NotImplementedError

    def _tensors_of(self, part: Any, path: str) -> None:
        """Put the parameters and buffers of a part into `tensors`."""
        raise NotImplementedError

    def number(self, part: Any, parent: int | None) -> int | None:
        """The number of a part that is called inside the part `parent`."""
        found = self._numbers.get(id(part))
        if found is not None:
            return found
        if parent is None:
            self._root(part)
        else:
            self._walk(part, f"{self._names[parent]}.{type(part).__name__}")
        return self._numbers[id(part)]

    def name(self, number: int | None) -> str:
        """The path of a part; empty outside all parts."""
        return self._names[number] if number is not None else ""

    def new(self) -> list[dict[str, Any]]:
        """Lines for the recording's index: the parts that are new since the last call."""
        fresh, self._fresh = self._fresh, []
        return [{"module": number, "path": self._names[number], "type": self._types[number]} for number in fresh]

    def _root(self, part: Any) -> None:
        label = base = type(self._unwrapped(part)).__name__
        count = 1
        while label in self._roots:
            count += 1
            label = f"{base}#{count}"
        self._roots.add(label)
        self._walk(part, label)

    def _unwrapped(self, part: Any) -> Any:
        for _ in range(8):
            inner = self.wrappers.get(type(part).__name__)
            child = dict(self._children(part)).get(inner) if inner else None
            if child is None:
                break
            part = child
        return part

    def _walk(self, part: Any, path: str) -> None:
        if id(part) in self._numbers:
            return
        inner = self.wrappers.get(type(part).__name__, "")
        number = self._numbers[id(part)] = len(self._names)
        self._names.append(path)
        self._types.append(type(part).__name__)
        self._fresh.append(number)
        self._kept.append(part)
        self._tensors_of(part, path)
        for name, child in self._children(part):
            if child is not None:
                self._walk(child, path if name == inner else f"{path}.{name}")
