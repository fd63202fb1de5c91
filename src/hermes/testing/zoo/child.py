"""Runs one program of the zoo step by step, as its parent asks. A script: Hermes is loaded only to watch.

    python child.py FILE PROGRAM slow|fixed

One JSON object a line: `{"do": "steps", "count": N}`, `{"do": "profile", "count": N, "out": PATH}`, `{"do": "watch"}`,
`{"do": "unwatch"}`.
The answer is one line on the stdout that the process was started with; what the program prints goes nowhere. Ranks find
each other by RANK, WORLD_SIZE and a file named in ZOO_MEETING.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

OPTIONS = ("record_shapes", "with_stack")
"""What torch.profiler is asked for beside operators of the CPU and collections: shapes and types, Python's frames."""


def main(arguments: Sequence[str]) -> int:
    """Answer until stdin ends."""
    file, name, variant = arguments
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if world := int(os.environ.get("WORLD_SIZE", "0")):
        distributed: Any = importlib.import_module("torch.distributed")
        meeting, rank = f"file://{os.environ['ZOO_MEETING']}", int(os.environ["RANK"])
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    steps = getattr(_loaded(file), name)(slow=variant == "slow")
    for line in sys.stdin:
        answers.write(json.dumps(_answer(torch, steps, json.loads(line))) + "\n")
        answers.flush()
    steps.close()
    return 0


def _loaded(file: str) -> Any:
    spec = importlib.util.spec_from_file_location("program", file)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    module = importlib.util.module_from_spec(spec)
    # Workers of a loader find the classes of the program under this name.
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    return module


def _answer(torch: Any, steps: Iterator[None], asked: dict[str, Any]) -> dict[str, Any]:
    if asked["do"] in ("watch", "unwatch"):
        capture: Any = importlib.import_module("hermes.capture")
        (capture.start if asked["do"] == "watch" else capture.stop)()
        return {}
    if asked["do"] == "profile":
        return _profile(torch, steps, asked["count"], asked["out"])
    return {"walls_ns": [_timed(steps) for _ in range(asked["count"])]}


def _timed(steps: Iterator[None]) -> int:
    start = time.perf_counter_ns()
    next(steps)
    return time.perf_counter_ns() - start


def _profile(torch: Any, steps: Iterator[None], count: int, out: str) -> dict[str, Any]:
    profiler = torch.profiler
    options: dict[str, Any] = dict.fromkeys(OPTIONS, True)
    # A word that torch knows since 2.9.
    with contextlib.suppress(TypeError):
        options["experimental_config"] = torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)
    # The first step under a profiler pays for its start.
    when = profiler.schedule(wait=0, warmup=1, active=count, repeat=1)
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], schedule=when, **options) as profile:
        for _ in range(count + 1):
            next(steps)
            profile.step()
    profile.export_chrome_trace(out)
    return {}


if __name__ == "__main__":
    # A script's own folder comes first on its path, and its modules are not meant to be found by these names.
    sys.path.pop(0)
    sys.exit(main(sys.argv[1:]))
