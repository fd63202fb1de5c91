"""A Ray cluster on hosts apart: one is killed, its ranks are read elsewhere, and the report is the serial one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.hosts.ray_nodes import NODES, cluster, needs
from tests.patience import until
from tests.skips import needs_root

from hermes_testing import Job, generate

pytestmark = [pytest.mark.live, needs_root, pytest.mark.slow]


def test_a_host_killed_under_a_cluster_loses_no_rank(tmp_path: Path) -> None:
    needs("ray", "s3fs", "moto", "flask", "boto3")
    job = generate(tmp_path / "job", Job(ranks=12, steps=1, layers=1, hosts=3), formats=["ascend-db"], truth=False)
    with cluster(tmp_path / "lab", job) as made:
        found, killed = made.analyzed(kill=True)
        # The killed host had read ranks into a cache that nobody else can see.
        assert made.cached(killed) > 0
        assert found == made.serially()
        until(lambda: made.alive() == NODES - 1, 120)
