"""Finds strings and variables that name a device, or a backend of collectives: by data flow and by usual names.

A string "cuda" is a device if it is passed as a device, assigned to a variable that is passed as a device, or compared
with a device. Any other string "cuda" is text (a path, a label, a key of data), and stays unchanged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from hermes.migrate.python.device_words import DeviceWords
from hermes.migrate.python.infer_value_kinds import ValueKinds
from hermes.migrate.python.project_definitions import Project
from hermes.migrate.python.resolve_names import ResolvedNames
from hermes.migrate.python.syntax_tree import FunctionNode, Scope, Source
from hermes.migrate.scan_model import Sure

Symbol = tuple[str, object, str]
# Calls that pass a tuple of arguments to a function: position of the tuple, its keyword, number of arguments before it.
_CALLERS: dict[str, tuple[int, str, int]] = {
    **{f"torch.distributed.rpc.{name}": (1, "func", 0) for name in ("remote", "rpc_async", "rpc_sync")},
    "torch.multiprocessing.spawn": (0, "fn", 1), "torch.multiprocessing.start_processes": (0, "fn", 1),
    **{f"{module}.Process": (1, "target", 0) for module in ("multiprocessing", "torch.multiprocessing")},
    "threading.Thread": (1, "target", 0),
}  # fmt: skip
_DEVICES = re.compile(r"(cpu|cuda|npu|mps|xpu|hpu|mlu|musa|xla|tpu|gpu|meta|auto)\b")
_GETTERS = {"get", "pop", "setdefault", "getenv", "getattr"}


class DeviceValueFlow:
    """Finds where devices (or backends) flow in one file."""

    def __init__(
        self, words: DeviceWords, source: Source, names: ResolvedNames, kinds: ValueKinds, project: Project
    ) -> None:
        self.words, self.source, self.names, self.kinds, self.project = words, source, names, kinds, project
        self.known: dict[Symbol, Sure] = {}
        self._climbs: dict[type[ast.AST], Callable[[ast.AST, ast.AST], Sure | None]] = {
            ast.IfExp: self._in_choice, ast.BoolOp: self._through, ast.NamedExpr: self._in_assignment,
            ast.Assign: self._in_assignment, ast.AnnAssign: self._in_assignment, ast.Compare: self._in_comparison,
            ast.Call: self._in_call, ast.keyword: self._in_keyword, ast.arguments: self._in_default,
            ast.Return: self._in_return, ast.Dict: self._in_dict, ast.Tuple: self._in_container,
            ast.List: self._in_container, ast.Set: self._in_container, ast.Attribute: self._in_attribute,
        }  # fmt: skip
        for _ in range(3):
            if not self._grow():
                break

    def _grow(self) -> bool:
        before = len(self.known)
        for call in self.source.nodes(ast.Call):
            for index, argument in enumerate(call.args):
                self._mark(argument, self._positional(call, index))
            for keyword in call.keywords:
                self._mark(keyword.value, self._keyword(call, keyword.arg))
        for assign in self.source.nodes(ast.Assign):
            for target in assign.targets:
                sure = self.is_one(target, habit=False)
                self._mark(assign.value, sure)
        return len(self.known) > before

    def _mark(self, node: ast.expr, sure: Sure | None) -> None:
        if sure is None:
            return
        if isinstance(node, ast.IfExp):
            self._mark(node.body, sure)
            self._mark(node.orelse, sure)
        elif isinstance(node, ast.BoolOp):
            for one in node.values:
                self._mark(one, sure)
        elif (
            (symbol := self._symbol(node)) is not None
            and self._may_be(node)
            and self.known.get(symbol) is not Sure.PROVEN
        ):
            self.known[symbol] = sure

    def _may_be(self, node: ast.expr) -> bool:
        kind = self.kinds.of(node)
        return kind is None or kind.name in ("text", self.words.kind)

    def _symbol(self, node: ast.AST) -> Symbol | None:
        if isinstance(node, ast.Name):
            found = self.source.scope(node).find(node.id)
            return ("name", found[0], node.id) if found else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            return ("attribute", None, node.attr)
        return None

    # -- is an expression a device or backend?

    def is_one(self, node: ast.AST, *, habit: bool = True) -> Sure | None:
        """How sure it is that an expression holds a device (or backend); None if nothing says so."""
        if isinstance(node, ast.Attribute) and node.attr == "type" and self.words.kind == "device":
            return self.is_one(node.value, habit=habit)
        if isinstance(node, ast.expr) and self._by_kind(node):
            return Sure.PROVEN
        symbol = self._symbol(node)
        if symbol is not None and symbol in self.known:
            return self.known[symbol]
        if habit and isinstance(node, ast.Name) and self._is_type_of_one(node):
            return Sure.LIKELY
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if habit and name and self.words.habit.match(name):
            return Sure.LIKELY
        return self._wrapped(node, habit)

    def _is_type_of_one(self, node: ast.Name) -> bool:
        """Whether a name holds `x.device.type` and nothing else."""
        found = self.source.scope(node).find(node.id)
        values = [binding.value for binding in found[1]] if found and self.words.kind == "device" else []
        return bool(values) and all(
            isinstance(one, ast.Attribute) and one.attr == "type" and self.is_one(one) for one in values
        )

    def _by_kind(self, node: ast.expr) -> bool:
        kind = self.kinds.of(node)
        if kind is not None and kind.name == self.words.kind:
            return True
        return isinstance(node, ast.Call) and self.names.full(node.func) in self.words.results

    def _wrapped(self, node: ast.AST, habit: bool) -> Sure | None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
            return self.is_one(node.args[0], habit=habit)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "strip"):
            return self.is_one(node.func.value, habit=habit)
        if isinstance(node, ast.Subscript) and habit:
            index = node.slice
            text = isinstance(index, ast.Constant) and isinstance(index.value, str)
            if text and self.words.habit.match(str(index.value)):  # type: ignore[attr-defined]
                return Sure.LIKELY
        return None

    # -- what is the role of a constant?

    def role(self, node: ast.AST, depth: int = 8) -> Sure | None:
        """How sure it is that the value of this expression is used as a device (or backend)."""
        parent = self.source.parents.get(node)
        if parent is None or not depth:
            return None
        climb = self._climbs.get(type(parent))
        if climb is None:
            return None
        return climb(node, parent)

    def _through(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        return self.role(parent)

    def _in_choice(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        assert isinstance(parent, ast.IfExp)
        other = parent.orelse if node is parent.body else parent.body
        named = other.value if isinstance(other, ast.Constant) and isinstance(other.value, str) else None
        if node is parent.test or (self.words.kind == "device" and named and not _DEVICES.match(named)):
            # `"device" if new else "cuda"` is part of another name.
            return None
        return self.role(parent)

    def _in_assignment(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        assert isinstance(parent, (ast.NamedExpr, ast.Assign, ast.AnnAssign))
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        found = [self.is_one(target) for target in targets]
        return next((one for one in found if one), None)

    def _in_comparison(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        assert isinstance(parent, ast.Compare)
        others = [one for one in (parent.left, *parent.comparators) if one is not node]
        found = [self.is_one(one) for one in others]
        return next((one for one in found if one), None)

    def _in_call(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        assert isinstance(parent, ast.Call)
        if isinstance(parent.func, ast.Attribute) and parent.func.attr == "startswith":
            return self.is_one(parent.func.value)
        for index, argument in enumerate(parent.args):
            if argument is node:
                return self._positional(parent, index) or self._second_of_getter(parent, index)
        return None

    def _second_of_getter(self, call: ast.Call, index: int) -> Sure | None:
        # `os.environ.get("DEVICE", "cuda")`, `getattr(args, "device", "cuda")`: told by the key, or by the use of both.
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name not in _GETTERS or index == 0:
            return None
        key = call.args[index - 1]
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and self.words.habit.match(key.value):
            return Sure.LIKELY
        return self.role(call)

    def _in_keyword(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        assert isinstance(parent, ast.keyword)
        call = self.source.parents[parent]
        return self._keyword(call, parent.arg) if isinstance(call, ast.Call) else None

    def takes(self, call: ast.Call, where: int | str | None) -> Sure | None:
        """How sure it is that an argument of a call, by its position or its keyword, is a device (or backend)."""
        return self._positional(call, where) if isinstance(where, int) else self._keyword(call, where)

    def _positional(self, call: ast.Call, index: int) -> Sure | None:
        full = self.names.full(call.func)
        if full is not None and self.words.calls.get(full) == index:
            return Sure.PROVEN
        by_method = isinstance(call.func, ast.Attribute) and self.words.methods.get(call.func.attr) == index
        if by_method and isinstance(call.func, ast.Attribute) and self.names.full(call.func) is None:
            return self._of_method(call.func)
        parameters = self._parameters(call.func)
        if parameters and index < len(parameters) and self.words.habit.match(parameters[index]):
            return Sure.LIKELY
        return None

    def _of_method(self, func: ast.Attribute) -> Sure | None:
        kind = self.kinds.of(func.value)
        if kind is None:
            return Sure.LIKELY
        return kind.sure if kind.name in ("tensor", "module") else None

    def _parameters(self, func: ast.expr) -> list[str] | None:
        full = self.names.full(func)
        if full is not None:
            return self.project.parameters(full, self.source.relative)
        if not isinstance(func, ast.Name):
            return None
        found = self.source.scope(func).find(func.id)
        for binding in found[1] if found else ():
            node = binding.node
            if isinstance(node, ast.ClassDef):
                node = next(
                    (one for one in node.body if isinstance(one, FunctionNode) and one.name == "__init__"), node
                )
                return [one.arg for one in node.args.args[1:]] if isinstance(node, FunctionNode) else None
            if isinstance(node, FunctionNode):
                return [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
        return None

    def _keyword(self, call: ast.Call, name: str | None) -> Sure | None:
        if name is None:
            return None
        full = self.names.full(call.func) or ""
        if name == "type" and full == "torch.device" and self.words.kind == "device":
            return Sure.PROVEN
        if name in self.words.keywords:
            by_torch = full.startswith("torch.") and (self.words.kind == "device" or full in self.words.calls)
            if self.words.kind == "backend" and not by_torch:
                # torch.compile has a backend too, and so has matplotlib.
                process = name != "backend" or "process_group" in ast.dump(call.func) or full.endswith("new_group")
                process = process or any(
                    one.arg == name and isinstance(one.value, ast.Constant) and one.value.value == "nccl"
                    for one in call.keywords
                )
                return Sure.LIKELY if process and full != "torch.compile" else None
            return Sure.PROVEN if by_torch or self._on_tensor(call) else Sure.LIKELY
        if name in ("default", "choices", "const", "value"):
            return self._option(call)
        return Sure.LIKELY if self.words.habit.match(name) and not full.startswith("torch.") else None

    def _on_tensor(self, call: ast.Call) -> bool:
        if not isinstance(call.func, ast.Attribute):
            return False
        kind = self.kinds.of(call.func.value)
        return kind is not None and kind.name in ("tensor", "module") and kind.sure is Sure.PROVEN

    def _option(self, call: ast.Call) -> Sure | None:
        """How sure an option such as `add_argument("--device", default="cuda")` is a device; also click and typer."""
        for argument in call.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                text = argument.value
                if self.words.options.match(text) or (not text.startswith("-") and self.words.habit.match(text)):
                    name = text.lstrip("-").replace("-", "_")
                    return self.known.get(("attribute", None, name), Sure.LIKELY)
                name = text.lstrip("-").replace("-", "_")
                if ("attribute", None, name) in self.known and text.startswith("--"):
                    return self.known[("attribute", None, name)]
        return None

    def _in_default(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        assert isinstance(parent, ast.arguments)
        positional = [*parent.posonlyargs, *parent.args]
        pairs = [*zip(positional[len(positional) - len(parent.defaults) :], parent.defaults, strict=True)]
        pairs += [(one, value) for one, value in zip(parent.kwonlyargs, parent.kw_defaults, strict=True) if value]
        for argument, value in pairs:
            if value is node:
                return self._of_parameter(argument, parent)
        return None

    def _of_parameter(self, argument: ast.arg, parent: ast.arguments) -> Sure | None:
        function = self.source.parents[parent]
        scope: Scope | None = self.source.inner_scope(function)
        if scope is not None and (known := self.known.get(("name", scope, argument.arg))):
            return known
        return Sure.LIKELY if self.words.habit.match(argument.arg) else None

    def _in_return(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        function = next((one for one in self.source.ancestors(parent) if isinstance(one, FunctionNode)), None)
        said = function is not None and self.words.kind in function.name.lower()
        return Sure.LIKELY if said else None

    def _in_dict(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        assert isinstance(parent, ast.Dict)
        for key, value in zip(parent.keys, parent.values, strict=True):
            text = key.value if value is node and isinstance(key, ast.Constant) else None
            if isinstance(text, str) and self.words.habit.match(text):
                return Sure.LIKELY
        found = self.role(parent)
        above = self.source.parents.get(parent)
        # Both sides of a `map_location` are devices; any other assigned table may hold other things.
        target = above.targets[0] if isinstance(above, ast.Assign) else None
        location = isinstance(target, ast.Name) and target.id.endswith("map_location")
        return found if location or isinstance(above, (ast.keyword, ast.Call)) else None

    def _in_container(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        above = self.source.parents.get(parent)
        if isinstance(above, (ast.For, ast.comprehension)) and above.iter is parent:
            return self.is_one(above.target)
        if isinstance(above, ast.Assign) and isinstance(above.targets[0], (ast.Tuple, ast.List)):
            return self._unpacked(node, parent, above.targets[0])
        if self._is_arguments(parent):
            return self._handed_on(node, parent)
        return self.role(parent) if isinstance(above, (ast.Compare, ast.keyword, ast.Assign)) else None

    def _is_arguments(self, values: ast.AST) -> bool:
        """Whether a tuple, or the sum that begins with it, is the keyword `args` of a call."""
        above = self.source.parents.get(values)
        while isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add) and above.left is values:
            values, above = above, self.source.parents.get(above)
        return isinstance(above, ast.keyword) and above.arg == "args"

    def _handed_on(self, node: ast.AST, values: ast.AST) -> Sure | None:
        """How sure a passed value is a device, by its parameter: `mp.spawn(work, args=("cuda",))`, `rpc.remote(…)`."""
        call = next(one for one in self.source.ancestors(values) if isinstance(one, ast.Call))
        place = _CALLERS.get(self.names.full(call.func) or "")
        elements: list[ast.expr] = getattr(values, "elts", [])
        before = elements[: next((number for number, one in enumerate(elements) if one is node), 0)]
        if place is None or any(isinstance(one, ast.Starred) for one in before):
            return None
        index, keyword, first = place
        by_name = [one.value for one in call.keywords if one.arg == keyword]
        target = next(iter([*by_name, *call.args[index : index + 1]]), None)
        parameters = (self._parameters(target) if target is not None else None) or []
        name = parameters[first + len(before)] if first + len(before) < len(parameters) else ""
        return Sure.LIKELY if self.words.habit.match(name) else None

    def _unpacked(self, node: ast.AST, values: ast.AST, targets: ast.Tuple | ast.List) -> Sure | None:
        pairs = zip(getattr(values, "elts", ()), targets.elts, strict=False)
        return next((self.is_one(target) for value, target in pairs if value is node), None)

    def _in_attribute(self, node: ast.AST, parent: ast.AST) -> Sure | None:
        # `"cuda:{}".format(rank)`: the role of the call.
        assert isinstance(parent, ast.Attribute)
        call = self.source.parents.get(parent)
        return self.role(call) if parent.attr == "format" and isinstance(call, ast.Call) else None
