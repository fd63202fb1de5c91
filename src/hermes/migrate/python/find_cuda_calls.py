"""Finds uses of `torch.cuda` in a file, and rewrites them for any accelerator."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from hermes.migrate import messages as say
from hermes.migrate import migration_facts
from hermes.migrate.messages import code
from hermes.migrate.python.scanned_file import ACCELERATOR, MODULE, File, TextChange
from hermes.migrate.python.syntax_tree import Scope
from hermes.migrate.scan_model import Effort, Sure
from hermes.model.leaf import Risk

_AGNOSTIC = {
    "is_available": "is_available", "device_count": "device_count", "synchronize": "synchronize",
    "current_device": "current_device_index",
}  # fmt: skip
_AMP = ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
_AUTOCAST_ORDER = ("enabled", "dtype", "cache_enabled")
_ONLY_CUDA_PROPERTIES = {
    "major", "minor", "multi_processor_count", "is_multi_gpu_board", "is_integrated", "warp_size", "gcnArchName",
    "max_threads_per_multi_processor", "regs_per_multiprocessor", "shared_memory_per_block",
    "shared_memory_per_block_optin", "shared_memory_per_multiprocessor",
}  # fmt: skip
# By torch 2.13.0 without CUDA: these calls return a value or do nothing, while others raise.
_ANSWER_WITHOUT_CUDA = {
    "is_available", "device_count", "is_initialized", "is_bf16_supported", "empty_cache", "seed", "seed_all",
    "manual_seed", "manual_seed_all", "memory_allocated", "memory_reserved", "memory_cached", "max_memory_allocated",
    "max_memory_reserved", "max_memory_cached", "memory_stats", "memory_stats_as_nested_dict", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "get_rng_state_all", "set_rng_state",
}  # fmt: skip
_ERRORS = ("OutOfMemoryError", "AcceleratorError")
_GRAPHS = ("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle", "is_current_stream_capturing")


def find(file: File) -> None:
    """Find each use of torch.cuda in the file once."""
    for attribute in file.source.nodes(ast.Attribute):
        full = file.names.full(attribute)
        if full is None or not (full == "torch.cuda" or full.startswith("torch.cuda.")):
            continue
        if _is_part(file.names.full(attribute.value) or "") and not _continued(file, attribute):
            _use(file, attribute, full)
    for statement in file.source.nodes(ast.ImportFrom):
        if (statement.module or "").startswith("torch.cuda") and statement.names[0].name == "*" and not statement.level:
            # Names that a star import takes from torch.cuda are not known.
            file.add("cuda-only", statement, code(text=f"from {statement.module} import *"))
    _properties(file)
    for name in file.source.nodes(ast.Name):
        full = file.names.full(name) if isinstance(name.ctx, ast.Load) else None
        if (
            full is not None
            and full.startswith("torch.cuda.")
            and not (_continued(file, name) or _is_alias(file, name))
        ):
            _use(file, name, full)


def _continued(file: File, node: ast.expr) -> bool:
    """Whether the node is the inner part of a longer name that also belongs to torch.cuda."""
    parent = file.source.parents.get(node)
    if not (isinstance(parent, ast.Attribute) and parent.value is node):
        return False
    full = file.names.full(parent)
    return full is not None and full.startswith("torch.cuda.") and _is_part(file.names.full(node) or "")


def _is_part(full: str) -> bool:
    # `torch.cuda.Stream.wait` continues a class, `torch.cuda.amp.autocast` a module.
    return full in ("torch", "torch.cuda", "torch.cuda.amp", "torch.cuda.nvtx", "torch.cuda.comm", "torch.cuda.nccl",
                    "torch.cuda.memory", "torch.cuda.random", "torch.cuda.profiler", "torch.cuda.amp.autocast_mode",
                    "torch.cuda.amp.grad_scaler", "torch.cuda.graphs", "torch.cuda.streams", "torch.cuda.jiterator",
                    "torch.cuda.tunable", "torch.cuda.gds", "torch.cuda._memory_viz")  # fmt: skip


def _is_alias(file: File, node: ast.Name) -> bool:
    """Whether a name is an alias, as in `sync = torch.cuda.synchronize`: only the assignment needs a change."""
    found = file.source.scope(node).find(node.id)
    return found is not None and any(binding.kind == "assign" for binding in found[1])


def _use(file: File, node: ast.expr, full: str) -> None:
    tail = full.removeprefix("torch.cuda").removeprefix(".")
    file.settled.add(node)
    parent = file.source.parents.get(node)
    call = parent if isinstance(parent, ast.Call) and parent.func is node else None
    scope = file.source.scope(node)
    if tail.startswith("amp.") and tail.removeprefix("amp.") in _AMP:
        _amp(file, node, tail.removeprefix("amp."), call, scope)
    elif tail.startswith("nvtx"):
        file.add("nvtx", node, code(text=file.text(node)))
    elif tail in _GRAPHS or tail.startswith("CUDAGraph"):
        file.add("cuda-graph", node, code(text=file.text(node)), shim=None)
    elif tail in ("get_device_capability", "get_arch_list", "get_gencode_flags"):
        file.add("capability", node, code(text=file.text(node)))
    elif tail.startswith("nccl"):
        file.add("cuda-version", node, code(text=file.text(node)), why=say.MODULE_OF_NCCL)
    elif tail in _ERRORS:
        free = not file.shadowed(scope, file.torch(scope))
        changes = file.replace(node, f"{file.torch(scope)}.{tail}", "torch") if free else None
        file.add("moved-name", node, code(text=file.text(node)), native=changes, shim=())
    elif not tail:
        _whole(file, node, scope)
    elif _on_npu(tail):
        _counterpart(file, node, tail, call, scope)
    else:
        file.add(
            "cuda-only",
            node,
            code(text=file.text(node)),
            why=say.not_in_torch_npu(name=tail, version=str(migration_facts.surface()["version"])),
        )


def _whole(file: File, node: ast.expr, scope: Scope) -> None:
    parent = file.source.parents.get(node)
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if isinstance(target, ast.Name) and file.names.of_name(target.id, scope) == "torch.cuda":
        return  # The uses of an alias are found by its full name.
    changes = None if file.shadowed(scope, MODULE) else file.replace(node, MODULE, MODULE)
    file.add("cuda-call", node, code(text=file.text(node)), native=changes, shim=())


def _on_npu(tail: str) -> bool:
    names = migration_facts.npu_names()
    return tail in names or (
        tail.split(".")[0] in names and tail.count(".") >= 1 and tail.split(".")[0] not in ("amp",)
    )


def _counterpart(file: File, node: ast.expr, tail: str, call: ast.Call | None, scope: Scope) -> None:
    torch = file.torch(scope)
    plain = call is not None and not call.keywords
    if plain and tail in _AGNOSTIC and not file.shadowed(scope, torch):
        changes = file.replace(node, f"{torch}.accelerator.{_AGNOSTIC[tail]}", "torch")
    elif not file.shadowed(scope, MODULE):
        changes = file.replace(node, f"{MODULE}.{tail}", MODULE)
    else:
        changes = None
    unknown = _unknown_keywords(tail, call)
    if changes and unknown and call is not None:
        changes = _by_position(file, call, changes)
    if unknown and changes is None:
        why = say.no_keywords(name=tail, keywords=unknown)
        file.add("cuda-only", node, code(text=file.text(node)), effort=Effort.MINUTES, why=why,
                 todo=say.WITHOUT_KEYWORDS)  # fmt: skip
        return
    answers = call is not None and tail in _ANSWER_WITHOUT_CUDA
    file.add(
        "cuda-call", node, code(text=file.text(node)), native=changes, shim=(),
        effect=Risk.DIFFERS if answers else None, why=say.ANSWERS_WITHOUT_CUDA if answers else None,
    )  # fmt: skip


def _unknown_keywords(tail: str, call: ast.Call | None) -> list[str]:
    """Keywords of a call that the function of torch_npu lacks."""
    known = migration_facts.npu_parameters(tail)
    if known is None or call is None:
        return []
    return [keyword.arg for keyword in call.keywords if keyword.arg is not None and keyword.arg not in known]


def _by_position(file: File, call: ast.Call, changes: Sequence[TextChange]) -> tuple[TextChange, ...] | None:
    """The changes that pass a single argument by position: `get_device_name(device=0)`; device is first in both."""
    if call.args or len(call.keywords) != 1 or call.keywords[0].arg != "device":
        return None
    keyword = call.keywords[0]
    change = TextChange(start=file.source.span(keyword)[0], end=file.source.span(keyword.value)[0], text="")
    return *changes, change


def _properties(file: File) -> None:
    """Find properties of a CUDA device that an NPU's properties lack."""
    for attribute in file.source.nodes(ast.Attribute):
        if attribute.attr == "cuda_stream" and isinstance(attribute.ctx, ast.Load):
            file.add("cuda-only", attribute, code(text=file.text(attribute)), sure=Sure.LIKELY, effort=Effort.MINUTES,
                     why=say.HANDLE_OF_STREAM, todo=say.HAND_TO_CUDA)  # fmt: skip
        if attribute.attr not in _ONLY_CUDA_PROPERTIES:
            continue
        kind = file.kinds.of(attribute.value)
        if kind is not None and kind.name == "properties":
            file.add("capability", attribute, code(text=file.text(attribute)), sure=kind.sure, effect=Risk.STOPS,
                     why=say.no_property(name=attribute.attr))  # fmt: skip


def _amp(file: File, node: ast.expr, name: str, call: ast.Call | None, scope: Scope) -> None:
    torch = file.torch(scope)
    span = file.source.exact(node)
    changes: list[TextChange] | None = None
    if span is not None and not file.shadowed(scope, torch, ACCELERATOR):
        needs = frozenset({"torch", ACCELERATOR})
        head = TextChange(start=span[0], end=span[1], text=f"{torch}.amp.{name}", needs=needs)
        changes = _amp_arguments(file, node, name, call, head)
    file.add("cuda-amp", node, code(text=file.text(node)), native=changes, shim=())


def _amp_arguments(
    file: File, node: ast.expr, name: str, call: ast.Call | None, head: TextChange
) -> list[TextChange] | None:
    custom = name.startswith("custom_")
    if call is None:
        if not custom or not _decorates(file, node):
            return None
        return [
            TextChange(start=head.start, end=head.end, text=f"{head.text}(device_type={ACCELERATOR})", needs=head.needs)
        ]
    if any(isinstance(one, ast.Starred) for one in call.args) or (custom and call.args):
        return None
    if any(keyword.arg in ("device_type", "device", None) for keyword in call.keywords):
        return None
    first = f"device_type={ACCELERATOR}" if custom else ACCELERATOR
    changes = [head, _insert_first(file, call, head.end, first)]
    if name == "autocast":
        for argument, keyword in zip(call.args, _AUTOCAST_ORDER, strict=False):
            start = file.source.span(argument)[0]
            if start == changes[1].start:
                changes[1] = TextChange(start=start, end=start, text=f"{ACCELERATOR}, {keyword}=")
            else:
                changes.append(TextChange(start=start, end=start, text=f"{keyword}="))
    return changes


def _insert_first(file: File, call: ast.Call, after: int, text: str) -> TextChange:
    """The change that adds a first argument to a call; in a call spread over lines it replaces the first argument."""
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if arguments:
        start = min(file.source.span(one)[0] for one in arguments)
        return TextChange(start=start, end=start, text=f"{text}, ")
    opening = file.source.text.index("(", after) + 1
    return TextChange(start=opening, end=opening, text=text)


def _decorates(file: File, node: ast.expr) -> bool:
    parent = file.source.parents.get(node)
    return isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and node in parent.decorator_list


def find_imports(file: File) -> None:
    """Remove names from `from torch.cuda import …` if every use of them is rewritten."""
    for node in file.source.nodes(ast.ImportFrom):
        if node.level or not (node.module or "").startswith("torch.cuda") or node.names[0].name == "*":
            continue
        bound = {alias: alias.asname or alias.name for alias in node.names}
        uses = {name: _uses(file, node, name) for name in bound.values()}
        kept = [alias for alias, name in bound.items() if not _all_rewritten(file, uses[name], alias, node)]
        changes = _without(file, node, kept)
        what = code(text=file.source.text[slice(*file.source.span(node))])
        if not kept and changes is not None:
            file.add("cuda-call", node, what, native=changes, shim=(), todo=say.IMPORT_NOTHING)
        elif any(uses.values()) or kept:
            file.add("import-kept", node, what, sure=Sure.PROVEN, native=None, shim=(),
                     why=say.names_kept(names=[alias.name for alias in kept]))  # fmt: skip


def _uses(file: File, node: ast.ImportFrom, name: str) -> list[ast.Name]:
    scope = file.source.scope(node)
    found = []
    for one in file.source.nodes(ast.Name):
        if one.id == name and isinstance(one.ctx, ast.Load):
            seen = file.source.scope(one).find(name)
            if seen is not None and seen[0] is scope:
                found.append(one)
    return found


def _all_rewritten(file: File, uses: list[ast.Name], alias: ast.alias, node: ast.ImportFrom) -> bool:
    exported = (alias.asname or alias.name) in _exported(file)
    if not uses or exported or file.source.relative.endswith("__init__.py"):
        return False
    spans = {(change.start, change.end) for one in file.found for change in one.native or ()}
    starts = {start for start, _ in spans}
    return all(file.source.span(use)[0] in starts for use in uses)


def _exported(file: File) -> set[str]:
    for binding in file.source.top.names.get("__all__", ()):
        if isinstance(binding.value, (ast.List, ast.Tuple)):
            return {str(one.value) for one in binding.value.elts if isinstance(one, ast.Constant)}
    return set()


def _without(file: File, node: ast.ImportFrom, kept: list[ast.alias]) -> list[TextChange] | None:
    """The change that removes an import with its line; None if other code shares the line."""
    if kept:
        return None
    start, end = file.source.span(node)
    text = file.source.text
    line_start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    line_end = end
    while line_end < len(text) and text[line_end] in " \t":
        line_end += 1
    alone = not text[line_start:start].strip() and (line_end == len(text) or text[line_end] in "\r\n")
    parent = file.source.parents.get(node)
    body = getattr(parent, "body", [])
    if not alone or (not isinstance(parent, ast.Module) and len(body) == 1) or isinstance(parent, ast.Try):
        return None
    if text.startswith("\r\n", line_end):
        line_end += 2
    elif line_end < len(text):
        line_end += 1
    return [TextChange(start=line_start, end=line_end, text="")]
