"""Coverage-guided fuzzing of a reader, from file to report: success or `HermesError`, anything else is a crash.

    python fuzz/fuzz_reader.py --reader ascend-text|ascend-db|kineto|rocpd|iterations [--keep FOLDER] [of libFuzzer]

An input is one byte that picks a file of a small modelled capture, and that file's content. A crash is written as
`crash-…`, which this script takes as an argument to run it again; `--keep` writes its capture as a folder then.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hermes"]):
    from hermes.base.errors import HermesError
    from hermes.profiles.load import load
    from hermes.profiles.pipeline.analyze import analyze
    from hermes.report.html import render_html
    from hermes.report.report_json import to_json
    from hermes.report.text import render_text
    from hermes.store.cache import Cache
    from hermes_testing import Job, generate
    from hermes_testing.iterations import write_iterations
    from hermes_testing.mutate import contradictions, mutate
    from hermes_testing.rocpd import write_rocpd

from rich.console import Console

_JOB = Job(ranks=2, steps=2, layers=1, level="Level1")
READERS = ("ascend-text", "ascend-db", "kineto", "rocpd", "iterations")
_LONGEST = 1 << 19
_BASE_S, _S_PER_BYTE = 20.0, 100e-6
"""Processor seconds that an input may take; the reader runs several times as long under instruments."""


def _write(folder: Path, reader: str) -> None:
    """The captures that a reader reads, of a modelled job."""
    if reader == "iterations":
        write_iterations(folder, _JOB)
    elif reader == "rocpd":
        traces = generate(folder.with_name("kineto"), _JOB, formats=["kineto"])
        folder.mkdir()
        write_rocpd(folder, sorted(traces.glob("*.pt.trace.json")))
    else:
        generate(folder, _JOB, formats=[reader])


class Target:
    """A capture in a folder of its own, one file of which is replaced for each input."""

    def __init__(self, reader: str) -> None:
        self.work = Path(tempfile.mkdtemp(prefix="hermes-fuzz-"))
        self.capture = self.work / "capture"
        _write(self.work / "made", reader)
        first = min(path for path in (self.work / "made").iterdir() if path.name != "truth.json")
        shutil.copytree(first, self.capture / first.name) if first.is_dir() else self._copy(first)
        self.files = sorted(path for path in self.capture.rglob("*") if path.is_file())
        self.seeds = [path.read_bytes() for path in self.files]

    def _copy(self, path: Path) -> None:
        self.capture.mkdir()
        shutil.copy(path, self.capture)

    def corpus(self) -> Path:
        """A folder with each file of the capture as an input."""
        folder = self.work / "corpus"
        folder.mkdir()
        for number, seed in enumerate(self.seeds):
            (folder / f"{number}").write_bytes(bytes([number]) + seed)
        return folder

    def run(self, data: bytes) -> None:
        """One input."""
        if not data:
            return
        place = data[0] % len(self.files)
        self.files[place].write_bytes(data[1:])
        begun = time.process_time()
        console = Console(file=(self.work / "out.txt").open("w", encoding="utf-8"), width=100)
        try:
            report = analyze(load([self.capture], Cache(self.work / "cache")))
            to_json(report)
            render_html(report)
            render_text(report, console)
            if wrong := contradictions(report):
                raise AssertionError("; ".join(wrong))
            if (took := time.process_time() - begun) > _BASE_S + _S_PER_BYTE * len(data):
                raise AssertionError(f"{took:.0f} s for {len(data)} bytes")
        except HermesError as error:
            if not error.where and not error.hint:
                raise AssertionError(f"a message without a place and without advice: {error}") from error
        finally:
            console.file.close()
            self.files[place].write_bytes(self.seeds[place])
            shutil.rmtree(self.work / "cache", ignore_errors=True)

    def change(self, data: bytes, longest: int, seed: int) -> bytes:
        """Our own harm to a file by its kind, or now and then what libFuzzer does to bytes."""
        chance = random.Random(seed)
        if not data:
            data = bytes([0]) + self.seeds[0]
        place, content = data[0] % len(self.files), data[1:]
        if chance.random() < 0.2:
            return bytes([place]) + atheris.Mutate(content, longest - 1)
        # Half of the inputs start from a whole file: harm on harm ends in rubbish.
        if chance.random() < 0.5:
            place = chance.choices(range(len(self.files)), [1 + len(seed) // 4_000 for seed in self.seeds])[0]
            content = self.seeds[place]
        return (bytes([place]) + mutate(self.files[place].name, content, chance))[:longest]


def main() -> None:
    """Parse our options, hand the rest to libFuzzer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", required=True, choices=READERS)
    parser.add_argument("--keep", type=Path, help="write the capture of a crash into this folder and stop")
    given, rest = parser.parse_known_args()
    target = Target(given.reader)
    if given.keep:
        data = Path(rest[-1]).read_bytes()
        target.files[data[0] % len(target.files)].write_bytes(data[1:])
        shutil.copytree(target.capture, given.keep)
        return
    fresh = [] if any(Path(one).is_file() for one in rest) else [str(target.corpus())]
    options = [f"-max_len={_LONGEST}", "-timeout=60", "-rss_limit_mb=4096", "-len_control=0", *rest, *fresh]
    atheris.Setup([sys.argv[0], *options], target.run, custom_mutator=target.change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
