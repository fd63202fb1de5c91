"""What the host does, told by the names of its calls; the first that fits a moment names it.

The order is that of the research of this project (docs/decisions/0009): what stands above would remain if what stands
below were gone. Names: PyTorch's profiler (`enumerate(DataLoader)#…__next__`, Dynamo's and Inductor's ranges), the CUDA
and HIP runtime, AscendCL, MindSpore's `GetNext`.
"""

from __future__ import annotations

import re

GC = "garbage collection"
LAUNCH = "launching"
OPERATOR = "operators"
PYTHON = "python"
OUTSIDE = "outside any call"

_BY_NAME: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "compilation",
        re.compile(r"aclopcompile|opcompile|torchdynamo|torch-compiled|inductor|triton.*compile"),
    ),
    ("allocation", re.compile(r"^(cuda|hip)(malloc|free)|^aclrt(malloc|free)|^devmalloc|^devfree")),
    ("data loading", re.compile(r"dataloader.*__next__|dataloader.*_next_data|enumerate\(data(loader|pipe)\)|getnext")),
    ("checkpoint", re.compile(r"torch[./]serialization|torch\.save|save_checkpoint|state_dict")),
    ("communication", re.compile(r"^(gloo|mpi|ucc):|^c10d::|^processgroup")),
    ("synchronisation", re.compile(r"synchronize|^(cuda|hip)memcpy$|^aclrtmemcpy$|^memcopysync$")),
)
REASONS = (GC, *(reason for reason, _ in _BY_NAME), LAUNCH, OPERATOR, PYTHON, OUTSIDE)


def reason_of(name: str) -> str | None:
    """Why the host is in a call of this name, where the name tells."""
    lower = name.lower()
    return next((reason for reason, pattern in _BY_NAME if pattern.search(lower)), None)
