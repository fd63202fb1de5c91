"""Tells what the host does by the names of its calls; of several reasons at a moment, the first in the table counts.

The order is that of the project's research (docs/decisions/0009): a reason stands above another if its time would
remain without the other.

Sources of the names: PyTorch's profiler (`enumerate(DataLoader)#…__next__`); `torch/_dynamo/utils.py`, whose ranges end
in `(dynamo_timed)` and last for a compilation. Other sources are the CUDA and HIP runtime and driver, AscendCL, and
MindSpore's `GetNext`. A `Torch-Compiled Region` and a `TorchDynamo Cache Lookup` belong to every call of compiled code
and are no compilation. The frames of `eval_frame.py` are none either, because every call passes these frames.
"""

from __future__ import annotations

import re
from functools import lru_cache

GC = "garbage collection"
COLLECT = "gc.collect"
"""The name of a garbage collection that the program asks for."""
COMPILATION = "compilation"
ALLOCATION = "allocation"
DATA = "data loading"
CHECKPOINT = "checkpoint or logging"
COMMUNICATION = "communication"
SYNCHRONISATION = "synchronisation"
WAITING = "waiting for the device"
COMPUTING = "computing"
"""An operator that computes on the host itself in a job with a device: it launches nothing."""
LAUNCH = "launching"
OPERATOR = "operators"
PYTHON = "python"
OUTSIDE = "outside any call"

# Patterns are in lower case, in the syntax that both `re` and the engine of Polars understand.
PATTERNS: dict[str, str] = {
    COMPILATION: (
        r"^aclopcompile|^opcompile$|\(dynamo_timed\)$|^entire_frame_compile$"
        r"|torch/_dynamo/(convert_frame|symbolic_convert)"
        r"|torch/_inductor/(graph|scheduler|lowering|select_algorithm|codegen/)|triton/compiler/"
        r"|^(cu|hip)(moduleload|libraryload)|^lazy function loading|nvrtc"
    ),
    ALLOCATION: (
        r"^(cuda|hip)(malloc|free|hostalloc|hostregister|hostfree|hostmalloc)"
        r"|^(cu|hip)mem(create|map|unmap|release|setaccess|address)"
        r"|^acl(malloc|free)|^aclrt(malloc|free|mapmem|unmapmem|reservememaddress|releasememaddress)|^devmalloc|^devfree"
    ),
    DATA: r"dataloader.*__next__|dataloader.*_next_data|enumerate\(data(loader|pipe)\)|getnext",
    CHECKPOINT: (
        r"torch[./]serialization|torch\.save|save_checkpoint|state_dict|torch/distributed/checkpoint/|safetensors/"
        r"|torch/utils/tensorboard/|tensorboardx?/|wandb/|mlflow/|swanlab/|logging/__init__\.py"
        # Not tqdm's monitor, a thread that sleeps.
        r"|tqdm/(std|auto|autonotebook|notebook|asyncio|rich|gui|tk|utils|contrib/\w+)\.py"
        r"|<built-in function (print|fsync|fdatasync)>|<built-in method (write|writelines|flush) of _io\."
        # A file replaces another file: file systems write the new file to disk before.
        r"|<built-in function (replace|rename)>"
        # Experiment trackers that are not known by name: the training thread talks to a server.
        r"|method '?(sendall|send|recv|recv_into)'? of '?(_socket\.)?socket|http/client\.py"
    ),
    COMMUNICATION: r"^(gloo|mpi|ucc):|^c10d::|^processgroup",
    # A copy to pageable memory returns when it is done, even if its name says otherwise.
    SYNCHRONISATION: (
        r"synchronize|^(cuda|hip)mem(cpy|set)$|^hipmemcpywithstream$|^aclrtmemcpy$|^memcopysync$"
        r"| \(to pageable memory\)$"
    ),
}
"""Each reason with the pattern of call names for it, in the order in which reasons count."""

CHECKS = "checks of numbers"
CONVERSION = "conversion of lists"
LISTS = "making of lists"
UNPICKLING = "unpickling"
OPTIMIZER = "optimizer steps"
REDUCING = "forward passes of DistributedDataParallel"
PIECES = "gradients of pieces"
COLLECTIVES = "calls of collectives"
LOADING = "loading of files"
BUCKETS = "copies between gradients and buckets"
RECURRENT = "recurrent layers"
STARTING = "starting of threads and processes"
ENDING = "ending of pools"
RESULTS = "waiting for results of a pool"
LAYERS = ("aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu")
"""Operators that are loops of small operators over time: `RECURRENT` is the time of them and of their backward."""
EVENTS: dict[str, str] = PATTERNS | {
    CHECKS: (
        r"^aten::is(finite|nan|inf)$|torch/autograd/anomaly_mode\.py"
        r"|(^|/)traceback\.py\(\d+\): (format_stack|extract_stack)$"
    ),
    CONVERSION: r"^<built-in method (tensor|as_tensor|asarray) of type object|^<built-in function array>$",
    LISTS: r"<(list|dict|set)comp>$|<genexpr>$",
    UNPICKLING: r"^<built-in function loads>$",
    # Of the calls recognised as checkpoint work, the calls that read a checkpoint.
    LOADING: r"torch/serialization\.py\(\d+\): load$",
    OPTIMIZER: r"^optimizer\.step#",
    REDUCING: r"^distributeddataparallel\.forward$",
    # For each piece taken out of a tensor, the gradient is as large as the whole tensor.
    PIECES: r"^aten::(select|slice)_backward$",
    BUCKETS: r"^torch(::distributed::|\.distributed\.ddp\.)reducer::(mul_out|copy_)",
    # A pool that is kept starts no workers; what a pool does for each task has frames of its own.
    STARTING: (
        r"(^|/)threading\.py\(\d+\): start$|multiprocessing/process\.py\(\d+\): start$"
        r"|(^|/)subprocess\.py\(\d+\): _execute_child$"
        r"|<built-in function (start_new_thread|start_joinable_thread|fork|forkpty|fork_exec|posix_spawnp?)>"
    ),
    ENDING: (
        r"concurrent/futures/(thread|process)\.py\(\d+\): shutdown$"
        r"|multiprocessing/pool\.py\(\d+\): (terminate|join)$"
    ),
    RESULTS: (
        r"concurrent/futures/_base\.py\(\d+\): (result|result_iterator|_result_or_cancel|wait|as_completed)$"
        r"|multiprocessing/pool\.py\(\d+\): (get|wait|next)$"
    ),
    # Collectives with their wrapper, which checks and logs, and with the wait of synchronous ones.
    COLLECTIVES: (
        r"torch/distributed/c10d_logger\.py\(\d+\): wrapper$"
        r"|torch/distributed/distributed_c10d\.py\(\d+\): (all_|reduce|broadcast|barrier|gather|scatter|send|recv)"
    ),
}
"""Kinds of host calls beside the reasons: a part of the work of the reasons above, and no reason itself."""

REASONS = (GC, *PATTERNS, COMPUTING, LAUNCH, OPERATOR, PYTHON, OUTSIDE)
DISPATCH = (LAUNCH, OPERATOR, PYTHON, OUTSIDE)
"""The reasons for launching work on the device, with the host work that no name tells apart."""

WORK_WAIT = "<built-in method wait of pybind11"
"""The name that Python's profiler gives to `Work.wait` of a collective that was begun earlier."""
_MEETS = re.compile(f"{PATTERNS[COMMUNICATION]}|{EVENTS[COLLECTIVES]}")
_BY_NAME = tuple((reason, re.compile(pattern)) for reason, pattern in PATTERNS.items())


@lru_cache(maxsize=16_384)
def host_reason(name: str) -> str | None:
    """The reason why the host is in a call of this name, if the name tells."""
    lower = name.lower()
    return next((reason for reason, pattern in _BY_NAME if pattern.search(lower)), None)


@lru_cache(maxsize=16_384)
def is_collective(name: str) -> bool:
    """Whether a call is a collective, or a wait for a collective."""
    lower = name.lower()
    return bool(_MEETS.search(lower))
