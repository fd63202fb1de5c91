"""Names a broken switch, host or pair: what bad pairs share more often than chance allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hermes.base.message import Word
from hermes.base.significance import among, binomial_tail
from hermes.fleet.probe.host_pairs import Host
from hermes.fleet.probe.measure_network import Call
from hermes.model.limit import Limit

_SOURCE = "docs/evidence/probe.md"
LOSS = Limit(value=0.02, unit="of the datagrams", source=_SOURCE)
DELAY = Limit(value=1.0, unit="above the best quarter of the pairs", source=_SOURCE)
LEAST_DELAY_NS = 500_000
THROUGHPUT = Limit(value=0.50, unit="below the best quarter of the pairs", source=_SOURCE)
CHANCE = Limit(value=0.01, unit="the chance that so many bad pairs meet", source=_SOURCE)
MOST_OF = Limit(value=0.75, unit="of the pairs that cross it", source=_SOURCE)
_CHANCE_OF_LOSS = 1e-4


class PathFault(Word):
    """The kinds of faults of a pair of hosts."""

    SILENT = "silent"
    LOSSY = "lossy"
    LATE = "late"
    SLOW = "slow"


class PathKind(Word):
    """The kinds of parts of the network that can be named."""

    HOST = "host"
    SWITCH = "switch"
    PAIR = "pair"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFault:
    """A named part of the network: `bad` of the `pairs` that cross it are bad. `value` is typical of the bad pairs."""

    kind: PathKind
    name: str
    fault: PathFault
    bad: int
    pairs: int
    chance: float
    value: float


def bad_pairs(calls: Sequence[Call]) -> dict[PathFault, dict[tuple[str, str], float]]:
    """The bad pairs by fault, each with its share of losses, delay in ns, or bytes a second.

    The best quarter of the pairs defines the usual value: one bad host of four spoils half of all pairs.
    """
    found: dict[PathFault, dict[tuple[str, str], float]] = {fault: {} for fault in PathFault}
    lost = max(_quarter([one.lost / one.sent for one in calls]), 1e-3)
    alive = [one for one in calls if one.rtt_ns is not None]
    usual = _quarter([float(one.rtt_ns or 0) for one in alive]) if alive else 0.0
    late = usual + max(LEAST_DELAY_NS, DELAY.value * usual)
    rates = [-one.bytes_per_s for one in alive if one.bytes_per_s]
    slow = -_quarter(rates) * (1 - THROUGHPUT.value) if rates else 0.0
    for one in calls:
        pair = (one.caller, one.answerer)
        if one.rtt_ns is None:
            found[PathFault.SILENT][pair] = 1.0
        elif one.lost > LOSS.value * one.sent and binomial_tail(one.lost, one.sent, lost) < _CHANCE_OF_LOSS:
            found[PathFault.LOSSY][pair] = one.lost / one.sent
        else:
            # A full link is slow, and late now and then.
            if one.rtt_ns > late:
                found[PathFault.LATE][pair] = float(one.rtt_ns)
            if one.bytes_per_s is not None and one.bytes_per_s < slow:
                found[PathFault.SLOW][pair] = one.bytes_per_s
    return found


def _quarter(values: Sequence[float]) -> float:
    """The value that a quarter of the values do not exceed."""
    return sorted(values)[(len(values) - 1) // 4]


def name_faults(hosts: Sequence[Host], calls: Sequence[Call]) -> list[NamedFault]:
    """The named parts: switches and hosts whose pairs are bad far more often than others, then remaining single
    pairs."""
    parts = _parts({host.name: host.switch for host in hosts})
    pairs = [(one.caller, one.answerer) for one in calls]
    named: list[NamedFault] = []
    # A pair that is late with all pairs across a part may be slow for that reason.
    explained: set[tuple[str, str]] = set()
    for fault, bad in bad_pairs(calls).items() if calls else ():
        left = {pair: value for pair, value in bad.items() if pair not in explained}
        while left and (one := _common(fault, left, pairs, parts)):
            named.append(one)
            explained |= {pair for pair in left if (one.kind, one.name) in parts(pair)}
            left = {pair: value for pair, value in left.items() if pair not in explained}
        if fault in (PathFault.SILENT, PathFault.LOSSY) and len(left) <= max(len(pairs) // 10, 1):
            # One late or slow pair may be chance; a pair that loses this much is not.
            named += [
                NamedFault(
                    kind=PathKind.PAIR,
                    name=f"{caller} - {answerer}",
                    fault=fault,
                    bad=1,
                    pairs=1,
                    chance=1.0,
                    value=value,
                )
                for (caller, answerer), value in left.items()
            ]
    return named


Part = tuple[PathKind, str]


def _parts(switches: Mapping[str, str]) -> Callable[[tuple[str, str]], set[Part]]:
    """The parts that a pair crosses: the links of both hosts, and the switches behind them."""

    def parts(pair: tuple[str, str]) -> set[Part]:
        found: set[Part] = {(PathKind.HOST, name) for name in pair}
        return found | {(PathKind.SWITCH, switches[name]) for name in pair if switches.get(name)}

    return parts


def _common(
    fault: PathFault,
    bad: Mapping[tuple[str, str], float],
    pairs: Sequence[tuple[str, str]],
    parts: Callable[[tuple[str, str]], set[Part]],
) -> NamedFault | None:
    """The part that explains the most bad pairs, if nearly all of its pairs are bad and chance cannot explain it."""
    crossing: dict[Part, list[tuple[str, str]]] = defaultdict(list)
    for pair in pairs:
        for part in parts(pair):
            crossing[part].append(pair)
    best: NamedFault | None = None
    for (kind, name), across in crossing.items():
        hit = [bad[pair] for pair in across if pair in bad]
        if len(hit) < 2 or len(hit) < MOST_OF.value * len(across):
            continue
        # The share of bad pairs that do not cross the part; half a pair more, for there may be none.
        usual = (len(bad) - len(hit) + 0.5) / (len(pairs) - len(across) + 1)
        chance = among(binomial_tail(len(hit), len(across), min(usual, 1.0)), len(crossing))
        made = NamedFault(kind=kind, name=name, fault=fault, bad=len(hit), pairs=len(across), chance=chance,
                     value=median(hit))  # fmt: skip
        if chance < CHANCE.value and (best is None or made.bad > best.bad):
            best = made
    return best
