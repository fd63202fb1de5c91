"""Runs a converted program for a few steps on an NPU, or on the stand-in for one, and compares its losses."""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from hermes.base.errors import InputError

_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
_ENTRY = "[torch.backends]\n{name} = {module}:_autoload\n"
_TAIL_LINES = 25
STAND_IN = "stand-in for torch_npu"
# What glibc writes into memory that a program takes is 255 less this: each number is then small, and none is NaN.
_FILL = 254


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the program. `losses` are by rank, in the order of the steps; `weights` a sum of all after each."""

    command: Sequence[str]
    where: str
    code: int
    seconds: float
    losses: Mapping[str, Sequence[float]]
    weights: Mapping[str, Sequence[float]]
    output_tail: str

    @property
    def failed(self) -> bool:
        """Whether the program ended by an error."""
        return self.code != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first step of a rank at which the two runs differ, in `what`: loss or weights."""

    what: str
    rank: str
    step: int
    original: float
    converted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What further runs showed, where the losses of both programs differ.

    `original` and `converted` are the first differences between two runs of that program alone. `memory` says whether
    the original computes something else once fresh memory is filled, so that it reads what nobody wrote; then
    `filled` compares both programs with fresh memory filled alike, over `steps` losses.
    """

    original: Sequence[Difference]
    converted: Sequence[Difference] = ()
    memory: bool = False
    filled: Sequence[Difference] = ()
    steps: int = 0

    @property
    def same(self) -> bool:
        """Whether both programs give the same, with fresh memory filled alike."""
        return self.steps > 0 and not self.filled


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of it. `original` is None where it was not run, `again` where nothing had to be asked again."""

    converted: Run
    original: Run | None
    on_npu: bool
    differences: Sequence[Difference]
    steps: int
    again: Again | None = None

    @property
    def same(self) -> bool:
        """Whether every loss is the same, bit by bit; with fresh memory filled alike, if the program reads it."""
        if self.original is None or self.steps == 0:
            return False
        return not self.differences or (self.again is not None and self.again.same)

    @property
    def on_stand_in(self) -> bool:
        """Whether the converted program ran on the stand-in for torch_npu."""
        return self.converted.where == STAND_IN

    @property
    def repeats(self) -> bool:
        """Whether two runs of the same program gave the same, as far as was asked."""
        return self.again is None or not (self.again.original or self.again.converted)

    @property
    def passed(self) -> bool:
        """Whether the converted program ran, and gave the original's losses where these are known."""
        if self.converted.failed or self.steps == 0:
            return False
        return self.original is None or (not self.original.failed and (self.same or self.on_npu))


def has_npu() -> bool:
    """Whether torch_npu is installed here and a device answers."""
    return importlib.util.find_spec("torch_npu") is not None and any(Path("/dev").glob("davinci[0-9]*"))


def verify(
    converted: Path, original: Path | None, command: Sequence[str], *, steps: int, devices: int, timeout_s: float,
    original_command: Sequence[str] | None = None, as_is: bool = False,
) -> Verdict:  # fmt: skip
    """Run `command` in the converted tree and in the original one, and compare the losses of the first steps.

    Without an NPU the converted program runs on the stand-in. The original runs on the CPU, where `cuda` means the CPU;
    with `original_command` it runs as it is, by that command. With `as_is` both run on what this machine has.
    """
    if not command:
        raise InputError("no command to run", hint="hermes migrate verify PATH -- python train.py …")
    _needs_torch(command)
    npu = has_npu() and not as_is
    by = original_command or (command if as_is else [_for_cuda(word) for word in command])
    how = None if original_command or as_is else "baseline"
    stand_in = None if npu or as_is else "npu"
    with tempfile.TemporaryDirectory(prefix="hermes-verify-") as folder:
        limits = _Limits(
            work=Path(folder), steps=steps, devices=devices, timeout_s=timeout_s, compiles=npu or as_is
        )  # fmt: skip

        def run_converted(filled: bool = False) -> Run:
            return _run(converted, command, stand_in, limits, filled=filled)

        def run_original(filled: bool = False) -> Run:
            return _run(original or converted, by, how, limits, filled=filled)

        after = run_converted()
        before = run_original() if original is not None else None
        differences, compared = compare(before, after)
        again = None
        if before is not None and differences and compared and not (npu or before.failed or after.failed):
            again = ask_again(before, after, run_original, run_converted)
    return Verdict(converted=after, original=before, on_npu=npu, differences=differences, steps=compared, again=again)


def ask_again(before: Run, after: Run, run_original: Callable[[bool], Run],
              run_converted: Callable[[bool], Run]) -> Again:  # fmt: skip
    """Whether it is the conversion that made the losses differ: run each program again, and with fresh memory filled.

    Threads that race, and reading memory that nobody wrote, make two runs of one program differ.
    """
    own, _ = compare(before, run_original(False))
    filled_before = run_original(True)
    memory = bool(compare(before, filled_before)[0]) and not own
    if not own and not memory:
        return Again(original=(), converted=compare(after, run_converted(False))[0])
    filled_after = run_converted(True)
    if filled_before.failed or filled_after.failed:
        return Again(original=own, memory=memory)
    differences, steps = compare(filled_before, filled_after)
    return Again(original=own, memory=memory, filled=differences, steps=steps)


def _for_cuda(word: str) -> str:
    """An argument of the converted program as the original takes it: `--device=npu` is `--device=cuda`."""
    name, separator, value = word.rpartition("=")
    if value == "npu" or value.startswith("npu:"):
        return f"{name}{separator}cuda{value[3:]}"
    return f"{name}{separator}nccl" if value == "hccl" else word


def compare(original: Run | None, converted: Run) -> tuple[list[Difference], int]:
    """The first difference of each rank, and how many steps were compared (or seen, where there is no original)."""
    if original is None:
        return [], sum(len(losses) for losses in converted.losses.values())
    differences: list[Difference] = []
    for what, before, after in (
        ("loss", original.losses, converted.losses),
        ("weights", original.weights, converted.weights),
    ):
        for rank in sorted({*before, *after}):
            found = _first(what, rank, before.get(rank, ()), after.get(rank, ()))
            differences += [found] if found else []
    return differences, sum(min(len(one), len(converted.losses.get(rank, ()))) for rank, one in original.losses.items())


def _first(what: str, rank: str, before: Sequence[float], after: Sequence[float]) -> Difference | None:
    for step in range(max(len(before), len(after))):
        old = before[step] if step < len(before) else math.nan
        new = after[step] if step < len(after) else math.nan
        both_nan = step < min(len(before), len(after)) and math.isnan(old) and math.isnan(new)
        # As text, so that 0.0 and -0.0 differ too.
        if old.hex() != new.hex() or (math.isnan(old) and not both_nan):
            return Difference(what=what, rank=rank, step=step, original=old, converted=new)
    return None


def _needs_torch(command: Sequence[str]) -> None:
    if shutil.which(command[0]) is None:
        raise InputError(f"there is no program {command[0]!r}", hint="name the Python that has torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """What holds for all runs: a folder for files, steps, devices, seconds, and whether torch.compile compiles."""

    work: Path
    steps: int
    devices: int
    timeout_s: float
    compiles: bool


def _run(tree: Path, command: Sequence[str], stand_in: str | None, limits: _Limits, *, filled: bool) -> Run:
    work = Path(tempfile.mkdtemp(dir=limits.work))
    site, out = work / "site", work / "losses"
    out.mkdir(parents=True)
    _site(site, stand_in)
    environment = dict(os.environ)
    kept = environment.get("PYTHONPATH", "")
    environment |= {
        "PYTHONPATH": f"{site}{os.pathsep}{kept}" if kept else str(site), "HERMES_VERIFY_OUT": str(out),
        "HERMES_VERIFY_STEPS": str(limits.steps), "HERMES_STANDIN_DEVICES": str(limits.devices),
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": environment.get("PYTHONHASHSEED", "0"),
    }  # fmt: skip
    if stand_in is not None or not limits.compiles:
        # What a compiler makes of a program rounds in its own way, and there is none for the stand-in.
        environment["TORCH_COMPILE_DISABLE"] = "1"
    if filled:
        environment["GLIBC_TUNABLES"] = f"glibc.malloc.perturb={_FILL}:glibc.malloc.tcache_count=0"
    begin = time.monotonic()
    code, told = _call(command, tree if tree.is_dir() else tree.parent, environment, limits.timeout_s)
    if (out / "ended").exists():  # by the recorder, after all steps
        code = 0
    return Run(
        command=tuple(command),
        where={"npu": STAND_IN, "baseline": "CPU"}.get(stand_in or "", "as it is"),
        code=code, seconds=time.monotonic() - begin, losses=_numbers(out, "loss"), weights=_numbers(out, "weights"),
        output_tail=told,
    )  # fmt: skip


def _call(command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    process = subprocess.Popen(
        list(command), cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        told, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        told, _ = process.communicate()
        return 124, f"{_tail(told)}\nended after {timeout_s:.0f} s"
    return process.returncode, _tail(told)


def _tail(told: bytes) -> str:
    return "\n".join(told.decode(errors="replace").splitlines()[-_TAIL_LINES:])


def _numbers(out: Path, kind: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for path in sorted(out.glob("losses.*.txt")):
        rows = [line.split() for line in path.read_text().splitlines()]
        rank = path.name.removeprefix("losses.").removesuffix(".txt")
        found[rank] = [float.fromhex(row[1]) for row in rows if row[0] == kind]
    return found


def _site(site: Path, stand_in: str | None) -> None:
    """A folder for PYTHONPATH with what torch loads by itself: the recorder of losses, and a stand-in."""
    source = resources.files("hermes.migrate").joinpath("standin")

    def put(name: str, target: str) -> None:
        path = site / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.joinpath(name).read_bytes())

    if stand_in is not None:
        put("split.py", "hermes_split.py")
    if stand_in == "npu":
        put("torch_npu.py", "torch_npu/__init__.py")
        put("npu_tensor.py", "torch_npu/npu_tensor.py")
        put("surface.json", "torch_npu/surface.json")
        put("shim.py", "torch_npu/contrib/transfer_to_npu.py")
        _package(site, "torch_npu", "torch_npu")
    elif stand_in == "baseline":
        put("baseline.py", "hermes_baseline.py")
        _package(site, "hermes_baseline", "hermes_baseline")
    put("record.py", "hermes_record.py")
    _package(site, "hermes_record", "hermes_record")


def _package(site: Path, name: str, module: str) -> None:
    folder = site / f"{name}-0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(_METADATA.format(name=name, version="0"), encoding="ascii")
    (folder / "entry_points.txt").write_text(_ENTRY.format(name=name, module=module), encoding="ascii")
