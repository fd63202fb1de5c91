"""`hermes chips`: lists the chips that Hermes knows, with their peaks, memory and links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hermes.base.errors import QueryError
from hermes.cli import messages, shared_options
from hermes.cli.print_output import show_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.knowledge.chip_fields import Chip
    from hermes.model.document import CodeText, Document, Table


@click.command("chips")
@click.argument("search", required=False, default="", metavar="NAME",
                help="A driver's name of a chip, or a part of a chip's name; by default all chips.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output.")
@shared_options.lang
def run(search: str, form: str, lang: str | None) -> None:
    """List the chips whose peaks are known, or print one with the source of each figure.

    Times of operators are compared with these peaks. A chip that is not listed has no attainable time.
    """
    found = _found(search)
    show_document(_one(found[0]) if len(found) == 1 else _several(found), form, lang, whole=True)


def _found(search: str) -> Sequence[Chip]:
    """The chip with this driver name, else chips whose names contain the text; raises `QueryError` for none."""
    from hermes.base.closest_names import closest
    from hermes.knowledge.identify_chip import CHIPS, chip_of

    named = CHIPS.get(search) or chip_of(search)
    found = [named] if named else [one for one in CHIPS.values() if search.casefold() in one.name.casefold()]
    if not found:
        raise QueryError(messages.no_chip(name=search), hint=messages.do_chips(chips=closest(search, [*CHIPS])))
    return found


def _several(chips: Sequence[Chip]) -> Document:
    from hermes.model.document import Document

    answer = messages.known_chips(n=len(chips))
    return Document(schema="hermes.chips/1", inputs=(), answer=answer, parts=(_peaks(chips),))


def _one(chip: Chip) -> Document:
    from hermes.model.document import Document

    answer = messages.one_chip(chip=chip.name, vendor=chip.vendor, n=chip.cores)
    facts = {"vendor": chip.vendor, "cores": chip.cores, "vector_cores": chip.vector_cores, "mhz": chip.mhz}
    parts = (_peaks([chip]), _rates(chip), _sources(chip))
    return Document(schema="hermes.chips/1", inputs=(), answer=answer, facts=facts, parts=parts)


def _peaks(chips: Sequence[Chip]) -> Table:
    from hermes.knowledge.chip_fields import GIGA, TERA
    from hermes.model.document import Column, Table

    columns = (
        Column(key="chip", title=messages.COLUMN_CHIP, kind="name"),
        Column(key="fp16_tflops", title=messages.COLUMN_FP16, kind="number"),
        Column(key="fp32_tflops", title=messages.COLUMN_FP32, kind="number"),
        Column(key="memory_bytes", title=messages.COLUMN_MEMORY, kind="bytes"),
        Column(key="memory_gb_per_second", title=messages.COLUMN_BANDWIDTH, kind="number"),
        Column(key="link_gb_per_second", title=messages.COLUMN_LINKS, kind="number"),
    )
    rows = [
        (
            one.name, one.matrix["fp16"] / TERA if "fp16" in one.matrix else None,
            one.vector["fp32"] / TERA if "fp32" in one.vector else None, one.memory and int(one.memory),
            one.bandwidth and one.bandwidth / GIGA, one.links and one.links.bandwidth / GIGA,
        )
        for one in chips
    ]  # fmt: skip
    return Table(key="chips", title=messages.TITLE_CHIPS, columns=columns, rows=rows)


def _rates(chip: Chip) -> Table:
    """The table of a chip's peaks by number type."""
    from hermes.knowledge.chip_fields import TERA
    from hermes.model.document import Column, Table

    columns = (
        Column(key="type", title=messages.COLUMN_TYPE, kind="name"),
        Column(key="matrix_tflops", title=messages.COLUMN_MATRIX, kind="number"),
        Column(key="vector_tflops", title=messages.COLUMN_VECTOR, kind="number"),
    )
    rows = [
        (name, *(rates[name] / TERA if name in rates else None for rates in (chip.matrix, chip.vector)))
        for name in dict.fromkeys([*chip.matrix, *chip.vector])
    ]
    return Table(key="rates", title=messages.TITLE_RATES, columns=columns, rows=rows)


def _sources(chip: Chip) -> CodeText:
    """The source of each figure of a chip."""
    from hermes.knowledge.chip_fields import FIGURES, GIGA
    from hermes.model.document import CodeText

    figures = {"bandwidth": chip.bandwidth and f"{chip.bandwidth / GIGA:,.0f} GB/s", "cores": f"{chip.cores}"}
    lines = [(one, figures.get(one), chip.sources[one]) for one in FIGURES]
    if chip.links:
        lines.append(("links", f"{chip.links.transport} {chip.links.bandwidth / GIGA:,.0f} GB/s", chip.links.source))
    text = "".join(f"{name}{f' {value}' if value else ''}: {source}\n" for name, value, source in lines)
    return CodeText(key="sources", title=messages.TITLE_SOURCES, text=text)
