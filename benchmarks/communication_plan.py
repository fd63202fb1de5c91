"""Tests on random jobs with bad communication whether the step comes out as `hermes whatif --search` predicts.

    python benchmarks/communication_plan.py [--sharded] [--jobs 50] [--first 0] [--rows FILE] [--page]

A job has 8 or 64 ranks, data-parallel alone or with tensor-parallel ranks or stages, and noise of 2 to 6%. Buckets are
far too large, or so small that the latency of each counts. The job is written, read and searched like a user's job. The
size that the plan chose goes into the generator, which simulates the job again without the replay. Buckets are bad if
one of three other sizes makes the simulated step shorter by 3%; other draws are thrown away.

With --sharded, parameters lie in units on the data-parallel ranks, data-parallel alone or with tensor-parallel ranks.
In two of four jobs gathers are launched late, in one job units are so small that the latency of each counts. One of
three other layouts then makes the simulated step shorter by 3%. One of four jobs gathers ahead already, whatever gain
other layouts give.

Rows are kept in FILE, one a line, so an interrupted run can go on. No times are measured here.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes.profiles.api import communication_plan as plan_of
from hermes.profiles.api import load, outlined
from hermes.store.cache import Cache
from hermes_testing import Job, as_written, generate, simulate
from hermes_testing.generate import Format
from hermes_testing.markdown import replace_block, table
from hermes_testing.truth import step_ns

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
FORMS: tuple[Format, ...] = ("ascend-text", "ascend-db", "kineto")
LAYOUTS = ((1, 1), (1, 1), (2, 1), (1, 2))
OTHERS_MB = (4, 25, 100)
BAD = 0.03
"""A job has bad communication if one of these sizes or layouts makes the simulated step shorter by this share."""
PAD = 0.02
"""Layouts whose simulated steps differ by less than this share are equally good."""
OTHER_LAYOUTS = ((1, 1, 1), (0, 1, 1), (1, 1, 2))
"""Number of units that are launched earlier in forward and in backward, and number of units that are merged into
one."""
_KINDS = ("late", "late", "small", "well")
WIDEST, ASKED = 0.1, 0.8
Row = dict[str, Any]


def main() -> int:
    """Run the jobs that are not in the rows yet, and print or write the table; 0 when all goals are met."""
    given = _parser().parse_args()
    kind, block = ("units", "unit plan") if given.sharded else ("bad buckets", "communication plan")
    wanted = [f"{kind} {at}" for at in range(given.first, given.first + given.jobs)]
    rows = {row["name"]: row for row in _read(given.rows)}
    with given.rows.open("a", encoding="utf-8") as out:
        for name in wanted:
            if name not in rows:
                rows[name] = _unit_row(name) if given.sharded else _row(name)
                out.write(json.dumps(rows[name]) + "\n")
                out.flush()
    text, good = (unit_section if given.sharded else section)([rows[name] for name in wanted])
    sys.stdout.write(text + "\n")
    if given.page:
        PAGE.write_text(replace_block(PAGE.read_text("utf-8"), block, text), "utf-8")
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sharded", action="store_true", help="draw jobs whose parameters are sharded")
    parser.add_argument("--jobs", type=int, default=50, help="how many jobs (50)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first job (0)")
    parser.add_argument("--rows", type=Path, default=Path("communication_plan.jsonl"), help="where rows are kept")
    parser.add_argument("--page", action="store_true", help="write the table into docs/benchmarks.md")
    return parser


def _read(path: Path) -> Iterator[Row]:
    if path.exists():
        yield from (json.loads(line) for line in path.read_text("utf-8").splitlines() if line)


def drawn(name: str) -> tuple[Job, Format, int, int]:
    """A job with bad buckets, the format of its captures, its step, and its step with the best of some other sizes."""
    draw = random.Random(name)
    while True:
        job, form = _job(draw), draw.choice(FORMS)
        before = _step(job, form)
        best = min(_step(replace(job, bucket_kb=mb * 1_024), form) for mb in OTHERS_MB)
        if before - best >= BAD * before:
            return job, form, before, best


def _job(draw: random.Random) -> Job:
    ranks = draw.choice((8, 8, 8, 64))
    tp, pp = draw.choice(LAYOUTS)
    large = draw.random() < 0.6
    return Job(
        ranks=ranks, tp=tp, pp=pp, steps=4 if ranks == 8 else 3, layers=draw.choice((4, 8, 12)) if ranks == 8 else 4,
        hosts=max(1, ranks // 8) if draw.random() < 0.7 else max(2, ranks // 4), micro_batches=2 * (pp - 1),
        bucket_kb=draw.choice((150, 300, 600, 4_000)) * 1_024 if large else draw.choice((1, 16, 64, 1_024)),
        latency_us=draw.choice((0, 30, 100)) if large else draw.choice((500, 1_000, 2_000)),
        links=draw.choice((40, 60, 100)), noise=draw.randint(2, 6), seed=draw.randrange(10**6),
    )  # fmt: skip


def _row(name: str) -> Row:
    job, form, before, best = drawn(name)
    found = _found(job, form)
    about = _about(job, "ranks", "tp", "pp", "bucket_kb") | {
        "name": name, "form": form, "before_ns": before, "best_ns": best, "why": found.why,
    }  # fmt: skip
    if found.plan is None:
        return about
    plan = found.plan
    after = _step(replace(job, bucket_kb=plan.cap_mb * 1_024), form)
    return about | {
        "cap_mb": plan.cap_mb, "step_ns": plan.step_ns, "low_ns": plan.low_ns, "high_ns": plan.high_ns,
        "after_ns": after,
    }  # fmt: skip


def drawn_units(name: str) -> tuple[Job, Format, int, int]:
    """A job with sharded units, the format of its captures, its step, and its step with the best of some other
    layouts."""
    draw, kind = random.Random(name), _KINDS[int(name.rsplit(" ", 1)[1]) % len(_KINDS)]
    while True:
        job, form = _sharded(draw, kind), draw.choice(FORMS)
        before = _step(job, form)
        best = min(_step(_laid_out(job, *other), form) for other in OTHER_LAYOUTS)
        if kind == "well" or before - best >= BAD * before:
            return job, form, before, best


def _laid_out(job: Job, forward: int, backward: int, merged: int) -> Job:
    return replace(
        job, sharded=job.sharded * merged, prefetch=(job.prefetch[0] + forward, job.prefetch[1] + backward)
    )  # fmt: skip


def _sharded(draw: random.Random, kind: str) -> Job:
    ahead = ((0, 0), (0, 1), (1, 0)) if kind == "late" else ((1, 1),)
    return Job(
        ranks=draw.choice((4, 4, 8)), tp=draw.choice((1, 1, 2)), steps=4, hosts=draw.choice((1, 2)),
        layers=draw.choice((6, 8)) if kind == "small" else draw.choice((4, 5, 6)),
        sharded=1 if kind == "small" else draw.choice((1, 1, 2)), prefetch=draw.choice(ahead),
        latency_us=draw.choice((1_000, 2_000, 4_000)) if kind == "small" else draw.choice((0, 30, 100)),
        links=draw.choice((40, 60, 100)), noise=draw.randint(2, 6), seed=draw.randrange(10**6),
    )  # fmt: skip


def _unit_row(name: str) -> Row:
    job, form, before, best = drawn_units(name)
    found = _found(job, form)
    about = _about(job, "ranks", "tp", "sharded", "prefetch") | {
        "name": name, "form": form, "before_ns": before, "best_ns": best, "why": found.why,
    }  # fmt: skip
    plan = found.units
    if plan is None:
        return about
    layout = (plan.earlier_forward, plan.earlier_backward, plan.merged)
    return about | {
        "layout": layout, "step_ns": plan.step_ns, "low_ns": plan.low_ns, "high_ns": plan.high_ns,
        "after_ns": _step(_laid_out(job, *layout), form),
        "more_bytes": (plan.then.held_bytes or 0) - (plan.now.held_bytes or 0),
    }  # fmt: skip


def _about(job: Job, *fields: str) -> Row:
    return {name: getattr(job, name) for name in (*fields, "latency_us", "links")}


def _found(job: Job, form: Format) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        made = generate(Path(folder) / "job", job, formats=[form], truth=False)
        loaded = load([made], Cache(Path(folder) / "tables"))
        return plan_of(loaded, outlined(loaded))


def _step(job: Job, form: Format) -> int:
    return step_ns(simulate(as_written(job, [form])).profiles)


def held(row: Row) -> bool:
    """Whether a size is advised, and the step comes out within the predicted range, which must be narrow."""
    if "after_ns" not in row:
        return False
    low, high = row["step_ns"] - row["high_ns"], row["step_ns"] - row["low_ns"]
    return bool(low <= row["after_ns"] <= high and high - low <= WIDEST * row["step_ns"])


def section(rows: Sequence[Row]) -> tuple[str, bool]:
    """The text of the page for bucket sizes, and whether the goals are met."""
    advised = [row for row in rows if "cap_mb" in row]
    good = sum(map(held, advised))
    slower = [row for row in advised if row["after_ns"] > row["before_ns"]]
    near = [row for row in advised if row["after_ns"] - row["best_ns"] <= 0.01 * row["before_ns"]]
    goals = table(("what", "jobs", "goal"), [
        ("a size is advised, and the step lies in its range", f"{good} of {len(rows)}", f"{ASKED:.0%}"),
        ("the size is as good as the best of 4, 25 and 100 MB, to 1% of the step",
         f"{len(near)} of {len(advised)}", "none"),
        ("slower than before", str(len(slower)), "0"),
    ])  # fmt: skip
    lines = table(
        ("job", "ranks", "tp, pp", "buckets", "latency", "step before", "advised", "predicted", "simulated", "in it"),
        [_line(row) for row in rows],
    )
    return f"{goals}\n\n{lines}", good >= ASKED * len(rows) and not slower


def unit_section(rows: Sequence[Row]) -> tuple[str, bool]:
    """The text of the page for jobs with sharded parameters, and whether the goals are met."""
    bad = [row for row in rows if row["before_ns"] - row["best_ns"] >= BAD * row["before_ns"]]
    well = [row for row in rows if row not in bad]
    advised = [row for row in rows if "after_ns" in row]
    good = sum(map(held, bad))
    slower = [row for row in advised if row["after_ns"] > row["before_ns"]]
    near = [row for row in advised if row["after_ns"] - row["best_ns"] <= PAD * row["before_ns"]]
    goals = table(("what", "jobs", "goal"), [
        ("sends badly, gets advice, and the step lies in its range", f"{good} of {len(bad)}", f"{ASKED:.0%}"),
        ("sends well, and gets none or advice whose step lies in its range",
         f"{sum(held(row) or 'after_ns' not in row for row in well)} of {len(well)}", "all"),
        ("the advice is as good as the best of three layouts, to 2% of the step",
         f"{len(near)} of {len(advised)}", "none"),
        ("slower than before", str(len(slower)), "0"),
    ])  # fmt: skip
    lines = table(
        ("job", "ranks, tp", "layers a unit", "ahead", "latency", "step before", "advised", "more memory", "predicted",
         "simulated", "in it"),
        [_unit_line(row) for row in rows],
    )  # fmt: skip
    return f"{goals}\n\n{lines}", good >= ASKED * len(bad) and not slower


def _unit_line(row: Row) -> tuple[str, ...]:
    head = (
        row["name"].rsplit(" ", 1)[1] + f", {row['form']}", f"{row['ranks']}, {row['tp']}", str(row["sharded"]),
        "{}, {}".format(*row["prefetch"]), f"{row['latency_us']} us", f"{row['before_ns'] / 1e6:.1f} ms",
    )  # fmt: skip
    if "after_ns" not in row:
        bad = row["before_ns"] - row["best_ns"] >= BAD * row["before_ns"]
        said = "**no**" if bad else "-"
        return (*head, f"nothing ({row['why']})", "-", "-", f"{row['best_ns'] / 1e6:.1f} ms at best", said)
    said = "yes" if held(row) else "**no**"
    forward, backward, merged = row["layout"]
    told = f"{forward}, {backward} earlier" + (f", {merged} make one" if merged > 1 else "")
    low, high = (row["step_ns"] - row["high_ns"]) / 1e6, (row["step_ns"] - row["low_ns"]) / 1e6
    return (
        *head, told, f"{row['more_bytes'] / 2**20:.0f} MB", f"{low:.1f} to {high:.1f} ms",
        f"{row['after_ns'] / 1e6:.1f} ms", said,
    )  # fmt: skip


def _line(row: Row) -> tuple[str, ...]:
    head = (
        row["name"].rsplit(" ", 1)[1] + f", {row['form']}", str(row["ranks"]), f"{row['tp']}, {row['pp']}",
        f"{row['bucket_kb'] / 1_024:g} MB", f"{row['latency_us']} us", f"{row['before_ns'] / 1e6:.1f} ms",
    )  # fmt: skip
    said = "yes" if held(row) else "**no**"
    if "cap_mb" not in row:
        return (*head, f"nothing ({row['why']})", "-", f"{row['best_ns'] / 1e6:.1f} ms at best", said)
    low, high = (row["step_ns"] - row["high_ns"]) / 1e6, (row["step_ns"] - row["low_ns"]) / 1e6
    return (*head, f"{row['cap_mb']} MB", f"{low:.1f} to {high:.1f} ms", f"{row['after_ns'] / 1e6:.1f} ms", said)


if __name__ == "__main__":
    sys.exit(main())
