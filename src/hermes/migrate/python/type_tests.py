"""Tells whether a class name only serves a type test, as in `isinstance`: then the program does not use the class."""

from __future__ import annotations

import ast

from hermes.migrate.python.syntax_tree import FunctionNode, Source

_ASK = ("isinstance", "issubclass")


def is_asked_for(source: Source, node: ast.expr) -> bool:
    """Whether a name stands in a type test or in an annotation."""
    inner: ast.AST = node
    for parent in source.ancestors(node):
        if isinstance(parent, ast.Call):
            return isinstance(parent.func, ast.Name) and parent.func.id in _ASK and inner in parent.args[1:]
        if isinstance(parent, ast.Compare):
            return any(_is_type(one) for one in (parent.left, *parent.comparators) if one is not inner)
        if isinstance(parent, (ast.arg, ast.AnnAssign)):
            return inner is parent.annotation
        if isinstance(parent, FunctionNode):
            return inner is parent.returns
        if not isinstance(parent, (ast.Tuple, ast.BinOp, ast.Subscript)):
            return False
        inner = parent
    return False


def _is_type(node: ast.expr) -> bool:
    """Whether an expression is the class of a value, such as `type(m)` or `m.__class__`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1
    return isinstance(node, ast.Attribute) and node.attr == "__class__"
