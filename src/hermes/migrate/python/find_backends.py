"""Finds strings that name NCCL as the backend of collectives, and rewrites them for any accelerator."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterable
from io import StringIO

from hermes.migrate import messages as say
from hermes.migrate.messages import code
from hermes.migrate.python.device_value_flow import DeviceValueFlow
from hermes.migrate.python.scanned_file import ACCELERATOR, COLLECTIVES, File, TextChange
from hermes.migrate.scan_model import Sure

NCCL = ("nccl", "NCCL")
BY_DEVICE = re.compile(r"(?:\w+:\w+,)*cuda:nccl(?:,\w+:\w+)*")


def one_token(text: str) -> bool:
    """Whether the text is one string literal, and not several adjacent literals."""
    try:
        tokens = list(tokenize.generate_tokens(StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return False
    kinds = [token.type for token in tokens]
    strings = kinds.count(tokenize.STRING) + kinds.count(getattr(tokenize, "FSTRING_START", -1))
    return strings == 1 or (strings > 1 and kinds[0] == getattr(tokenize, "FSTRING_START", -1) and _nested(tokens))


def _nested(tokens: Iterable[tokenize.TokenInfo]) -> bool:
    start, end = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1)
    depth, closed = 0, 0
    for token in tokens:
        depth += (token.type == start) - (token.type == end)
        closed += depth == 0 and token.type in (end, tokenize.STRING)
    return closed == 1


def backend(file: File, node: ast.Constant | ast.JoinedStr, value: str) -> None:
    """Note a string that names NCCL, if the string is used as a backend."""
    flow: DeviceValueFlow = file.backends
    sure = flow.role(node)
    if sure is None:
        return
    text = file.text(node)
    compared = isinstance(file.source.parents.get(node), ast.Compare)
    changes = None
    if one_token(text) and not file.shadowed(file.source.scope(node), COLLECTIVES, ACCELERATOR):
        if value == "nccl":
            changes = file.replace(node, COLLECTIVES, COLLECTIVES)
        elif BY_DEVICE.fullmatch(value):
            changes = file.replace(node, _by_device(text, value), COLLECTIVES, ACCELERATOR)
    shim = _shim_backend(file, node) if compared else ()
    file.add("backend-string", node, code(text=text), sure=sure, native=changes, shim=shim)


def gloo(file: File, node: ast.Constant) -> None:
    """Note a group of gloo that is a CUDA program's only group: gloo transfers tensors of a GPU, none of an NPU."""
    parent = file.source.parents.get(node)
    if file.backends.role(node) is None or isinstance(parent, (ast.Compare, ast.IfExp, ast.BoolOp)):
        return
    if isinstance(parent, ast.keyword) and _call_of(file, parent).endswith("new_group"):
        return
    if "cuda" not in file.source.text or any(_is_backend(file, one) for one in file.source.nodes(ast.Constant)):
        return
    file.add("backend-string", node, code(text=file.text(node)), sure=Sure.LIKELY, shim=None,
             why=say.GLOO_ON_HOST, todo=say.TAKE_HCCL)  # fmt: skip


def _call_of(file: File, keyword: ast.keyword) -> str:
    call = file.source.parents.get(keyword)
    return file.names.full(call.func) or "" if isinstance(call, ast.Call) else ""


def _is_backend(file: File, node: ast.Constant) -> bool:
    """Whether a constant names NCCL where a backend is chosen: then gloo in the same place is for the host."""
    named = isinstance(node.value, str) and (node.value in NCCL or BY_DEVICE.fullmatch(node.value) is not None)
    return named and file.backends.role(node) is not None


def _by_device(text: str, value: str) -> str:
    """The string `"cuda:nccl,cpu:gloo"` with both words read from the constants."""
    quote = '"' if '"' in text else "'"
    pair = f"{{{ACCELERATOR}}}:{{{COLLECTIVES}}}"
    return f"f{quote}{value.replace('cuda:nccl', pair)}{quote}"


def _shim_backend(file: File, node: ast.Constant | ast.JoinedStr) -> tuple[TextChange, ...] | None:
    """The change of a test such as `get_backend() == "nccl"`, which is False under the shim, because it starts hccl."""
    compare = file.source.parents[node]
    assert isinstance(compare, ast.Compare)
    asked = isinstance(compare.left, ast.Call) and file.names.full(compare.left.func) == "torch.distributed.get_backend"
    if not asked or len(compare.ops) != 1:
        return ()
    operator = {ast.Eq: "in", ast.NotEq: "not in"}.get(type(compare.ops[0]))
    if operator is None:
        return None
    start, end = file.source.span(compare.left)[1], file.source.span(node)[1]
    return (TextChange(start=start, end=end, text=f' {operator} ("nccl", "hccl")'),)
