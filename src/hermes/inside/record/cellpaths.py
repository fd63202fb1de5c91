"""Names of cells and parameters of MindSpore, whether or not they are wrapped for training."""

from __future__ import annotations

from typing import Any

_WRAPPERS = {"WithLossCell": "_backbone", "WithEvalCell": "_network"}
"""Cells that stand around the model: the attribute that holds it."""


class CellPaths:
    """Numbers cells by path. A cell that is called with none around it is a root; its class begins its paths."""

    def __init__(self, optimizers: tuple[Any, ...]) -> None:
        self._optimizers = optimizers
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._names: list[str] = []
        self._types: list[str] = []
        self._roots: set[str] = set()
        self._fresh: list[int] = []
        self.tensors: dict[int, tuple[str, str]] = {}
        """Names of parameters by identity, with whether they are trained: parameter or buffer."""

    def number(self, cell: Any, parent: int | None) -> int | None:
        """The number of a cell that is called inside of `parent`; None for one that trains others."""
        found = self._numbers.get(id(cell))
        if found is not None:
            return found
        if any(isinstance(one, self._optimizers) for one in cell._cells.values()):
            return None
        if parent is not None:
            self._walk(cell, f"{self._names[parent]}.{type(cell).__name__}")
            return self._numbers[id(cell)]
        label = base = type(self._model(cell)).__name__
        count = 1
        while label in self._roots:
            count += 1
            label = f"{base}#{count}"
        self._roots.add(label)
        self._walk(cell, label)
        return self._numbers[id(cell)]

    def name(self, number: int) -> str:
        """The path."""
        return self._names[number]

    def parameter(self, parameter: Any) -> str:
        """The path of a parameter; its own name where its cell was not called yet."""
        found = self.tensors.get(id(parameter))
        return found[0] if found is not None else str(parameter.name)

    def new(self) -> list[dict[str, Any]]:
        """Lines for the index of the cells that are new since the last call."""
        fresh, self._fresh = self._fresh, []
        return [{"module": number, "path": self._names[number], "type": self._types[number]} for number in fresh]

    def _model(self, cell: Any) -> Any:
        for _ in range(8):
            inner = cell._cells.get(_WRAPPERS.get(type(cell).__name__, ""))
            if inner is None:
                break
            cell = inner
        return cell

    def _walk(self, cell: Any, path: str) -> None:
        if id(cell) in self._numbers:
            return
        inner = _WRAPPERS.get(type(cell).__name__, "")
        number = self._numbers[id(cell)] = len(self._names)
        self._names.append(path)
        self._types.append(type(cell).__name__)
        self._fresh.append(number)
        self._kept.append(cell)
        for name, parameter in cell._params.items():
            if parameter is not None:
                role = "parameter" if parameter.requires_grad else "buffer"
                self.tensors[id(parameter)] = (f"{path}.{name.rpartition('.')[2]}", role)
        for name, child in cell._cells.items():
            if child is not None:
                self._walk(child, path if name == inner else f"{path}.{name}")
