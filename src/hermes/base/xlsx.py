"""Writes a workbook with plain cells as Office Open XML, without a dependency."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from html import escape

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_MOST_ROWS = 1_048_576
_LONGEST = 32_767
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"

Cell = str | int | float | None
"""A cell of a sheet: a text, a number, or None for an empty cell."""


def workbook(sheets: Mapping[str, Sequence[Sequence[Cell]]]) -> bytes:
    """The bytes of the workbook file; rows beyond the most that a sheet can hold are left out."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        names = list(sheets)
        parts = "".join(
            f'<Override PartName="/xl/worksheets/sheet{at}.xml" ContentType="{_TYPE}.worksheet+xml"/>'
            for at in range(1, len(names) + 1)
        )
        file.writestr(
            "[Content_Types].xml",
            f'{_HEAD}<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
            f'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" '
            f'ContentType="{_TYPE}.sheet.main+xml"/>'
            f"{parts}</Types>",
        )
        file.writestr("_rels/.rels", _relations([("officeDocument", "xl/workbook.xml")]))
        listed = "".join(
            f'<sheet name="{escape(name[:31])}" sheetId="{at}" r:id="rId{at}"/>' for at, name in enumerate(names, 1)
        )
        file.writestr(
            "xl/workbook.xml",
            f'{_HEAD}<workbook xmlns="{_MAIN}" xmlns:r="{_LINKS}"><sheets>{listed}</sheets></workbook>',
        )
        targets = [("worksheet", f"worksheets/sheet{at}.xml") for at in range(1, len(names) + 1)]
        file.writestr("xl/_rels/workbook.xml.rels", _relations(targets))
        for at, name in enumerate(names, 1):
            file.writestr(f"xl/worksheets/sheet{at}.xml", _sheet(sheets[name]))
    return out.getvalue()


def _relations(targets: list[tuple[str, str]]) -> str:
    links = "".join(
        f'<Relationship Id="rId{at}" Type="{_LINKS}/{kind}" Target="{target}"/>'
        for at, (kind, target) in enumerate(targets, 1)
    )
    return f'{_HEAD}<Relationships xmlns="{_PACKAGE}/relationships">{links}</Relationships>'


def _sheet(rows: Sequence[Sequence[Cell]]) -> str:
    lines = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows[:_MOST_ROWS])
    return f'{_HEAD}<worksheet xmlns="{_MAIN}"><sheetData>{lines}</sheetData></worksheet>'


def _cell(found: Cell) -> str:
    if found is None:
        return "<c/>"
    if isinstance(found, (int, float)):
        return f"<c><v>{found!r}</v></c>"
    text = escape(_CONTROL.sub("\ufffd", found[:_LONGEST]))
    return f'<c t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
