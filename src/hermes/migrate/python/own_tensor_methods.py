"""Tells whether the program defines its own meaning for a name of torch's tensors, such as `cuda`."""

from __future__ import annotations

import ast

from hermes.migrate.python.scanned_file import File


def own_method(file: File, name: str) -> bool:
    """Whether a class of the file, or of an imported file of the project, has a method or attribute `name`."""
    if name not in file.own:
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [
            *file.source.nodes(ast.FunctionDef),
            *file.source.nodes(ast.AsyncFunctionDef),
        ]
        file.own[name] = (
            any(node.name == name and isinstance(file.source.parents.get(node), ast.ClassDef) for node in functions)
            or any(one.attr == name and _holds_it(file, one, name) for one in file.source.nodes(ast.Attribute))
            or file.project.defines(name, file.source.relative)
        )
    return file.own[name]


def _holds_it(file: File, node: ast.Attribute, name: str) -> bool:
    """Whether an attribute gets a value that may be callable, or that may be read as the property `name`."""
    if not isinstance(node.ctx, ast.Store):
        return False
    parent = file.source.parents.get(node)
    # `args.cuda = torch.cuda.is_available()` is no method.
    callable_ = not isinstance(parent, ast.Assign) or isinstance(parent.value, (ast.Name, ast.Attribute, ast.Lambda))
    return (callable_ and not _is_flag(file, name)) or name != "cuda"


def _is_flag(file: File, name: str) -> bool:
    """Whether the attribute is a flag: tested as true or false, as no method is, and never called on `self`."""
    reads = [one for one in file.source.nodes(ast.Attribute) if one.attr == name and isinstance(one.ctx, ast.Load)]
    called = any(
        isinstance(call := file.source.parents.get(one), ast.Call) and call.func is one and _is_self(one.value)
        for one in reads
    )
    return not called and any(_is_tested(file, one) for one in reads)


def _is_tested(file: File, node: ast.expr) -> bool:
    parent = file.source.parents.get(node)
    if isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        return parent.test is node
    return isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))


def _is_self(node: ast.expr) -> bool:
    """Whether an expression is the object of the surrounding method (`self`)."""
    return isinstance(node, ast.Name) and node.id == "self"
