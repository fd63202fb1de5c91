"""Writes the pages of docs/ that are generated from the code: tables, rules, commands; `--check` only compares."""

from __future__ import annotations

import enum
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from hermes.base.limits import LIMITS
from hermes.cli.app import app
from hermes.cli.exit_codes import ANY as ANY_COMMAND
from hermes.cli.exit_codes import ENDED, rows_of
from hermes.fleet.api import metric_families
from hermes.knowledge import cases
from hermes.knowledge.cases import Case
from hermes.knowledge.input_files import INPUT_FILES
from hermes.model.declare import Column as Field
from hermes.model.declare import Declared, columns_of, declared, spread_out
from hermes.model.limit import Limit
from hermes.model.symptom import ANY, Symptom, symptoms
from hermes.model.tables import TABLES, Column, Table
from hermes.profiles.measure import load_all
from hermes.profiles.rules import ALL, MODULES, modules_of
from hermes.profiles.rules.rule import Rule

DOCS = Path(__file__).resolve().parent
_MADE = "<!-- Made by docs/generate.py: change the code and run `make docs`. -->\n\n"
_TABLES = """\
Every format that Hermes reads becomes these tables, whatever the vendor. `hermes sql PATH QUERY` asks them,
`hermes schema` lists them, and `hermes tables PATH` says where their Parquet files are.

Times are integer nanoseconds on the clock of the file, durations too; intervals are half-open. A missing
value is null, never 0. A column whose last cell is empty is never null."""
_RULES = """\
A rule looks at measures and says what costs time, on which ranks, how much of it could be won back at most,
and what to do. `hermes explain CODE` prints the same pages. Findings of `preview` rules stand apart, and make neither
verdict nor plan: [what is trusted, and why](../evidence/trust.md). Rules of the `lab` run only with
`hermes analyze --lab`."""


_CASES = """\
Causes of slow training, layer by layer: how each shows in the measures, how to confirm it, the change that cures it,
where it applies, what gain is published for it, and the source. `hermes cases WORDS` searches them, `hermes cases ID`
prints one.

Symptoms are comparisons of [named measures](measures.md). All of a case's symptoms together make its picture; one alone
proves nothing. A published gain is what its source measured on its own job, never a prediction for yours. A *lead*
holds a fact that could not be compared with a source: check it before you rely on it."""
_MEASURES = """\
The measures that the symptoms of [cases](README.md) name. A share of a step is of its window, on the step of median
length of a rank; where a measure is one a rank, group or link, a symptom speaks of the one that it fits worst. Fields
are those of the [JSON report](../report-json.md)."""


_LIMITS = """\
Hermes trusts no input: a few bytes may ask for any amount of time, memory or disk. What goes beyond a limit is refused,
and the error names the limit. If you trust the input, set the variable to a larger number.

An archive may always unpack to 1 GiB. It may hold 10,000 files and folders, and one more for each 10 bytes of its
size, up to the limit. A file of holes counts as an archive: its size is compared with the bytes that it holds."""


_INPUTS = """\
Give `hermes analyze` one of these files, a folder of them, an archive (`.tar.gz`, `.tgz`, `.zip`) or a URL
(`s3://bucket/job`). `*` stands for any text. Names do not decide alone: Hermes looks into files whose names many
programs use. A folder may hold one rank or many."""


_METRICS = """\
What [`hermes exporter`](exporter.md) serves. `hermes watch --format openmetrics` and `--textfile` tell the families of
jobs.

Names and units follow OpenMetrics: a counter ends in `_total`, an info in `_info`, and the end of a name is its unit.
What is not measured is absent, never 0. A rank has the number that the job gives it; `launch` is what the launcher
calls the job on all of its hosts, else the name of the job."""
_METRIC_GROUPS = ("Jobs", "The host", "Devices", "The exporter")


def pages() -> dict[str, str]:
    """Every generated page: its path below docs/ and its text."""
    made = {"tables.md": _tables(), "cli.md": _commands(), "rules/README.md": _rules()}
    made["report-json.md"] = _report()
    made["inputs.md"] = _inputs()
    made["limits.md"] = _input_limits()
    made["metrics.md"] = _metrics()
    made |= {f"rules/{rule.code}.md": _rule(rule) for rule in ALL}
    made |= {"cases/README.md": _cases(), "cases/measures.md": _measures()}
    made |= {f"cases/{layer}.md": _layer(layer) for layer in cases.LAYERS}
    pages = {name: _MADE + text.rstrip() + "\n" for name, text in made.items()}
    return pages | {"report.schema.json": json.dumps(_schema(made["report-json.md"]), indent=1) + "\n"}


def stale() -> list[str]:
    """The pages that differ from the generated text, are missing, or belong to a removed rule."""
    made = pages()
    there = {f"{folder}/{path.name}" for folder in ("rules", "cases") for path in (DOCS / folder).glob("*.md")}
    wrong = [name for name, text in made.items() if not (DOCS / name).exists() or _read(name) != text]
    return sorted([*wrong, *(there - made.keys())])


def write() -> list[str]:
    """Bring all pages up to date; returns those that changed."""
    made, changed = pages(), stale()
    for name in changed:
        path = DOCS / name
        if name in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[name], "utf-8")
        else:
            path.unlink()
    return changed


def main(arguments: list[str]) -> int:
    """With `--check`, print the stale pages and return 1 if there are any; without it, write them."""
    if arguments == ["--check"]:
        wrong = stale()
        sys.stdout.writelines(f"docs/{name} is out of date: run `make docs`\n" for name in wrong)
        return 1 if wrong else 0
    sys.stdout.writelines(f"wrote docs/{name}\n" for name in write())
    return 0


def _read(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def _tables() -> str:
    index = "\n".join(f"| [`{table.name}`](#{table.name}) | {_cell(table.row)} |" for table in TABLES.values())
    return "\n\n".join(
        [f"# Tables\n\n{_TABLES}\n\n| table | a row is |\n|---|---|\n{index}", *map(_table, TABLES.values())]
    )


def _table(table: Table) -> str:
    rows = "\n".join(map(_column, table.columns))
    return (
        f"## `{table.name}`\n\nA row is {table.row}.\n\n"
        f"| column | type | unit | meaning | null means |\n|---|---|---|---|---|\n{rows}"
    )


def _column(column: Column) -> str:
    return f"| `{column.name}` | {column.kind} | {column.unit} | {_cell(column.doc)} | {_cell(column.null)} |"


def _rules() -> str:
    rows = "\n".join(
        f"| [{rule.code}]({rule.code}.md) | {', '.join((*rule.states, *rule.lab * ('lab',)))} | {_title(rule)} |"
        for rule in ALL
    )
    return f"# Rules\n\n{_RULES}\n\n| rule | state | what it finds |\n|---|---|---|\n{rows}"


def _title(rule: Rule) -> str:
    return rule.page.strip().splitlines()[0].rstrip(".")


def _rule(rule: Rule) -> str:
    _, _, body = rule.page.strip().partition("\n")
    module = next(one for one in MODULES if one.__doc__ == rule.page)
    every = [value for own in modules_of(module) for value in vars(own).values()]
    own = dict.fromkeys(value for value in every if isinstance(value, Limit))
    limits = "\n".join(map(_limit, own))
    source = f"src/{module.__name__.replace('.', '/')}{'' if hasattr(module, '__path__') else '.py'}"
    return (
        f"# {rule.code}: {_title(rule)}\n\n{_state(rule)}\n\n{body.strip()}\n\n"
        f"## Limits\n\n{limits or 'None.'}\n\n"
        f"Source: [`{source}`](../../{source})"
    )


def _state(rule: Rule) -> str:
    """The state of a rule; for a rule with several finders, the state of each finder."""
    if len(rule.finders) == 1:
        lab = " It runs only with `hermes analyze --lab`." if rule.lab else ""
        return f"State: [{rule.states[0]}](../evidence/trust.md).{lab}"
    rows = "\n".join(f"| {one.name} | [{one.state}](../evidence/trust.md) |" for one in rule.finders)
    return f"| finds | state |\n|---|---|\n{rows}"


def _input_limits() -> str:
    rows = "\n".join(f"| `{one.variable}` | {one.most:,} {one.unit} | {_cell(one.why)} |" for one in LIMITS)
    return f"# Limits of input\n\n{_LIMITS}\n\n| variable | at most | why |\n|---|---|---|\n{rows}"


def _inputs() -> str:
    parts = [f"# Files that Hermes reads\n\n{_INPUTS}"]
    for one in INPUT_FILES:
        beside = f"\n\nRead beside them: {_listed(one.beside)}." if one.beside else ""
        parts.append(f"## {one.program}\n\n{_listed(one.names)}\n\n{one.about}{beside}")
    return "\n\n".join(parts)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _metrics() -> str:
    parts = [f"# Metrics\n\n{_METRICS}"]
    for title, of in zip(_METRIC_GROUPS, metric_families.groups(), strict=True):
        rows = [
            f"| `{one.served}` | {one.kind} | {one.unit} | {', '.join(f'`{name}`' for name in one.names)} "
            f"| {_cell(one.help)} |" for one in of
        ]  # fmt: skip
        parts.append("\n".join([f"## {title}\n", "| metric | kind | unit | labels | meaning |", "|---|---|---|---|---|",
                                *rows]))  # fmt: skip
    return "\n\n".join(parts)


def _limit(threshold: Limit) -> str:
    source = threshold.source
    if source.startswith("docs/"):
        source = f"[{source}](../{source.removeprefix('docs/')})"
    value = f"{threshold.value:.0%}" if threshold.unit.startswith("of ") else f"{threshold.value:g}"
    return f"- more than {value} {threshold.unit}. Source: {source}"


def _cases() -> str:
    rows = [
        f"| [{layer}]({layer}.md) | {len(of)} | {sum(one.is_lead for one in of)} "
        f"| {sum(one.gain != cases.NO_GAIN for one in of)} |"
        for layer in cases.LAYERS
        for of in [cases.cases_of(layer)]
    ]
    index = [
        f"- [{one.id}]({one.layer}.md#{_anchor(one)}): {one.cause}{' *(lead)*' if one.is_lead else ''}"
        for one in cases.cases()
    ]
    table = "\n".join(["| layer | cases | leads | with a published gain |", "|---|---|---|---|", *rows])
    return f"# Cases\n\n{_CASES}\n\n{table}\n\n## Index\n\n" + "\n".join(index)


def _anchor(case: Case) -> str:
    return case.id.lower()


def _layer(layer: str) -> str:
    of = cases.cases_of(layer)
    rows = "\n".join(f"| [{one.id}](#{_anchor(one)}) | {_cell(one.cause)} |" for one in of)
    head = (
        f"# Cases: {layer}\n\n[All layers](README.md), [measures](measures.md).\n\n| case | cause |\n|---|---|\n{rows}"
    )
    return "\n\n".join([head, *map(_case, of)])


def _case(case: Case) -> str:
    lead = [f"*A lead: {case.checked.removeprefix('no, ')}.*"] if case.is_lead else []
    signs = [f"- `{one.text}`" for one in case.symptoms] + [f"- not measured: {one}" for one in case.not_measured]
    gain = case.gain + (f" ({case.gain_source})" if case.gain_source else "")
    facts = [
        f"- Applies to: {case.framework}; {', '.join(case.chips)}; {case.versions}",
        f"- Published gain: {gain}",
        f"- Risk: {case.risk}",
        f"- Sources: {'; '.join(f'{one} ({one.where})' for one in case.sources)}",
    ]
    elsewhere = f"\n\n# after, on other chips than Ascend\n{case.elsewhere}" if case.elsewhere else ""
    parts = [
        f"## {case.id}",
        f"**{case.cause}.**",
        *lead,
        "\n".join(signs),
        f"Confirm: {case.confirm}",
        f"Cure: {case.cure}",
        f"```text\n# before\n{case.before}\n\n# after\n{case.after}{elsewhere}\n```",
        "\n".join(facts),
    ]
    return "\n\n".join(parts)


_FRAME = Path(__file__).resolve().parent / "report-json.frame"
_MEASURES_HERE = "<!-- Here stand the declared measures. -->"


def _report() -> str:
    """The page of the JSON report: generated sections of the declared measures, in a frame that is written by hand."""
    before, _, after = _FRAME.read_text("utf-8").partition(_MEASURES_HERE)
    load_all()
    tops: dict[str, list[str]] = {}
    for about in declared().values():
        tops.setdefault(about.path.partition(".")[0], []).extend(_sections(about))
    listed = "\n\n".join(section for sections in tops.values() for section in dict.fromkeys(sections))
    page = f"{before}{listed}{after}"
    for about in declared().values():
        if about.path:
            page = _named_above(page, about)
    return page


def _named_above(page: str, about: Declared) -> str:
    """The page with a kind of row listed in the section of its container, as the last entry unless the frame lists
    it."""
    where, _, key = about.path.rpartition(".")
    begin = page.find(f"\n## {f'`{where}`' if where else 'Top level'}\n")
    if begin < 0:
        return page
    end = page.find("\n## ", begin + 1)
    end = end if end >= 0 else len(page)
    section = page[begin:end]
    last = section.rfind("\n| `")
    if f"\n| `{key}` |" in section or last < 0:
        return page
    after = section.index("\n", last + 1) if "\n" in section[last + 1 :] else len(section)
    kind = "object or null" if about.one else "list"
    row = f"\n| `{key}` | {kind} | {_cell(about.title[0].lower() + about.title[1:])} |"
    return page[:begin] + section[:after] + row + section[after:] + page[end:]


def _schema(page: str) -> dict[str, object]:
    """The JSON schema that corresponds to the page of the report; further fields are allowed everywhere."""
    objects: dict[str, dict[str, object]] = {}
    for section in page.split("\n## ")[1:]:
        path = section.splitlines()[0].strip("`").replace("Top level", "")
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \| ", section, re.M)
        if rows:
            objects[path] = {name: _json_type(kind) for name, kind in rows}

    def whole(path: str) -> dict[str, object]:
        properties = dict(objects[path])
        for name, kind in objects[path].items():
            inner = f"{path}.{name}".lstrip(".")
            if f"{inner}[]" in objects:
                properties[name] = {**kind, "items": whole(f"{inner}[]")}  # type: ignore[dict-item]
            elif inner in objects:
                properties[name] = {**whole(inner), **kind}  # type: ignore[dict-item]
        return {"type": ["object", "null"], "properties": properties, "required": sorted(properties)}

    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "hermes.report/1", "$defs": _DEFS}
    return {**head, **whole(""), "type": "object"}


_DEFS = {
    "message": {
        "type": "object", "required": ["text"],
        "properties": {"text": {"type": "string"}, "id": {"type": "string"}, "arguments": {"type": "object"}},
        "dependentRequired": {"id": ["arguments"], "arguments": ["id"]}, "additionalProperties": False,
    }
}  # fmt: skip
_JSON_TYPES = {"int": "integer", "number": "number", "text": "string", "true or false": "boolean",
               "boolean": "boolean", "object": "object", "list": "array"}  # fmt: skip


def _json_type(words: str) -> dict[str, object]:
    """A type of the page, such as `list of int or null`, as a type of JSON schema."""
    bare, _, null = words.partition(" or null")
    if bare == "message":
        return {"$ref": "#/$defs/message"}
    kind, _, inner = bare.partition(" of ")
    # A number that is not finite is null in JSON.
    none = ["null"] if null or words.endswith("or null") or kind == "number" else []
    made: dict[str, object] = {"type": [_JSON_TYPES.get(kind, "object"), *none]}
    return made | ({"items": _json_type(inner)} if inner else {})


def _sections(about: Declared) -> list[str]:
    """The section of one kind of row, and the sections of the rows inside it."""
    path = about.path if about.one else f"{about.path}[]"
    return _section(path, about.about, columns_of(about.row))


def _section(path: str, text: str, columns: tuple[Field, ...]) -> list[str]:
    rows, inner = [], []
    for one, prefix in spread_out(columns):
        rows.append(f"| `{prefix}{one.key}` | {one.json_type} | {_cell(one.meaning)} |")
        if one.keys:
            parts = [f"| `{'ms' if key == 'ns' else key}` | {' | '.join(_PARTS[key])} |" for key in one.keys]
            inner.append("\n".join([f"## `{path}.{one.key}[]`", "", _HEAD, *parts]))
        elif one.row is not None:
            inner += _section(f"{path}.{one.key}[]", "", columns_of(one.row))
    extra = _MFU if path == "steps[]" else ()
    return ["\n".join([f"## `{path}`", "", *([text, ""] if text else []), _HEAD, *rows, *extra]), *inner]


_HEAD = "| field | type | meaning |\n|---|---|---|"
_PARTS = {
    "name": ("text", "name as recorded"), "calls": ("int", "how many, those inside others too"),
    "ns": ("number", "their sum"), "shape": ("text", "sizes, by commas"), "gradients": ("int", "how many have it"),
    "value": ("text or null", "value; null: known to be unset"), "ranks": ("list of int", "who has it"),
    "precision": ("text", "type of the numbers"), "tflops": ("number", "10^12 operations a second"),
    "line": ("text", "file and line"), "share": ("number", "of its samples"),
    "figures": ("text", "which"), "source": ("text", "where they come from"),
}  # fmt: skip
_MFU = ("| `mfu` | number or null | [model FLOPs utilisation](concepts.md#compute), 0 to 1; null when the chip or the "
        "work is not known |",)  # fmt: skip


def _measures() -> str:
    load_all()
    rows = "\n".join(_measure(one) for _, one in sorted(symptoms().items()))
    return f"# Measures\n\n{_MEASURES}\n\n| measure | unit | meaning | fields |\n|---|---|---|---|\n{rows}"


def _measure(measure: Symptom) -> str:
    of = {ANY: "[*]", (): ""}.get(measure.of, f"[{', '.join(measure.of)}]")
    fields = ", ".join(f"`{field}`" for field in measure.fields)
    return f"| `{measure.name}{of}` | {measure.unit} | {_cell(measure.meaning)} | {fields} |"


def _commands() -> str:
    parts = ["# Commands", "`hermes --help`, and `hermes COMMAND --help`, say the same.\n\n## `hermes`"]
    parts += [*_parameters(app), _exits((str(code.value), text) for code, text in {**ANY_COMMAND, **ENDED}.items())]
    for name, command in commands(app):
        usage = " ".join(["hermes", *name, *map(_usage, command.params)])
        parts += [f"## `hermes {' '.join(name)}`", inspect.cleandoc(command.help or "")]
        if not isinstance(command, click.Group):
            parts += [f"```text\n{usage}\n```", *_parameters(command), _exits(rows_of(command))]
    return "\n\n".join(parts)


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands by their words: a group, then its commands."""
    for name, command in group.commands.items():
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)


def _exits(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(["| exit code | means |", "|---|---|", *(f"| {code} | {_cell(text)} |" for code, text in rows)])


def _parameters(command: click.Command) -> list[str]:
    rows = [f"| {_name(one)} | {_cell(one.help or '')} | {_default(one)} |" for one in command.params]
    return ["\n".join(["| argument or option | meaning | default |", "|---|---|---|", *rows])] if rows else []


def _usage(given: click.Parameter) -> str:
    if isinstance(given, click.Option):
        return f"[{given.opts[-1]}{_value(given)}]"
    return given.make_metavar(click.Context(app))


def _name(given: click.Parameter) -> str:
    if isinstance(given, click.Argument):
        return f"`{given.metavar or str(given.name).upper()}`"
    return ", ".join(f"`{word}{_value(given)}`" for word in given.opts)


def _value(given: click.Parameter) -> str:
    if isinstance(given, click.Option) and given.is_flag:
        return ""
    if isinstance(given.type, click.Choice):
        return f" {{{','.join(str(getattr(choice, 'value', choice)) for choice in given.type.choices)}}}"
    return f" {given.type.name.upper()}"


def _default(given: click.Parameter) -> str:
    if given.required:
        return "required"
    if isinstance(given, click.Option) and isinstance(given.show_default, str):
        return given.show_default
    # Click has a special Enum member for a missing default.
    value = given.default.value if isinstance(given.default, enum.Enum) else given.default
    return f"`{value}`" if isinstance(value, (str, int, float)) and value else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
