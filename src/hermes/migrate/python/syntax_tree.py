"""A parsed Python file: its text and syntax tree with parents, scopes, and exact places of nodes in the text."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

_NEWLINE = re.compile(r"\r\n|\r|\n")
_PYTHON_2 = re.compile(
    r"(?m)^\s*print\s+[\"'\w]|^\s*except\s+[\w.()]+\s*,\s*\w+\s*:|^\s*exec\s+[\"']|^\s*raise\s+\w+\s*,|\bxrange\(|<>"
)
Node = TypeVar("Node", bound=ast.AST)
FunctionNode = (ast.FunctionDef, ast.AsyncFunctionDef)


class NotPythonError(Exception):
    """Raised for text that this Python cannot parse: the reason, and the line if known."""

    def __init__(self, reason: str, line: int | None = None, *, python_2: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.line, self.python_2 = reason, line, python_2


@dataclass(slots=True, kw_only=True)
class Binding:
    """One way in which a name gets its value. `dotted` is the imported name, `value` the assigned expression."""

    kind: str
    node: ast.AST
    dotted: str = ""
    value: ast.expr | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Scope:
    """A module, a function, a class or a comprehension, and its bound names."""

    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        """Whether names of this scope are hidden from functions inside the scope."""
        return isinstance(self.node, ast.ClassDef)

    def module(self) -> Scope:
        """The scope of the file."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds a name as seen from here, with its bindings; None if no scope of the file binds it."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            if name in scope.outer:
                return self._outer(name)
            if name in scope.names and (first or not scope.is_class):
                return scope, scope.names[name]
            first = False
            scope = scope.parent
        return None

    def _outer(self, name: str) -> tuple[Scope, list[Binding]] | None:
        module = self.module()
        return (module, module.names[name]) if name in module.names else None


class Source:
    """A parsed file. `nodes` holds the nodes of each type in the order of the text."""

    def __init__(self, text: str, relative: str) -> None:
        self.text = text
        self.relative = relative
        self.tree = _parse(text)
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
        self._ascii = text.isascii()
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self._by_type: dict[type, list[ast.AST]] = {}
        self.top = Scope(node=self.tree, parent=None)
        self._visit(self.tree, self.top)

    def nodes(self, kind: type[Node]) -> list[Node]:
        """All nodes of one type, in the order of the text."""
        return self._by_type.get(kind, [])  # type: ignore[return-value]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, the nearest first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which the names of a node are looked up."""
        return self.scopes[node]

    @property
    def lines(self) -> int:
        """How many lines the file has."""
        return len(self._starts) - (1 if self.text.endswith(("\n", "\r")) else 0)

    def offset(self, line: int, column: int) -> int:
        """The position in the text of a line (from 1) and a column in UTF-8 bytes, as `ast` counts."""
        start = self._starts[line - 1]
        if self._ascii:
            return start + column
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode(errors="ignore"))

    def place(self, position: int) -> tuple[int, int]:
        """The line and column, both from 1, of a position in the text."""
        low, high = 0, len(self._starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._starts[middle] <= position else (low, middle)
        return low + 1, position - self._starts[low] + 1

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Where a node begins and ends in the text, as the parser reports it."""
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset),
        )

    def exact(self, node: ast.expr) -> tuple[int, int] | None:
        """The span of an expression if the text there is that expression; in f-strings before 3.12 it may differ."""
        start, end = self.span(node)
        if not self._in_f_string(node):
            return start, end
        try:
            there = ast.parse(self.text[start:end].strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return None
        return (start, end) if ast.dump(there) == ast.dump(node) else None

    def _in_f_string(self, node: ast.AST) -> bool:
        return any(isinstance(one, ast.JoinedStr) for one in self.ancestors(node))

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        # Iterate without recursion: generated code nests deeper than the interpreter's stack.
        stack = [(node, scope)]
        while stack:
            node, scope = stack.pop()
            self.scopes[node] = scope
            self._by_type.setdefault(type(node), []).append(node)
            _bind(node, scope, self)
            inside, outside = _children(node)
            below = Scope(node=node, parent=scope) if _opens(node) else scope
            if below is not scope:
                _parameters(node, below)
            for child in reversed(inside):
                self.parents[child] = node
                stack.append((child, below))
            for child in reversed(outside):
                self.parents[child] = node
                stack.append((child, scope))

    def inner_scope(self, node: ast.AST) -> Scope | None:
        """The scope that a function or class opens; None for a node that opens no scope or has no body."""
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else body
        return self.scopes.get(first) if isinstance(first, ast.AST) else None


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except SyntaxError as wrong:
            if _PYTHON_2.search(text):
                raise NotPythonError(wrong.msg, wrong.lineno, python_2=True) from wrong
            raise NotPythonError(wrong.msg, wrong.lineno) from wrong
        except (ValueError, RecursionError, MemoryError) as wrong:
            raise NotPythonError(str(wrong) or type(wrong).__name__) from wrong


_OPENS = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def _opens(node: ast.AST) -> bool:
    return isinstance(node, _OPENS)


def _children(node: ast.AST) -> tuple[list[ast.AST], list[ast.AST]]:
    """The children that are evaluated in the scope that the node opens, and the children evaluated around it."""
    children = list(ast.iter_child_nodes(node))
    if not _opens(node):
        return children, []
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        body = set(map(id, node.body))
        return [one for one in children if id(one) in body], [one for one in children if id(one) not in body]
    if isinstance(node, ast.Lambda):
        return [node.body], [node.args]
    return children, []


def _parameters(node: ast.AST, scope: Scope) -> None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        args = node.args
        for one in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if one is not None:
                _add(scope, one.arg, Binding(kind="parameter", node=one))


def _add(scope: Scope, name: str, binding: Binding) -> None:
    scope.names.setdefault(name, []).append(binding)


def _bind(node: ast.AST, scope: Scope, source: Source) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            dotted = alias.name if alias.asname else alias.name.split(".")[0]
            _add(scope, alias.asname or dotted, Binding(kind="import", node=node, dotted=dotted))
    elif isinstance(node, ast.ImportFrom):
        base = import_base(node, source.relative)
        for alias in node.names:
            _add(scope, alias.asname or alias.name, Binding(kind="import", node=node, dotted=f"{base}.{alias.name}"))
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        _add(scope, node.name, Binding(kind="function", node=node))
    elif isinstance(node, ast.ClassDef):
        _add(scope, node.name, Binding(kind="class", node=node))
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        scope.outer.update(node.names)
    else:
        _bind_values(node, scope)


def _bind_values(node: ast.AST, scope: Scope) -> None:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _bind_target(target, node.value, node, scope, "assign")
    elif isinstance(node, ast.AnnAssign):
        _bind_target(node.target, node.value, node, scope, "assign")
    elif isinstance(node, (ast.AugAssign, ast.NamedExpr)):
        _bind_target(node.target, node.value, node, scope, "assign" if isinstance(node, ast.NamedExpr) else "augment")
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        _bind_target(node.target, node.iter, node, scope, "for")
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                _bind_target(item.optional_vars, item.context_expr, node, scope, "with")
    elif isinstance(node, ast.ExceptHandler) and node.name:
        _add(scope, node.name, Binding(kind="except", node=node))


def _bind_target(target: ast.expr, value: ast.expr | None, node: ast.AST, scope: Scope, kind: str) -> None:
    holder = _function_scope(scope) if isinstance(node, ast.NamedExpr) else scope
    if isinstance(target, ast.Name):
        place = holder.module() if target.id in holder.outer else holder
        _add(place, target.id, Binding(kind=kind, node=node, value=value))
    elif isinstance(target, (ast.Tuple, ast.List)):
        values: list[ast.expr | None] = [None] * len(target.elts)
        paired = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) and kind == "assign"
        if paired and isinstance(value, (ast.Tuple, ast.List)):
            values = list(value.elts)
        for one, its in zip(target.elts, values, strict=True):
            part = kind if paired else f"{kind}-part"
            _bind_target(one, its if paired else value, node, holder, part)
    elif isinstance(target, ast.Starred):
        _bind_target(target.value, None, node, holder, kind)


def _function_scope(scope: Scope) -> Scope:
    while isinstance(scope.node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)) and scope.parent:
        scope = scope.parent
    return scope


def import_base(node: ast.ImportFrom, relative: str) -> str:
    """The module that a `from … import` names, with leading dots resolved by the file's place in the tree."""
    if not node.level:
        return node.module or ""
    parts = relative.removesuffix(".py").split("/")[:-1]
    base = parts[: len(parts) - (node.level - 1)] if node.level > 1 else parts
    return ".".join([*base, node.module] if node.module else base)
