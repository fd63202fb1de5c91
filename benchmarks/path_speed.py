"""Builds the dependency graph of a whole capture and walks its critical path; prints the times of both.

python benchmarks/path_speed.py PATH
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from hermes.profiles.load import load
from hermes.profiles.measure.path.graph import build
from hermes.profiles.measure.path.path import RankScene, covered, walk
from hermes.store.cache import Cache

TABLES = ("kernel", "comm_op", "host_op", "flow")
TOLD = "PATH "


def main(path: str, cache: str) -> int:
    """Measure graph and path without reading the profile, which other suites measure."""
    (rank,) = load([Path(path)], Cache(Path(cache))).ranks
    kernel, comm_op, host_op, flow = (rank.table(name) for name in TABLES)
    vendor = rank.table("rank")["vendor"][0]
    start = time.perf_counter()
    graph = build(vendor, kernel, comm_op, host_op, flow)
    built = time.perf_counter()
    first, last = int(graph.tasks.start.min()), int(graph.tasks.end.max())
    pieces = walk(RankScene(rank=rank.rank, graph=graph, arrivals={}), first, last)
    walked = time.perf_counter()
    told = {
        "events": kernel.height + comm_op.height + host_op.height,
        "build_s": built - start,
        "walk_s": walked - built,
        "pieces": len(pieces),
    }
    print(TOLD + json.dumps(told))
    return 0 if covered(pieces) == last - first else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
