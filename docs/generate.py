"""Writes the pages of docs/ that repeat the code: tables, rules, commands; `--check` only compares."""

from __future__ import annotations

import enum
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from hermes.cli.app import app
from hermes.diagnose.rule import Rule, Threshold
from hermes.diagnose.rules import ALL
from hermes.tables import TABLES, Column, Table

DOCS = Path(__file__).resolve().parent
_MADE = "<!-- Made by docs/generate.py: change the code and run `make docs`. -->\n\n"
_TABLES = """\
Every format that Hermes reads becomes these tables, whatever the vendor. `hermes sql PATH QUERY` asks them,
`hermes schema` lists them, and `hermes tables PATH` says where their Parquet files are.

Times are integer nanoseconds on the clock of the file, durations too; intervals are half-open. A missing
value is null, never 0. A column whose last cell is empty is never null."""
_RULES = """\
A rule looks at measures and says what costs time, on which ranks, how much of it could be won back at most,
and what to do. `hermes explain CODE` prints the same pages."""
_VALUES = {str: "TEXT", int: "N", float: "X", Path: "PATH"}


def pages() -> dict[str, str]:
    """Every generated page: its path below docs/ and its text."""
    made = {"tables.md": _tables(), "cli.md": _commands(), "rules/README.md": _rules()}
    made |= {f"rules/{rule.code}.md": _rule(rule) for rule in ALL}
    return {name: _MADE + text.rstrip() + "\n" for name, text in made.items()}


def stale() -> list[str]:
    """The pages that differ from what the code says, are missing, or belong to a rule that is gone."""
    made = pages()
    there = {f"rules/{path.name}" for path in (DOCS / "rules").glob("*.md")}
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
    """`--check` prints the stale pages and returns 1 if there are any; without it they are written."""
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
    rows = "\n".join(f"| [{rule.code}]({rule.code}.md) | {_title(rule)} |" for rule in ALL)
    return f"# Rules\n\n{_RULES}\n\n| rule | what it finds |\n|---|---|\n{rows}"


def _title(rule: Rule) -> str:
    return rule.page.strip().splitlines()[0].rstrip(".")


def _rule(rule: Rule) -> str:
    _, _, body = rule.page.strip().partition("\n")
    module = sys.modules[rule.find.__module__]
    limits = "\n".join(_limit(value) for value in vars(module).values() if isinstance(value, Threshold))
    source = f"src/{module.__name__.replace('.', '/')}.py"
    return (
        f"# {rule.code}: {_title(rule)}\n\n{body.strip()}\n\n## Limits\n\n{limits or 'None.'}\n\n"
        f"Source: [`{source}`](../../{source})"
    )


def _limit(threshold: Threshold) -> str:
    source = threshold.source
    if source.startswith("docs/"):
        source = f"[{source}](../{source.removeprefix('docs/')})"
    value = f"{threshold.value:.0%}" if threshold.unit.startswith("of ") else f"{threshold.value:g}"
    return f"- more than {value} {threshold.unit}. Source: {source}"


def _commands() -> str:
    parts = ["# Commands", "`hermes --help`, and `hermes COMMAND --help`, say the same.\n\n## `hermes`"]
    assert app.registered_callback is not None
    assert app.registered_callback.callback is not None
    parts += [*_parameters(app.registered_callback.callback), _EXITS]
    for command in app.registered_commands:
        assert command.callback is not None
        about = inspect.getdoc(command.callback) or ""
        given = list(_inspected(command.callback))
        usage = " ".join(["hermes", str(command.name), *(_usage(*one) for one in given)])
        parts += [
            f"## `hermes {command.name}`",
            about,
            f"```text\n{usage}\n```",
            *_parameters(command.callback),
        ]
    return "\n\n".join(parts)


_EXITS = """\
| exit code | means |
|---|---|
| 0 | done; also when the input was incomplete, which the report then says first |
| 2 | the input or the command line cannot be used: stderr says what, where and what to do |
| 3 | `hermes analyze --strict`, and the input was damaged or doubtful |"""


def _inspected(
    callback: Callable[..., Any],
) -> Iterator[tuple[inspect.Parameter, Any, ArgumentInfo | OptionInfo]]:
    hints = get_type_hints(callback, include_extras=True)
    for name, parameter in inspect.signature(callback).parameters.items():
        kind, info = get_args(hints[name])[:2]
        yield parameter, kind, info


def _parameters(callback: Callable[..., Any]) -> list[str]:
    rows = []
    for parameter, kind, info in _inspected(callback):
        name = _name(parameter, kind, info)
        rows.append(f"| {name} | {_cell(str(info.help or ''))} | {_default(parameter, kind)} |")
    return ["\n".join(["| argument or option | meaning | default |", "|---|---|---|", *rows])] if rows else []


def _usage(parameter: inspect.Parameter, kind: Any, info: ArgumentInfo | OptionInfo) -> str:
    if isinstance(info, OptionInfo):
        return f"[{_words(parameter, info)[-1]}{_value(kind)}]"
    word = info.metavar or parameter.name.upper()
    return word if parameter.default is parameter.empty else f"[{word}]"


def _name(parameter: inspect.Parameter, kind: Any, info: ArgumentInfo | OptionInfo) -> str:
    if isinstance(info, ArgumentInfo):
        return f"`{info.metavar or parameter.name.upper()}`"
    return ", ".join(f"`{word}{_value(kind)}`" for word in _words(parameter, info))


def _words(parameter: inspect.Parameter, info: OptionInfo) -> list[str]:
    """How an option is spelled; Typer keeps the first spelling where a default could stand."""
    first = [info.default] if isinstance(info.default, str) and info.default.startswith("-") else []
    return [*first, *(info.param_decls or ())] or [f"--{parameter.name.replace('_', '-')}"]


def _value(kind: Any) -> str:
    inner = _plain(kind)
    if inner is bool:
        return ""
    if issubclass(inner, enum.Enum):
        return f" {{{','.join(str(member.value) for member in inner)}}}"
    return f" {_VALUES[inner]}"


def _plain(kind: Any) -> Any:
    """The type inside `X | None` and `list[X]`."""
    if isinstance(kind, types.UnionType) or get_origin(kind) is list:
        return _plain(next(part for part in get_args(kind) if part is not type(None)))
    return kind


def _default(parameter: inspect.Parameter, kind: Any) -> str:
    value = parameter.default
    if value is parameter.empty:
        return "required"
    if value is None or value == "" or value is False:
        return ""
    return f"`{value.value if isinstance(value, enum.Enum) else value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
