"""Holds each torch API that a file uses against the support table of a torch version and a chip."""

from __future__ import annotations

import ast

from hermes.knowledge import migration
from hermes.knowledge.migration import Support
from hermes.migrate.model import Effect, Effort, Sure
from hermes.migrate.python.file import COLLECTIVES, File
from hermes.migrate.python.kind import Kind

_EXACT = {
    "torch.nn.DataParallel": "data-parallel",
    "torch.jit.script": "jit-script",
    "torch.compile": "compile",
    "torch.profiler.ProfilerActivity.CUDA": "profiler",
    "torch.autograd.profiler.emit_nvtx": "nvtx",
    "torch.version.cuda": "cuda-version",
    "torch.distributed.ProcessGroupNCCL": "cuda-only",
    "torch.channels_last": "channels-last",
    "torch.channels_last_3d": "channels-last",
    "torch.set_float32_matmul_precision": "tf32",
    "torch.distributed.rpc.init_rpc": "rpc",
    "torch.utils.cpp_extension.CUDAExtension": "extension",
    "torch.utils.cpp_extension.load": "extension",
    "torch.utils.cpp_extension.load_inline": "extension",
    "triton.jit": "triton-kernel",
    "triton.autotune": "triton-kernel",
}
_STARTS = (
    ("torch.backends.cuda.matmul.allow_", "tf32"),
    ("torch.backends.cudnn.allow_tf32", "tf32"),
    ("torch.backends.cudnn.conv.fp32_precision", "tf32"),
    ("torch.backends.cuda.matmul.fp32_precision", "tf32"),
    ("torch.backends.cuda.enable_", "sdp-kernel"),
    ("torch.backends.cuda.sdp_kernel", "sdp-kernel"),
    ("torch.backends.cudnn.", "cudnn"),
)
_NO_KERNEL = frozenset({
    "detach", "detach_", "requires_grad_", "tolist", "item", "size", "dim", "ndim", "ndimension", "numel", "nelement",
    "element_size", "stride", "data_ptr", "numpy", "backward", "register_hook", "retain_grad", "retains_grad",
    "record_stream", "storage", "storage_offset", "storage_type", "untyped_storage", "new_zeros", "new_ones",
    "new_full", "new_empty", "new_tensor", "squeeze_", "unsqueeze_", "as_strided", "dsplit", "grad", "cpu", "to",
    "type", "contiguous", "copy_", "pin_memory", "share_memory_", "from_numpy", "empty", "empty_like", "Tensor",
})  # fmt: skip
_NO_KERNELS = ("torch.autograd.", "torch.testing.", "torch.backends.", "torch.utils.", "torch.distributed.")
_MATRIX = frozenset({"mm", "bmm", "addmm", "addbmm", "baddbmm", "matmul", "linear", "Linear", "addmm_", "baddbmm_"})
_DOUBLE = ("torch.float64", "torch.double", "torch.DoubleTensor")


def find(file: File) -> None:
    """Each torch API of the file: what stands out by name, then what the table says of it."""
    used: list[ast.expr] = [*file.source.nodes(ast.Attribute), *file.source.nodes(ast.Name)]
    for node in used:
        full = file.names.full(node)
        if full is not None and _is_whole(file, node):
            _by_name(file, node, full)
    for call in file.source.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute):
            _method(file, call, call.func)


def _is_whole(file: File, node: ast.expr) -> bool:
    """Whether the node is the outermost part of its name, and no target of an import's alias."""
    parent = file.source.parents.get(node)
    if isinstance(parent, ast.Attribute) and parent.value is node:
        return False
    return not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _by_name(file: File, node: ast.expr, full: str) -> None:
    rule = _EXACT.get(full) or next((rule for start, rule in _STARTS if full.startswith(start)), None)
    if full == "torch.distributed.Backend.NCCL":
        free = not file.shadowed(file.source.scope(node), COLLECTIVES)
        changes = file.replace(node, COLLECTIVES, COLLECTIVES) if free else None
        file.add("backend-string", node, f"`{file.text(node)}`", native=changes, shim=())
        return
    if full == "torch.distributed.is_nccl_available":
        _is_nccl_available(file, node)
    elif rule is not None:
        _known(file, node, rule, full)
    if full in _DOUBLE:
        file.add("float64", node, f"`{file.text(node)}`")
    if full.startswith("torch.") and not full.startswith("torch.cuda."):
        file.apis[full] = file.apis.get(full, 0) + 1
        if rule is None:
            call = file.source.parents.get(node)
            _listed(file, node, full, call if isinstance(call, ast.Call) and call.func is node else None, None)


def _known(file: File, node: ast.expr, rule: str, full: str) -> None:
    shim = None
    if rule == "profiler":
        shim = ()
    file.add(rule, node, f"`{file.text(node)}`" if rule != "triton-kernel" else _kernel(file, node), shim=shim)


def _kernel(file: File, node: ast.expr) -> str:
    for parent in file.source.ancestors(node):
        if isinstance(parent, ast.FunctionDef):
            return f"Triton kernel `{parent.name}`"
    return f"`{file.text(node)}`"


def _is_nccl_available(file: File, node: ast.expr) -> None:
    call = file.source.parents.get(node)
    changes = None
    free = not file.shadowed(file.source.scope(node), COLLECTIVES)
    if free and isinstance(call, ast.Call) and call.func is node and isinstance(node, ast.Attribute):
        text = f"{file.text(node.value)}.is_backend_available({COLLECTIVES})"
        changes = file.replace(call, text, COLLECTIVES)
    file.add("backend-string", node, f"`{file.text(node)}`", native=changes, shim=(),
             why="it asks for NVIDIA's library", todo="ask for the backend of the accelerator")  # fmt: skip


def _method(file: File, call: ast.Call, func: ast.Attribute) -> None:
    if file.names.full(func) is not None:
        return
    kind = file.kinds.of(func.value)
    if kind is None or kind.name not in ("tensor", "module"):
        return
    if func.attr == "double":
        file.add("float64", call, f"`{_short(file.text(call))}`", sure=kind.sure)
    if kind.name == "tensor":
        full = f"torch.Tensor.{func.attr}"
        file.apis[full] = file.apis.get(full, 0) + 1
        if func.attr not in ("cuda", "double"):
            _listed(file, call, full, call, kind)


def _listed(file: File, node: ast.expr, full: str, call: ast.Call | None, owner: Kind | None) -> None:
    entry = migration.support(file.target.torch).get(full)
    if entry is None:
        return
    sure = owner.sure if owner else Sure.PROVEN
    what, chip = f"`{full}`", file.target.chip
    if chip not in entry.chips:
        where = f"{chip} (torch {file.target.torch})"
        effect = Effect.STOPS if not entry.chips else Effect.DIFFERS
        also = f"; it is listed for {', '.join(sorted(entry.chips))}" if entry.chips else ""
        file.add("unsupported-api", node, what, sure=sure if sure is not Sure.PROVEN else Sure.LIKELY, effect=effect,
                 why=f"the support table of Ascend/pytorch does not list it for {where}{also}",
                 todo="check it on the chip before relying on it, or use another call")  # fmt: skip
    elif "inference" in entry.marks:
        file.add("inference-only", node, what, sure=sure)
    elif entry.marks & {"cpu", "cpu-only"}:
        file.add("cpu-fallback", node, what, sure=sure)
    elif "other-order" in entry.marks:
        file.add("cpu-fallback", node, what, sure=sure, effect=Effect.DIFFERS, effort=Effort.MINUTES,
                 why="among equal values its indices come in another order than on a GPU",
                 todo="do not compare its indices with those of a GPU")  # fmt: skip
    _types(file, node, entry, call, owner)


def _types(file: File, node: ast.expr, entry: Support, call: ast.Call | None, owner: Kind | None) -> None:
    allowed = entry.types_on(file.target.chip)
    dtype = owner.dtype if owner else _dtype_of_first(file, call)
    if not dtype or _takes_any(entry.api, dtype):
        return
    if (not allowed or dtype in allowed) and not (dtype == "float64" and "no-double" in entry.marks):
        return
    listed = ", ".join(sorted(allowed)) or "no float64"
    wide = dtype in ("float64", "complex64", "complex128")
    file.add("dtype-limit", node, f"`{entry.api}` with {dtype}", sure=owner.sure if owner else Sure.PROVEN,
             effect=Effect.STOPS if wide else Effect.DIFFERS,
             why=f"on {file.target.chip} the support table lists {listed} for it")  # fmt: skip


def _takes_any(api: str, dtype: str) -> bool:
    """Whether the types that the table lists for a call are only those with which it was tried.

    What computes nothing takes every type; the matrix unit of each of the chips takes bfloat16.
    """
    last = api.rpartition(".")[2]
    if last in _NO_KERNEL or last.startswith("is_") or api.startswith(_NO_KERNELS):
        return True
    return dtype == "bfloat16" and last in _MATRIX


def _dtype_of_first(file: File, call: ast.Call | None) -> str:
    if call is None:
        return ""
    for keyword in call.keywords:
        if keyword.arg == "dtype":
            return file.kinds.dtype(keyword.value)
    kind = file.kinds.of(call.args[0]) if call.args else None
    return kind.dtype if kind and kind.name == "tensor" else ""


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else f"{flat[:79]}…"
