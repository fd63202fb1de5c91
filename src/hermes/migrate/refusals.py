"""Looks up what an NPU refuses, by the support table: data types by call, arguments, and unsupported modules.

Scan, convert and the stand-in of verify all use this module, so their results agree.
"""

from __future__ import annotations

from collections.abc import Mapping

from hermes.knowledge import migration
from hermes.knowledge.migration import Support
from hermes.migrate.scan_model import Target

WIDE = ("float64", "complex64", "complex128")
"""Types that a call refuses if the table lists other types. Narrower unlisted types may still run."""
NO_SCALE_FACTOR, BOOL_MASK = "no-scale-factor", "bool-mask"
"""Marks of the table: the call takes no `scale_factor`; its `attn_mask` must be of type bool."""
REMOVED = ("torch.nn.DataParallel",)
"""Modules without support since torch_npu removed its patches (August 2026)."""
_NO_KERNEL = frozenset({
    "detach", "detach_", "requires_grad_", "tolist", "item", "size", "dim", "ndim", "ndimension", "numel", "nelement",
    "element_size", "stride", "data_ptr", "numpy", "backward", "register_hook", "retain_grad", "retains_grad",
    "record_stream", "storage", "storage_offset", "storage_type", "untyped_storage", "new_zeros", "new_ones",
    "new_full", "new_empty", "new_tensor", "squeeze_", "unsqueeze_", "as_strided", "dsplit", "grad", "cpu", "to",
    "type", "contiguous", "copy_", "pin_memory", "share_memory_", "from_numpy", "empty", "empty_like", "Tensor",
})  # fmt: skip
_NO_KERNELS = ("torch.autograd.", "torch.testing.", "torch.backends.", "torch.utils.")
_MATRIX = frozenset({"mm", "bmm", "addmm", "addbmm", "baddbmm", "matmul", "linear", "Linear", "addmm_", "baddbmm_"})


def listed_types(api: str, target: Target) -> frozenset[str]:
    """The data types that the table lists for a call on a chip; empty if no limit is known.

    A function and the method of its name run the same kernel: an entry of the table for either holds for both.
    """
    table = migration.support(target.torch)
    last = api.rpartition(".")[2]
    same = {
        api,
        *((f"torch.{last}", f"torch.Tensor.{last}") if api in (f"torch.{last}", f"torch.Tensor.{last}") else ()),
    }
    entries = [table[name] for name in same if name in table and target.chip in table[name].chips]
    kinds = [_types(entry, target.chip) for entry in entries]
    return frozenset().union(*kinds) if all(kinds) else frozenset()


def _types(entry: Support, chip: str) -> frozenset[str]:
    types = entry.types_on(chip)
    return types - {"float64"} if "no-double" in entry.marks else types


def is_type_listed(dtype: str, target: Target) -> bool:
    """Whether the table lists a data type for any call on the chip."""
    table = migration.support(target.torch).values()
    return any(dtype in entry.types_on(target.chip) for entry in table)


def is_listed(api: str, dtype: str, target: Target) -> bool:
    """Whether no entry of the table excludes a data type for a call.

    A call that computes nothing takes every type; the matrix unit of each of the chips takes bfloat16.
    """
    last = api.rpartition(".")[2]
    if last in _NO_KERNEL or last.startswith("is_") or api.startswith(_NO_KERNELS):
        return True
    if dtype == "bfloat16" and last in _MATRIX:
        return True
    entry = migration.support(target.torch).get(api)
    if entry is None:
        return True
    if dtype == "float64" and "no-double" in entry.marks:
        return False
    listed = listed_types(api, target)
    return not listed or dtype in listed


def refusals(target: Target) -> Mapping[str, object]:
    """The refusals that the stand-in looks up, as plain JSON values."""
    table = migration.support(target.torch)
    every = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", *WIDE)
    unlisted = {api: [one for one in every if not is_listed(api, one, target)] for api in table}
    return {
        "target": f"{target.chip}, torch {target.torch}",
        "refused": {
            api: [one for one in types if one in WIDE] for api, types in unlisted.items() if {*types} & {*WIDE}
        },
        "unlisted": {api: types for api, types in unlisted.items() if types},
        **{mark: [api for api, entry in table.items() if mark in entry.marks] for mark in (NO_SCALE_FACTOR, BOOL_MASK)},
        "removed": list(REMOVED),
    }
