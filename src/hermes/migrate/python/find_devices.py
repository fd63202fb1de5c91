"""Finds strings, methods and tests that name a CUDA device or NCCL, and rewrites them for any accelerator."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from hermes.migrate.messages import MORE_THAN_DEVICE, code
from hermes.migrate.python.find_backends import BY_DEVICE, NCCL, backend, gloo, one_token
from hermes.migrate.python.own_tensor_methods import own_method
from hermes.migrate.python.scanned_file import ACCELERATOR, File, TextChange
from hermes.migrate.scan_model import Sure

_DEVICE = re.compile(r"cuda(:\d+)?$")
_OPENING = re.compile(r"(?i)^([a-z]*)(\"\"\"|'''|\"|')")
_TENSOR_TYPE = re.compile(r"torch\.cuda\.\w+Tensor$")
_NAMES = re.compile(r"(?<![A-Za-z])(cuda|nccl)(?![a-z])")


def find(file: File) -> None:
    """Find each device string, `.cuda()`, `.is_cuda` and NCCL name of the file."""
    in_f_strings = {id(part) for joined in file.source.nodes(ast.JoinedStr) for part in joined.values}
    for constant in file.source.nodes(ast.Constant):
        if isinstance(constant.value, str) and id(constant) not in in_f_strings:
            _constant(file, constant, constant.value)
    for joined in file.source.nodes(ast.JoinedStr):
        _f_string(file, joined)
    for call in file.source.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
            _cuda_method(file, call, call.func)
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "to" and len(call.args) == 1:
            _number(file, call.func, call.args[0])
    for attribute in file.source.nodes(ast.Attribute):
        if attribute.attr == "is_cuda" and isinstance(attribute.ctx, ast.Load):
            _is_cuda(file, attribute)
    _unsettled(file)


def _unsettled(file: File) -> None:
    """Note values that name CUDA, reach a device or a backend, and were found by no other check."""
    seen = {id(inner) for one in file.found if one.node is not None for inner in ast.walk(one.node)}
    for call in file.source.nodes(ast.Call):
        values = [*enumerate(call.args), *((one.arg, one.value) for one in call.keywords)]
        for where, value in values:
            if file.devices.takes(call, where) is Sure.PROVEN or file.backends.takes(call, where) is Sure.PROVEN:
                for part in ast.walk(value):
                    named = isinstance(part, ast.Constant) and isinstance(part.value, str) and _NAMES.search(part.value)
                    if named and id(part) not in seen and isinstance(part, ast.Constant):
                        seen.add(id(part))
                        whole = file.source.parents.get(part)
                        shown = whole if isinstance(whole, (ast.JoinedStr, ast.BinOp)) else part
                        file.add(
                            "unsure-device", shown, code(text=_shortened(file.text(shown))), sure=Sure.LIKELY, shim=()
                        )


def _constant(file: File, node: ast.Constant, value: str) -> None:
    if value == "gloo":
        gloo(file, node)
    if not ("cuda" in value or value in NCCL) or _is_ours(file, node):
        return
    if _DEVICE.match(value):
        _device(file, node, value)
    elif value in NCCL:
        backend(file, node, value)
    elif _TENSOR_TYPE.match(value):
        _tensor_type(file, node, value)
    elif BY_DEVICE.fullmatch(value):
        backend(file, node, value)
    elif value.startswith("cuda:"):
        _pattern(file, node, value)


def _is_ours(file: File, node: ast.Constant) -> bool:
    """Whether the string is in the line that convert wrote."""
    for parent in file.source.ancestors(node):
        if isinstance(parent, ast.stmt):
            target = parent.targets[0] if isinstance(parent, ast.Assign) else None
            return isinstance(target, ast.Name) and target.id == ACCELERATOR
    return False


def _accelerated(file: File, text: str) -> str | None:
    """The literal with its leading `cuda` read from the constant: `"cuda"` becomes a name, `"cuda:1"` an f-string."""
    match = _OPENING.match(text)
    if match is None or not one_token(text) or "b" in match[1].lower():
        return None
    rest = text[match.end() :]
    if not rest.startswith("cuda"):
        return None
    if rest[4:] == match[2]:
        return ACCELERATOR
    prefix = match[1].lower().replace("f", "")
    return None if "{" in rest or "}" in rest else f"f{prefix}{match[2]}{{{ACCELERATOR}}}{rest[4:]}"


def _device(file: File, node: ast.Constant | ast.JoinedStr, value: str) -> None:
    sure = file.devices.role(node)
    text = file.text(node)
    if isinstance(file.source.parents.get(node), ast.MatchValue):
        # A `match` pattern takes no expression: a person must write the case.
        file.add("device-test", node, code(text=text), sure=Sure.LIKELY)
        return
    if sure is None:
        if _may_be_device(file, node) or _is_key_of_devices(file, node):
            file.add("unsure-device", node, code(text=text), sure=Sure.GUESS, shim=())
        return
    if file.shadowed(file.source.scope(node), ACCELERATOR):
        file.add("device-string", node, code(text=text), sure=sure, shim=())
        return
    written = _accelerated(file, text)
    changes = file.replace(node, written, ACCELERATOR) if written else None
    compared = isinstance(file.source.parents.get(node), ast.Compare)
    shim = _shim_comparison(file, node) if compared else ()
    what = code(text=file.text(file.source.parents[node])) if compared else code(text=text)  # type: ignore[arg-type]
    file.add("device-test" if compared else "device-string", node, what, sure=sure, native=changes, shim=shim)


def _may_be_device(file: File, node: ast.Constant | ast.JoinedStr) -> bool:
    """Whether a string that is exactly a device, but has no known use, needs a look: not if it is text."""
    parent = file.source.parents.get(node)
    if isinstance(parent, (ast.Expr, ast.JoinedStr, ast.FormattedValue)):
        return False
    if isinstance(parent, ast.Call):
        func = parent.func
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        full = file.names.full(func) or ""
        return name not in ("print", "join", "add_argument", "startswith", "replace") and not full.startswith("os.")
    return isinstance(parent, (ast.Assign, ast.Return, ast.keyword, ast.Compare, ast.IfExp, ast.Tuple, ast.List))


def _is_key_of_devices(file: File, node: ast.Constant | ast.JoinedStr) -> bool:
    """Whether a string is a key of a table by device, as in `{"cuda": "nccl"}`, that has no key for the NPU."""
    parent = file.source.parents.get(node)
    if not (isinstance(parent, ast.Dict) and node in parent.keys):
        return False
    keys = {one.value for one in parent.keys if isinstance(one, ast.Constant)}
    values = {one.value for one in parent.values if isinstance(one, ast.Constant)}
    return "npu" not in keys and bool(keys & {"cpu", "mps", "xpu"} or values & set(NCCL))


def _shim_comparison(file: File, node: ast.Constant | ast.JoinedStr) -> tuple[TextChange, ...] | None:
    """The change of a comparison under the shim, where a device's `.type` is npu: the test accepts both words."""
    compare = file.source.parents[node]
    assert isinstance(compare, ast.Compare)
    if len(compare.ops) != 1 or compare.comparators[0] is not node:
        return ()
    left = compare.left
    of_device = isinstance(left, ast.Attribute) and left.attr == "type"
    if not of_device:
        return ()
    operators = {ast.Eq: "in", ast.NotEq: "not in"}
    operator = operators.get(type(compare.ops[0]))
    if operator is None or not isinstance(node, ast.Constant) or node.value != "cuda":
        return None
    start, end = file.source.span(left)[1], file.source.span(node)[1]
    return (TextChange(start=start, end=end, text=f' {operator} ("cuda", "npu")'),)


def _pattern(file: File, node: ast.Constant, value: str) -> None:
    """Rewrite `"cuda:{}".format(i)`, `"cuda:%d" % i`, `"cuda:" + str(i)`."""
    parent = file.source.parents.get(node)
    if value == "cuda:" and isinstance(parent, ast.Call):
        _start(file, node, parent)
        return
    formatted = isinstance(parent, ast.Attribute) and parent.attr == "format"
    percent = isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mod, ast.Add)) and parent.left is node
    if not (formatted or percent):
        return
    outer: ast.AST | None = file.source.parents.get(parent) if formatted and parent is not None else parent
    sure = file.devices.role(outer) if outer is not None else None
    text = file.text(node)
    match = _OPENING.match(text)
    if sure is None or match is None or not one_token(text):
        file.add("unsure-device", node, code(text=text), sure=Sure.GUESS, shim=())
        return
    joined = f"{ACCELERATOR} + {match[1]}{match[2]}{text[match.end() + 4 :]}"
    # The sum binds looser than `.format` and `%`.
    written = f"({joined})" if formatted or isinstance(getattr(parent, "op", None), ast.Mod) else joined
    file.add(
        "device-string", node, code(text=text), sure=sure, native=file.replace(node, written, ACCELERATOR), shim=()
    )


def _start(file: File, node: ast.Constant, call: ast.Call) -> None:
    """Rewrite `device.startswith("cuda:")`."""
    sure = file.devices.role(node)
    named = isinstance(call.func, ast.Attribute) and call.func.attr == "startswith"
    if sure is None or not named:
        return
    written = None if file.shadowed(file.source.scope(node), ACCELERATOR) else _accelerated(file, file.text(node))
    changes = file.replace(node, written, ACCELERATOR) if written else None
    file.add("device-test", node, code(text=file.text(call)), sure=sure, native=changes, shim=())


def _f_string(file: File, node: ast.JoinedStr) -> None:
    first = node.values[0] if node.values else None
    start = str(first.value) if isinstance(first, ast.Constant) else ""
    if len(node.values) == 1 and _DEVICE.match(start):
        _device(file, node, start)
    elif len(node.values) == 1 and start in NCCL:
        backend(file, node, start)
    elif len(node.values) > 1 and (start == "cuda:" or (start == "cuda" and file.devices.role(node))):
        _with_fields(file, node)


def _with_fields(file: File, node: ast.JoinedStr) -> None:
    """Rewrite f-strings such as `f"cuda:{rank}"` and `f"cuda{suffix}"`."""
    sure = file.devices.role(node)
    text = file.text(node)
    opening = _OPENING.match(text)
    plain = opening is not None and "f" in opening[1].lower() and text.startswith("cuda", opening.end())
    if sure is None or opening is None or not plain or file.shadowed(file.source.scope(node), ACCELERATOR):
        file.add("unsure-device", node, code(text=text), sure=Sure.GUESS, shim=())
        return
    # Replace only the word: expressions in braces may have changes of their own.
    start = file.source.span(node)[0] + opening.end()
    change = TextChange(start=start, end=start + len("cuda"), text=f"{{{ACCELERATOR}}}", needs=frozenset({ACCELERATOR}))
    file.add("device-string", node, code(text=text), sure=sure, native=(change,), shim=())


def _tensor_type(file: File, node: ast.Constant, value: str) -> None:
    parent = file.source.parents.get(node)
    func = parent.func if isinstance(parent, ast.Call) else None
    name = func.attr if isinstance(func, ast.Attribute) else ""
    if name not in ("type", "set_default_tensor_type"):
        return
    quote = file.text(node)[0]
    written = f"f{quote}torch.{{{ACCELERATOR}}}.{value.rpartition('.')[2]}{quote}"
    plain = one_token(file.text(node)) and file.text(node) == f"{quote}{value}{quote}"
    changes = file.replace(node, written, ACCELERATOR) if plain else None
    file.add(
        "tensor-type-string", node, code(text=file.text(node)), native=changes, shim=None if name != "type" else ()
    )


def _cuda_method(file: File, call: ast.Call, func: ast.Attribute) -> None:
    if file.names.full(func) is not None:
        return
    kind = file.kinds.of(func.value)
    if kind is not None and kind.name not in ("tensor", "module"):
        return
    what = code(text=_shortened(file.text(call)))
    if not _takes_a_device(call):
        if kind is None:
            file.add("unsure-cuda", call, what, sure=Sure.GUESS, shim=(), why=MORE_THAN_DEVICE)
        return
    if kind is None and own_method(file, "cuda"):
        file.add("unsure-cuda", call, what, sure=Sure.GUESS, shim=())
        return
    sure = kind.sure if kind is not None else Sure.LIKELY
    if kind is None and _calls_super(func.value):
        sure = Sure.GUESS
    changes = None if file.shadowed(file.source.scope(call), ACCELERATOR) else _to_accelerator(file, call, func)
    file.add("cuda-method", call, what, sure=sure, native=changes, shim=())


def _number(file: File, func: ast.Attribute, node: ast.expr) -> None:
    """Note `x.to(rank)`: the kind of device that a number means differs between versions of torch_npu."""
    owner, kind = file.kinds.of(func.value), file.kinds.of(node)
    if file.names.full(func) is not None or kind is None or kind.name != "int":
        return
    if owner is not None and owner.name not in ("tensor", "module"):
        return
    changes = None if file.shadowed(file.source.scope(node), ACCELERATOR) else _index(file, node)
    file.add("device-number", node, code(text=f".to({file.text(node)})"), sure=owner.sure if owner else Sure.LIKELY,
             native=changes, shim=())  # fmt: skip


def _takes_a_device(call: ast.Call) -> bool:
    """Whether a call has the arguments of torch's `cuda(device, non_blocking)`."""
    names = {keyword.arg for keyword in call.keywords}
    starred = any(isinstance(one, ast.Starred) for one in call.args)
    return len(call.args) <= 2 and not starred and names <= {"device", "non_blocking", "memory_format"}


def _calls_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _to_accelerator(file: File, call: ast.Call, func: ast.Attribute) -> tuple[TextChange, ...] | None:
    name_end = file.source.span(func)[1]
    name_start = name_end - len("cuda")
    span = file.source.exact(call)
    if span is None or file.source.text[name_start:name_end] != "cuda":
        return None
    needs = frozenset({ACCELERATOR})
    # The method `to` of a storage takes its device by name alone.
    name = "device=" if _is_storage(file, func.value) else ""
    keyword = next((one for one in call.keywords if one.arg == "device"), None)
    index = call.args[0] if call.args else keyword.value if keyword else None
    rename = TextChange(start=name_start, end=name_end, text="to", needs=needs)
    if index is None:
        opening = file.source.text.index("(", name_end) + 1
        text = f"{name}{ACCELERATOR}, " if call.keywords else f"{name}{ACCELERATOR}"
        return rename, TextChange(start=opening, end=opening, text=text)
    written = _index(file, index)
    if written is None:
        # Call the method by its name: `x.cuda(i)` on CUDA, `x.npu(i)` on NPU, whatever `i` is.
        before = file.source.span(func.value)
        return (
            TextChange(start=before[0], end=before[0], text="getattr("),
            TextChange(start=before[1], end=name_end, text=f", {ACCELERATOR})", needs=needs),
        )
    return rename, *(_named(file, index, name, written) if call.args else written)


def _is_storage(file: File, node: ast.expr) -> bool:
    """Whether a value is the storage that `torch.load` passes to `map_location=lambda storage, location: …`."""
    lambdas = [one for one in file.source.ancestors(node) if isinstance(one, ast.Lambda)]
    if not isinstance(node, ast.Name) or not lambdas:
        return False
    parent = file.source.parents.get(lambdas[0])
    by_name = isinstance(parent, ast.keyword) and parent.arg == "map_location"
    return by_name or node.id == "storage"


def _named(file: File, index: ast.expr, name: str, written: tuple[TextChange, ...]) -> tuple[TextChange, ...]:
    if not name:
        return written
    start = file.source.span(index)[0]
    if written and written[0].start == start:
        return replace(written[0], text=f"{name}{written[0].text}"), *written[1:]
    return TextChange(start=start, end=start, text=name), *written


def _index(file: File, node: ast.expr) -> tuple[TextChange, ...] | None:
    """The change that turns the argument of `.cuda(…)` into an argument of `.to(…)`; None if its kind is not known."""
    kind = file.kinds.of(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return file.replace(node, f'f"{{{ACCELERATOR}}}:{node.value}"', ACCELERATOR)
    if kind is not None and kind.name == "device":
        return ()
    if kind is None or kind.name != "int" or "torch" not in file.source.top.names:
        return None
    span = file.source.exact(node)
    if span is None:
        return None
    # Edit around the argument, which may have changes of its own.
    before = TextChange(
        start=span[0], end=span[0], text=f"torch.device({ACCELERATOR}, ", needs=frozenset({ACCELERATOR})
    )
    return before, TextChange(start=span[1], end=span[1], text=")")


def _is_cuda(file: File, node: ast.Attribute) -> None:
    kind = file.kinds.of(node.value)
    parent = file.source.parents.get(node)
    called = isinstance(parent, ast.Call) and parent.func is node
    if called or (kind is not None and kind.name != "tensor") or (kind is None and _own_attribute(file, node)):
        return
    tight = isinstance(parent, (ast.Compare, ast.Attribute, ast.BinOp, ast.Subscript, ast.Await, ast.FormattedValue))
    span = None if file.shadowed(file.source.scope(node), ACCELERATOR) else file.source.exact(node)
    changes = _device_is(file, node, span, tight) if span else None
    file.add(
        "is-cuda", node, code(text=file.text(node)), sure=kind.sure if kind else Sure.LIKELY, native=changes, shim=()
    )


def _device_is(file: File, node: ast.Attribute, span: tuple[int, int], tight: bool) -> tuple[TextChange, ...]:
    """The changes that replace `x.is_cuda` by a test of the device's type; `x` may have changes of its own."""
    start, needs = file.source.span(node.value)[1], frozenset({ACCELERATOR})
    closing = ")" if tight else ""
    last = TextChange(start=start, end=span[1], text=f".device.type == {ACCELERATOR}{closing}", needs=needs)
    return (TextChange(start=span[0], end=span[0], text="("), last) if tight else (last,)


def _own_attribute(file: File, node: ast.Attribute) -> bool:
    """Whether classes of the program define `is_cuda`: then an unknown value may have that attribute."""
    if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
        return True
    return own_method(file, "is_cuda")


def _shortened(text: str, limit: int = 80) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"
