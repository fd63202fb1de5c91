"""A computation uses an expensive form although a cheaper form gives the same result.

## What it detects

The rule finds expensive forms from a table (`knowledge/costly_forms.py`). Examples are distances of all pairs by their
differences, one-hot vectors times a matrix, decompositions of matrices, and whole sorts. Further forms are windows laid
out as columns, and gradients of pieces. Operators and their shapes tell each form. The cost is the time of the
operators of a form, per step. The rule needs shapes. Each form is a preview.

## Why it costs you

Each expensive form makes tensors or computes numbers of which most are not used.

## When it is not a problem

An expensive form is right if you use all results: each difference, each singular value, the whole order.

## What to do

Write the computation in the cheaper form that the table names.

## How to check

Profile again: the operators of the form are gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.cost.tensors import shapes_of
from hermes.knowledge.costly_forms import FORMS, CostlyForm
from hermes.knowledge.host_work import PIECES
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Gain, Loss, State
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import of_operators, operators
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import event_cost, events_of, host_loss, of_events
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.05, unit="of window", source="docs/evidence/noise.md")
_WIDER = 8
"""A tensor of differences has at least this many times the elements of its inputs."""
_LITTLE = 0.02
"""Operators below this share of the time on a tensor of differences decide nothing."""
_PRODUCTS = re.compile(r"aten::(mm|addmm|linear|matmul|bmm)$")

Shape = tuple[int, ...]


@rule("CMP034", state="stable", fault=Fault.COSTLY_FORM)
def costly_form(
    job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute], events: Rows[HostEvents]
) -> Iterator[Loss]:
    """At most one finding of each costly form."""
    for form in FORMS:
        if form.shapes == "pieces":
            yield from _pieces(job, form, events)
            continue
        rows = {id(row): row for row in _LOOKS[form.shapes](form, ops)}
        found = operators(job, ops, computes, form.fault.message, LIMIT, _of(rows)) if rows else None
        if found is None:
            continue
        began = next(row.operator for row in rows.values() if re.search(form.begins, row.operator))
        finding = of_operators(
            job, ops, found, _of(rows),
            title=_TAKE[form.fault](share=percents(found.share), on=some_of(job, found.ranks)),
            gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=NEXT_TO_NOTHING)),
            confidence=confidence("CMP034"),
            actions=(form.action,),
        )  # fmt: skip
        first = Blame(began, "operator")
        blames = (first, *(one for one in finding.blames if one != first))
        yield replace(finding, fault=form.fault, blames=blames, state=_state(form))


def _pieces(job: Job, form: CostlyForm, events: Rows[HostEvents]) -> Iterator[Loss]:
    """Findings of gradients of pieces, which are as large as the tensors that the pieces were taken from."""
    found = host_loss(job, form.fault.message, LIMIT, lambda split: event_cost(job, events, split.rank, PIECES))
    row = events_of(events, found.worst.rank, PIECES) if found else None
    if found is None or row is None:
        return
    yield Loss(
        message=_TAKE[form.fault](share=percents(found.share), on=some_of(job, found.ranks)),
        fault=form.fault,
        state=_state(form),
        ranks=found.ranks,
        blames=(*(Blame(name, "operator") for name, _, _ in row.names[:1]), Blame("aten::fill_", "operator")),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=NEXT_TO_NOTHING)),
        confidence=confidence("CMP034"),
        evidence=(*found.evidence, *of_events(job, row)),
        actions=(form.action,),
    )


def _state(form: CostlyForm) -> State:
    return "stable" if form.seen else "preview"


def _of(rows: Collection[int]) -> Callable[[OperatorCost], float]:
    return lambda row: float(row.ns) if id(row) in rows else 0.0


def _any(form: CostlyForm, ops: Collection[OperatorCost]) -> Iterator[OperatorCost]:
    """The operators that begin a form."""
    return (row for row in ops if re.search(form.begins, row.operator))


def _differences(form: CostlyForm, ops: Collection[OperatorCost]) -> Iterator[OperatorCost]:
    """The operators that make a tensor of all differences, and those on it, if these only square and sum."""
    for begin in _any(form, ops):
        whole = _spread(shapes_of(begin.shapes))
        if whole is None:
            continue
        rows = [row for row in ops if whole in shapes_of(row.shapes)]
        least = _LITTLE * sum(row.ns for row in rows)
        names = [row.operator for row in rows if row.ns > least]
        needs = all(any(re.search(pattern, name) for name in names) for pattern in form.also)
        if needs and all(re.match(form.only, name) for name in names):
            yield from (begin, *rows)


def _spread(shapes: Collection[Shape]) -> Shape | None:
    """The shape of two tensors that are broadcast against each other, if it is much larger than both."""
    known = [shape for shape in shapes if shape]
    if len(known) != 2 or len(known[0]) != len(known[1]):
        return None
    whole = tuple(max(pair) for pair in zip(*known, strict=True))
    fits = all(left in (1, size) and right in (1, size) for left, right, size in zip(*known, whole, strict=True))
    return whole if fits and _elements(whole) >= _WIDER * max(map(_elements, known)) else None


def _elements(shape: Shape) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _one_hot(form: CostlyForm, ops: Collection[OperatorCost]) -> Iterator[OperatorCost]:
    """The operators that write ones, one in each row, and that cast and multiply the rows."""
    made: dict[Shape, OperatorCost] = {}
    for row in _any(form, ops):
        known = [shape for shape in shapes_of(row.shapes) if shape]
        # With a value in place of a tensor, ones are written and not gathered.
        if len(known) == 2 and known[1] == (*known[0][:-1], 1) and "Scalar" in row.dtypes:
            made[known[0]] = row
    for shape, begin in made.items():
        flat = (_elements(shape[:-1]), shape[-1])
        products = [
            row
            for row in ops
            if _PRODUCTS.search(row.operator) and {flat, flat[::-1], shape} & {*shapes_of(row.shapes)}
        ]
        if products:
            others = (row for row in ops if shape in shapes_of(row.shapes) and row.kind != "optimizer")
            yield from (begin, *{id(row): row for row in (*products, *others)}.values())


_LOOKS: Mapping[str, Callable[[CostlyForm, Collection[OperatorCost]], Iterator[OperatorCost]]] = {
    "any": _any,
    "differences": _differences,
    "one-hot": _one_hot,
}


NEXT_TO_NOTHING = sentence("cmp034.next_to_nothing")


@message("cmp034.all_differences")
def all_differences(*, share: Share, on: Message | None = None) -> None:
    """All differences of two tensors take a share of the time."""


@message("cmp034.one_hot_products")
def one_hot_products(*, share: Share, on: Message | None = None) -> None:
    """Products with one-hot rows take a share of the time."""


@message("cmp034.decompositions")
def decompositions(*, share: Share, on: Message | None = None) -> None:
    """Decompositions of matrices take a share of the time."""


@message("cmp034.whole_sorts")
def whole_sorts(*, share: Share, on: Message | None = None) -> None:
    """Sorts of whole tensors take a share of the time."""


@message("cmp034.unfolded_windows")
def unfolded_windows(*, share: Share, on: Message | None = None) -> None:
    """Unfolded windows take a share of the time."""


@message("cmp034.gradients_of_pieces")
def gradients_of_pieces(*, share: Share, on: Message | None = None) -> None:
    """Gradients of pieces take a share of the time."""


_TAKE: Mapping[Fault, Callable[..., Message]] = {
    Fault.ALL_DIFFERENCES: all_differences,
    Fault.ONE_HOT_PRODUCTS: one_hot_products,
    Fault.DECOMPOSITIONS: decompositions,
    Fault.WHOLE_SORTS: whole_sorts,
    Fault.UNFOLDED_WINDOWS: unfolded_windows,
    Fault.GRADIENTS_OF_PIECES: gradients_of_pieces,
}
"""The message of each form's finding."""
