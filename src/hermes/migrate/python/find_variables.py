"""Finds environment variables that CUDA reads, and adds their counterparts on Ascend to the same code."""

from __future__ import annotations

import ast
import re

from hermes.knowledge import migration
from hermes.migrate import messages as say
from hermes.migrate.messages import code
from hermes.migrate.python.scanned_file import File, TextChange
from hermes.migrate.scan_model import Effort, Sure
from hermes.model.leaf import Risk

_STARTS = re.compile(
    r"subprocess\.(run|call|check_call|check_output|Popen|getoutput|getstatusoutput)|os\.(system|popen)"
)
_VARIABLE = re.compile(r"(CUDA|NCCL|TORCH_NCCL|TORCH_CUDA|TORCH_CUDNN|PYTORCH_CUDA|CUBLAS|NVIDIA)_[A-Z0-9_]+$")


def find(file: File) -> None:
    """Find each CUDA variable that a file reads or writes by name."""
    written = _written(file)
    for constant in file.source.nodes(ast.Constant):
        if isinstance(constant.value, str) and (
            _VARIABLE.match(constant.value) or constant.value in migration.settings()
        ):
            _variable(file, constant, constant.value, written)
    for call in file.source.nodes(ast.Call):
        _command(file, call)


def _command(file: File, call: ast.Call) -> None:
    """Note a command of NVIDIA's that the file starts: an NPU machine has no such command."""
    first = call.args[0] if call.args and _STARTS.fullmatch(file.names.full(call.func) or "") else None
    if isinstance(first, (ast.List, ast.Tuple)) and first.elts:
        first = first.elts[0]
    words = first.value.split() if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
    setting = migration.settings().get(words[0].rpartition("/")[2]) if words else None
    if setting is not None and setting.kind == "command":
        file.add("launcher", call, code(text=setting.name), todo=setting.todo.message,
                 why=say.counterpart(name=setting.counterpart) if setting.counterpart else say.NO_TOOL)  # fmt: skip


def _written(file: File) -> set[str]:
    """Variables that the file sets itself: tests of such a variable must also ask for the counterpart."""
    set_here: set[str] = set()
    not_exact: set[str] = set()
    for subscript in file.source.nodes(ast.Subscript):
        key = subscript.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and _is_environ(file, subscript.value):
            if isinstance(subscript.ctx, ast.Store):
                set_here.add(key.value)
            elif file.source.exact(subscript) is None:
                not_exact.add(key.value)
    return set_here - not_exact


def _variable(file: File, node: ast.Constant, name: str, written: set[str]) -> None:
    setting = migration.settings().get(name)
    if not _is_environment(file, node):
        return
    if setting is None:
        file.add("environment", node, say.variable(name=name), sure=Sure.LIKELY, effect=Risk.NOTE, effort=Effort.NONE,
                 why=say.NOT_READ, todo=say.ONLY_FOR_CUDA)  # fmt: skip
        return
    changes = _both(file, node, setting.counterpart, name in written) if setting.same_value else None
    if changes == ():
        return
    file.add(
        "environment", node, say.variable(name=name), native=changes, shim=changes, todo=setting.todo.message,
        why=say.counterpart(name=setting.counterpart) if setting.counterpart else say.NOT_READ,
        effect=Risk.DIFFERS if setting.counterpart else Risk.NOTE,
        effort=Effort.MINUTES if setting.counterpart else Effort.NONE,
    )  # fmt: skip


def _is_environment(file: File, node: ast.Constant) -> bool:
    parent = file.source.parents.get(node)
    if isinstance(parent, ast.Subscript):
        return _is_environ(file, parent.value)
    if isinstance(parent, ast.Call):
        func = parent.func
        if file.names.full(func) in ("os.getenv", "os.unsetenv"):
            return True
        return isinstance(func, ast.Attribute) and _is_environ(file, func.value)
    if isinstance(parent, ast.Compare):
        return any(_is_environ(file, one) for one in parent.comparators)
    return isinstance(parent, ast.Dict) and node in parent.keys


def _is_environ(file: File, node: ast.expr) -> bool:
    return file.names.full(node) == "os.environ" or (isinstance(node, ast.Name) and node.id in ("env", "environ"))


def _both(file: File, node: ast.Constant, counterpart: str, written: bool) -> tuple[TextChange, ...] | None:
    """The change of `environ[A] = value` into `environ[A] = environ[B] = value`; `()` if the file sets B already.

    A removal removes both variables. If the file sets the variable, `A in environ` and `environ[A]` ask for B first: a
    user's value for the NPU then has the effect that the user's value for CUDA had.
    """
    parent = file.source.parents.get(node)
    statement = file.source.parents.get(parent) if parent else None
    quote = file.text(node)[0]
    if isinstance(parent, ast.Subscript) and isinstance(statement, ast.Assign) and parent in statement.targets:
        others = [one for one in statement.targets if one is not parent]
        if any(counterpart in file.text(one) for one in others):
            return ()
        if len(statement.targets) == 1 and f"{quote}{counterpart}{quote}" not in file.source.text:
            end = file.source.span(parent)[1]
            text = f" = {file.text(parent.value)}[{quote}{counterpart}{quote}]"
            return (TextChange(start=end, end=end, text=text),)
        return () if counterpart in file.source.text else None
    if counterpart in file.source.text:
        return ()
    removed = _removed(file, node, counterpart)
    if removed is not None:
        return removed
    return (_asked(file, node, counterpart) if written else None) or _read(file, node, parent, counterpart)


def _removed(file: File, node: ast.Constant, counterpart: str) -> tuple[TextChange, ...] | None:
    """The change of the statements `environ.pop(A, None)`, `del environ[A]` and `os.unsetenv(A)`: B is removed too."""
    parent = file.source.parents[node]
    statement = file.source.parents.get(parent)
    quote = file.text(node)[0]
    if isinstance(parent, ast.Subscript) and isinstance(statement, ast.Delete) and statement.targets == [parent]:
        call = f"{file.text(parent.value)}.pop({quote}{counterpart}{quote}, None)"
    elif isinstance(parent, ast.Call) and isinstance(statement, ast.Expr) and isinstance(parent.func, ast.Attribute):
        default = {"pop": ", None", "unsetenv": ""}.get(parent.func.attr)
        if default is None:
            return None
        call = f"{file.text(parent.func)}({quote}{counterpart}{quote}{default})"
    else:
        return None
    end = file.source.span(statement)[1]
    return (TextChange(start=end, end=end, text=f"; {call}"),)


def _asked(file: File, node: ast.Constant, counterpart: str) -> tuple[TextChange, ...] | None:
    """The change of `A in environ` into `(B in environ or A in environ)`; `environ[A]` takes B if that is set."""
    parent = file.source.parents[node]
    quote = file.text(node)[0]
    other = f"{quote}{counterpart}{quote}"
    if isinstance(parent, ast.Compare) and len(parent.ops) == 1 and isinstance(parent.ops[0], (ast.In, ast.NotIn)):
        span = file.source.exact(parent)
        if span is None or parent.left is not node:
            return None
        word, joined = ("in", "or") if isinstance(parent.ops[0], ast.In) else ("not in", "and")
        before = f"({other} {word} {file.text(parent.comparators[0])} {joined} "
        return TextChange(start=span[0], end=span[0], text=before), TextChange(start=span[1], end=span[1], text=")")
    if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Load):
        start = file.source.span(node)[0]
        return (TextChange(start=start, end=start, text=f"{other} if {other} in {file.text(parent.value)} else "),)
    return None


def _read(file: File, node: ast.Constant, parent: ast.AST | None, counterpart: str) -> tuple[TextChange, ...] | None:
    """The change of `environ.get(A, …)` into `environ.get(B, environ.get(A, …))`, and of `getenv` likewise."""
    if not isinstance(parent, ast.Call) or parent.args[0] is not node or parent.keywords:
        return None
    name = parent.func.attr if isinstance(parent.func, ast.Attribute) else ""
    if name not in ("get", "getenv"):
        return None
    span = file.source.exact(parent)
    if span is None:
        return None
    quote = file.text(node)[0]
    before = f"{file.text(parent.func)}({quote}{counterpart}{quote}, "
    return TextChange(start=span[0], end=span[0], text=before), TextChange(start=span[1], end=span[1], text=")")
