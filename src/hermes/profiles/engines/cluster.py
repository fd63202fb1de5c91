"""A Ray cluster: each node reads the ranks that it is given, and what was measured of them comes back.

Nothing but paths and measures travels. A node that is lost takes no rank with it: what it had is done again elsewhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hermes.base.cores import cores
from hermes.base.errors import HermesError, InputError
from hermes.profiles.engines.engine import Engine, Given, Lost, Made, called

_TRIES = 4
"""A rank whose node was lost is done again elsewhere, so often in all."""
_IN_FLIGHT = 4
"""So many ranks for each core of the cluster are handed out at once: a result waits for nobody, and none is heavy."""


class Ray(Engine):
    """Calls functions on a cluster: the one at an address, or one that is running or is started on this machine."""

    def __init__(self, address: str = "", jobs: int | None = None) -> None:
        try:
            import ray
        except ImportError as missing:
            raise InputError(
                "Ray is not installed", where="--engine", hint="pip install 'hermes-perf[ray]'"
            ) from missing
        self._ray: Any = ray
        self._ours = not ray.is_initialized()
        if self._ours:
            with _away():
                self._join(address, jobs)

    def _join(self, address: str, jobs: int | None) -> None:
        # Ray sends usage statistics to its makers unless it is told not to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
        try:
            if address:
                self._ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            elif "RAY_ADDRESS" in os.environ:
                self._ray.init(log_to_driver=False, logging_level="ERROR")
            else:
                self._ray.init(num_cpus=jobs or cores(), **options)
        except (ConnectionError, RuntimeError, TimeoutError, OSError, ValueError) as refused:
            raise InputError(
                f"the cluster does not answer ({str(refused).splitlines()[0][:160]})",
                where=address or "ray",
                hint="give --engine ray://HOST:PORT of a cluster that runs",
            ) from refused

    @property
    def threads(self) -> int:
        """A rank takes one core of the cluster."""
        return 1

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | Lost]:
        """Ranks in any order, on any node; a rank whose node is lost is done again."""
        ray = self._ray
        # The tries are ours to count, so that a rank that was lost can be named.
        remote = ray.remote(num_cpus=1, max_retries=0)(_called)
        here = str(Path.cwd())
        tries = dict.fromkeys(given, 0)
        left = sorted(given, reverse=True)
        most = _IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))
        at: dict[Any, int] = {}
        found: dict[int, Made | Lost] = {}
        while len(found) < len(given):
            while left and len(at) < most:
                rank = left.pop()
                tries[rank] += 1
                at[remote.remote(here, function, rank, given[rank])] = rank
            ready, _ = ray.wait(list(at), num_returns=1)
            for one in ready:
                rank = at.pop(one)
                try:
                    found[rank] = ray.get(one)
                except (ray.exceptions.RayTaskError, ray.exceptions.TaskCancelledError):
                    # A fault of ours, not of the cluster.
                    raise
                except ray.exceptions.RayError as broken:
                    if tries[rank] < _TRIES:
                        left.append(rank)
                    else:
                        found[rank] = Lost(rank=rank, error=_gone(rank, broken))
        return found

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._ours:
            self._ray.shutdown()


def _called(folder: str, function: Callable[[Given], Made], rank: int, given: Given) -> Made | Lost:
    """One call in the folder of who asks, where the node has it: paths may be relative to that."""
    with contextlib.suppress(OSError):
        os.chdir(folder)
    return called(function, rank, given)


@contextlib.contextmanager
def _away() -> Iterator[None]:
    """Elsewhere for a moment: Ray has its workers look for modules first where it was joined."""
    here = Path.cwd()
    os.chdir("/")
    try:
        yield
    finally:
        os.chdir(here)


def _gone(rank: int, broken: Exception) -> HermesError:
    return HermesError(
        f"the node that worked on rank {rank} was lost {_TRIES} times ({type(broken).__name__})",
        where=f"rank {rank}",
        lost="this rank",
        hint="look at the cluster's own logs; `ray status` tells which nodes are left",
    )
