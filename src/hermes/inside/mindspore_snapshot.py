"""Writes how a run of MindSpore is set up, as `snapshot` does for torch.

A batch is the arguments of the outermost cell's call: the model, or the cell that trains the model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from hermes.inside.record.mindspore_recorder import optimizers_of
from hermes.inside.record.mindspore_values import Numbers
from hermes.inside.record.stats import state_print
from hermes.inside.snapshot_parts import Taking, generators, plainly

_CONTEXT = ("mode", "device_target", "deterministic", "jit_level")
_WRAPPERS = ("_backbone", "_network", "network")
"""Attribute names under which MindSpore's own cells hold the cell that they train or evaluate."""
_MOST_VALUES = 64


class CellSnapshot(Taking):
    """The setup of one MindSpore process, as far as it was seen."""

    def __init__(self, mindspore: Any, out: str, rank: int) -> None:
        super().__init__(out, rank)
        self._mindspore = mindspore
        self._numbers = Numbers(sys.modules["numpy"])
        self._optimizers = optimizers_of(mindspore)
        self._depth = 0
        self._undo: list[tuple[Any, str, Any]] = []
        self._seen: set[int] = set()

    def attach(self) -> None:
        """Wait for the first calls of cells and the first data sets."""
        cell = self._mindspore.nn.Cell
        around = self.border.around
        self._replace(cell, "__call__", around(cell.__call__, self._called, self._ended))
        for kind in self._optimizers:
            self._replace(kind, "__call__", around(kind.__call__, self._looking(self._optimizer)))
        data: Any = sys.modules.get("mindspore.dataset.engine.datasets")
        for name in ("create_tuple_iterator", "create_dict_iterator") if data is not None else ():
            original = getattr(data.Dataset, name)
            self._replace(data.Dataset, name, around(original, self._looking(self._loader)))

    def _replace(self, kind: Any, name: str, by: Any) -> None:
        self._undo.append((kind, name, kind.__dict__.get(name)))
        setattr(kind, name, by)

    def _detach(self) -> None:
        """Remove all hooks from MindSpore."""
        for kind, name, before in reversed(self._undo):
            if before is None:
                delattr(kind, name)
            else:
                setattr(kind, name, before)
        self._undo = []

    def _called(self, args: Any, kwargs: Any) -> bool:
        cell, *given = args
        outermost = self._depth == 0 and not isinstance(cell, self._optimizers)
        self._depth += 1
        if outermost:
            self.border.call(self._batch, cell, [*given, *kwargs.values()])
        return outermost

    def _ended(self, outermost: bool, *_: object) -> None:
        self._depth -= 1
        if outermost and self._undo and self.complete:
            self._finish()

    def _looking(self, look: Any) -> Any:
        def before(args: Any, _kwargs: Any) -> None:
            if self._undo:
                look(args[0])

        return before

    def _finish(self) -> None:
        self._detach()
        self.write()

    def _batch(self, cell: Any, args: list[Any]) -> None:
        given = [one for one in args if isinstance(one, self._mindspore.Tensor)]
        if not self.wants(type(cell).__name__) or not given:
            return
        found, random = self.found, self._random()
        if not found["batches"]:
            found["policy"] = self._policy()
            found["random"] = random
        models = found.setdefault("models", {})
        if type(cell).__name__ not in models:
            models[type(cell).__name__] = str(cell)[:20_000]
            self._parts(cell)
        tensors = [self._tensor(one, sums=True) for one in given]
        found["batches"].append({"model": type(cell).__name__, "random": random.get("mindspore"), "tensors": tensors})
        if len(found["batches"]) == 1:
            self.write()

    def _parts(self, cell: Any) -> None:
        for path, part in self._cells(cell, type(cell).__name__):
            if isinstance(part, self._optimizers):
                self._optimizer(part)
                continue
            if any(isinstance(one, self._optimizers) for one in part._cells.values()):
                continue  # The training cell holds the parameters of the trained cell once more.
            for name, parameter in part._params.items():
                if parameter is not None:
                    kind = "parameter" if parameter.requires_grad else "buffer"
                    entry = {"kind": kind, "trained": bool(parameter.requires_grad), **self._tensor(parameter)}
                    self.found["parameters"][f"{path}.{name.rpartition('.')[2]}"] = entry

    def _cells(self, cell: Any, path: str) -> Iterator[tuple[str, Any]]:
        """A cell and the cells inside; a cell that only trains another cell is replaced by the trained cell."""
        yield path, cell
        if isinstance(cell, self._optimizers):
            return
        for name, part in cell._cells.items():
            if part is not None:
                inner = type(part).__name__ if name in _WRAPPERS else f"{path}.{name}"
                yield from self._cells(part, inner)

    def _tensor(self, tensor: Any, *, sums: bool = False) -> dict[str, Any]:
        dtype = str(tensor.dtype).lower().replace("mindspore.", "")
        host = tensor.astype(self._mindspore.float32) if dtype == "bfloat16" else tensor
        array = self._numbers.host(host.asnumpy())
        entry = {"shape": list(tensor.shape), "dtype": dtype, "print": self._numbers.print_of(array)}
        if sums and array.size:
            # Independent of order: this number tells a permuted batch from a batch with other elements.
            words = array.reshape(-1).view(self._numbers.numpy.uint8).reshape(array.size, -1)
            weights = 1 << (8 * self._numbers.numpy.arange(min(words.shape[1], 4), dtype="int64"))
            entry["unordered"] = f"{int((words[:, :4] * weights).sum()):x}"
        return entry

    def _policy(self) -> dict[str, Any]:
        found = {}
        for name in _CONTEXT:
            try:
                found[name] = plainly(self._mindspore.get_context(name))
            except (ValueError, KeyError, RuntimeError):
                continue
        return found

    def _random(self) -> dict[str, Any]:
        mindspore = self._mindspore
        found = generators()
        state = getattr(mindspore, "get_rng_state", None)
        if state is not None:
            found["mindspore"] = state_print(state().asnumpy().tobytes())
        if hasattr(mindspore, "get_seed"):
            found["mindspore seed"] = plainly(mindspore.get_seed())
        return found

    def _loader(self, data: Any) -> None:
        if len(self.found["loaders"]) >= 16 or id(data) in self._seen:
            return
        self._seen.add(id(data))
        stages = list(_stages(data))
        source = stages[-1]
        found: dict[str, Any] = {"dataset": type(source).__name__, "stages": [type(one).__name__ for one in stages]}
        for name, attribute in (("batch size", "batch_size"), ("drop_last", "drop_remainder"),
                                ("workers", "num_parallel_workers"), ("shards", "num_shards"),
                                ("length", "source_len"), ("shuffle", "shuffle_flag")):  # fmt: skip
            values = [value for one in stages if (value := vars(one).get(attribute)) is not None]
            if values:
                found[name] = plainly(values[0])
        sampler = vars(source).get("sampler")
        found["sampler"] = None if sampler is None else type(sampler).__name__
        self.found["loaders"].append(found)

    def _optimizer(self, optimizer: Any) -> None:
        if len(self.found["optimizers"]) >= 8 or id(optimizer) in self._seen:
            return
        self._seen.add(id(optimizer))
        groups = getattr(optimizer, "param_groups", None)
        if isinstance(groups, list) and groups and isinstance(groups[0], dict):
            told = [{key: self._scalar(value) for key, value in one.items() if key != "params"} for one in groups]
        else:
            named = {**vars(optimizer), **optimizer._params, **optimizer._cells}
            told = [{name: self._scalar(named[name]) for name in _ARGUMENTS if name in named}]
            told[0].update({name: plainly(value) for name, value in (named.get("init_args") or {}).items()})
            parameters = getattr(optimizer, "parameters", ())
            told[0].update(tensors=len(parameters), elements=sum(int(one.size) for one in parameters))
        self.found["optimizers"].append({"type": type(optimizer).__name__, "groups": told})
        self.write()

    def _scalar(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._scalar(one) for one in value[:_MOST_VALUES]]
        if isinstance(value, self._mindspore.Tensor):
            # The number as it was written: 0.01, not the closest number of float32.
            shown = [float(str(one)) for one in value.asnumpy().reshape(-1)[:_MOST_VALUES]]
            return shown[0] if len(shown) == 1 else shown
        if isinstance(value, self._mindspore.nn.Cell):  # a learning-rate schedule
            plain = {name: one for name, one in vars(value).items() if isinstance(one, (int, float, str))}
            return f"{type(value).__name__} {plain}"
        return plainly(value)


_ARGUMENTS = (
    "learning_rate", "weight_decay", "loss_scale", "momentum", "beta1", "beta2", "eps", "group_lr",
    "group_weight_decay",
)  # fmt: skip


def _stages(data: Any) -> Iterator[Any]:
    """The stages of a data pipeline, the last stage first and the source last."""
    for _ in range(64):
        yield data
        children = getattr(data, "children", None)
        if not children:
            return
        data = children[0]
