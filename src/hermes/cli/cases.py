"""`hermes cases`: lists known causes of slow training, with symptoms and cures."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import click

from hermes.base.errors import QueryError
from hermes.cli import messages, shared_options
from hermes.cli.print_output import show_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.base.message import Message
    from hermes.knowledge.cases import Case

_OFFERED = 5


class Layer(str, enum.Enum):
    """The layer of a training that a cause belongs to."""

    IO = "io"
    CPU = "cpu"
    COMPUTE = "compute"
    COMMUNICATION = "communication"
    MEMORY = "memory"
    PARALLELISM = "parallelism"
    ENVIRONMENT = "environment"


@click.command("cases")
@click.argument("search", nargs=-1, metavar="SEARCH…",
                help="Words that a cause must contain, or an id such as IO-01; by default all causes.")  # fmt: skip
@click.option("--layer", type=click.Choice(Layer, case_sensitive=False), help="Only causes of this layer.")
@shared_options.lang
def run(search: tuple[str, ...], layer: Layer | None, lang: str | None) -> None:
    """List the known causes of slow training, or print one with its symptoms, cure and source."""
    from hermes.knowledge import cases

    tell = shared_options.teller(lang)
    exact = cases.case(search[0]) if len(search) == 1 else None
    among: Sequence[Case] = cases.cases_of(layer.value) if layer else cases.cases()
    found = [exact] if exact is not None else cases.find(search, among)
    if not found and shared_options.language(lang) == "zh":
        found = cases.find(search, map(cases.in_chinese, among))
    if not found:
        raise QueryError(messages.no_case(words=search), hint=_instead(search, among))
    if len(found) == 1:
        show_lines(page(found[0], lang))
    else:
        show_lines("\n".join([*listed(found, lang), "", tell(f"{len(found)} cases. hermes cases ID prints one.")]))


def _instead(search: Sequence[str], among: Sequence[Case]) -> Message:
    """Cases that have one of the words; else an id that is similar to the first word."""
    from hermes.base.closest_names import closest
    from hermes.knowledge import cases

    some = [one.id for word in search for one in cases.find([word], among)]
    alike = closest(search[0], [one.id for one in among]) if "-" in search[0] else []
    found = [*dict.fromkeys([*some, *alike])][:_OFFERED]
    return messages.do_cases(cases=found) if found else messages.DO_ALL_CASES


def page(case: Case, lang: str | None = "en") -> str:
    """The full description of one cause, as text."""
    tell = shared_options.teller(lang)
    case = _told(case, lang)
    lead = tell("A lead, to be checked before it is relied on")
    parts = [
        f"{case.id}  {case.cause}",
        f"{lead}: {case.checked.removeprefix('no, ')}." if case.is_lead else "",
        _bullets(tell("Symptoms, all together"), [one.text for one in case.symptoms]),
        _bullets(tell("Not measured by Hermes"), case.not_measured),
        f"{tell('Confirm')}\n  {case.confirm}",
        f"{tell('Cure')}\n  {case.cure}",
        f"{tell('Before')}\n{_indent(case.before)}",
        f"{tell('After')}\n{_indent(case.after)}",
        f"{tell('After, on other chips')}\n{_indent(case.elsewhere)}" if case.elsewhere else "",
        f"{tell('Applies to')}\n  {case.framework}; {', '.join(case.chips)}; {case.versions}",
        f"{tell('Published gain')}\n  {tell(case.gain)}" + (f" ({case.gain_source})" if case.gain_source else ""),
        f"{tell('Risk')}\n  {case.risk}",
        _bullets(tell("Sources"), [f"{one} ({one.where})" for one in case.sources]),
    ]
    return "\n\n".join(part for part in parts if part)


def listed(found: Sequence[Case], lang: str | None) -> list[str]:
    """A line for each cause: its id, its title, and whether it is a lead."""
    lead = shared_options.teller(lang)("lead")
    return [f"{one.id:<7} {_told(one, lang).cause}{f'  ({lead})' if one.is_lead else ''}" for one in found]


def _told(case: Case, lang: str | None) -> Case:
    from hermes.knowledge import cases

    return cases.in_chinese(case) if shared_options.language(lang) == "zh" else case


def _bullets(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(f"  - {line}" for line in lines)]) if lines else ""


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
