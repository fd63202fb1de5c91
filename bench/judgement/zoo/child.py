"""A nursery that loads PyTorch once, and forks a process for each program of the zoo, which runs it step by step.

    python child.py < requests

A request is a line of JSON: `file`, `program`, `variant`, the `folder` to run in, `environment`, and the named pipes
`asked` and `answers`; the nursery writes the number of the process that it made. That process leads a session of its
own, and reads from its pipe `{"do": "steps", "count": N}`, `{"do": "profile", "count": N, "memory": …, "out": PATH}`,
`{"do": "watch"}` or `{"do": "unwatch"}`, one a line, and answers each with a line. Ranks find each other by RANK,
WORLD_SIZE and a file named in ZOO_MEETING. This is a script: of Hermes it loads capture, to watch, and nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

OPTIONS = ("record_shapes", "with_stack")
"""Options of torch.profiler beside operators of the CPU and garbage collections: shapes and types, Python's frames.

`profile_memory` comes with them where the request has `memory`.
"""


def nursery() -> int:
    """Fork a process for each request until stdin ends; the forked processes live on."""
    torch: Any = importlib.import_module("torch")
    # The system removes ended children.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        number = os.fork()
        if number == 0:
            os._exit(_born(torch, request))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    return 0


def _born(torch: Any, request: dict[str, Any]) -> int:
    """Run as a new process from here on."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    nowhere = os.open(os.devnull, os.O_RDWR)
    said = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, target in ((0, nowhere), (1, nowhere), (2, said)):
        os.dup2(target, number)
    try:
        with open(request["asked"], encoding="utf-8") as asked, open(request["answers"], "w", encoding="utf-8") as to:  # noqa: PTH123
            _serve(torch, request, asked, to)
    except BaseException:  # noqa: BLE001 - said where the parent looks
        traceback.print_exc()
        return 1
    return 0


def _serve(torch: Any, request: dict[str, Any], asked: Iterable[str], answers: Any) -> None:
    if os.environ.get("ZOO_KEEP_MEMORY"):
        _keep_memory()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if world := int(os.environ.get("WORLD_SIZE", "0")):
        distributed: Any = importlib.import_module("torch.distributed")
        meeting, rank = f"file://{os.environ['ZOO_MEETING']}", int(os.environ["RANK"])
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    program: Callable[..., Iterator[None]] = getattr(_loaded(request["file"]), request["program"])
    steps = program(slow=request["variant"] == "slow")
    for line in asked:
        answers.write(json.dumps(_answer(torch, steps, json.loads(line))) + "\n")
        answers.flush()


def _keep_memory() -> None:
    """Keep freed memory in the process: on a machine where first touches of pages are costly, they are a cause
    (MEM-14).

    mallopt(3): M_TRIM_THRESHOLD and M_MMAP_THRESHOLD. Without glibc nothing changes.
    """
    with contextlib.suppress(OSError, AttributeError):
        system = ctypes.CDLL(None)
        system.mallopt(-1, 2**31 - 1)
        system.mallopt(-3, 2**30)


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
        capture: Any = importlib.import_module("hermes.inside")
        (capture.start if asked["do"] == "watch" else capture.stop)()
        return {}
    if asked["do"] == "profile":
        return _profile(torch, steps, asked)
    return {"walls_ns": [_timed(steps) for _ in range(asked["count"])]}


def _timed(steps: Iterator[None]) -> int:
    start = time.perf_counter_ns()
    next(steps)
    return time.perf_counter_ns() - start


def _profile(torch: Any, steps: Iterator[None], asked: dict[str, Any]) -> dict[str, Any]:
    profiler, count = torch.profiler, asked["count"]
    options: dict[str, Any] = dict.fromkeys(OPTIONS, True) | {"profile_memory": asked["memory"]}
    # An option that torch knows since 2.9.
    with contextlib.suppress(TypeError):
        options["experimental_config"] = torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)
    # The first step under a profiler also contains the profiler's start.
    when = profiler.schedule(wait=0, warmup=1, active=count, repeat=1)
    # As in Hermes' own capture: a trace does not hold the settings of the process.
    about = importlib.import_module("hermes.inside.monitor.process_settings").surroundings(sys.modules)
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], schedule=when, **options) as profile:
        for number in range(count + 1):
            next(steps)
            profile.step()
            if not number:
                profile.add_metadata_json("hermes", json.dumps({"settings": about}))
    profile.export_chrome_trace(asked["out"])
    return {}


if __name__ == "__main__":
    # A script's own folder comes first on its path, and its modules are not meant to be found by these names.
    sys.path.pop(0)
    sys.exit(nursery())
