"""Host calls that keep the host from feeding the device, by what they do.

Sources: torch_npu's operator executor (`aclopCompileAndExecute` compiles or looks up an operator, then launches it);
PyTorch's performance tuning guide on synchronisation (`.item()` ends in `aten::_local_scalar_dense`).
"""

from __future__ import annotations

from collections.abc import Iterable

from hermes.knowledge.host_work import COMPILATION, SYNCHRONISATION

READ_BACK = "read back"
CAUSE_OF_CALL: dict[str, str] = {
    "aclopCompileAndExecute": COMPILATION,
    "aclopCompileAndExecuteV2": COMPILATION,
    "aten::item": READ_BACK,
    "aten::_local_scalar_dense": READ_BACK,
}

# Runtime calls that return when the device has done something, besides those with "synchronize" in their name: copies
# of pageable memory and blocking copies (CUDA runtime API, "API synchronization behavior"; AscendCL `aclrtMemcpy`).
_BLOCKING_COPIES = frozenset(
    {"cudamemcpy", "hipmemcpy", "hipmemcpywithstream", "aclrtmemcpy", "memcopysync", "cudamemset", "hipmemset"}
)


def causes_of(names: Iterable[str]) -> dict[str, str]:
    """What calls of these names hold the host up with, those first that say more; names that do not hold it are left
    out.
    """
    names = list(names)
    waits = {name: SYNCHRONISATION for name in names if is_blocking(name)}
    return {name: CAUSE_OF_CALL[name] for name in CAUSE_OF_CALL if name in names} | waits


def reads_back(operator: str, names: Iterable[str]) -> bool:
    """Whether a call that waits reads a number back: by the operator around it, or by its own names."""
    return any(CAUSE_OF_CALL.get(name) == READ_BACK for name in (operator, *names))


def is_blocking(call: str) -> bool:
    """Whether a runtime call waits for the device, by its name."""
    name = call.lower()
    return "synchronize" in name or name in _BLOCKING_COPIES


FROM_PAGEABLE = r"\bPageable\b"
"""How CUPTI names copies of pageable memory, `Memcpy HtoD (Pageable -> Device)`.

Their call stays until the copy is done or, of one to the device, staged behind all that is before it on its stream
(CUDA runtime API, "API synchronization behavior")."""
