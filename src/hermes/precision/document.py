"""A comparison as JSON (`hermes.precision/1`) and as text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hermes.base.say import say
from hermes.precision.compare import Comparison
from hermes.precision.judgement import Judgement, Row
from hermes.precision.model import Json
from hermes.precision.tree import level, modules
from hermes.precision.verdict import First, Link

FORMAT = "hermes.precision/1"
_MOST_MODULES = 5_000


def document(found: Comparison, *, rows: int | None = None) -> dict[str, Json]:
    """All that a comparison says; `rows` limits the table."""
    table = [] if rows == 0 else [row for one in found.judgements for row in _rows(one)]
    return {
        "format": FORMAT,
        "verdict": found.verdict,
        "sentence": found.sentence,
        "notes": list(found.notes),
        "first": _first(found.first),
        "chain": [_link(one) for one in found.chain],
        "others": [_first(one) for one in found.others[:20]],
        "golden": {"path": str(found.golden.path), "kind": found.golden.kind, "what": found.golden.what},
        "target": {"path": str(found.target.path), "kind": found.target.kind, "what": found.target.what},
        "counts": _counts(found),
        "diagnostics": [
            {"level": one.level, "message": say(one.message), "where": one.where, "lost": say(one.lost)}
            for one in found.diagnostics
        ],
        "rows": table if rows is None else table[:rows],  # type: ignore[dict-item]
    }


def _counts(found: Comparison) -> dict[str, Json]:
    counts: dict[str, Json] = {}
    for one in found.judgements:
        for row in one.rows:
            already = counts.get(row.state, 0)
            assert isinstance(already, int)
            counts[row.state] = already + 1
    return counts


def _first(first: First | None) -> dict[str, Json] | None:
    if first is None:
        return None
    return {
        "operator": first.operator, "module": first.module or None, "line": first.line or None, "rank": first.rank,
        "step": first.step, "phase": first.phase, "kind": first.kind, "confidence": first.confidence, "why": first.why,
        "code": first.code or None, "side": first.side, "inputs_apart": first.inputs_apart,
        "outputs_apart": first.outputs_apart, "tolerated": first.tolerated,
    }  # fmt: skip


def _link(link: Link) -> dict[str, Json]:
    return {
        "operator": link.operator, "module": link.module or None, "line": link.line or None, "apart": link.apart,
        "amplification": link.amplification,
    }  # fmt: skip


def overview(found: Comparison) -> dict[str, Json]:
    """All but the table, with the module tree: what a page shows first."""
    shown = document(found, rows=0)
    shown.pop("rows")
    shown["modules"] = [
        {"path": path, "apart": apart, "level": level(apart)}
        for path, apart in list(modules(found).items())[:_MOST_MODULES]
    ]
    shown["table"] = sum(len(one.rows) for one in found.judgements)
    shown["blamed"] = _first_row(found)
    return shown


def _first_row(found: Comparison) -> int:
    """The place in the table where the runs part; 0 where they do not."""
    place, first = 0, found.first
    for one in found.judgements:
        if first is not None and (one.rank, one.step) == (first.rank, first.step) and one.suspects:
            return place + min(suspect.at for suspect in one.suspects)
        place += len(one.rows)
    return 0


def rows(found: Comparison, *, first: int, count: int, state: str = "", module: str = "") -> dict[str, Json]:
    """A part of the table, and how many rows match: of one state, and of a module with all that is inside of it."""
    matching = [
        (one, row) for one in found.judgements for row in one.rows
        if (not state or row.state == state) and (not module or _inside(one, row, module))
    ]  # fmt: skip
    return {"matching": len(matching), "first": first,
            "rows": [row_of(one, row) for one, row in matching[first : first + count]]}  # fmt: skip


def _inside(one: Judgement, row: Row, module: str) -> bool:
    op = one.target.ops[row.target] if row.target is not None else one.golden.ops[row.golden or 0]
    return op.module == module or op.module.startswith(f"{module}.")


def _rows(one: Judgement) -> Iterator[dict[str, Json]]:
    for row in one.rows:
        yield row_of(one, row)


def row_of(one: Judgement, row: Row) -> dict[str, Json]:
    """One line of the table."""
    golden = one.golden.ops[row.golden] if row.golden is not None else None
    target = one.target.ops[row.target] if row.target is not None else None
    op = target or golden
    assert op is not None
    side = one.target if target is not None else one.golden
    return {
        "rank": one.rank, "step": one.step, "phase": op.phase, "operator": op.parameter or op.name,
        "module": op.module or None, "line": op.line or None, "state": row.state,
        "shape": list(side.values[op.outputs[0]].shape) if op.outputs else None,
        "dtype": side.values[op.outputs[0]].dtype if op.outputs else None,
        "inputs_apart": _number(row.inputs.relative if row.inputs else None),
        "outputs_apart": _number(row.outputs.relative if row.outputs else None),
        "of_tolerance": _number(row.ratio), "known_by": row.outputs.known if row.outputs else None,
        "cosine": _number(row.outputs.cosine if row.outputs else None),
        "largest": _number(row.outputs.largest if row.outputs else None),
    }  # fmt: skip


def _number(number: float | None) -> Json:
    if number is None:
        return None
    return number if math.isfinite(number) else str(number)


def text(found: Comparison, *, rows: int = 12) -> str:
    """The sentence, the chain, and the rows around the first difference."""
    lines = [found.sentence, *(f"An argument differs, though: {one}." for one in found.notes)]
    if found.first is not None and found.first.code:
        lines.append(f"    {found.first.code}")
    if found.chain and found.first is not None:
        lines += ["", "How the difference goes on", *_chain_lines(found)]
    table = _around(found, rows)
    if table:
        lines += ["", "Operators", *table]
    counts = ", ".join(f"{number} {state}" for state, number in _counts(found).items())
    lines += ["", f"Rows: {counts}"]
    for one in found.diagnostics:
        lines.append(
            f"{one.where + ': ' if one.where else ''}{one.message}" + (f"; lost: {one.lost}" if one.lost else "")
        )
    return "\n".join(lines)


def _chain_lines(found: Comparison) -> list[str]:
    links = list(found.chain)
    shown = links if len(links) <= 10 else [*links[:5], *links[-4:]]
    lines = []
    for at, link in enumerate(shown):
        if len(links) > 10 and at == 5:
            lines.append(f"    … {len(links) - 9} more")
        gain = f", {link.amplification:.3g} times" if link.amplification else ""
        lines.append(f"    {link.apart:9.2e}{gain:16}  {link.operator}  {link.module}")
    return lines


def _around(found: Comparison, rows: int) -> list[str]:
    if found.first is None:
        return []
    for one in found.judgements:
        if (one.rank, one.step) == (found.first.rank, found.first.step):
            blamed = next((at for at, row in enumerate(one.rows) if row.state == "blamed"), 0)
            start = max(blamed - rows // 3, 0)
            return [_line(row_of(one, row)) for row in one.rows[start : start + rows]]
    return []


def _line(row: dict[str, Json]) -> str:
    numbers = [row["inputs_apart"], row["outputs_apart"]]
    shown = [f"{one:9.2e}" if isinstance(one, float) else f"{one if one is not None else '-':>9}" for one in numbers]
    return f"    {row['state']!s:12} {shown[0]} → {shown[1]}  {row['operator']}  {row['module'] or ''}"
