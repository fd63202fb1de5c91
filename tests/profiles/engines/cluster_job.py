"""Run by tests in a process of its own: a Ray cluster of three nodes on this machine, one of which is killed.

`cluster_job.py FOLDER PATH` analyses a path (a folder or a URL) on the cluster and writes the report to FOLDER. The
third node is killed as soon as the first rank is in the cache.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path


def main(place: Path, path: str) -> None:
    """Analyse, with a node killed in the middle."""
    os.environ["HERMES_CACHE_DIR"] = str(place / "cache")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # A busy machine takes its time to start a node.
    os.environ.update({"RAY_raylet_start_wait_time_s": "300"})
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    killed = threading.Event()

    def kill() -> None:
        while not list((place / "cache" / "tables").glob("*/*/manifest.json")):
            time.sleep(0.02)
        cluster.remove_node(nodes[1], allow_graceful=False)
        killed.set()

    threading.Thread(target=kill, daemon=True).start()
    import hermes

    found = hermes.analyze(path, engine="ray")
    killed.wait(60)
    # The head notices a dead node by its missing answers, which takes a while.
    patience = time.monotonic() + 60
    while sum(one["Alive"] for one in ray.nodes()) == 3 and time.monotonic() < patience:
        time.sleep(0.2)
    (place / "report.json").write_text(found.to_json(), "utf-8")
    (place / "told.txt").write_text(
        f"killed {killed.is_set()} nodes {sum(one['Alive'] for one in ray.nodes())}", "utf-8"
    )
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
