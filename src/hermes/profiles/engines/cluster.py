"""The Ray engine: each node of the cluster reads the ranks assigned to it, and returns their measures.

Only paths and measures travel between nodes. If a node is lost, its ranks are done again on other nodes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hermes.base.errors import HermesError, InputError
from hermes.base.usable_cores import cores
from hermes.profiles.engines import messages
from hermes.profiles.engines.engine import Engine, Given, LostRank, Made, call_of_rank
from hermes.profiles.messages import LOST_THIS_RANK

_TRIES = 4
"""How often a rank is tried in all, if its node is lost each time."""
_IN_FLIGHT = 4
"""Ranks handed out at once for each core of the cluster, so that no core waits for work."""


class Ray(Engine):
    """An engine that calls functions on a Ray cluster: at an address, or running or started on this machine."""

    def __init__(self, address: str = "", jobs: int | None = None) -> None:
        try:
            import ray
        except ImportError as missing:
            raise InputError(messages.NO_RAY, where="--engine", hint=messages.DO_INSTALL_RAY) from missing
        self._ray: Any = ray
        self._ours = not ray.is_initialized()
        self._ending = contextlib.ExitStack()
        if self._ours:
            # Ray prints the loss of a node on standard output, whatever its options say. The report goes there too.
            self._ending.enter_context(contextlib.redirect_stdout(sys.stderr))
            try:
                with _away():
                    self._join(address, jobs)
            except BaseException:
                self._ending.close()
                raise
            self._ending.callback(ray.shutdown)

    def _join(self, address: str, jobs: int | None) -> None:
        # Ray sends usage statistics to its makers unless this setting forbids it.
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
                messages.no_answer(why=str(refused).splitlines()[0][:160]),
                where=address or "ray",
                hint=messages.DO_GIVE_CLUSTER,
            ) from refused

    @property
    def threads(self) -> int:
        """One thread: each rank takes one core of the cluster."""
        return 1

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | LostRank]:
        """Run the function for each rank, in any order, on any node; a rank whose node is lost is done again."""
        ray = self._ray
        # Hermes counts the tries, so that a lost rank can be named.
        remote = ray.remote(num_cpus=1, max_retries=0)(_called)
        here = str(Path.cwd())
        tries = dict.fromkeys(given, 0)
        left = sorted(given, reverse=True)
        most = _IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))
        at: dict[Any, int] = {}
        found: dict[int, Made | LostRank] = {}
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
                    # An error of Hermes, not of the cluster.
                    raise
                except ray.exceptions.RayError as broken:
                    if tries[rank] < _TRIES:
                        left.append(rank)
                    else:
                        found[rank] = LostRank(rank=rank, error=_gone(rank, broken))
        return found

    def close(self) -> None:
        """Leave the cluster; a cluster that was started here ends."""
        self._ending.close()


def _called(folder: str, function: Callable[[Given], Made], rank: int, given: Given) -> Made | LostRank:
    """Call the function in the caller's working folder, if the node has it: paths may be relative to that folder."""
    with contextlib.suppress(OSError):
        os.chdir(folder)
    return call_of_rank(function, rank, given)


@contextlib.contextmanager
def _away() -> Iterator[None]:
    """Change the working folder for a moment:

    Ray's workers look for modules first in the folder where Ray was joined.
    """
    here = Path.cwd()
    os.chdir("/")
    try:
        yield
    finally:
        os.chdir(here)


def _gone(rank: int, broken: Exception) -> HermesError:
    return HermesError(
        messages.node_lost(rank=rank, times=_TRIES, error=type(broken).__name__),
        where=f"rank {rank}",
        lost=LOST_THIS_RANK,
        hint=messages.DO_SEE_LOGS,
    )
