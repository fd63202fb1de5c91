"""Makes the inputs of benchmarks outside the repository: large profiles from real ones, and modelled jobs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
ASCEND_REPEATS = 132
KINETO_MB = 520


class MissingError(Exception):
    """A suite cannot run on this machine; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The places of the inputs; `say` gets messages about slow steps. `given` replaces inputs by name."""

    folder: Path
    given: dict[str, Path]
    say: Callable[[str], None]

    def ascend(self) -> Path:
        """A profile of one rank as Ascend text: a trace of 309 MB with 1.37 million events, 132 steps."""
        source = SHARED / "data/ascend/alexnet_text_level2/rank0_ascend_pt"
        tail = ("--repeat", str(ASCEND_REPEATS))
        return self._repeated("ascend", "rank0_ascend_pt", "make_big_ascend.py", source, tail)

    def kineto_ns(self) -> Path:
        """A Kineto trace of one rank on an H100, 520 MB, with times in nanoseconds."""
        return self._kineto("kineto", "h100_qwen1.5-0.5b.json.gz")

    def kineto_us(self) -> Path:
        """A Kineto trace of one rank on a V100, 520 MB, with times in whole microseconds."""
        return self._kineto("kineto-us", "v100_resnet50_num_workers_0.json.gz")

    def modelled(self, form: str, *, ranks: int, steps: int) -> Path:
        """A folder with the profiles of a modelled job in one format."""
        options = ("--ranks", str(ranks), "--steps", str(steps), "--format", form)
        return self._made(f"{form}-{ranks}x{steps}", "", ("-m", "hermes_testing"), options)

    def _kineto(self, name: str, source: str) -> Path:
        tail = ("--target-mb", str(KINETO_MB))
        return self._repeated(name, "rank0.pt.trace.json", "make_big_kineto.py", SHARED / "data/kineto" / source, tail)

    def _repeated(self, name: str, below: str, tool: str, source: Path, tail: Sequence[str]) -> Path:
        if name in self.given:
            return self.given[name]
        maker = SHARED / "tools" / tool
        for needed in (maker, source):
            if not needed.exists():
                raise MissingError(f"{needed.name} is not in ../shared, and no input was given in its place")
        return self._made(name, below, (str(maker), str(source)), tail)

    def _made(self, name: str, below: str, maker: Sequence[str], tail: Sequence[str]) -> Path:
        """The output of `python MAKER… TARGET TAIL…`; moved into place only when complete, so no half input is
        measured."""
        done = self.folder / name
        if not done.exists():
            self.say(f"making the input {name}")
            aside = self.folder / f"{name}.partial"
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            # In a separate process: a large harness would add its size to every measured command.
            command = [sys.executable, "-I", *maker, str(aside / below), *tail]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            aside.rename(done)
        return done / below


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def warm(path: Path) -> None:
    """Read the input once, so that the first measured command does not alone pay for the disk."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            with file.open("rb") as stream:
                while stream.read(1 << 20):
                    pass
