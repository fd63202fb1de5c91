"""Host calls that keep the host from feeding the device, by what they do.

Sources: torch_npu's operator executor (`aclopCompileAndExecute` compiles or looks up an operator, then launches it);
PyTorch's performance tuning guide on synchronisation (`.item()` ends in `aten::_local_scalar_dense`).
"""

from __future__ import annotations

import re
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


FIRST_LAUNCH_NS = 1_000_000
"""A launch takes 2 to 10 us; one of a millisecond and more, with the device free, loads code (CUDA C++ Programming
Guide, "Lazy Loading": kernels and libraries are loaded at their first use)."""
FIRST_ALLOCATION_NS = 50_000_000
"""Taking memory costs up to some milliseconds; the call that comes first makes the context, or frees for a library."""


COMPUTES_NS = 100_000
"""Handing an operator over takes 5 to 50 us (docs/evidence/host-limits.md); one without any call of the runtime in it
that takes longer does its work on the host."""
FEW_CALLS = 0.1
"""Of real GPU captures a thread that feeds the device makes 0.2 to 2 calls of the runtime for each operator, inner ones
counted (`../shared/data/kineto`); one of which calls were not recorded makes 0.03 (`mtia_single_rank`)."""


LONG_COPY_NS = 100_000
"""A call that copies pageable memory is staged in some microseconds; one of this length waited for its turn."""


def is_copy(call: str) -> bool:
    """Whether a runtime call copies, by its name."""
    return "memcpy" in call.lower()


def launches_a_graph(call: str) -> bool:
    """Whether a runtime call hands a whole captured graph to the device."""
    name = call.lower()
    return "graphlaunch" in name or name.startswith("aclmdlriexecute")


def starts_up(call: str) -> bool:
    """Whether a runtime call may load code or set a context up when it is the first: no copy and no wait."""
    name = call.lower()
    waits = is_blocking(name) or any(word in name for word in ("memcpy", "memset", "wait", "query", "graphlaunch"))
    return name.startswith(("cu", "hip", "acl")) and not waits


def allocates(call: str) -> bool:
    """Whether a runtime call takes or gives back memory."""
    name = call.lower()
    return "malloc" in name or "free" in name or "hostalloc" in name


_HOST_MEMORY = re.compile(
    r"host(alloc|register|unregister)|(malloc|free)_?host|hostmalloc|hostfree|host_?(malloc|free)"
)


def takes_host_memory(call: str) -> bool:
    """Whether a runtime call takes or gives back pinned memory of the host, and none of the device: `cudaHostAlloc`."""
    return bool(_HOST_MEMORY.search(call.lower()))


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
    return "synchronize" in name or name in _BLOCKING_COPIES or name.endswith(BLOCKS)


FROM_PAGEABLE = r"\bPageable\b"
"""How CUPTI names copies of pageable memory, `Memcpy HtoD (Pageable -> Device)`.

Their call stays until the copy is done or, of one to the device, staged behind all that is before it on its stream
(CUDA runtime API, "API synchronization behavior")."""

TO_PAGEABLE = "-> Pageable"
"""How CUPTI names copies to pageable memory: their call comes back when the copy is done, whatever it is called."""
BLOCKS = " (to pageable memory)"
"""What readers put behind the name of such a call, which else says that it does not wait."""
OF_GRAPH = "graph"
"""The type of tasks that one call launched as a graph, as readers write it."""
