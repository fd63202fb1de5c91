"""Resolves a name or an attribute to its full dotted name, through imports and aliases, by scope."""

from __future__ import annotations

import ast
import re

from hermes.migrate.python.syntax_tree import Binding, Scope, Source

_DEPTH = 8
_SAME = (
    (re.compile(r"^torch\.cuda\.amp\.(autocast_mode|grad_scaler|common)\."), "torch.cuda.amp."),
    (re.compile(r"^torch\.cuda\.(memory|random|streams|graphs)\.(?=\w+)"), "torch.cuda."),
    (re.compile(r"^torch\.amp\.(autocast_mode|grad_scaler)\."), "torch.amp."),
    (re.compile(r"^torch\.distributed\.distributed_c10d\."), "torch.distributed."),
    (re.compile(r"^torch\.distributed\.device_mesh\."), "torch.distributed."),
    (re.compile(r"^torch\.nn\.modules\.\w+\.(?=[A-Z])"), "torch.nn."),
    (re.compile(r"^torch\.nn\.parallel\.distributed\."), "torch.nn.parallel."),
    (re.compile(r"^torch\.nn\.parallel\.data_parallel\.DataParallel"), "torch.nn.DataParallel"),
    (re.compile(r"^torch\.nn\.parallel\.DataParallel"), "torch.nn.DataParallel"),
    (re.compile(r"^torch\.utils\.data\.(dataloader|dataset|sampler|distributed)\.(?=[A-Z])"), "torch.utils.data."),
    (re.compile(r"^torch\.optim\.(?!lr_scheduler)\w+\.(?=[A-Z])"), "torch.optim."),
    (re.compile(r"^torch\.autograd\.variable\."), "torch.autograd."),
)


class ResolvedNames:
    """The full dotted names of the expressions of one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._memo: dict[ast.AST, str | None] = {}

    def full(self, node: ast.expr) -> str | None:
        """The full dotted name of a name or attribute that leads to an import; None for any other expression."""
        if node not in self._memo:
            self._memo[node] = None
            self._memo[node] = self._full(node, _DEPTH)
        return self._memo[node]

    def _full(self, node: ast.expr, depth: int) -> str | None:
        if isinstance(node, ast.Attribute):
            base = self.full(node.value)
            return canonical(f"{base}.{node.attr}") if base else None
        if isinstance(node, ast.Name) and depth:
            return self.of_name(node.id, self.source.scope(node), depth)
        return None

    def of_name(self, name: str, scope: Scope, depth: int = _DEPTH) -> str | None:
        """The full dotted name of a name as seen from a scope."""
        found = scope.find(name)
        if found is None:
            # A file with `from … import *` gets torch from the imported module; no other name is that certain.
            return name if name == "torch" and "*" in self.source.top.names else None
        dotted = {self._of_binding(binding, depth) for binding in found[1] if not _is_none(binding)}
        return canonical(dotted.pop() or "") or None if len(dotted) == 1 else None

    def _of_binding(self, binding: Binding, depth: int) -> str | None:
        if binding.kind == "import":
            return binding.dotted
        if binding.kind == "assign" and isinstance(binding.value, (ast.Name, ast.Attribute)):
            return self._full(binding.value, depth - 1)
        return None

    def local_name(self, dotted: str, scope: Scope) -> str | None:
        """A name in the file that stands for `dotted` and is visible in a scope; None if there is none."""
        around: Scope | None = scope
        while around is not None:
            for name, bindings in around.names.items():
                if any(one.dotted == dotted for one in bindings) and self.of_name(name, scope) == dotted:
                    return name
            around = around.parent
        return None


def canonical(dotted: str) -> str:
    """One spelling for names with several: torch defines some names in one module and exports them from another."""
    if dotted.startswith("torch."):
        for pattern, short in _SAME:
            dotted = pattern.sub(short, dotted)
    return dotted


def _is_none(binding: Binding) -> bool:
    return isinstance(binding.value, ast.Constant) and binding.value.value in (None, False)
