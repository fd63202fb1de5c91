"""Which leaf of the tree a name speaks of: classes of operators, and calls of the host.

Sources of the names: `knowledge.operators`, `knowledge.host_work`, `knowledge.blocking`, `knowledge.input_work`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from hermes.knowledge.blocking import allocates, is_blocking, is_copy
from hermes.knowledge.host_work import CHECKPOINT, COMPILATION, DATA, PATTERNS, is_collective
from hermes.knowledge.input_work import MAIN_PROCESS, WORKERS
from hermes.knowledge.operators import kind_of_kernel, operator_of
from hermes.model.leaf import Leaf

_OF_CLASS = {
    "matmul": Leaf.MATRIX_PRODUCT, "batched matmul": Leaf.MATRIX_PRODUCT, "convolution": Leaf.CONVOLUTION,
    "attention": Leaf.ATTENTION, "attention backward": Leaf.ATTENTION, "normalisation": Leaf.NORM,
    "softmax": Leaf.REDUCTION, "elementwise": Leaf.ELEMENTWISE, "reduction": Leaf.REDUCTION,
    "pooling": Leaf.REDUCTION, "optimizer": Leaf.OPTIMIZER, "embedding": Leaf.EMBEDDING,
    "indexing": Leaf.EMBEDDING, "copy": Leaf.LAYOUT, "cast": Leaf.LAYOUT, "transpose": Leaf.LAYOUT,
    "format conversion": Leaf.LAYOUT,
}  # fmt: skip
_RANDOM = re.compile(r"rand|uniform|normal_|bernoulli|dropout|distribution_|exponential_", re.I)
_SORT = re.compile(r"sort|topk|top_k|radix", re.I)
_RECURRENT = re.compile(r"rnn|lstm|\bgru|aten::gru|dynamicgru|dynamicrnn", re.I)


@lru_cache(maxsize=16_384)
def leaf_of_operator(*names: str) -> Leaf:
    """The class of compute that names speak of: of a kernel, its operator's type, the operator that launched it."""
    for name in names:
        for pattern, leaf in ((_RECURRENT, Leaf.RECURRENT), (_SORT, Leaf.SORT), (_RANDOM, Leaf.RANDOM)):
            if pattern.search(name):
                return leaf
        kind = operator_of(name).kind
        kind = kind_of_kernel(name) if kind == "other" else kind
        if kind in _OF_CLASS:
            return _OF_CLASS[kind]
    return Leaf.OTHER_COMPUTE


_PROFILER = re.compile(
    r"(^|/)torch(_npu)?/(autograd/)?profiler/|(^|/)torch(_npu)?/autograd/profiler\.py|(^|/)hermes/inside/"
    r"|^(cuda|cu|hip)?profiler(start|stop)|^(activity buffer request|buffer flush|instrumentation)$|^aclprof"
    r"|enable_profiler|_disable_profiler|_prepare_profiler|_kineto|acl_profiler"
)
"""Its frames and calls, and what Kineto calls the time that its own tools take (`overhead`)."""
_COLLECTS = re.compile(r"<built-in function collect>$|^garbage collection$")
_WAITS = re.compile(
    r"run_backward|method '?acquire'? of '?_thread|(^|/)threading\.py\(\d+\): wait$"
    r"|<built-in method (acquire|wait|poll|select) of"
)
"""Frames in which a thread waits for another: for the backward pass of autograd, for a lock."""
_OF_EVENT: tuple[tuple[re.Pattern[str], Leaf], ...] = (
    (_PROFILER, Leaf.PROFILER), (_COLLECTS, Leaf.GARBAGE_COLLECTION),
    (re.compile(PATTERNS[COMPILATION]), Leaf.COMPILING), (re.compile(WORKERS), Leaf.INPUT_WORKERS),
    (re.compile(MAIN_PROCESS), Leaf.INPUT_HERE), (re.compile(PATTERNS[DATA]), Leaf.INPUT_HERE),
    (re.compile(PATTERNS[CHECKPOINT]), Leaf.FILE_OR_NETWORK),
)  # fmt: skip


@lru_cache(maxsize=65_536)
def leaf_of_event(name: str) -> Leaf | None:
    """What a call and all that runs inside it is, where its name tells: input, compilation, collection, a file."""
    low = name.lower()
    return next((leaf for pattern, leaf in _OF_EVENT if pattern.search(low)), None)


@lru_cache(maxsize=16_384)
def leaf_on_host(name: str) -> Leaf:
    """The class of an operator that the processor computes; of a collective it is communication."""
    return Leaf.COMMUNICATION if is_collective(name) else leaf_of_operator(name)


@lru_cache(maxsize=65_536)
def leaf_of_call(name: str) -> Leaf | None:
    """What a call of a runtime does, where that is more than handing work over; None for launches."""
    if is_blocking(name):
        return Leaf.BLOCKING_COPY if is_copy(name) else Leaf.SYNCHRONISATION
    return Leaf.ALLOCATOR if allocates(name) else None


def marks_collective(name: str) -> bool:
    """Whether a range is what a library puts around a collective, `nccl:all_reduce`: it is no place of the user's."""
    return bool(re.match(r"(nccl|rccl|hccl|gloo|ucc|mpi|c10d):", name))


@lru_cache(maxsize=65_536)
def waits(name: str) -> bool:
    """Whether a frame of Python only waits for another thread."""
    return bool(_WAITS.search(name.lower()))


_LAUNCH = re.compile(r"launch|memcpy|memset|aclnn|enqueue|hcom_|execute|^aclrt.*async", re.I)


@lru_cache(maxsize=65_536)
def launches(name: str) -> bool:
    """Whether a call of a runtime hands work to the device, by its name."""
    return bool(_LAUNCH.search(name))
