"""Measures how the analysis grows with ranks: reading on one and two processes, and reducing modelled ranks' measures.

`python benchmarks/scale.py reduce 1 64 1024` measures 16 modelled ranks once, relabels their messages as the given
number of ranks (copies of the job beside each other, with one group over all of them), and reduces these, each size in
a process of its own. `python benchmarks/scale.py map` measures 64 modelled ranks on one process and on two, in turn.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path

import polars as pl

from hermes.base.number_ranges import packed
from hermes.cli import COLLECTED_AFTER
from hermes.model.compute_measures import OperatorCost
from hermes.profiles.engines.choose import engine_of
from hermes.profiles.load import load
from hermes.profiles.measure.communication.last_arrivals import identity
from hermes.profiles.pipeline import analyze as pipeline
from hermes.profiles.pipeline.analyze import analyze
from hermes.profiles.pipeline.combine_ranks import combine
from hermes.profiles.pipeline.coverage import certainty, coverage
from hermes.profiles.pipeline.job_leaves import job_path
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.rank_exchange import RankExchange
from hermes.profiles.pipeline.rank_measures import RankMeasures
from hermes.profiles.pipeline.rank_outline import RankOutline
from hermes.profiles.tree.attainable_gain import AttainableGain
from hermes.profiles.tree.leaves_of_job import job_tree
from hermes.store.cache import Cache
from hermes.store.serialize_rows import dumps, loads
from hermes_testing import Job, generate

JOBS = {
    "map": Job(ranks=64, steps=4, tp=4, pp=4, layers=8, hosts=8),
    "reduce": Job(ranks=16, steps=4, tp=4, pp=2, layers=8, hosts=2),
}
SIZES = (1, 8, 64, 256, 1_024, 4_096)
Sent = tuple[RankOutline, RankMeasures, RankExchange]


def sent(job: Path, cache: Path) -> list[bytes]:
    """The messages of each rank of a modelled job, in order: its outline, its measures, its exchange."""
    loaded = load([job], Cache(cache))
    with engine_of() as engine:
        met = pipeline.outlined(loaded, engine)
        measured, exchanged = pipeline._second_round(loaded, met, engine)
    outlines = [pipeline.outline_of(rank) for rank in loaded.ranks]
    return [dumps(part) for one in zip(outlines, measured, exchanged, strict=True) for part in one]


def simulated(told: list[bytes], ranks: int) -> Iterator[Sent]:
    """Messages of `ranks` ranks: copies of the job side by side, with the largest group of each joined into one of all
    ranks."""
    for number in range(ranks):
        copy, place = divmod(number, len(told) // 3)
        outline, measured, exchanged = map(loads, told[3 * place : 3 * place + 3])
        yield _moved((outline, measured, exchanged), copy * (len(told) // 3), ranks)


def _moved(one: Sent, by: int, ranks: int) -> Sent:
    outline, measured, exchanged = one
    names: dict[str, str] = {}
    groups = []
    largest = max((group.size or 0 for group in outline.groups), default=0)
    for group in outline.groups:
        whole = group.size == largest
        members = (
            packed(range(ranks)) if whole else tuple((first + by, n, step) for first, n, step in group.members or ())
        )
        name = identity("world", tuple(range(ranks))) if whole else f"{group.identity} of {by}"
        names[group.identity] = name
        groups.append(replace(group, identity=name, members=members, size=ranks if whole else group.size))
    rank = outline.rank + by
    renamed = pl.col("group").replace(names)
    splits = tuple(replace(split, rank=rank) for split in outline.splits)
    operations = outline.operations.with_columns(renamed, pl.col("peer") + by)
    host = f"{outline.input.host} {by}"
    moved = replace(
        outline, rank=rank, input=replace(outline.input, rank=rank, host=host), groups=tuple(groups), splits=splits,
        operations=operations, world_size=ranks, late=outline.late.with_columns(pl.col("late") + by),
    )  # fmt: skip
    rows = tuple(_row(row, rank, by) for row in measured.rows)
    told = replace(
        exchanged,
        rank=rank,
        sums=_shifted(exchanged.sums, by),
        reported=_shifted(exchanged.reported, by),
        traffic=exchanged.traffic.with_columns(renamed) if exchanged.traffic is not None else None,
        wait=replace(exchanged.wait, rank=rank) if exchanged.wait else None,
        leaves=tuple(
            replace(row, rank=rank, awaited=None if row.awaited is None else row.awaited + by)
            for row in exchanged.leaves
        ),
        idle=tuple(replace(row, rank=rank) for row in exchanged.idle),
    )
    return moved, replace(measured, rank=rank, rows=rows), told


def _shifted(rows: pl.DataFrame | None, by: int) -> pl.DataFrame | None:
    return rows.with_columns(pl.col("rank") + by, pl.col("peer_rank") + by) if rows is not None else None


def _row(row: object, rank: int, by: int) -> object:
    moved = {name: value for name, value in (("rank", rank), ("ranks", (rank,))) if hasattr(row, name)}
    if hasattr(row, "peer"):
        moved["peer"] = row.peer + by
    return replace(row, **moved) if is_dataclass(row) and not isinstance(row, type) else row


def reduced(ranks: int, kept: Path) -> dict[str, float]:
    """Time and memory of the reduce alone, in this process, with the garbage collector as in the command."""
    gc.set_threshold(*COLLECTED_AFTER)
    told = [bytes(line) for line in kept.read_bytes().split(b"\n") if line]
    # As in the pipeline, the messages of the first round are released before the second comes.
    outlines = [outline for outline, _, _ in simulated(told, ranks)]
    begin, busy = time.perf_counter(), time.process_time()
    job = JobOutline(outlines)
    job.given()
    first, met = time.perf_counter() - begin, time.process_time() - busy
    del outlines
    measured, exchanged = [], []
    for _, own, beside in simulated(told, ranks):
        measured.append(own)
        exchanged.append(beside)
    before = _resident_mb()
    begin, busy = time.perf_counter(), time.process_time()
    notes = list(job.doubts)
    path = job_path(job, exchanged)
    followed = time.process_time() - busy
    found = combine(job, measured, exchanged, certainty(coverage(job, notes), notes))
    combined = time.process_time()
    job_tree(path, AttainableGain(found.rows(OperatorCost), 0.8))
    return {
        "of_it_path": followed,
        "of_it_tree": time.process_time() - combined,
        "ranks": ranks,
        "seconds": first + time.perf_counter() - begin,
        "cpu_seconds": met + time.process_time() - busy,
        "of_it_meeting": met,
        "before_mb": before,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "largest_kb": max(len(a) + len(b) + len(c) for a, b, c in zip(*[iter(told)] * 3, strict=True)) / 1e3,
    }


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize() / 1e6


def mapped(job: Path, repeats: int) -> None:
    """Measure the whole analysis of the modelled ranks, from files, on one process and on two."""
    times: dict[str, list[float]] = {"processes of one core": [], "of two": []}
    for turn in range(repeats):
        for name, jobs in (("processes of one core", 1), ("of two", 2)):
            folder = Path(tempfile.mkdtemp())
            begin = time.perf_counter()
            with engine_of("processes", jobs) as engine:
                analyze(load([job], Cache(folder), engine=engine), engine=engine)
            times[name].append(time.perf_counter() - begin)
            print(f"turn {turn}: {name} {times[name][-1]:.2f} s", flush=True)
            shutil.rmtree(folder)
    one, two = (statistics.median(own) for own in times.values())
    pairs = [first / second for first, second in zip(*times.values(), strict=True)]
    print(
        f"two processes are {one / two:.2f} times as fast as one (medians); pairs: {[round(pair, 2) for pair in pairs]}"
    )


def main() -> None:
    """Run `reduce` or `map`, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["map", "reduce", "reduce-one"])
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache/hermes-bench/scale")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    kept = given.work / "sent.jsonl"
    if given.what == "reduce-one":
        print(json.dumps(reduced(given.sizes[0], kept)))
        return
    modelled = JOBS[given.what]
    job = given.work / f"job{modelled.ranks}"
    if not job.exists():
        aside = generate(given.work / f"making{modelled.ranks}", modelled, formats=["ascend-text"])
        aside.rename(job)
    if given.what == "map":
        mapped(job, given.repeats)
        return
    kept.write_bytes(b"\n".join(sent(job, given.work / "cache")))
    print("| ranks | reduce, s | CPU s | of it the tree | peak GB | of the ranks' measures, GB | ms a rank |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in given.sizes or SIZES:
        command = [sys.executable, __file__, "reduce-one", str(size), "--work", str(given.work)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        tree = row["of_it_path"] + row["of_it_tree"]
        print(
            f"| {size:,} | {row['seconds']:.2f} | {row['cpu_seconds']:.2f} | {tree:.2f} "
            f"| {row['peak_mb'] / 1e3:.2f} | {row['before_mb'] / 1e3:.2f} | {1e3 * row['cpu_seconds'] / size:.2f} |",
            flush=True,
        )
    print(f"the largest rank sends {row['largest_kb']:.0f} KB")


if __name__ == "__main__":
    main()
