"""Measures to judge, made with as few words as a test needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from hermes.analyze.measures import Held, PeerWait, StepSplit
from hermes.diagnose.rule import Measures


def _split(rank: int, step: int | None, parts: Mapping[str, int]) -> StepSplit:
    """A measured step; what is left of `window` after the parts is compute."""
    window = parts.get("window", 1_000)
    exposed, copy, free = (parts.get(name, 0) for name in ("exposed", "copy", "free"))
    return StepSplit(
        rank=rank, step=step, window_kind="device", start_ns=0, window_ns=window,
        compute_ns=window - exposed - copy - free,
        comm_ns=exposed, exposed_comm_ns=exposed, overlapped_comm_ns=0, copy_ns=copy, copy_exposed_ns=copy,
        free_ns=free,
        preparing_ns=0, host_ns=parts.get("host", 1_000),
    )  # fmt: skip


@pytest.fixture
def split() -> Callable[..., StepSplit]:
    """Makes a split: `split(rank, step, window=…, exposed=…, copy=…, free=…, host=…)`."""

    def make(rank: int = 0, step: int | None = 0, **parts: int) -> StepSplit:
        return _split(rank, step, parts)

    return make


@pytest.fixture
def wait() -> Callable[..., PeerWait]:
    """Makes a wait of one rank for another."""

    def make(
        rank: int,
        peer: int,
        longest: int,
        *,
        total: int | None = None,
        waits: int = 1,
        collected: bool = False,
        disjoint: bool = False,
    ) -> PeerWait:
        return PeerWait(
            rank=rank,
            peer=peer,
            peer_collected=collected,
            waits=waits,
            total_ns=longest if total is None else total,
            longest_ns=longest,
            longest_at_ns=0,
            disjoint=disjoint,
        )

    return make


@pytest.fixture
def held() -> Callable[..., Held]:
    """Makes a row of calls that hold the host up and leave the device free."""

    def make(cause: str, idle: int, *, rank: int = 0, calls: int = 1, host: int = 0, name: str = "a call") -> Held:
        return Held(
            rank=rank,
            cause=cause,
            names=(name,),
            calls=calls,
            host_ns=host or idle,
            idle_ns=idle,
            longest_ns=idle,
            longest_at_ns=7,
        )

    return make


@pytest.fixture
def measures() -> Callable[..., Measures]:
    """Makes measures from splits and what else a test gives."""

    def make(
        splits: Sequence[StepSplit], waits: Sequence[PeerWait] = (), held: Sequence[Held] = (),
        certainty: float = 1.0, exposed_by_op: Mapping[int, Mapping[str,
        int]] | None = None,
    ) -> Measures:  # fmt: skip
        ranks = [split.rank for split in splits]
        return Measures(
            splits=tuple(splits), waits=tuple(waits),
            steps_of_rank={rank: ranks.count(rank) for rank in sorted(set(ranks))},
            exposed_by_op=exposed_by_op or {}, held=tuple(held),
            inputs={rank: f"rank{rank}_ascend_pt" for rank in sorted(set(ranks))}, certainty=certainty,
        )  # fmt: skip

    return make
