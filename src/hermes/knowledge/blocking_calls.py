"""Names of host calls that keep the host from launching work, by what the calls do.

Sources: torch_npu's operator executor (`aclopCompileAndExecute` compiles or looks up an operator, then launches the
operator); PyTorch's performance tuning guide on synchronisation (`.item()` ends in `aten::_local_scalar_dense`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_READS = frozenset({"aten::item", "aten::_local_scalar_dense"})
"""Operators that read a number of the device."""
NOT_COMPUTING = _READS | {"aclopCompileAndExecute", "aclopCompileAndExecuteV2"}
"""Operators that take long and compute nothing on the host: they read, compile or look up an operator."""

# Runtime calls that return when the device has finished, besides calls with "synchronize" in their name: copies
# of pageable memory and blocking copies (CUDA runtime API, "API synchronization behavior"; AscendCL `aclrtMemcpy`).
_BLOCKING_COPIES = frozenset(
    {"cudamemcpy", "hipmemcpy", "hipmemcpywithstream", "aclrtmemcpy", "memcopysync", "cudamemset", "hipmemset"}
)


COMPUTES_NS = 100_000
"""Launching an operator takes 5 to 50 us (docs/evidence/host-limits.md). An operator without any runtime call that
takes longer computes on the host."""
FEW_CALLS = 0.1
"""In real GPU captures, a thread that feeds the device makes 0.2 to 2 runtime calls for each operator, with nested
operators counted (`../shared/data/kineto`). If the capture did not record a thread's runtime calls, the thread has 0.03
(`mtia_single_rank`)."""


LONG_COPY_NS = 100_000
"""A copy of pageable memory is staged in some microseconds; a call of this length in ns waited for earlier work."""


def waits_for_reports(call: str) -> bool:
    """Whether a call is the one in which a thread of callbacks waits for reports of streams (AscendCL)."""
    return "processreport" in call.lower()


def is_copy(call: str) -> bool:
    """Whether a runtime call of this name copies memory."""
    return "memcpy" in call.lower()


def launches_a_graph(call: str) -> bool:
    """Whether a runtime call launches a whole captured graph on the device."""
    name = call.lower()
    return "graphlaunch" in name or name.startswith("aclmdlriexecute")


def allocates(call: str) -> bool:
    """Whether a runtime call allocates or frees memory."""
    name = call.lower()
    return "malloc" in name or "free" in name or "hostalloc" in name


_HOST_MEMORY = re.compile(
    r"host(alloc|register|unregister)|(malloc|free)_?host|hostmalloc|hostfree|host_?(malloc|free)"
)


def takes_host_memory(call: str) -> bool:
    """Whether a runtime call allocates or frees only pinned host memory and no device memory: `cudaHostAlloc`."""
    return bool(_HOST_MEMORY.search(call.lower()))


def reads_back(operator: str, names: Iterable[str] = ()) -> bool:
    """Whether a waiting call reads a number back from the device: by the operator around it, or by its own names."""
    return not _READS.isdisjoint((operator, *names))


def is_blocking(call: str) -> bool:
    """Whether a runtime call of this name waits for the device."""
    name = call.lower()
    return "synchronize" in name or name in _BLOCKING_COPIES or name.endswith(BLOCKS)


FROM_PAGEABLE = r"\bPageable\b"
"""CUPTI's name for copies of pageable memory: `Memcpy HtoD (Pageable -> Device)`.

The call of such a copy returns when the copy is done. A copy to the device returns once it is staged, behind all
earlier work on its stream (CUDA runtime API, "API synchronization behavior"). (CUDA runtime API, "API synchronization
behavior")."""

TO_PAGEABLE = "-> Pageable"
"""CUPTI's name for copies to pageable memory: the call returns when the copy is done, even if called asynchronous."""
BLOCKS = " (to pageable memory)"
"""The suffix that readers add to a call that copies to pageable memory; its own name says that it does not wait."""
OF_GRAPH = "graph"
"""The type that readers give to tasks that one call launched as a graph."""
