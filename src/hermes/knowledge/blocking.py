"""Host calls that keep the host from feeding the device, by what they do.

Sources: torch_npu's operator executor (`aclopCompileAndExecute` compiles or looks up an operator, then launches it);
PyTorch's performance tuning guide on synchronisation (`.item()` ends in `aten::_local_scalar_dense`).
"""

from __future__ import annotations

CAUSE_OF_CALL: dict[str, str] = {
    "aclopCompileAndExecute": "compilation",
    "aclopCompileAndExecuteV2": "compilation",
    "aten::item": "read back",
    "aten::_local_scalar_dense": "read back",
}

# Runtime calls that return when the device has done something, besides those with "synchronize" in their name: copies
# of pageable memory and blocking copies (CUDA runtime API, "API synchronization behavior"; AscendCL `aclrtMemcpy`).
_BLOCKING_COPIES = frozenset(
    {"cudamemcpy", "hipmemcpy", "hipmemcpywithstream", "aclrtmemcpy", "memcopysync", "cudamemset", "hipmemset"}
)


def is_blocking(call: str) -> bool:
    """Whether a runtime call waits for the device, by its name."""
    name = call.lower()
    return "synchronize" in name or name in _BLOCKING_COPIES
