"""One HTML file of a scan, with the diff of a conversion beside the places: no script needed, nothing loaded."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from hermes.migrate.model import EFFECT_ORDER, FileChange, FileScan, Place, TreeChange, TreeScan
from hermes.migrate.summary import Summary, summarize, work
from hermes.migrate.write import diff_of

_STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#59636e;--line:#d8dee4;--card:#f6f8fa;--stops:#b42318;
--differs:#8a5a00;--slow:#1f5fa8;--note:#59636e;--add:#dafbe1;--del:#ffebe9;--addfg:#0b5d23;--delfg:#8b1a14}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9aa4af;--line:#30363d;--card:#161b22;
--stops:#ff8a80;--differs:#e3b341;--slow:#79c0ff;--note:#9aa4af;--add:#12331d;--del:#3d1a1b;--addfg:#7ee2a0;--delfg:#ffaba3}}
*{box-sizing:border-box}body{margin:0 auto;max-width:1400px;padding:24px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,sans-serif}h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:28px 0 8px}
p{margin:4px 0}.dim{color:var(--dim)}code,pre{font:13px/1.45 ui-monospace,monospace}
.answer{font-size:18px;padding:12px 16px;border-left:4px solid var(--slow);background:var(--card);margin:14px 0}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:5px 10px;
border-bottom:1px solid var(--line)}th{font-weight:600;color:var(--dim)}td.n{text-align:right;white-space:nowrap}
.stops{color:var(--stops)}.differs{color:var(--differs)}.slow{color:var(--slow)}.note{color:var(--note)}
details{border:1px solid var(--line);border-radius:6px;margin:8px 0;background:var(--bg)}
summary{cursor:pointer;padding:8px 12px;background:var(--card);border-radius:6px}summary:focus-visible{outline:2px solid var(--slow)}
.both{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:12px;padding:8px 12px}.both>*{min-width:0}
@media(max-width:900px){.both{grid-template-columns:minmax(0,1fr)}}
pre{margin:0;overflow-x:auto;background:var(--card);border:1px solid var(--line);padding:8px;border-radius:4px}
pre span{display:block;white-space:pre}pre .a{background:var(--add);color:var(--addfg)}pre .d{background:var(--del);color:var(--delfg)}
pre .h{color:var(--dim)}ul.places{list-style:none;margin:0;padding:0}ul.places li{padding:6px 0;border-bottom:1px solid var(--line)}
ul.places code,td code{overflow-wrap:anywhere}
"""
_WORDS = {"stops": "stops", "differs": "behaves differently", "slow": "costs time", "note": "good to know"}


def page(found: TreeScan, change: TreeChange | None) -> str:
    """The whole page."""
    return "".join(_parts(found, change))


def _parts(found: TreeScan, change: TreeChange | None) -> Iterator[str]:
    said = summarize(found)
    title = f"Migration of {found.root}"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{escape(title)}</h1>"
    target = f"Ascend {found.target.chip}, torch {found.target.torch}"
    style = f"; converted in the style {change.style.value}" if change else ""
    yield f'<p class="dim">{len(found.files)} files, {sum(file.lines for file in found.files):,} lines; for {target}{style}</p>'
    yield from _answer(said, found)
    yield from _obstacles(said)
    yield from _files(found, change)
    yield from _skipped(found)
    yield "</main></body></html>\n"


def _answer(said: Summary, found: TreeScan) -> Iterator[str]:
    hours = f": {work(said.hours)} by hand" if said.by_hand else ""
    yield f'<p class="answer">Can it move? <strong>{escape(said.verdict)}</strong>{hours}</p>'
    yield f"<p>{said.by_convert} places in {said.files_changed} files are settled by <code>hermes migrate convert</code>; "
    yield f"{said.by_hand} are left to a person, {len(said.obstacles)} different ones. "
    yield f"{said.apis_used} torch APIs are used; the support table lists {said.apis_listed} of them, "
    yield f"{said.apis_on_chip} as running on {escape(found.target.chip)}.</p>"
    counts = " · ".join(f'<span class="{effect}">{said.effects[effect]} {_WORDS[effect]}</span>' for effect in _WORDS)
    yield f"<p>{counts}</p>"


def _obstacles(said: Summary) -> Iterator[str]:
    if not said.obstacles:
        return
    yield "<h2>What stands in the way</h2><table><thead><tr><th>What</th><th>To do</th><th>Effort</th><th>Where</th></tr></thead><tbody>"
    for one in said.obstacles:
        path, line = one.places[0]
        more = f" and {len(one.places) - 1} more" if len(one.places) > 1 else ""
        yield f"<tr><td><code>{_plain(one.what)}</code></td><td>{escape(one.todo)}</td><td>{one.effort.value}</td>"
        yield f"<td><code>{escape(path)}:{line}</code>{more}</td></tr>"
    yield "</tbody></table>"


def _files(found: TreeScan, change: TreeChange | None) -> Iterator[str]:
    changes = {file.path: file for file in change.files} if change else {}
    yield "<h2>Files</h2>"
    for file in found.files:
        if file.places or (file.path in changes and changes[file.path].changed):
            yield from _file(file, changes.get(file.path))


def _file(file: FileScan, change: FileChange | None) -> Iterator[str]:
    serious = any(place.effect.value in ("stops", "differs") for place in file.places)
    opened = " open" if serious else ""
    edits = f", {len(change.edits)} edits" if change and change.changed else ""
    yield f"<details{opened}><summary><code>{escape(file.path)}</code> "
    yield f'<span class="dim">{len(file.places)} places{edits}</span></summary><div class="both"><ul class="places">'
    for place in sorted(file.places, key=lambda one: (one.line, EFFECT_ORDER.index(one.effect))):
        yield from _place(place)
    yield "</ul>"
    yield from _diff(change)
    yield "</div></details>"


def _place(place: Place) -> Iterator[str]:
    who = "convert" if place.converts else place.effort.value
    later = f" · later {escape(place.later)}" if place.later else ""
    yield f'<li><span class="dim">line {place.line}</span> <span class="{place.effect.value}">'
    yield f"{_WORDS[place.effect.value]}</span> <code>{_plain(place.what)}</code>"
    yield f'<p>{escape(place.why)}; {escape(place.todo)}</p><p class="dim">{place.sure.value} · {who}{later}</p></li>'


def _plain(what: str) -> str:
    """What a place is, without the marks that text for a terminal puts around code."""
    return escape(what.replace("`", ""))


def _diff(change: FileChange | None) -> Iterator[str]:
    if change is None or not change.changed:
        yield '<p class="dim">convert changes nothing here</p>'
        return
    yield "<pre>"
    for line in diff_of(change):
        kind = {"+": "a", "-": "d", "@": "h"}.get(line[:1], "")
        kind = "h" if line.startswith(("+++", "---")) else kind
        yield f'<span class="{kind}">{escape(line.rstrip())}</span>'
    yield "</pre>"


def _skipped(found: TreeScan) -> Iterator[str]:
    if not found.skipped:
        return
    yield "<h2>Not read</h2><ul>"
    for one in found.skipped:
        yield f"<li><code>{escape(one.path)}</code>: {escape(one.why)}</li>"
    yield "</ul>"
