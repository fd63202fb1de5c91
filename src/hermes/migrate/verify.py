"""Runs a converted program for a few steps on an NPU, or on a stand-in, and compares its losses with the original's."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from hermes.base.end_on_signal import folder_aside
from hermes.base.errors import InputError
from hermes.base.processes import start_session
from hermes.migrate import verification_outcome as say
from hermes.migrate.refusals import refusals
from hermes.migrate.scan_model import Target
from hermes.migrate.verification_outcome import HOLDS, Outcome, Recorded, Where

_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
_ENTRY = "[torch.backends]\n{name} = {module}:_autoload\n"
_TAIL_LINES = 25
# glibc fills memory that a program allocates with 255 less this: each number is then small, and none is NaN.
_FILL = 254
# The exit code that the shell's `timeout` uses.
_TIMED_OUT = 124


Cause = Literal["error", "refused", "not_computed", "harness", "timeout"]
"""Reasons why a program ends with an error: its own error, a call that an NPU refuses, or a call that the stand-in does
not compute. Other reasons are a defect of the harness, and a timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """One run of a program. `losses` are by rank and step; `weights` is a sum of all weights after each step.

    `cause` is the reason why the run ended with an error, if known, and `error` the error's text. `unwritten` are
    numbers that could not be recorded, `unlisted` calls with data types that the support table does not list.
    """

    command: Sequence[str]
    where: Where
    code: int
    seconds: float
    losses: Mapping[str, Sequence[float]]
    weights: Mapping[str, Sequence[float]]
    output_tail: str
    cause: Cause | None = None
    error: str = ""
    unwritten: Sequence[str] = ()
    unlisted: Sequence[str] = ()

    @property
    def failed(self) -> bool:
        """Whether the program ended with an error."""
        return self.code != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first step of a rank at which two runs differ, in `what`; None for a run that recorded no value."""

    what: Recorded
    rank: str
    step: int
    original: float | None
    converted: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherRuns:
    """The results of further runs, if the losses of both programs differ.

    `original` and `converted` are the first differences between two runs of that program alone. `memory` says whether
    the original gives other results once fresh memory is filled: then it reads uninitialized memory. In this case
    `filled` compares both programs with equally filled fresh memory, over `steps` losses.
    """

    original: Sequence[Difference]
    converted: Sequence[Difference] = ()
    memory: bool = False
    filled: Sequence[Difference] = ()
    steps: int = 0

    @property
    def same(self) -> bool:
        """Whether both programs give the same losses, with fresh memory filled alike."""
        return self.steps > 0 and not self.filled


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a verification. `original` is None if it was not run, `again` if no further run was needed.

    `on_cpu` is the converted program on the CPU, run if it failed on the stand-in without a refused call.
    """

    converted: ProgramRun
    original: ProgramRun | None
    differences: Sequence[Difference]
    steps: int
    again: FurtherRuns | None = None
    on_cpu: ProgramRun | None = None

    @property
    def outcome(self) -> Outcome:
        """The outcome of the verification, in one word."""
        if self.converted.failed:
            return self._failure()
        if self.converted.unwritten or (self.original is not None and self.original.unwritten):
            return Outcome.NOT_RECORDED
        if self.steps == 0:
            failed = self.original is not None and self.original.failed
            return Outcome.ORIGINAL_FAILED if failed else Outcome.NO_LOSS
        if self.original is None:
            return Outcome.NOT_GIVEN
        return Outcome.ORIGINAL_FAILED if self.original.failed else self._comparison()

    def _failure(self) -> Outcome:
        by_cause = {
            "refused": Outcome.REFUSED, "not_computed": Outcome.NOT_COMPUTED, "harness": Outcome.HARNESS_FAILED,
            "timeout": Outcome.TIMED_OUT,
        }  # fmt: skip
        if self.on_cpu is not None and self.on_cpu.error != self.converted.error:
            return Outcome.HARNESS_FAILED
        return by_cause.get(self.converted.cause or "error", Outcome.FAILED)

    def _comparison(self) -> Outcome:
        if not self.differences:
            return Outcome.PASSED
        if self.again is not None and self.again.same:
            return Outcome.PASSED_FILLED
        if self.converted.where is Where.NPU:
            return Outcome.ROUNDED
        if self.again is not None and self.again.original:
            return Outcome.ORIGINAL_VARIES
        return Outcome.CONVERTED_VARIES if self.again is not None and self.again.converted else Outcome.DIFFERS

    @property
    def holds(self) -> bool:
        """Whether the converted program ran, and every loss and all weights equal the original's."""
        return self.outcome in HOLDS


def has_npu() -> bool:
    """Whether torch_npu is installed on this machine and a device responds."""
    return importlib.util.find_spec("torch_npu") is not None and any(Path("/dev").glob("davinci[0-9]*"))


def verify(
    converted: Path, original: Path | None, command: Sequence[str], *, steps: int, devices: int, timeout_s: float,
    original_command: Sequence[str] | None = None, as_is: bool = False, target: Target | None = None,
) -> Verdict:  # fmt: skip
    """Run `command` in the converted tree and in the original tree, and compare the losses of the first steps.

    Without an NPU the converted program runs on the stand-in. The original runs on the CPU, where `cuda` means the CPU.
    With `original_command` the original runs unchanged, by that command. With `as_is` both run on this machine's own
    device.
    """
    _check(converted, original, command)
    npu = has_npu() and not as_is
    by = original_command or (command if as_is else [_for_cuda(word) for word in command])
    how = Where.AS_IT_IS if original_command or as_is else Where.CPU
    there = Where.NPU if npu else Where.AS_IT_IS if as_is else Where.STAND_IN
    with folder_aside("hermes-verify-") as folder:
        limits = _Limits(
            work=folder, steps=steps, devices=devices, timeout_s=timeout_s, compiles=npu or as_is,
            target=target or Target(),
        )  # fmt: skip

        def run_converted(filled: bool = False) -> ProgramRun:
            return _run(converted, command, there, limits, filled=filled)

        def run_original(filled: bool = False) -> ProgramRun:
            return _run(original or converted, by, how, limits, filled=filled)

        after = run_converted()
        on_cpu = None
        if there is Where.STAND_IN and after.cause == "error":
            on_cpu = _run(converted, [_for_cuda(word) for word in command], Where.CPU, limits, filled=False)
        before = run_original() if original is not None else None
        differences, compared = compare(before, after)
        again = None
        if before is not None and differences and compared and not (npu or before.failed or after.failed):
            again = ask_again(before, after, run_original, run_converted)
    return Verdict(
        converted=after, original=before, differences=differences, steps=compared, again=again, on_cpu=on_cpu
    )  # fmt: skip


def ask_again(before: ProgramRun, after: ProgramRun, run_original: Callable[[bool], ProgramRun],
              run_converted: Callable[[bool], ProgramRun]) -> FurtherRuns:  # fmt: skip
    """Find whether the conversion made the losses differ: run each program again, and with fresh memory filled.

    Data races of threads, and reading uninitialised memory, make two runs of one program differ.
    """
    own, _ = compare(before, run_original(False))
    filled_before = run_original(True)
    memory = bool(compare(before, filled_before)[0]) and not own
    if not own and not memory:
        return FurtherRuns(original=(), converted=compare(after, run_converted(False))[0])
    filled_after = run_converted(True)
    if filled_before.failed or filled_after.failed:
        return FurtherRuns(original=own, memory=memory)
    differences, steps = compare(filled_before, filled_after)
    return FurtherRuns(original=own, memory=memory, filled=differences, steps=steps)


def _for_cuda(word: str) -> str:
    """An argument of the converted program in the original's form: `--device=npu` becomes `--device=cuda`."""
    name, separator, value = word.rpartition("=")
    if value == "npu" or value.startswith("npu:"):
        return f"{name}{separator}cuda{value[3:]}"
    return f"{name}{separator}nccl" if value == "hccl" else word


def compare(original: ProgramRun | None, converted: ProgramRun) -> tuple[list[Difference], int]:
    """The first difference of each rank, and how many steps were compared (or recorded, if there is no original).

    Steps that a failed run did not reach are no difference: the verdict reports the run's error instead.
    """
    if original is None:
        return [], sum(len(losses) for losses in converted.losses.values())
    differences: list[Difference] = []
    for what, before, after in (
        (Recorded.LOSS, original.losses, converted.losses),
        (Recorded.WEIGHTS, original.weights, converted.weights),
    ):
        for rank in sorted({*before, *after}):
            found = _first(what, rank, before.get(rank, ()), after.get(rank, ()))
            ended = (original.failed or converted.failed) and found and None in (found.original, found.converted)
            differences += [found] if found and not ended else []
    return differences, sum(min(len(one), len(converted.losses.get(rank, ()))) for rank, one in original.losses.items())


def _first(what: Recorded, rank: str, before: Sequence[float], after: Sequence[float]) -> Difference | None:
    for step in range(max(len(before), len(after))):
        old = before[step] if step < len(before) else None
        new = after[step] if step < len(after) else None
        # Compare as text, so that 0.0 and -0.0 differ too, and that NaN is equal to NaN.
        if old is None or new is None or old.hex() != new.hex():
            return Difference(what=what, rank=rank, step=step, original=old, converted=new)
    return None


def _check(converted: Path, original: Path | None, command: Sequence[str]) -> None:
    if not command:
        raise InputError(say.NO_COMMAND, hint=say.HOW_TO_CALL)
    if shutil.which(command[0]) is None:
        raise InputError(say.no_program(name=command[0]), hint=say.NAME_PYTHON)
    for tree in (converted, original):
        if tree is not None and not tree.exists():
            raise InputError(say.NOTHING_THERE, where=str(tree))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """The limits of all runs: a folder for files, steps, devices, seconds, whether to compile, the chip."""

    work: Path
    steps: int
    devices: int
    timeout_s: float
    compiles: bool
    target: Target


def _run(tree: Path, command: Sequence[str], where: Where, limits: _Limits, *, filled: bool) -> ProgramRun:
    work = Path(tempfile.mkdtemp(dir=limits.work))
    site, out = work / "site", work / "losses"
    out.mkdir(parents=True)
    _site(site, where, limits.target)
    environment = _environment(site, out, limits)
    if where in (Where.STAND_IN, Where.CPU) or not limits.compiles:
        # A compiled program rounds in its own way, and the stand-in has no compiler.
        environment["TORCH_COMPILE_DISABLE"] = "1"
    if filled:
        environment["GLIBC_TUNABLES"] = f"glibc.malloc.perturb={_FILL}:glibc.malloc.tcache_count=0"
    begin = time.monotonic()
    code, told = _call(command, tree if tree.is_dir() else tree.parent, environment, limits.timeout_s)
    losses = _numbers(out, "loss")
    ended = {path.name.removeprefix("ended.") for path in out.glob("ended.*")}
    if losses and ("all" in ended or set(losses) <= ended):
        code = 0  # The recorder ended the program after its steps: a later exit code is not the program's.
    cause, error = _cause(out, code)
    return ProgramRun(
        command=tuple(command), where=where, code=_TIMED_OUT if code is None else code,
        seconds=time.monotonic() - begin, losses=losses, weights=_numbers(out, "weights"), output_tail=told,
        cause=cause, error=error, unwritten=_lines(out, "unwritten.*"), unlisted=_lines(out, "unlisted.*"),
    )  # fmt: skip


def _environment(site: Path, out: Path, limits: _Limits) -> dict[str, str]:
    environment = dict(os.environ)
    kept = environment.get("PYTHONPATH", "")
    return environment | {
        "PYTHONPATH": f"{site}{os.pathsep}{kept}" if kept else str(site), "HERMES_VERIFY_OUT": str(out),
        "HERMES_VERIFY_STEPS": str(limits.steps), "HERMES_STANDIN_DEVICES": str(limits.devices),
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": environment.get("PYTHONHASHSEED", "0"),
    }  # fmt: skip


def _call(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> tuple[int | None, str]:
    """The exit code of a command (None after a timeout), and the end of its output."""
    process = start_session(
        list(command), cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        told, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        told, _ = process.communicate()
        return None, _tail(told)
    return process.returncode, _tail(told)


def _cause(out: Path, code: int | None) -> tuple[Cause | None, str]:
    """The cause that ended a program: of the causes that its processes recorded, the most certain first."""
    if not code:
        return ("timeout" if code is None else None), ""
    found = [tuple(line.partition(" ")[::2]) for line in _lines(out, "error.*")]
    causes: tuple[Cause, ...] = ("not_computed", "refused", "harness")
    for cause in causes:
        text = next((text for kind, text in found if kind == cause), None)
        if text is not None:
            return cause, text
    return "error", found[-1][1] if found else ""


def _lines(out: Path, pattern: str) -> tuple[str, ...]:
    lines = [line for path in sorted(out.glob(pattern)) for line in path.read_text("utf-8", "replace").splitlines()]
    return tuple(dict.fromkeys(lines))


def _tail(told: bytes) -> str:
    return "\n".join(told.decode(errors="replace").splitlines()[-_TAIL_LINES:])


def _numbers(out: Path, kind: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for path in sorted(out.glob("losses.*.txt")):
        rows = [line.split() for line in path.read_text().splitlines()]
        rank = path.name.removeprefix("losses.").removesuffix(".txt")
        found[rank] = [float.fromhex(row[1]) for row in rows if row[0] == kind]
    return found


def _site(site: Path, where: Where, target: Target) -> None:
    """Make a folder for PYTHONPATH with modules that torch loads by itself: the recorder of losses, and a stand-in."""
    source = resources.files("hermes.migrate").joinpath("standin")

    def put(name: str, target: str) -> None:
        path = site / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.joinpath(name).read_bytes())

    put("record.py", "hermes_record.py")
    _package(site, "hermes_record", "hermes_record")
    if where is Where.STAND_IN:
        put("split.py", "hermes_split.py")
        put("torch_npu.py", "torch_npu/__init__.py")
        put("npu_tensor.py", "torch_npu/npu_tensor.py")
        put("refuse.py", "torch_npu/refuse.py")
        put("load.py", "torch_npu/load.py")
        put("surface.json", "torch_npu/surface.json")
        put("shim.py", "torch_npu/contrib/transfer_to_npu.py")
        (site / "torch_npu" / "refusals.json").write_text(json.dumps(refusals(target)), encoding="utf-8")
        _package(site, "torch_npu", "torch_npu")
    elif where is Where.CPU:
        put("split.py", "hermes_split.py")
        put("baseline.py", "hermes_baseline.py")
        put("nothing.py", "torch_npu/__init__.py")
        put("nothing.py", "torch_npu/contrib/__init__.py")
        _package(site, "hermes_baseline", "hermes_baseline")


def _package(site: Path, name: str, module: str) -> None:
    folder = site / f"{name}-0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(_METADATA.format(name=name, version="0"), encoding="ascii")
    (folder / "entry_points.txt").write_text(_ENTRY.format(name=name, module=module), encoding="ascii")
