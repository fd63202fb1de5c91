"""Measures with two real ranks over a slow link whether advised gradient buckets give the gain that whatif predicts.

    python benchmarks/bucket_change.py --python PYTHON [--rate 1600mbit] [--pairs 3] [--page]

PYTHON has torch. The ranks train with DistributedDataParallel over gloo, in a network of their own whose loopback `tc`
slows down. So sending leaves the cores to the computation, as a device's links do. Setting this up needs root. The job
is profiled with bad buckets; then a model with the bad size and a model with the advised size train in turn, step by
step, without a profiler.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from hermes.profiles.api import communication_plan, load, outlined
from hermes.store.cache import Cache
from hermes_testing.markdown import replace_block, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
TRAINS = Path(__file__).resolve().parent / "programs" / "buckets.py"
BAD_MB = 24
_PATIENCE_S = 300
_TRIES = 4
"""Largest number of tries: on a busy machine steps may differ so much that whatif advises nothing."""


def main() -> int:
    """Profile the job, ask whatif, measure both sizes; 0 when the measured gain lies in the predicted range."""
    given = _parser().parse_args()
    for tried in range(1, _TRIES + 1):
        with tempfile.TemporaryDirectory() as folder:
            (profiled,) = _run(given, str(BAD_MB), folder)
            loaded = load([Path(folder)], Cache(Path(folder) / "tables"))
            found = communication_plan(loaded, outlined(loaded))
        if found.plan is not None:
            break
        sys.stdout.write(
            f"profile {tried}: no size is advised: {found.why}, likely gain {found.gain_ns / 1e6:.1f} ms\n"
        )
    else:
        return 1
    plan = found.plan
    assert plan is not None
    before: list[float] = []
    after: list[float] = []
    for _ in range(given.pairs):
        bad, advised = _run(given, f"{BAD_MB},{plan.cap_mb}", "-")
        before.append(bad)
        after.append(advised)
    won = median(bad - advised for bad, advised in zip(before, after, strict=True))
    held = plan.low_ns / 1e6 <= won <= plan.high_ns / 1e6
    text = table(
        ("what", "ms"),
        [
            (f"step with bucket_cap_mb={BAD_MB}, profiled", f"{profiled:.0f}"),
            ("the same without a profiler, each run", ", ".join(f"{one:.0f}" for one in before)),
            (f"with the advised bucket_cap_mb={plan.cap_mb}, each run", ", ".join(f"{one:.0f}" for one in after)),
            ("predicted gain", f"{plan.low_ns / 1e6:.0f} to {plan.high_ns / 1e6:.0f}"),
            ("measured gain, the median of the runs", f"{won:.0f}{'' if held else ' (outside)'}"),
        ],
    )
    cores, busy = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    text += f"\n\n{cores} cores at a load of {busy:.1f}, link of {given.rate}; "
    text += f"profile {tried} of {_TRIES} was the first that told a size."
    sys.stdout.write(text + "\n")
    if given.page:
        PAGE.write_text(replace_block(PAGE.read_text("utf-8"), "bucket change", text), "utf-8")
    return 0 if held else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--python", required=True, help="a Python with torch")
    parser.add_argument("--rate", default="1600mbit", help="of the link, as tc has it (1600mbit)")
    parser.add_argument("--pairs", type=int, default=3, help="how often both are measured (3)")
    parser.add_argument("--page", action="store_true", help="write the table into docs/benchmarks.md")
    return parser


def _run(given: argparse.Namespace, caps_mb: str, out: str) -> list[float]:
    """The median steps in milliseconds of rank 0, for bucket sizes in turn; profiles are written into a folder if one
    is given."""
    shape = f"ip link set lo up; tc qdisc add dev lo root tbf rate {given.rate} burst 256kb latency 400ms; "
    train = f"exec {given.python} -m torch.distributed.run --nproc-per-node 2 {TRAINS} {caps_mb} {out}"
    command = ["unshare", "--net", "sh", "-c", shape + train]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    said = next(line for line in done.stdout.splitlines() if line.startswith("median "))
    return [float(one) for one in said.split()[1:]]


if __name__ == "__main__":
    sys.exit(main())
