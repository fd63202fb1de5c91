"""Finds the leaf of the time tree for names of operators, kernels and host calls.

Sources of the names: `knowledge.operators`, `knowledge.host_work`, `knowledge.blocking_calls`, `knowledge.input_work`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from hermes.knowledge.blocking_calls import allocates, is_blocking, is_copy
from hermes.knowledge.host_work import CHECKPOINT, COMPILATION, DATA, EVENTS, OPTIMIZER, PATTERNS, is_collective
from hermes.knowledge.input_work import MAIN_PROCESS, TAKE_FRAME, WAIT_FRAME, WORKERS
from hermes.knowledge.operators import kind_of_kernel, operator_of
from hermes.knowledge.user_code import HERMES_FILES, stands_before
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

_WITH_DROPOUT = (Leaf.ATTENTION, Leaf.NORM)
"""Work into which libraries fuse a dropout: the drawing of its numbers takes less than the rest."""


@lru_cache(maxsize=16_384)
def leaf_of_operator(*names: str) -> Leaf:
    """The compute leaf of names: of the first name that tells, such as the type, the kernel, the launching operator."""
    for name in names:
        kind = operator_of(name).kind
        leaf = _OF_CLASS.get(kind_of_kernel(name) if kind == "other" else kind)
        if leaf in _WITH_DROPOUT:
            return leaf
        for pattern, special in ((_RECURRENT, Leaf.RECURRENT), (_SORT, Leaf.SORT), (_RANDOM, Leaf.RANDOM)):
            if pattern.search(name):
                return special
        if leaf is not None:
            return leaf
    return Leaf.OTHER_COMPUTE


_OF_UPDATE = frozenset({Leaf.ELEMENTWISE, Leaf.LAYOUT, Leaf.REDUCTION, Leaf.OTHER_COMPUTE})


def leaf_in_update(leaf: Leaf) -> Leaf:
    """The leaf of compute inside the optimizer's step: many small operators there are one kind of work.

    Work with a cure of its own, such as the products of an optimizer that orthogonalises, keeps its leaf.
    """
    return Leaf.OPTIMIZER if leaf in _OF_UPDATE else leaf


_PROFILER = re.compile(
    rf"(^|/)torch(_npu)?/(autograd/)?profiler/|(^|/)torch(_npu)?/autograd/profiler\.py|{HERMES_FILES}"
    r"|^(cuda|cu|hip)?profiler(start|stop)|^(activity buffer request|buffer flush|instrumentation)$|^aclprof"
    r"|enable_profiler|_disable_profiler|_prepare_profiler|_kineto|acl_profiler"
)
"""The profiler's own frames and calls, and Kineto's name for the time of its own tools (`overhead`)."""
_MAKES = re.compile(
    r"^(cuda|cu|hip|acl|aclrt)(stream|event|context|ctx)?(create|moduleload|libraryload|binaryload)", re.I
)
"""Calls that make a stream or a context, or load code: a job makes each such call once."""
_COLLECTS = re.compile(r"<built-in function collect>$|^garbage collection$")
_WAITS = re.compile(
    r"run_backward|method '?acquire'? of '?_thread|(^|/)threading\.py\(\d+\): wait$"
    r"|<built-in method (acquire|wait|poll|select) of"
)
"""Frames in which a thread waits for another thread: for the backward pass of autograd, or for a lock."""
_OF_EVENT: tuple[tuple[re.Pattern[str], Leaf], ...] = (
    (_PROFILER, Leaf.PROFILER),
    (_COLLECTS, Leaf.GARBAGE_COLLECTION),
    (re.compile(PATTERNS[COMPILATION]), Leaf.COMPILING),
    (re.compile(f"{WORKERS}|{WAIT_FRAME}|{TAKE_FRAME}"), Leaf.INPUT_WORKERS),
    (re.compile(MAIN_PROCESS), Leaf.INPUT_HERE),
    (re.compile(PATTERNS[DATA]), Leaf.INPUT_HERE),
    (re.compile(PATTERNS[CHECKPOINT]), Leaf.FILE_OR_NETWORK),
)


@lru_cache(maxsize=65_536)
def leaf_of_event(name: str) -> Leaf | None:
    """The leaf of a call and of all calls inside it, if its name tells: input, compilation, collection, a file."""
    low = name.lower()
    if stands_before(low):
        return None
    return next((leaf for pattern, leaf in _OF_EVENT if pattern.search(low)), None)


@lru_cache(maxsize=16_384)
def leaf_on_host(name: str) -> Leaf:
    """The leaf of an operator that the processor computes; communication for a collective."""
    return Leaf.COMMUNICATION if is_collective(name) else leaf_of_operator(name)


@lru_cache(maxsize=65_536)
def leaf_of_call(name: str) -> Leaf | None:
    """The leaf of a runtime call that does more than launch work; None for launches."""
    if is_blocking(name):
        return Leaf.BLOCKING_COPY if is_copy(name) else Leaf.SYNCHRONISATION
    if allocates(name):
        return Leaf.ALLOCATOR
    return Leaf.FIRST_CALL if _MAKES.match(name) else None


_UPDATES = re.compile(EVENTS[OPTIMIZER])


def updates(name: str) -> bool:
    """Whether a range is the step of an optimizer."""
    return _UPDATES.search(name.lower()) is not None


def marks_collective(name: str) -> bool:
    """Whether a range is one that a library puts around a collective, such as `nccl:all_reduce`: not the user's."""
    return bool(re.match(r"(nccl|rccl|hccl|gloo|ucc|mpi|c10d):", name))


@lru_cache(maxsize=65_536)
def waits(name: str) -> bool:
    """Whether a Python frame only waits for another thread."""
    return bool(_WAITS.search(name.lower()))


_SYNCHRONISES = re.compile(r"\.py\(\d+\): synchronize$|^<built-in (function|method) \w*synchronize\b")


@lru_cache(maxsize=65_536)
def synchronises(name: str) -> bool:
    """Whether a Python frame waits for the device: `torch/cuda/__init__.py(7): synchronize`."""
    return bool(_SYNCHRONISES.search(name.lower()))


_COLLECTIVE_FRAME = re.compile(
    r"(^|/)torch/distributed/distributed_c10d\.py\(\d+\): "
    r"(_?(all_|reduce|broadcast|gather|scatter)\w*|barrier|monitored_barrier|send|recv)$"
)


@lru_cache(maxsize=65_536)
def calls_collective(name: str) -> bool:
    """Whether a Python frame is a collective of torch.distributed: on a processor, both last equally long."""
    return bool(_COLLECTIVE_FRAME.search(name.lower()))


_LAUNCH = re.compile(r"launch|memcpy|memset|aclnn|enqueue|hcom_|execute|^aclrt.*async", re.I)


@lru_cache(maxsize=65_536)
def launches(name: str) -> bool:
    """Whether a runtime call of this name launches work on the device."""
    return bool(_LAUNCH.search(name))
