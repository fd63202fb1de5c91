"""Makes each function of `hermes.inside` raise while a training runs that is watched, recorded or captured.

    python -m tests.inside.border_pass --only watch --each 10

Functions are found by walking the modules: those that the whole job calls are broken, one after the other, each in a
fork of this process. A function first raises at once, then after it has done its work. The job must end as it does
without Hermes: the same numbers, no traceback, no more than lines that begin with `hermes: `. Prints what did not.
"""

from __future__ import annotations

import _thread
import argparse
import atexit
import contextlib
import gc
import hashlib
import importlib
import io
import json
import os
import pkgutil
import signal
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hermes.inside
from hermes.inside.wire.control import Request

_OWN = ("hermes.inside.error_guard",)
"""The module whose functions are not broken: the border itself."""
_KINETO = "USDT:"
"""The begin of Kineto's lines on the begin and end of a capture."""
_LEAVES = ("Recorder._leave", "Recorder._leave_mode", "Recorder._is_on_top", "Recorder.close", "Recorder._give_up")
"""Functions after whose failure the mode of a recording stays, and passes everything through."""
_LONGEST_S = 120.0
_STEPS = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function, or a nested function: `path` leads from constant to constant of its code."""

    name: str
    function: types.FunctionType
    path: tuple[int, ...]

    @property
    def code(self) -> types.CodeType:
        code = self.function.__code__
        for at in self.path:
            code = code.co_consts[at]
        return code


def targets() -> list[Target]:
    """All functions of all modules of `hermes.inside`, with methods, properties and nested functions."""
    found: dict[types.CodeType, Target] = {}
    for info in pkgutil.walk_packages(hermes.inside.__path__, "hermes.inside."):
        if info.name in _OWN:
            continue
        module = importlib.import_module(info.name)
        for function in _functions(vars(module), str(module.__file__)):
            for path in _inside(function.__code__):
                target = Target(
                    name=f"{info.name}:{function.__qualname__}{list(path) or ''}", function=function, path=path
                )
                found.setdefault(target.code, target)
    return list(found.values())


def _functions(names: dict[str, Any], file: str) -> Iterator[types.FunctionType]:
    for value in list(names.values()):
        if isinstance(value, type) and value.__module__.startswith("hermes.inside"):
            yield from _functions(dict(vars(value)), file)
        parts = [value.fget, value.fset] if isinstance(value, property) else [getattr(value, "__func__", value)]
        for part in parts:
            while hasattr(part, "__wrapped__"):
                part = part.__wrapped__
            if isinstance(part, types.FunctionType) and part.__code__.co_filename == file:
                yield part


def _inside(code: types.CodeType) -> Iterator[tuple[int, ...]]:
    """Paths to the code itself and to all functions in it; code that only makes a list or a class is left out."""
    if not code.co_name.endswith("comp>") and code.co_name != "<genexpr>" and code.co_flags & 2:
        yield ()
    for at, part in enumerate(code.co_consts):
        if isinstance(part, types.CodeType):
            yield from ((at, *path) for path in _inside(part))


def plant(target: Target, *, late: bool) -> None:
    """Make the target function raise, at once or at its end."""
    function = target.function
    if not late:
        function.__code__ = _with(function.__code__, target.path)
        return
    own = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    own.__kwdefaults__ = function.__kwdefaults__
    function.__globals__["_planted_original"] = own
    function.__code__ = _raising(function.__code__, "_planted_original(*a, **k)")


def _with(code: types.CodeType, path: tuple[int, ...]) -> types.CodeType:
    if not path:
        return _raising(code, "pass")
    consts = list(code.co_consts)
    consts[path[0]] = _with(consts[path[0]], path[1:])
    return code.replace(co_consts=tuple(consts))


def _raising(code: types.CodeType, first: str) -> types.CodeType:
    """Code for a raising function with the same free names."""
    free = ", ".join(code.co_freevars)
    inner = f" def f(*a, **k):\n  {first}\n  raise RuntimeError('planted')\n  {free or 'pass'}\n"
    text = f"def outer({free}):\n{inner} return f"
    made: dict[str, Any] = {}
    exec(text, made)
    found: types.CodeType = made["outer"](*code.co_freevars).__code__
    return found.replace(co_name=code.co_name)


# -- the job


def train(steps: int) -> str:
    """A small training with everything that Hermes watches; returns a fingerprint of its results."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(64, 12))
    losses, number = [], 0
    while number < steps:
        for (x,) in torch.utils.data.DataLoader(data, batch_size=8):
            number += 1
            time.sleep(0.001)
            loss = model(x.to(torch.float32)).square().mean()
            torch.autograd.backward(loss) if number % 2 else loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if number % 40 == 20:
                torch.save(model.state_dict(), io.BytesIO())
                gc.collect()
                child = os.fork()
                child or os._exit(0)
                os.waitpid(child, 0)
    assert torch.is_grad_enabled()
    values = [one.detach().numpy().tobytes().hex() for one in model.parameters()]
    return hashlib.sha256(json.dumps([losses, values]).encode()).hexdigest()


def watched() -> str:
    hermes.inside.start()
    made = train(_STEPS)
    hermes.inside.set_step(7)
    hermes.inside.mark_checkpoint()
    for _ in range(30):
        hermes.inside.step(samples=1)
    return made


def recorded() -> str:
    from hermes.inside.record import start

    _booted(start.boot)
    return train(8)


def looked_at() -> str:
    from hermes.inside import snapshot

    _booted(snapshot.boot)
    return train(8)


def _booted(boot: Callable[[str], object]) -> None:
    """Boot as the loader does that waits for torch."""
    try:
        boot("torch")
    except Exception as broken:  # noqa: BLE001 - as there
        sys.stderr.write(f"hermes: {broken}\n")


def _options(**options: Any) -> dict[str, str]:
    return {"HERMES_RECORD": json.dumps({"out": "recording", "steps": "0-2", **options})}


_ALL = {name: "1" for name in ("HERMES_COUNT_FLOPS", "HERMES_COLLECTIVES", "HERMES_TRANSFERS", "HERMES_DEVICE_EVENTS")}
JOBS: dict[str, tuple[Callable[[], str], dict[str, str]]] = {
    "watch": (watched, _ALL),
    "record": (recorded, _options(level="both", limit_bytes=10**6)),
    "tensors": (recorded, _options(level="both", what="tensors", sample=8)),
    "fingerprint": (recorded, _options(what="fingerprint", level="modules", scope=["*"])),
    "ring": (recorded, _options(ring=2)),
    "perturbed": (recorded, _options(arithmetic="perturbed")),
    "wider": (recorded, _options(arithmetic="float64")),
    "snapshot": (looked_at, {"HERMES_SNAPSHOT": "taken.zip"}),
}
_ROUNDED = ("perturbed", "wider")
"""Jobs that are meant to compute different results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The result of a fork: its fingerprint, its output, and the functions of Hermes that it called."""

    code: int
    made: str
    said: str
    called: frozenset[tuple[str, int, str]]
    left: bool


def run(job: str, before: Callable[[], object] = lambda: None, *, trace: bool = False) -> Ended:
    """Run the job in a fork, in a folder of its own; `before` is called first in the fork."""
    call, environment = JOBS[job] if job in JOBS else (lambda: train(_STEPS if job == "bare watch" else 8), {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "shm").mkdir()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _in_fork(folder, call, environment, before, trace)
        ended = _wait(child, folder)
        read = lambda name: (folder / name).read_text() if (folder / name).exists() else ""  # noqa: E731
        called = frozenset((file, line, code) for file, line, code in json.loads(read("called") or "[]"))
        return Ended(code=ended, made=read("made"), said=read("said"), called=called, left=(folder / "left").exists())


def _in_fork(folder: Path, call: Callable[[], str], environment: dict[str, str], before: Any, trace: bool) -> None:
    code = 1
    try:
        atexit._clear()
        os.chdir(folder)
        said = os.open("said", os.O_CREAT | os.O_WRONLY)
        os.dup2(said, 1), os.dup2(said, 2)
        own = {"HERMES_RUN_DIR": str(folder / "jobs"), "HERMES_SHM_DIR": str(folder / "shm")}
        for name in [name for name in os.environ if name.startswith(("HERMES_", "RANK", "WORLD"))]:
            del os.environ[name]
        os.environ.update({**own, **environment})
        seen: set[tuple[str, int, str]] = set()
        if trace:
            _trace(seen)
        before()
        made = call()
        atexit._run_exitfuncs()
        if _left():
            Path("left").touch()
        Path("made").write_text(made)
        Path("called").write_text(json.dumps(sorted(seen)))
        code = 0
    except BaseException:  # noqa: BLE001 - it is what is looked for
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stderr.flush()
        os._exit(code)


def _left() -> bool:
    """Whether a mode of torch's dispatcher is still active."""
    import torch

    return torch.utils._python_dispatch._get_current_dispatch_mode() is not None


def _trace(seen: set[tuple[str, int, str]]) -> None:
    def look(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            seen.add((code.co_filename, code.co_firstlineno, code.co_name))

    start = _thread.start_new_thread

    def traced(call: Any, given: Any) -> int:
        def begin(*args: Any) -> None:
            sys.setprofile(look)
            call(*args)

        return start(begin, given)

    _thread.start_new_thread = traced
    threading.setprofile(look)
    sys.setprofile(look)


def _wait(child: int, folder: Path) -> int:
    """Request a capture once the job is there; returns the job's exit status, and -1 if it had to be killed."""
    from hermes.inside.wire.rundir import jobs

    end, asked = time.monotonic() + _LONGEST_S, False
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if not asked:
            for job in jobs(folder / "jobs"):
                asked = _ask(job, folder)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def _ask(job: Any, folder: Path) -> bool:
    from hermes.inside.wire.control import Control

    with contextlib.suppress(Exception):
        control = Control.attach(job.segment, job=job.id)
        try:
            if control.slots() and any(folder.glob("jobs/*/rank0.json")):
                control.ask(
                    Request(
                        action="profile", start_step=30, steps=2, level="standard", reason="", out=str(folder / "out"),
                        deadline_ns=time.time_ns() + 10**11, largest_bytes=10**8,
                    )
                )  # fmt: skip
                return True
        finally:
            control.close()
    return False


def wrong(ended: Ended, bare: Ended, job: str, name: str = "") -> str:
    """The differences from a run without Hermes, when the function of that name was broken."""
    if ended.code:
        return f"ended with {ended.code}: {ended.said[-1500:]}"
    if ended.made != bare.made and job not in _ROUNDED:
        return "computed something else"
    if ended.left and not name.endswith(_LEAVES):
        return "left a mode in torch"
    foreign = [line for line in ended.said.splitlines() if not line.startswith(("hermes: ", _KINETO))]
    return f"said: {foreign[:8]}" if foreign else ""


def find(
    job: str, *, name: str, each: int, offset: int, done: set[str], tell: Callable[[str], None]
) -> tuple[int, list[str]]:
    """Break each `each`-th function that the job calls and that is not `done`; returns their number, and the
    differences."""
    bare = run("bare watch" if job == "watch" else "bare")
    assert bare.code == 0, bare.said
    whole = run(job, trace=True)
    if text := wrong(whole, bare, job):
        tell(f"{job}, nothing broken: {text}")
        return 1, [f"{job}, nothing broken: {text}"]
    mine = [
        one for one in targets()
        if (one.code.co_filename, one.code.co_firstlineno, one.code.co_name) in whole.called
        and one.name not in done and name in one.name
    ]  # fmt: skip
    found, many = [], 0
    for target in mine[offset::each]:
        for late in (False, True) if not target.path else (False,):
            many += 1
            text = wrong(run(job, lambda: plant(target, late=late)), bare, job, target.name)  # noqa: B023 - called at once
            if text:
                found.append(f"{job}, {target.name} {'when done' if late else 'at once'}: {text}")
                tell(found[-1])
    done.update(one.name for one in mine)
    return many, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=JOBS, action="append")
    parser.add_argument("--name", default="", help="only functions whose name holds this")
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    given = parser.parse_args()
    import torch
    import torch.optim.optimizer
    import torch.profiler
    import torch.utils.flop_counter

    torch.set_num_threads(1)
    done: set[str] = set()
    bad, many = [], 0
    for job in given.only or JOBS:
        count, found = find(
            job,
            name=given.name,
            each=given.each,
            offset=given.offset,
            done=done,
            tell=lambda text: sys.stdout.write(f"{text}\n"),
        )
        many += count
        bad += found
        sys.stdout.write(f"{job}: {count} broken\n")
        sys.stdout.flush()
    sys.stdout.write(f"{many} broken, {len(bad)} not contained\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
