"""A comparison as one page: verdict, chain, the module tree coloured by difference, the table."""

from __future__ import annotations

import math
from collections import defaultdict
from html import escape

from hermes.base.say import say
from hermes.precision.compare import Comparison
from hermes.precision.document import row_of
from hermes.precision.tree import level, modules

_MOST_ROWS = 4000
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--bad:#c62828;--mid:#ef8f00;--low:#f3d66b;--ok:#43a047}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}
h1{font-size:1.35rem}h2{font-size:1.1rem;margin-top:2rem}code,pre,td.n{font-family:ui-monospace,monospace;font-size:.9em
h1{font-size:1.35rem}h2{font-size:1.1rem;margin-top:2rem}code,pre,td.n{font-family:ui-monospace,monospace;font-size:.9em}
pre{background:#8881;padding:.6rem .8rem;overflow:auto}table{border-collapse:collapse;width:100%}
.scroll{overflow:auto;max-height:40rem}th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid var(--line)}
td.n{text-align:right;white-space:nowrap}th{position:sticky;top:0;background:Canvas}
tr.blamed td{background:color-mix(in srgb,var(--bad) 25%,transparent);font-weight:600}
ul{list-style:none;padding-left:1.2rem;margin:0}.dot{display:inline-block;width:.8em;height:.8em;border-radius:50%;
margin-right:.4em;vertical-align:-.05em}details>summary{cursor:pointer}
"""


def page(found: Comparison) -> str:
    """The page. All text from recordings is escaped."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>Precision: {escape(found.verdict)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(found.sentence)}</h1>",
        *(f"<p>An argument differs, though: {escape(one)}.</p>" for one in found.notes),
    ]
    if found.first is not None and found.first.code:
        parts.append(f"<pre>{escape(found.first.code)}</pre>")
    parts.append(
        f"<p>Golden: <code>{escape(str(found.golden.path))}</code>, "
        f"target: <code>{escape(str(found.target.path))}</code></p>"
    )
    if found.chain:
        parts.append(_chain(found))
    parts += [_tree(found), _table(found), _said(found)]
    return "".join(parts)


def _chain(found: Comparison) -> str:
    rows = "".join(
        f"<tr><td>{escape(link.operator)}</td><td>{escape(link.module)}</td><td class=n>{link.apart:.2e}</td>"
        f"<td class=n>{f'{link.amplification:.3g}' if link.amplification else ''}</td></tr>"
        for link in found.chain
    )
    head = "<tr><th>operator<th>module<th>relative distance<th>times the one before</tr>"
    return f"<h2>How the difference goes on</h2><div class=scroll><table>{head}{rows}</table></div>"


def _tree(found: Comparison) -> str:
    worst = modules(found)
    if not worst:
        return ""
    children: dict[str, list[str]] = defaultdict(list)
    for name in worst:
        children[name.rpartition(".")[0]].append(name)
    blamed = found.first.module if found.first is not None else ""
    return f"<h2>Modules</h2>{_branch('', children, worst, blamed, 0)}"


def _branch(name: str, children: dict[str, list[str]], worst: dict[str, float], blamed: str, depth: int) -> str:
    if depth > 60:
        return ""
    items = []
    for child in children.get(name, []):
        label = escape(child.rpartition(".")[2])
        mark = " ← here the runs part" if child == blamed else ""
        dot = f"<span class=dot style='background:var(--{_COLOURS[level(worst[child])]})'></span>"
        text = f"{dot}{label} <small>{worst[child]:.1e}</small>{mark}"
        inner = _branch(child, children, worst, blamed, depth + 1)
        on_the_way = " open" if depth < 2 or blamed.startswith(f"{child}.") or blamed == child else ""
        items.append(
            f"<li><details{on_the_way}><summary>{text}</summary>{inner}</details></li>" if inner else f"<li>{text}</li>"
        )
    return f"<ul>{''.join(items)}</ul>" if items else ""


_COLOURS = {"high": "bad", "middle": "mid", "low": "low", "none": "ok"}


def _table(found: Comparison) -> str:
    names = (
        "state",
        "rank",
        "step",
        "phase",
        "operator",
        "module",
        "line",
        "inputs_apart",
        "outputs_apart",
        "of_tolerance",
    )
    lines: list[str] = []
    total = 0
    for one in found.judgements:
        blamed = next((at for at, row in enumerate(one.rows) if row.state == "blamed"), 0)
        total += len(one.rows)
        start = max(min(blamed - _MOST_ROWS // 4, len(one.rows) - _MOST_ROWS), 0)
        for row in one.rows[start : start + max(_MOST_ROWS - len(lines), 0)]:
            cells = row_of(one, row)
            lines.append(
                f"<tr class={escape(row.state.split()[0])}>" + "".join(_cell(cells[name]) for name in names) + "</tr>"
            )
    head = "".join(f"<th>{name.replace('_', ' ')}" for name in names)
    shown = f"<p>{len(lines):,} of {total:,} rows; result.csv has all.</p>" if len(lines) < total else ""
    return f"<h2>Operators</h2>{shown}<div class=scroll><table><tr>{head}</tr>{''.join(lines)}</table></div>"


def _cell(found: object) -> str:
    if isinstance(found, float):
        return f"<td class=n>{found:.3g}</td>" if math.isfinite(found) else f"<td class=n>{found}</td>"
    return f"<td>{escape('' if found is None else str(found))}</td>"


def _said(found: Comparison) -> str:
    if not found.diagnostics:
        return ""
    items = "".join(
        f"<li>{escape(one.where)}: {escape(say(one.message))}"
        f"{'; lost: ' + escape(say(one.lost)) if one.lost else ''}</li>"
        for one in found.diagnostics
    )
    return f"<h2>What could not be read</h2><ul>{items}</ul>"
