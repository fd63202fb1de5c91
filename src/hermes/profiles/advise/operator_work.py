"""Finds what limits each operator and how to speed it up, from its cost, roofline and kernel counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hermes.knowledge.identify_chip import CHIPS, Chip
from hermes.knowledge.operators import LAYOUT, MATRIX
from hermes.knowledge.vendor_traits import traits
from hermes.model.compute_measures import OTHERS, OperatorCost
from hermes.model.operator_work import Lever, OperatorWork

_WIDE = ("fp32", "hf32", "tf32", "fp64")
"""Precisions of matrix products for which chips have a faster precision."""
_NARROW = ("bf16", "fp16")

Alone = Mapping[tuple[str, str, str], int]
"""Median ns of operators that were run alone, by operator, shapes and types."""


def work_list(operators: Iterable[OperatorCost], alone: Alone | None = None) -> tuple[OperatorWork, ...]:
    """The operators with their levers: largest possible saving first, then those without a saving, longest first."""
    found = [_work(cost) for cost in operators if not cost.operator.startswith(OTHERS)]
    measured = [
        replace(one, alone_ns=(alone or {}).get((one.cost.operator, one.cost.shapes, one.cost.dtypes))) for one in found
    ]
    return tuple(sorted(measured, key=lambda one: (-one.most_ns, -one.cost.ns, one.cost.operator, one.cost.shapes)))


def _work(cost: OperatorCost) -> OperatorWork:
    chip = CHIPS.get(cost.chip or "")
    levers = sorted(_levers(cost, chip), key=lambda lever: -(lever.most_ns or 0))
    return OperatorWork(cost=cost, limited_by=_limited_by(cost), levers=tuple(levers))


def _limited_by(cost: OperatorCost) -> str:
    if cost.kind in LAYOUT:
        return "memory: it moves data and computes nothing"
    if cost.bound in ("compute", "memory"):
        return "the matrix and vector units" if cost.bound == "compute" else "memory"
    losses = cost.losses
    parts = (("idle cores", losses.blocks_ns), ("its pipes", losses.pipe_ns), ("a low clock", losses.frequency_ns))
    known: Sequence[tuple[str, int]] = [(name, ns) for name, ns in parts if ns]
    if known:
        name, ns = max(known, key=lambda part: part[1])
        return f"{name}: {ns / cost.ns:.0%} of its time" if cost.ns else name
    if cost.roof_share is not None:
        return f"neither roof: it reaches {cost.roof_share:.0%} of that of its {cost.limit}"
    return cost.note or "not known"


def _levers(cost: OperatorCost, chip: Chip | None) -> Iterator[Lever]:
    losses = cost.losses
    if cost.kind in LAYOUT:
        yield Lever(
            what="take it out of the step", most_ns=cost.ns,
            why=f"a {cost.kind} computes nothing: keep the type and the layout that its neighbours use",
        )  # fmt: skip
    if cost.ai_cpu_ns:
        yield Lever(
            what="bring it onto the device's cores", most_ns=cost.ai_cpu_ns,
            why="it runs on the slow scalar processor of the device: another type or shape has a kernel there",
        )  # fmt: skip
    if (narrow := _in_a_narrow_type(cost, chip)) is not None:
        yield narrow
    if cost.aligned is False:
        yield Lever(
            what="pad its inner axes to the tile of the matrix unit", most_ns=_to_its_aim(cost, chip),
            why="an inner axis is no multiple of what the unit works on at once",
        )  # fmt: skip
    if losses.blocks_ns:
        yield Lever(
            what="give every core a block", most_ns=losses.blocks_ns,
            why="cores have nothing to do: more rows at once, or a kernel that splits the long axis as well",
        )  # fmt: skip
    if losses.pipe_ns:
        yield Lever(
            what="another tile", most_ns=losses.pipe_ns,
            why="no pipe of the core is busy for 80 % of the time: larger tiles, or two in turn, hide copies",
        )  # fmt: skip
    if losses.frequency_ns:
        yield Lever(
            what="find out why the clock is low", most_ns=losses.frequency_ns,
            why="the device ran below its rated clock: power limit, heat, or a setting",
        )  # fmt: skip
    yield from _towards_the_roof(cost, chip)


def _in_a_narrow_type(cost: OperatorCost, chip: Chip | None) -> Lever | None:
    """The lever of a matrix product in a type of half the width: its gain is at most the time above the roof."""
    if (
        chip is None
        or cost.kind not in MATRIX
        or cost.precision not in _WIDE
        or not cost.flops
        or cost.roof_share is None
    ):
        return None
    now = chip.matrix.get(cost.precision)
    best = max((chip.matrix.get(name, 0.0) for name in _NARROW), default=0.0)
    if now is None or best <= now:
        return None
    seconds = cost.flops / best
    if cost.bytes and chip.bandwidth:
        seconds = max(seconds, cost.bytes / 2 / chip.bandwidth)
    most = cost.ns - round(cost.calls * seconds * 1e9)
    if most <= 0:
        return None
    name = next(name for name in _NARROW if chip.matrix.get(name) == best)
    return Lever(
        what=f"compute it in {name}", most_ns=most,
        why=f"its peak there is {best / now:.3g} times that of {cost.precision}, if the numbers allow it",
    )  # fmt: skip


def _to_its_aim(cost: OperatorCost, chip: Chip | None) -> int | None:
    if cost.roof_share is None or chip is None:
        return None
    return max(0, round(cost.ns * (1 - cost.roof_share / traits(chip.vendor).aim.value)))


def _towards_the_roof(cost: OperatorCost, chip: Chip | None) -> Iterator[Lever]:
    most = _to_its_aim(cost, chip)
    if not most or cost.kind in LAYOUT:
        return
    aim = traits(chip.vendor if chip else "").aim.value
    yield Lever(
        what="tune it, or take another kernel" if cost.kind in MATRIX else "fuse it with its neighbours",
        most_ns=most, why=f"it reaches {cost.roof_share:.0%} of its roof, good kernels reach {aim:.0%}",
    )  # fmt: skip
