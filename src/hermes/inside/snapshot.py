"""Writes the setup of a run into one file: environment, packages, seeds, data, optimizers, parameters.

The snapshot is written at the first batch, at the first optimizer step and when two batches were seen. So a job that is
stopped after its first batch leaves a snapshot.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from hermes.inside.error_guard import Border
from hermes.inside.record.layout import SNAPSHOT_VARIABLE
from hermes.inside.record.module_paths import Paths, local_tensor
from hermes.inside.record.modules import tensors
from hermes.inside.record.stats import Fingerprints
from hermes.inside.snapshot_parts import Taking, generators, plainly
from hermes.inside.warn_once import say

if TYPE_CHECKING:
    from hermes.inside.mindspore_snapshot import CellSnapshot


class Snapshot(Taking):
    """The setup of one torch process, as far as it was seen."""

    def __init__(self, torch: Any, out: str, rank: int) -> None:
        super().__init__(out, rank)
        self._torch = torch
        self._prints = Fingerprints(torch)
        self._handles: list[Any] = []
        self._depth = 0
        self._unwatch: Any = None

    def attach(self) -> None:
        """Wait for the first batches, loaders and optimizers."""
        module = self._torch.nn.modules.module
        optimizers, entry = importlib.import_module("torch.optim.optimizer"), self.border.entry
        self._handles = [
            module.register_module_forward_pre_hook(entry(self._before)),
            module.register_module_forward_hook(entry(self._after), always_call=True),
            optimizers.register_optimizer_step_pre_hook(entry(self._optimizer)),
        ]
        self._watch_loaders()

    def _watch_loaders(self) -> None:
        data = importlib.import_module("torch.utils.data.dataloader")
        begin = data.DataLoader.__iter__
        data.DataLoader.__iter__ = self.border.around(begin, self._loader)
        self._unwatch = lambda: setattr(data.DataLoader, "__iter__", begin)

    def _before(self, module: Any, args: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            with self._torch.no_grad():
                self._batch(module, args)

    def _after(self, module: Any, args: Any, result: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0 and self._handles and self.complete:
            self._finish()

    def _finish(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._unwatch()
        self.write()

    def _batch(self, module: Any, args: Any) -> None:
        found = self.found
        if not self.wants(type(module).__name__):
            return
        if not found["batches"]:
            found["policy"] = self._policy()
            found["random"] = self._random()
        if type(module).__name__ not in found.setdefault("models", {}):
            found["models"][type(module).__name__] = str(module)[:20_000]
            self._parameters(module)
        given = [one for one in tensors(args, self._torch) if local_tensor(one) is not None]
        found["batches"].append(
            {
                "model": type(module).__name__, "random": self._random()["torch"],
                "tensors": [self._tensor(one, sums=True) for one in given],
            }
        )  # fmt: skip
        if len(found["batches"]) == 1:
            self.write()

    def _parameters(self, module: Any) -> None:
        paths = Paths()
        paths.number(module, None)
        root = paths.name(0)
        for kind, named in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
            for name, tensor in named:
                local = local_tensor(tensor)
                if local is not None:
                    clean = name.replace("_orig_mod.", "")
                    clean = clean[len("module.") :] if clean.startswith("module.") else clean
                    entry = {"kind": kind, "trained": bool(tensor.requires_grad), **self._tensor(local)}
                    self.found["parameters"][f"{root}.{clean}"] = entry

    def _tensor(self, tensor: Any, *, sums: bool = False) -> dict[str, Any]:
        local = local_tensor(tensor)
        entry = {"shape": list(local.shape), "dtype": str(local.dtype)[6:], "print": self._prints.of(local)}
        if sums and local.numel():
            # Independent of order: this number tells a permuted batch from a batch with other elements.
            words = self._prints._words(local)
            entry["unordered"] = f"{int(words.sum(dtype=self._torch.int64).item()):x}"
        return entry

    def _policy(self) -> dict[str, Any]:
        torch = self._torch
        cuda = torch.backends.cuda.matmul
        cudnn = torch.backends.cudnn
        found = {
            "default dtype": str(torch.get_default_dtype()),
            "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
            "cudnn.deterministic": cudnn.deterministic, "cudnn.benchmark": cudnn.benchmark,
            "cudnn.allow_tf32": cudnn.allow_tf32, "cuda.matmul.allow_tf32": cuda.allow_tf32,
            "float32 matmul precision": torch.get_float32_matmul_precision(), "threads": torch.get_num_threads(),
        }  # fmt: skip
        for device in ("cpu", "cuda", "npu"):
            try:
                enabled = torch.is_autocast_enabled(device)
                found[f"autocast on {device}"] = str(torch.get_autocast_dtype(device))[6:] if enabled else "off"
            except (RuntimeError, TypeError):
                continue
        npu = getattr(torch, "npu", None)
        for name in ("matmul", "conv"):
            part = getattr(npu, name, None)
            if part is not None and hasattr(part, "allow_hf32"):
                found[f"npu.{name}.allow_hf32"] = bool(part.allow_hf32)
        return found

    def _random(self) -> dict[str, Any]:
        torch = self._torch
        state = torch.random.default_generator.get_state()
        found = {**generators(), "torch": self._prints.of(state), "torch seed": torch.initial_seed()}
        for device in ("cuda", "npu"):
            part = getattr(torch, device, None)
            try:
                if part is not None and part.is_initialized():
                    found[f"{device} seed"] = part.initial_seed()
            except (RuntimeError, AttributeError):
                continue
        return found

    def _loader(self, args: Any, _kwargs: Any) -> None:
        (loader,) = args
        if len(self.found["loaders"]) >= 16:
            return
        start = loader.worker_init_fn
        self.found["loaders"].append(
            {
                "dataset": type(loader.dataset).__name__, "batch size": loader.batch_size, "workers":
                loader.num_workers,
                "sampler": type(loader.sampler).__name__, "drop_last": bool(loader.drop_last),
                "worker_init_fn": getattr(start, "__qualname__", None if start is None else type(start).__name__),
                "generator seed": loader.generator.initial_seed() if loader.generator is not None else None,
                "length": len(loader.dataset) if hasattr(loader.dataset, "__len__") else None,
            }
        )  # fmt: skip

    def _optimizer(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        names = [one["type"] for one in self.found["optimizers"]]
        if len(names) >= 8 or id(optimizer) in self.__dict__.setdefault("_seen", set()):
            return
        self.__dict__["_seen"].add(id(optimizer))
        groups = []
        for group in optimizer.param_groups:
            told = {key: plainly(value) for key, value in group.items() if key != "params"}
            sizes = [one.numel() for one in group["params"]]
            groups.append({**told, "tensors": len(sizes), "elements": sum(sizes)})
        self.found["optimizers"].append({"type": type(optimizer).__name__, "groups": groups})
        self.write()


_BORDER = Border(lambda broken: say(f"no snapshot is taken: {type(broken).__name__}: {broken}"))


def snapshot(out: str, *, rank: int | None = None, framework: str = "") -> Taking | None:
    """Begin a snapshot from the user's own code: one line, after the model was built. None if no snapshot can be made.

    The snapshot is of MindSpore if `framework` says so or if only MindSpore was imported, else of torch.
    """
    found: Taking | None = _BORDER.call(_snapshot, out, rank, framework)
    return found


def _snapshot(out: str, rank: int | None, framework: str) -> Taking:
    from hermes.inside.record.start import rank as own_rank

    number = own_rank()[0] if rank is None else rank
    if not framework:
        framework = "mindspore" if "torch" not in sys.modules and "mindspore" in sys.modules else "torch"
    taken: Snapshot | CellSnapshot
    if framework == "mindspore":
        from hermes.inside.mindspore_snapshot import CellSnapshot

        taken = CellSnapshot(sys.modules["mindspore"], str(out), number)
    else:
        taken = Snapshot(importlib.import_module("torch"), str(out), number)
    taken.attach()
    return taken


def boot(framework: str) -> None:
    """Begin a snapshot as the environment says. Whatever goes wrong, the job goes on."""
    from hermes.inside.record.start import claimed

    if not claimed(SNAPSHOT_VARIABLE):
        snapshot(os.environ[SNAPSHOT_VARIABLE], framework=framework)
