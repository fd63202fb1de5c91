"""Checks each torch API that a file uses against the support table of a torch version and a chip."""

from __future__ import annotations

import ast

from hermes.base.message import Message
from hermes.knowledge import migration
from hermes.knowledge.migration import Support
from hermes.migrate import messages as say
from hermes.migrate.messages import code
from hermes.migrate.python.host_tensors import stays_on_host
from hermes.migrate.python.scanned_file import COLLECTIVES, File
from hermes.migrate.python.type_tests import is_asked_for
from hermes.migrate.python.value_kind import ValueKind
from hermes.migrate.refusals import BOOL_MASK, NO_SCALE_FACTOR, WIDE, is_listed, is_type_listed, listed_types
from hermes.migrate.scan_model import Effort, Sure
from hermes.model.leaf import Risk

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
    *((f"torch.nn.parallel.{part}", "data-parallel") for part in (
        "_functions.", "scatter", "gather", "replicate", "parallel_apply", "comm.",
    )),
)  # fmt: skip
# The C++ and CUDA operators of torchvision; the rest of torchvision consists of torch's own operators.
_OF_TORCHVISION = frozenset({
    "nms", "batched_nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d", "RoIAlign",
    "RoIPool", "PSRoIAlign", "PSRoIPool", "DeformConv2d", "MultiScaleRoIAlign",
})  # fmt: skip
_TENSOR_AT = {"torch.distributed.all_gather": 1}
_DOUBLE = ("torch.float64", "torch.double", "torch.DoubleTensor")


def find(file: File) -> None:
    """Check each torch API of the file: first by name, then by the support table."""
    used: list[ast.expr] = [*file.source.nodes(ast.Attribute), *file.source.nodes(ast.Name)]
    for node in used:
        full = file.names.full(node)
        if full is not None and _is_whole(file, node) and not is_asked_for(file.source, node):
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
    if full.startswith("torch.version.cuda."):
        full = "torch.version.cuda"  # the call is a method of the text
    rule = _EXACT.get(full) or next((rule for start, rule in _STARTS if full.startswith(start)), None)
    if full == "torch.distributed.Backend.NCCL":
        free = not file.shadowed(file.source.scope(node), COLLECTIVES)
        changes = file.replace(node, COLLECTIVES, COLLECTIVES) if free else None
        file.add("backend-string", node, code(text=file.text(node)), native=changes, shim=())
        return
    if full == "torch.distributed.is_nccl_available":
        _is_nccl_available(file, node)
    elif rule is not None:
        _known(file, node, rule, full)
    if full in _DOUBLE:
        file.add("float64", node, code(text=file.text(node)))
    if full.startswith("torch.float8_"):
        _no_type(file, node, full)
    if full.startswith("torchvision."):
        _torchvision(file, node, full)
    if full.startswith("torch.") and not full.startswith("torch.cuda."):
        file.apis[full] = file.apis.get(full, 0) + 1
        if rule is None:
            call = file.source.parents.get(node)
            _listed(file, node, full, call if isinstance(call, ast.Call) and call.func is node else None, None)


def _known(file: File, node: ast.expr, rule: str, full: str) -> None:
    shim = None
    if rule == "profiler":
        shim = ()
    what = code(text=file.text(node)) if rule != "triton-kernel" else _kernel(file, node)
    fine = rule == "cuda-version" and not _stops_as_none(file, node)
    file.add(rule, node, what, shim=shim, effect=Risk.DIFFERS if fine else None)


def _no_type(file: File, node: ast.expr, full: str) -> None:
    """Note a type of eight bits that the table lists for no call."""
    chip = file.target.chip
    if not is_type_listed(full.removeprefix("torch."), file.target):
        file.add("dtype-limit", node, code(text=file.text(node)), sure=Sure.LIKELY, why=say.no_call_takes(chip=chip))


def _torchvision(file: File, node: ast.expr, full: str) -> None:
    """Note an operator of torchvision, or a detector that uses one: only torchvision_npu has kernels for an NPU."""
    operator = full.startswith("torchvision.ops.") and full.rpartition(".")[2] in _OF_TORCHVISION
    detector = full.startswith("torchvision.models.detection.") and isinstance(file.source.parents.get(node), ast.Call)
    if (operator or detector) and "torchvision_npu" not in file.source.text:
        library = migration.libraries()["torchvision"]
        file.add("library", node, code(text=file.text(node)), sure=Sure.LIKELY, effort=Effort.MINUTES,
                 why=say.NO_KERNEL, todo=library.todo.message)  # fmt: skip


_NONE_IS_FINE = (ast.FormattedValue, ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp, ast.Assign, ast.AnnAssign, ast.Dict,
                 ast.Tuple, ast.List, ast.Return, ast.Expr)  # fmt: skip
_SHOWS = {"print", "str", "repr", "bool", "format", "info", "debug", "warning", "print_rank_0"}


def _stops_as_none(file: File, node: ast.expr) -> bool:
    """Whether a value of None stops the program at this place: it is computed with, and not shown or compared."""
    parent = file.source.parents.get(node)
    if file.names.full(node) != "torch.version.cuda":
        return True
    if isinstance(parent, ast.Compare):
        return any(isinstance(one, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for one in parent.ops)
    if isinstance(parent, ast.Call):
        func = parent.func
        return (func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")) not in _SHOWS
    return not isinstance(parent, _NONE_IS_FINE)


def _kernel(file: File, node: ast.expr) -> Message:
    for parent in file.source.ancestors(node):
        if isinstance(parent, ast.FunctionDef):
            return say.triton_kernel(name=parent.name)
    return code(text=file.text(node))


def _is_nccl_available(file: File, node: ast.expr) -> None:
    call = file.source.parents.get(node)
    changes = None
    free = not file.shadowed(file.source.scope(node), COLLECTIVES)
    if free and isinstance(call, ast.Call) and call.func is node and isinstance(node, ast.Attribute):
        text = f"{file.text(node.value)}.is_backend_available({COLLECTIVES})"
        changes = file.replace(call, text, COLLECTIVES)
    file.add("backend-string", node, code(text=file.text(node)), native=changes, shim=(),
             why=say.ASKS_FOR_NCCL, todo=say.ASK_FOR_BACKEND)  # fmt: skip


def _method(file: File, call: ast.Call, func: ast.Attribute) -> None:
    if file.names.full(func) is not None:
        return
    kind = file.kinds.of(func.value)
    if kind is None or kind.name not in ("tensor", "module"):
        return
    if func.attr == "double":
        file.add("float64", call, code(text=_short(file.text(call))), sure=kind.sure)
    if kind.name == "tensor":
        full = f"torch.Tensor.{func.attr}"
        file.apis[full] = file.apis.get(full, 0) + 1
        if func.attr not in ("cuda", "double"):
            _listed(file, call, full, call, kind)


def _listed(file: File, node: ast.expr, full: str, call: ast.Call | None, owner: ValueKind | None) -> None:
    entry = migration.support(file.target.torch).get(full)
    if entry is None:
        return
    sure = owner.sure if owner else Sure.PROVEN
    what, chip = code(text=full), file.target.chip
    if chip not in entry.chips:
        effect = Risk.STOPS if not entry.chips else Risk.DIFFERS
        file.add("unsupported-api", node, what, sure=sure if sure is not Sure.PROVEN else Sure.LIKELY, effect=effect,
                 why=say.not_listed(chip=chip, version=file.target.torch, chips=sorted(entry.chips)),
                 todo=say.CHECK_ON_CHIP)  # fmt: skip
    elif "inference" in entry.marks:
        file.add("inference-only", node, what, sure=sure)
    elif entry.marks & {"cpu-only", "cpu"} and _is_on_host(file, call, owner):
        pass  # it computes where its tensor is
    elif "cpu-only" in entry.marks:
        file.add("cpu-fallback", node, what, sure=sure, why=say.ON_HOST)
    elif "cpu" in entry.marks:
        # the table says "may"
        file.add("cpu-fallback", node, what, sure=Sure.LIKELY if sure is Sure.PROVEN else sure)
    elif "other-order" in entry.marks:
        file.add("cpu-fallback", node, what, sure=sure, effect=Risk.DIFFERS, effort=Effort.MINUTES,
                 why=say.OTHER_ORDER,
                 todo=say.COMPARE_NO_INDICES)  # fmt: skip
    _types(file, node, entry, call, owner)
    _arguments(file, node, entry, call)


def _is_on_host(file: File, call: ast.Call | None, owner: ValueKind | None) -> bool:
    """Whether a call is a method of a tensor that stays on the host."""
    if call is None:
        return False
    holder = call.func.value if owner is not None and isinstance(call.func, ast.Attribute) else None
    first = holder or (call.args[0] if call.args else None)
    return first is not None and stays_on_host(file, first)


def _arguments(file: File, node: ast.expr, entry: Support, call: ast.Call | None) -> None:
    """Note arguments that the table excludes: a factor of `interpolate`, an attention mask that is not bool."""
    if call is None:
        return
    given = {one.arg: one.value for one in call.keywords if one.arg}
    chip, what = file.target.chip, code(text=_short(file.text(call)))
    factor = given.get("scale_factor", call.args[2] if len(call.args) > 2 else None)
    if NO_SCALE_FACTOR in entry.marks and factor is not None and not _is_none(factor):
        why = say.not_taken(chip=chip, argument="scale_factor")
        file.add("argument-limit", node, what, sure=Sure.PROVEN, why=why, todo=say.GIVE_SIZE)
    mask = given.get("attn_mask", call.args[3] if len(call.args) > 3 else None)
    if BOOL_MASK in entry.marks and mask is not None and not _is_none(mask):
        kind = file.kinds.of(mask)
        if kind is not None and kind.name == "tensor" and kind.dtype not in ("", "bool"):
            why = say.mask_not_bool(chip=chip, dtype=kind.dtype)
            file.add("argument-limit", node, what, sure=kind.sure, why=why, todo=say.CAST_MASK)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _types(file: File, node: ast.expr, entry: Support, call: ast.Call | None, owner: ValueKind | None) -> None:
    dtype = owner.dtype if owner else _dtype_of_first(file, call)
    if not dtype or is_listed(entry.api, dtype, file.target):
        return
    allowed = listed_types(entry.api, file.target)
    chip = file.target.chip
    why = say.types_listed(chip=chip, types=sorted(allowed)) if allowed else say.no_double(chip=chip)
    # A collective takes tensors of the device; any other call may take tensors of the host, which has every type.
    sure = Sure.PROVEN if entry.api.startswith("torch.distributed.") else Sure.LIKELY
    file.add("dtype-limit", node, say.with_type(api=entry.api, dtype=dtype), sure=sure,
             effect=Risk.STOPS if dtype in WIDE else Risk.DIFFERS, why=why)  # fmt: skip


def _dtype_of_first(file: File, call: ast.Call | None) -> str:
    if call is None:
        return ""
    for keyword in call.keywords:
        if keyword.arg == "dtype":
            return file.kinds.dtype(keyword.value)
    at = _TENSOR_AT.get(file.names.full(call.func) or "", 0)
    kind = file.kinds.of(call.args[at]) if len(call.args) > at else None
    return kind.dtype if kind and kind.name == "tensor" else ""


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else f"{flat[:79]}…"
