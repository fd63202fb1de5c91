"""Finds the kind of value of an expression: tensor, module, device, number; and its element type if the code says it.

The code is not run: a kind comes from calls of torch whose result is known, from classes of the project that derive
from `nn.Module`, and from annotations. A value that may be of two kinds has no kind.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from hermes.migrate.python.project_definitions import Project
from hermes.migrate.python.resolve_names import ResolvedNames
from hermes.migrate.python.syntax_tree import Binding, FunctionNode, Scope, Source
from hermes.migrate.python.type_keeping_methods import SAME_TYPE
from hermes.migrate.python.value_kind import ValueKind
from hermes.migrate.scan_model import Sure

TENSOR, MODULE = ValueKind("tensor"), ValueKind("module")
DTYPES = {
    "float": "float32", "float32": "float32", "double": "float64", "float64": "float64", "half": "float16",
    "float16": "float16", "bfloat16": "bfloat16", "long": "int64", "int64": "int64", "int": "int32", "int32": "int32",
    "short": "int16", "int16": "int16", "char": "int8", "int8": "int8", "uint8": "uint8", "byte": "uint8",
    "bool": "bool", "cfloat": "complex64", "complex64": "complex64", "cdouble": "complex128",
    "complex128": "complex128", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2",
}  # fmt: skip
_CASTS = ("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cfloat", "cdouble")
_NO_TENSOR = {
    "item": "number", "tolist": "other", "numpy": "other", "size": "other", "dim": "int", "ndimension": "int",
    "numel": "int", "nelement": "int", "element_size": "int", "data_ptr": "int", "get_device": "int",
    "is_contiguous": "bool", "is_floating_point": "bool", "is_complex": "bool", "stride": "other", "backward": "none",
    "storage": "other", "untyped_storage": "other", "type": "other", "split": "other", "chunk": "other",
    "unbind": "other", "register_hook": "other", "max": "tensor", "min": "tensor", "topk": "other", "sort": "other",
    "__len__": "int",
}  # fmt: skip
_FACTORIES_OF_NUMBERS = {"torch.is_tensor", "torch.numel", "torch.is_floating_point", "torch.is_complex", "torch.equal"}
_CALLS = {
    "torch.device": ValueKind("device"),
    "torch.accelerator.current_accelerator": ValueKind("device"),
    "torch.Generator": ValueKind("generator"),
    "torch.utils.data.DataLoader": ValueKind("loader"),
    "argparse.ArgumentParser": ValueKind("parser"),
    "torch.cuda.Stream": ValueKind("stream"), "torch.cuda.current_stream": ValueKind("stream"),
    "torch.Stream": ValueKind("stream"),
    "torch.cuda.Event": ValueKind("event"), "torch.Event": ValueKind("event"),
    "torch.cuda.get_device_properties": ValueKind("properties"),
    "torch.cuda.current_device": ValueKind("int"), "torch.cuda.device_count": ValueKind("int"),
    "torch.accelerator.device_count": ValueKind("int"), "torch.accelerator.current_device_index": ValueKind("int"),
    "torch.distributed.get_rank": ValueKind("int"), "torch.distributed.get_world_size": ValueKind("int"),
    "torch.distributed.get_backend": ValueKind("backend"),
    "int": ValueKind("int"), "len": ValueKind("int"), "float": ValueKind("float"), "str": ValueKind("text"),
    "range": ValueKind("range"),
    "torch.load": ValueKind("other"), "torch.save": ValueKind("none"),
    "torch.compile": ValueKind("module", "", Sure.LIKELY),
    "torch.get_default_dtype": ValueKind("other"), "torch.cuda.is_available": ValueKind("bool"),
    "torch.manual_seed": ValueKind("other"),
}  # fmt: skip
_NOT_TENSORS = (
    "torch.cuda.", "torch.backends.", "torch.distributed.", "torch.utils.", "torch.jit.", "torch.fx.", "torch.onnx.",
    "torch.hub.", "torch.profiler.", "torch.autograd.", "torch.amp.", "torch.accelerator.", "torch.multiprocessing.",
    "torch.set_", "torch.get_", "torch.is_", "torch.no_grad", "torch.enable_grad", "torch.inference_mode",
    "torch.autocast", "torch.nn.init.", "torch.nn.utils.", "torch.version", "torch.finfo", "torch.iinfo", "torch.Size",
    "torch.use_deterministic", "torch.export.", "torch.library.", "torch.optim.", "torch.compiler.", "torch._",
)  # fmt: skip
_MODULE_RETURNS = {"to", "cuda", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "requires_grad_",
                   "share_memory", "apply", "to_empty", "npu", "type"}  # fmt: skip
_DEPTH = 12


class ValueKinds:
    """The kinds of the expressions of one file."""

    def __init__(self, source: Source, names: ResolvedNames, project: Project) -> None:
        self.source, self.names, self.project = source, names, project
        self._memo: dict[ast.AST, ValueKind | None] = {}
        self._attributes: dict[ast.ClassDef, dict[str, list[ast.expr]]] = {}
        self._depth = 0

    def of(self, node: ast.expr) -> ValueKind | None:
        """The kind of an expression; None if the code does not tell."""
        if node in self._memo:
            return self._memo[node]
        if self._depth > _DEPTH:
            return None
        self._memo[node] = None
        self._depth += 1
        try:
            found = self._of(node)
        finally:
            self._depth -= 1
        self._memo[node] = found
        return found

    def _of(self, node: ast.expr) -> ValueKind | None:
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Name):
            return self._name(node.id, self.source.scope(node))
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Constant):
            return _constant(node.value)
        if isinstance(node, ast.IfExp):
            return _joined([self.of(node.body), self.of(node.orelse)])
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        return self._rest(node)

    def _rest(self, node: ast.expr) -> ValueKind | None:
        if isinstance(node, ast.Subscript):
            base = self.of(node.value)
            return base if base and base.name in ("tensor", "module") else self._environment(node)
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand)
        if isinstance(node, (ast.NamedExpr, ast.Await)):
            return self.of(node.value)
        if isinstance(node, ast.BoolOp):
            return _joined([self.of(one) for one in node.values])
        return ValueKind("text") if isinstance(node, ast.JoinedStr) else None

    def _environment(self, node: ast.Subscript) -> ValueKind | None:
        return ValueKind("text") if self.names.full(node.value) == "os.environ" else None

    def _binary(self, node: ast.BinOp) -> ValueKind | None:
        left, right = self.of(node.left), self.of(node.right)
        for one in (left, right):
            if one and one.name == "tensor":
                return one
        numbers = {one.name for one in (left, right) if one}
        if numbers <= {"int", "float"} and left and right and not isinstance(node.op, ast.Div):
            return left if len(numbers) == 1 else ValueKind("float")
        return left if left and left.name == "text" else None

    def _call(self, node: ast.Call) -> ValueKind | None:
        full = self.names.full(node.func)
        if full is None and isinstance(node.func, ast.Name) and self.source.scope(node).find(node.func.id) is None:
            full = node.func.id
        if full is not None:
            known = self._known_call(full, node)
            if known is not None:
                return known
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        if isinstance(node.func, ast.Name) and full is None:
            return self._local_call(node.func)
        return None

    def _known_call(self, full: str, node: ast.Call) -> ValueKind | None:
        if full in _CALLS:
            return _CALLS[full]
        last = full.rpartition(".")[2]
        if full.startswith("torch.optim.") and last[:1].isupper():
            return ValueKind("optimizer")
        if full.startswith("torch.nn.") and not full.startswith(("torch.nn.functional.", "torch.nn.init.")):
            return self._torch_nn(full, last)
        if full.startswith("torchvision.models.") and full.count(".") == 2:
            return MODULE
        if full.startswith("torch.") and full.count(".") <= 3:
            return self._torch(full, last, node)
        return MODULE if self.project.is_module_class(full, self.source.relative) else None

    def _torch_nn(self, full: str, last: str) -> ValueKind | None:
        if last == "Parameter":
            return TENSOR
        return MODULE if last[:1].isupper() and ".utils." not in full else None

    def _torch(self, full: str, last: str, node: ast.Call) -> ValueKind | None:
        if full.startswith(_NOT_TENSORS) or full in _FACTORIES_OF_NUMBERS:
            return None
        if last.endswith("Tensor"):
            return TENSOR
        return ValueKind("tensor", self._dtype_of_call(node)) if last[:1].islower() else None

    def _dtype_of_call(self, node: ast.Call) -> str:
        for keyword in node.keywords:
            if keyword.arg == "dtype":
                return self.dtype(keyword.value)
        name = (self.names.full(node.func) or "").rpartition(".")[2]
        for argument in node.args[:1] if name in SAME_TYPE else ():
            kind = self.of(argument)
            if kind and kind.name == "tensor":
                return kind.dtype
        return ""

    def dtype(self, node: ast.expr) -> str:
        """The torch type that an expression names, such as `float64`; empty if it names none."""
        full = self.names.full(node)
        if full and full.startswith("torch.") and full.count(".") == 1:
            return DTYPES.get(full.rpartition(".")[2], "")
        return ""

    def _method(self, node: ast.Call, func: ast.Attribute) -> ValueKind | None:
        if func.attr == "get_device_properties":
            # Also names in the module of the device, as convert writes them.
            return ValueKind("properties")
        owner = self.of(func.value)
        if owner is None:
            return ValueKind("int", "", Sure.LIKELY) if func.attr == "index" else None
        if owner.name == "parser" and func.attr in ("parse_args", "parse_known_args"):
            return ValueKind("options")
        if owner.name == "module":
            return owner if func.attr in _MODULE_RETURNS else self._module_method(func.attr)
        if owner.name == "tensor":
            return self._tensor_method(node, func.attr, owner)
        return None

    @staticmethod
    def _module_method(name: str) -> ValueKind | None:
        return ValueKind("tensor", "", Sure.LIKELY) if name == "forward" else None

    def _tensor_method(self, node: ast.Call, name: str, owner: ValueKind) -> ValueKind | None:
        if name in _CASTS:
            return replace(owner, dtype=DTYPES[name])
        if name in ("to", "type", "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor"):
            named = [self.dtype(one) for one in (*node.args, *(k.value for k in node.keywords))]
            return replace(owner, dtype=next((one for one in named if one), owner.dtype))
        if name in _NO_TENSOR:
            other = _NO_TENSOR[name]
            return replace(owner, dtype="") if other == "tensor" else ValueKind(other)
        return owner if name in SAME_TYPE else replace(owner, dtype="")

    def _local_call(self, func: ast.Name) -> ValueKind | None:
        found = self.source.scope(func).find(func.id)
        if found is None:
            return None
        for binding in found[1]:
            if isinstance(binding.node, ast.ClassDef):
                return MODULE if self.is_module_class(binding.node) else None
        owner = self.of(func)
        return ValueKind("tensor", "", Sure.LIKELY) if owner and owner.name == "module" else None

    def is_module_class(self, node: ast.ClassDef, depth: int = 6) -> bool:
        """Whether a class of this file derives from torch.nn.Module."""
        for base in node.bases:
            full = self.names.full(base)
            if full and self.project.is_module_class(full, self.source.relative):
                return True
            found = self.source.scope(node).find(base.id) if isinstance(base, ast.Name) else None
            for binding in found[1] if found and depth else ():
                if isinstance(binding.node, ast.ClassDef) and binding.node is not node:
                    return self.is_module_class(binding.node, depth - 1)
        return False

    def _name(self, name: str, scope: Scope) -> ValueKind | None:
        found = scope.find(name)
        if found is None:
            return None
        kinds = [self._binding(binding, name, found[0]) for binding in found[1] if binding.kind != "augment"]
        return _joined(kinds)

    def _binding(self, binding: Binding, name: str, scope: Scope) -> ValueKind | None:
        if binding.kind in ("assign", "with") and binding.value is not None:
            return self.of(binding.value)
        if binding.kind == "parameter":
            return self._parameter(binding.node, name, scope)
        if binding.kind.startswith("for") and binding.value is not None:
            kind = self.of(binding.value)
            if kind and kind.name == "loader":
                return ValueKind("tensor", "", Sure.LIKELY)
            return ValueKind("int") if kind and kind.name == "range" and binding.kind == "for" else None
        if binding.kind == "assign-part" and binding.value is not None:
            kind = self.of(binding.value)
            return kind if kind and kind.name == "tensor" else None
        return None

    def _parameter(self, node: ast.AST, name: str, scope: Scope) -> ValueKind | None:
        if isinstance(node, ast.arg) and node.annotation is not None:
            annotated = self._annotation(node.annotation)
            if annotated is not None:
                return annotated
        function = scope.node
        owner = scope.parent.node if scope.parent else None
        in_module = isinstance(owner, ast.ClassDef) and self.is_module_class(owner)
        if in_module and isinstance(function, FunctionNode) and function.name == "forward" and name != "self":
            return ValueKind("tensor", "", Sure.LIKELY)
        return MODULE if in_module and name == "self" else None

    def _annotation(self, node: ast.expr) -> ValueKind | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            plain = node.value.strip()
            return {"torch.Tensor": TENSOR, "Tensor": TENSOR, "nn.Module": MODULE, "int": ValueKind("int")}.get(plain)
        full = self.names.full(node) or (node.id if isinstance(node, ast.Name) else "")
        if full in ("torch.Tensor", "torch.FloatTensor", "torch.LongTensor"):
            return TENSOR
        if full == "torch.device":
            return ValueKind("device")
        if full in ("int", "str", "float", "bool"):
            return ValueKind({"str": "text"}.get(full, full))
        return MODULE if full and "." in full and self.project.is_module_class(full, self.source.relative) else None

    def _attribute(self, node: ast.Attribute) -> ValueKind | None:
        owner = self.of(node.value)
        if owner is not None and owner.name == "tensor":
            if node.attr in ("T", "H", "mT", "mH", "data", "grad", "real", "imag"):
                return owner
            return ValueKind("device") if node.attr == "device" else None
        holder = self._class_of_self(node.value)
        if holder is None:
            return None
        values = self.attributes(holder).get(node.attr, [])
        return _joined([self.of(one) for one in values])

    def _class_of_self(self, node: ast.expr) -> ast.ClassDef | None:
        if not (isinstance(node, ast.Name) and node.id == "self"):
            return None
        scope: Scope | None = self.source.scope(node)
        while scope is not None:
            if isinstance(scope.node, ast.ClassDef):
                return scope.node
            scope = scope.parent
        return None

    def attributes(self, holder: ast.ClassDef) -> dict[str, list[ast.expr]]:
        """The values that methods of a class assign to each attribute of `self`."""
        if holder not in self._attributes:
            found: dict[str, list[ast.expr]] = {}
            for node in ast.walk(holder):
                targets = node.targets if isinstance(node, ast.Assign) else ()
                for target in targets:
                    own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
                    if own and target.value.id == "self" and isinstance(node, ast.Assign):  # type: ignore[attr-defined]
                        found.setdefault(target.attr, []).append(node.value)  # type: ignore[attr-defined]
            self._attributes[holder] = found
        return self._attributes[holder]


def _constant(value: object) -> ValueKind | None:
    if value is None:
        return ValueKind("none")
    if isinstance(value, bool):
        return ValueKind("bool")
    names = {int: "int", float: "float", str: "text"}
    return ValueKind(names[type(value)]) if type(value) in names else None


def _joined(kinds: list[ValueKind | None]) -> ValueKind | None:
    """The kind of a value that is one of several; None if the kinds differ or one is not known."""
    if not kinds or any(one is None for one in kinds):
        return None
    known = [one for one in kinds if one is not None]
    if len({one.name for one in known}) != 1:
        return None
    dtypes = {one.dtype for one in known}
    sure = Sure.LIKELY if any(one.sure is Sure.LIKELY for one in known) else Sure.PROVEN
    return ValueKind(known[0].name, dtypes.pop() if len(dtypes) == 1 else "", sure)
