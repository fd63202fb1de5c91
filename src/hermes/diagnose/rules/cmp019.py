"""Rows are compared in pairs over a tensor that holds every number of every pair.

## What it detects

Two tensors of n x 1 x d and 1 x m x d numbers (or of m x d) that are multiplied or subtracted over n x m x d, and
reduced to n x m: cosine_similarity(x[:, None], y[None], dim=2), ((x[:, None] - y[None]) ** 2).sum(-1), (x[:, None] *
y[None]).sum(-1), distances to centres of clusters or to a codebook. What is counted are all operators on n x m x d,
forward and backward, where n and m are 8 or more and n x m x d is 262,144 or more: together more than a twentieth of
the step. It needs shapes.

Nothing is said where another operator than those of squares, products, sums and norms is on tensors of that shape, or
a product of matrices reads as many numbers: then each pair goes on by itself.

## Why it costs you

A product of matrices keeps numbers of pairs in registers, and writes n x m of them. Spread out, each operator reads and
writes n x m x d numbers from and to memory; a cosine passes them twenty times, forward and backward.

## When it is not a problem

When rows are so near to each other that the difference of squares loses all digits. Sums of absolute differences have
no product (torch.cdist with p=1 has an operator for them).

## What to do

Write it as a product of matrices: x @ y.T, of rows that are normalised before for cosines; torch.cdist for distances;
torch.einsum where axes are many.

## How to check

Profile the same step again: no operator is left on n x m x d numbers, and a product of n x d and d x m is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from hermes.analyze.compute_measures import OperatorCost
from hermes.analyze.spread_pairs import Shape, spread_by
from hermes.cost.tensors import elements_of, shape_of
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._compute import faster, longest, named, operators, shown
from hermes.diagnose.rules._host import on
from hermes.knowledge.operators import MATRIX

LIMIT = Threshold(value=0.05, unit="of window", source="docs/evidence/cmp019.md")
LEAST = Threshold(value=0.9, unit="of it is won, at least, of large tensors", source="docs/evidence/cmp019.md")
MOST = Threshold(value=0.99, unit="of it is won, at most", source="docs/evidence/cmp019.md")
_LARGE = 262_144
"""Numbers of all pairs, at least: `docs/evidence/cmp019.md`."""
_PRODUCT = 131_072
"""What the product with its calls costs at most, in numbers of all pairs: `docs/evidence/cmp019.md`."""
_SPREADS = frozenset(["sub", "rsub", "mul"])
_REDUCES = frozenset(
    ["sum", "mean", "norm", "linalg_vector_norm", "reducesum", "reducesumd", "reducemean", "reducemeand", "lpnorm"]
)
_PLAIN = _SPREADS | frozenset(
    [
        "add",
        "adds",
        "muls",
        "div",
        "realdiv",
        "pow",
        "pows",
        "square",
        "neg",
        "fill",
        "zero",
        "zeros",
        "zeroslike",
        "masked_fill",
        "maskedfill",
        "where",
        "select",
        "selectv2",
        "eq",
        "equal",
    ]
)
"""Elementwise operators of which squares, products and their gradients are made."""
_COSTS = ("elementwise", "reduction", "copy", "cast", "transpose", "format conversion")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    pairs = _pairs(measures)

    def part(row: OperatorCost) -> float:
        return float(row.ns) if row.kind in _COSTS and _of_pairs(row, pairs) else 0.0

    def saved(row: OperatorCost) -> float:
        return part(row) * max((_won(pairs[shape]) for shape in _of_pairs(row, pairs)), default=0.0)

    found = operators(measures, "operators on all pairs of rows", LIMIT, part) if pairs else None
    if found is None:
        return
    worst = longest(measures, part)
    least = sum(map(saved, worst)) / sum(map(part, worst))
    *_, rows, others, width = largest = max(pairs.values(), key=lambda shape: (math.prod(shape), shape))
    yield Finding(
        code="CMP019",
        layer="compute",
        cause="pairs that are spread out",
        title=f"Comparing {rows:,} x {others:,} rows of {width:,} numbers over a tensor of all pairs takes "
        f"{found.share:.0%} of the step{on(measures, found)}",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        calls=found.calls,
        fresh=found.fresh,
        share=found.share,
        gain=Gain(
            low_ns=round(found.cost_ns * least),
            high_ns=round(found.cost_ns * MOST.value),
            method="a product of matrices takes the place of all passes over the pairs",
        ),
        confidence=round(0.6 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            Evidence(
                what=f"a tensor of {' x '.join(map(str, largest))}",
                value=float(math.prod(largest)),
                unit="numbers",
                threshold=float(_LARGE),
                where=f"{(rows + others) * width} in the rows",
            ),
            *shown(worst, part),
        ),
        replay=faster(measures, saved),
        within="CMP002",
        actions=_ACTIONS,
    )


_ACTIONS = (
    Action(
        title="Write products and cosines of pairs as a product of matrices",
        do="x @ y.T in place of (x[:, None] * y[None]).sum(-1); functional.normalize(x) @ functional.normalize(y).T in "
        "place of cosine_similarity(x[:, None], y[None], dim=-1); with batches torch.bmm or torch.einsum.",
        verify="No operator is left on all numbers of all pairs.",
        risk="Sums in another order: the last digits differ. In bfloat16 or TF32 products round more than sums do.",
        source="PyTorch documentation of torch.nn.functional.cosine_similarity, torch.matmul and torch.einsum",
    ),
    Action(
        title="Write distances of pairs by norms and a product",
        do="torch.cdist(x, y) in place of (x[:, None] - y[None]).norm(dim=-1). Of its squares: "
        "x.square().sum(-1)[:, None] + y.square().sum(-1) - 2 * x @ y.T, with clamp_min(0).",
        verify="The same.",
        risk="Rows that nearly agree lose digits in the difference of squares: centre the data first, or let "
        "compute_mode='donot_use_mm_for_euclid_dist' of torch.cdist take no product, which spreads nothing out either.",
        source="PyTorch documentation of torch.cdist, compute_mode",
    ),
)


def _pairs(measures: Measures) -> Mapping[str, Shape]:
    """By their text, the shapes of pairs that are large, reduced to one number each, and used for nothing else."""
    rows = measures.compute.operators
    read = {text for row in rows for text in row.shapes.split(";")}
    told = sorted({one.shape for one in measures.host.spread} & read)
    found = {text: shape for text in told if (shape := shape_of(text))}
    for row in rows:
        shape = spread_by(row.shapes) if _plain(row) in _SPREADS else None
        if shape:
            found[_text(shape)] = shape
    large = {text: shape for text, shape in found.items() if math.prod(shape) >= _LARGE}
    return {text: shape for text, shape in large.items() if _compared(rows, text, shape)}


def _compared(rows: tuple[OperatorCost, ...], text: str, shape: Shape) -> bool:
    """Whether all that is done with pairs of this shape is what a product does, and there is one number of each."""
    own = [row for row in rows if _of_pairs(row, (text,))]
    names = {_plain(row) for row in own if row.kind in ("elementwise", "reduction")}
    if any(row.kind not in (*_COSTS, "other") for row in own) or not names <= _PLAIN | _REDUCES:
        return False
    if not (names & _SPREADS and names & _REDUCES):
        return False
    if any(math.prod(shape) == elements_of(one) for row in rows if row.kind in MATRIX for one in row.shapes.split(";")):
        return False
    numbers = (_text(shape[:-1]), _text((*shape[:-1], 1)))
    return any(one in numbers for row in rows for one in row.shapes.split(";"))


def _of_pairs(row: OperatorCost, pairs: Mapping[str, Shape] | tuple[str, ...]) -> list[str]:
    """The shapes of pairs that a row reads, or makes of rows."""
    made = spread_by(row.shapes) if _plain(row) in _SPREADS else None
    return [text for text in (*dict.fromkeys(row.shapes.split(";")), _text(made or ())) if text in pairs]


def _plain(row: OperatorCost) -> str:
    """The name of a row's operator without its library, and whether in place."""
    return row.operator.rpartition("::")[2].lower().removesuffix("_")


def _text(shape: Shape) -> str:
    return ",".join(map(str, shape))


def _won(shape: Shape) -> float:
    """What is won at least of operators on pairs."""
    return min(LEAST.value, 1 - _PRODUCT / math.prod(shape))


RULE = Rule(code="CMP019", page=__doc__ or "", find=find, cases=("CMP-45", "CMP-23"))
