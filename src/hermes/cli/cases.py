"""`hermes cases`: causes of slow training that are known, how each shows, and what cures it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.knowledge.cases import Case


class Layer(str, enum.Enum):
    """What a cause belongs to."""

    IO = "io"
    CPU = "cpu"
    COMPUTE = "compute"
    COMMUNICATION = "communication"
    MEMORY = "memory"
    PARALLELISM = "parallelism"
    ENVIRONMENT = "environment"


@click.command("cases")
@click.argument("search", nargs=-1, metavar="SEARCH…",
                help="Words that an entry must have, or an id such as IO-01; all entries without it.")  # fmt: skip
@click.option("--layer", type=click.Choice(Layer, case_sensitive=False), help="Only this layer.")
def run(search: tuple[str, ...], layer: Layer | None) -> None:
    """List the known causes of slow training, or print one with its symptoms, cure and source."""
    from hermes.knowledge import cases

    exact = cases.case(search[0]) if len(search) == 1 else None
    among = cases.cases_of(layer.value) if layer else cases.cases()
    found = [exact] if exact is not None else cases.find(search, among)
    if not found:
        print(f"No case has {' and '.join(map(repr, search))}.")
    elif len(found) == 1:
        print(page(found[0]))
    else:
        print(_list(found))


def page(case: Case) -> str:
    """All that is known of one cause, as text."""
    lead = (
        [f"A lead, to be checked before it is relied on: {case.checked.removeprefix('no, ')}."] if case.is_lead else []
    )
    parts = [
        f"{case.id}  {case.cause}",
        *lead,
        _bullets("Symptoms, all together", [one.text for one in case.symptoms]),
        _bullets("Not measured by Hermes", case.not_measured),
        f"Confirm\n  {case.confirm}",
        f"Cure\n  {case.cure}",
        f"Before\n{_indent(case.before)}",
        f"After\n{_indent(case.after)}",
        f"After, on other chips\n{_indent(case.elsewhere)}" if case.elsewhere else "",
        f"Applies to\n  {case.framework}; {', '.join(case.chips)}; {case.versions}",
        f"Published gain\n  {case.gain}" + (f" ({case.gain_source})" if case.gain_source else ""),
        f"Risk\n  {case.risk}",
        _bullets("Sources", [f"{one} ({one.where})" for one in case.sources]),
    ]
    return "\n\n".join(part for part in parts if part)


def _bullets(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(f"  - {line}" for line in lines)]) if lines else ""


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _list(found: Sequence[Case]) -> str:
    rows = [f"{one.id:<7} {one.cause}{'  (lead)' if one.is_lead else ''}" for one in found]
    return "\n".join([*rows, "", f"{len(found)} cases. hermes cases ID prints one."])
