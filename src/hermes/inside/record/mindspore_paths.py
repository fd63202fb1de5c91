"""Names cells and parameters of MindSpore the same, whether or not they are wrapped for training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hermes.inside.record.numbered_modules import NumberedModules


class CellPaths(NumberedModules):
    """The numbers and paths of MindSpore cells; `tensors` holds parameters by identity."""

    wrappers = {"WithLossCell": "_backbone", "WithEvalCell": "_network"}  # noqa: RUF012 - of the base class

    def __init__(self, optimizers: tuple[Any, ...]) -> None:
        super().__init__()
        self._optimizers = optimizers

    def number(self, part: Any, parent: int | None) -> int | None:
        """The number of a cell that is called inside the cell `parent`; None for a cell that trains other cells."""
        known = id(part) in self._numbers
        if not known and any(isinstance(one, self._optimizers) for one in part._cells.values()):
            return None
        return super().number(part, parent)

    def parameter(self, parameter: Any) -> str:
        """The path of a parameter; the parameter's own name where its cell was not called yet."""
        found = self.tensors.get(id(parameter))
        return found[0] if found is not None else str(parameter.name)

    def _children(self, part: Any) -> Iterator[tuple[str, Any]]:
        return iter(part._cells.items())

    def _tensors_of(self, part: Any, path: str) -> None:
        for name, parameter in part._params.items():
            if parameter is not None:
                role = "parameter" if parameter.requires_grad else "buffer"
                self.tensors[id(parameter)] = (f"{path}.{name.rpartition('.')[2]}", role)
