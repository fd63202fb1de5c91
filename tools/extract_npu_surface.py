"""Reads the names and signatures of torch_npu out of its wheel, by syntax and without running any of it.

    pip download --no-deps torch_npu==2.13.0
    python tools/extract_npu_surface.py torch_npu-*.whl src/hermes/migrate/standin/surface.json

The result is a table of modules: each public name with its kind (function, class, module, value) and its signature as
text with defaults left out where they are no plain literal. What the wheel defines in C++ is taken from the signatures
in its documentation strings. The wheel itself is not kept (it is BSD-3-Clause).
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

_MODULES = {
    "torch_npu.npu": "torch_npu/npu/__init__.py",
    "torch_npu.npu.amp": "torch_npu/npu/amp/__init__.py",
    "torch_npu.npu.memory": "torch_npu/npu/memory.py",
    "torch_npu.npu.random": "torch_npu/npu/random.py",
    "torch_npu.npu.graphs": "torch_npu/npu/graphs.py",
    "torch_npu.npu.streams": "torch_npu/npu/streams.py",
    "torch_npu.npu.mstx": "torch_npu/npu/mstx.py",
    "torch_npu.npu.utils": "torch_npu/npu/utils.py",
    "torch_npu.profiler": "torch_npu/profiler/__init__.py",
    "torch_npu.contrib": "torch_npu/contrib/__init__.py",
    "torch_npu.optim": "torch_npu/optim/__init__.py",
    "torch_npu.distributed": "torch_npu/distributed/__init__.py",
    "torch_npu.utils": "torch_npu/utils/__init__.py",
}
_SHIM_LISTS = ("torch_fn_white_list", "torch_tensor_fn_white_list", "torch_module_fn_white_list",
               "torch_cuda_fn_white_list", "device_kwargs_list")  # fmt: skip


class Wheel:
    """The Python files of the wheel, parsed once each."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        self._names = set(self._zip.namelist())
        self._trees: dict[str, ast.Module] = {}
        self.version = path.name.split("-")[1]

    def tree(self, name: str) -> ast.Module:
        """The syntax tree of one file."""
        if name not in self._trees:
            self._trees[name] = ast.parse(self._zip.read(name).decode())
        return self._trees[name]

    def file(self, package: str, level: int, module: str) -> str | None:
        """The file that `from {level dots}{module} import …` in the file `package` names."""
        if level:
            parts = package.split("/")[:-1]
            base = "/".join(parts[: len(parts) - (level - 1)])
            dotted = f"{base}/{module.replace('.', '/')}" if module else base
        else:
            dotted = module.replace(".", "/")
        for name in (f"{dotted}.py", f"{dotted}/__init__.py"):
            if name in self._names:
                return name
        return None


def _literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, bool, type(None))):
        return repr(node.value)
    return "..."


def _signature(node: ast.FunctionDef, drop_first: bool) -> str:
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + [_literal(one) for one in args.defaults]
    parts = [
        one.arg if value is None else f"{one.arg}={value}" for one, value in zip(positional, defaults, strict=True)
    ]
    if args.posonlyargs:
        parts.insert(len(args.posonlyargs), "/")
    parts = parts[1:] if drop_first else parts
    if args.vararg:
        parts.append(f"*{args.vararg.arg}")
    elif args.kwonlyargs:
        parts.append("*")
    for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        parts.append(one.arg if default is None else f"{one.arg}={_literal(default)}")
    if args.kwarg:
        parts.append(f"**{args.kwarg.arg}")
    return f"({', '.join(parts)})"


def _class(node: ast.ClassDef) -> dict[str, Any]:
    methods = {
        one.name: _signature(
            one, not any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in one.decorator_list)
        )
        for one in node.body
        if isinstance(one, ast.FunctionDef) and (not one.name.startswith("_") or one.name in ("__init__", "__new__"))
    }
    bases = [ast.unparse(base) for base in node.bases]
    values = [target.id for one in node.body if isinstance(one, ast.Assign)
              for target in one.targets if isinstance(target, ast.Name)]  # fmt: skip
    return {"kind": "class", "bases": bases, "methods": methods, "values": values}


def _decorated_away(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(one) for one in node.decorator_list)


def names(wheel: Wheel, file: str, depth: int = 0) -> dict[str, dict[str, Any]]:
    """Every name that one file of the wheel binds at its top: what it is, and its signature."""
    found: dict[str, dict[str, Any]] = {}
    for node in wheel.tree(file).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = {"kind": "function", "signature": _signature(node, False)}
        elif isinstance(node, ast.ClassDef):
            found[node.name] = _class(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, {"kind": "value"})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, {"kind": "value"})
        elif isinstance(node, ast.ImportFrom) and depth < 5:
            found.update(_imported(wheel, file, node, depth))
    return found


def _imported(wheel: Wheel, file: str, node: ast.ImportFrom, depth: int) -> dict[str, dict[str, Any]]:
    source = wheel.file(file, node.level, node.module or "")
    if source is None or source == file:
        return {}
    there = names(wheel, source, depth + 1)
    if node.names[0].name == "*":
        exported = _all(wheel.tree(source))
        return {
            name: what for name, what in there.items() if (name in exported if exported else not name.startswith("_"))
        }
    found = {}
    for alias in node.names:
        if alias.name in there:
            found[alias.asname or alias.name] = there[alias.name]
        elif wheel.file(source, 1, alias.name):
            found[alias.asname or alias.name] = {"kind": "module"}
        else:
            found[alias.asname or alias.name] = {"kind": "value"}
    return found


def _all(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in tree.body:
        if (
            isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
        ) or (isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == "__all__"):
            found |= {e.value for e in getattr(node.value, "elts", []) if isinstance(e, ast.Constant)}
    return found


def _operators(wheel: Wheel) -> dict[str, dict[str, Any]]:
    """Operators that C++ defines, from the signatures in their documentation strings: `npu_x(a, b=None) -> Tensor`."""
    found: dict[str, dict[str, Any]] = {}
    for node in ast.walk(wheel.tree("torch_npu/_op_plugin_docs.py")):
        if (
            isinstance(node, ast.Call)
            and len(node.args) >= 2
            and all(isinstance(a, ast.Constant) for a in node.args[:2])
        ):
            name, text = (str(getattr(a, "value", "")) for a in node.args[:2])
            if re.fullmatch(r"(npu_|_npu_)?\w+", name):
                found[name] = {"kind": "operator"}
                match = re.search(rf"(?:torch_npu\.)?{re.escape(name)}\((.*?)\)\s*->", text, re.DOTALL)
                if match:
                    found[name]["arguments"] = [
                        part.split("=")[0].strip().split(" ")[-1].strip("*") or "*"
                        for part in re.sub(r"\[[^\]]*\]|\([^)]*\)", "", match[1]).split(",")
                        if part.strip()
                    ]
    return found


def main() -> None:
    """Write the table."""
    wheel = Wheel(Path(sys.argv[1]))
    modules = {}
    for module, file in _MODULES.items():
        if file in wheel._names:
            public = _all(wheel.tree(file))
            found = names(wheel, file)
            modules[module] = {
                name: what for name, what in sorted(found.items()) if name in public or not name.startswith("_")
            }
            for name in sorted(public - set(found)):
                modules[module][name] = {"kind": "value"}
    shim: dict[str, Any] = {}
    for node in wheel.tree("torch_npu/contrib/transfer_to_npu.py").body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in _SHIM_LISTS:
            shim[node.targets[0].id] = ast.literal_eval(node.value)
    table = {
        "source": f"wheel torch_npu {wheel.version} (BSD-3-Clause), names and signatures",
        "version": wheel.version,
        "modules": modules,
        "operators": dict(sorted(_operators(wheel).items())),
        "shim": shim,
    }
    Path(sys.argv[2]).write_text(json.dumps(table, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
