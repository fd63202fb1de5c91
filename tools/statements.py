"""Counts the statements of Hermes by wing at one commit or several: code, messages and tables of facts apart.

    python tools/statements.py COMMIT [COMMIT …]

A statement is an `ast.stmt`. Messages are modules named `messages.py`. Facts are the modules of `knowledge` and of
`model/tables`. A rule is a module, or a package, whose name begins with its code.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

_ROOT = "src/hermes/"
_RULE = re.compile(r"profiles/rules/\w+/([a-z]{2,4}\d{3})_\w+(?:\.py|/)")
_MEASURE = re.compile(r"^@per_rank", re.MULTILINE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Counts:
    """What one commit has: statements by wing and sort, and files, functions, rules and measures."""

    statements: Counter[tuple[str, str]] = field(default_factory=Counter)
    files: int = 0
    functions: int = 0
    measures: int = 0
    rules: set[str] = field(default_factory=set)

    def of(self, *wings: str, sort: str = "") -> int:
        """Statements of some wings, or of all; of one sort, or of all."""
        return sum(
            count
            for (wing, own), count in self.statements.items()
            if (not wings or wing in wings) and (not sort or own == sort)
        )


def _git(*words: str, given: str = "") -> bytes:
    return subprocess.run(["git", *words], input=given.encode(), capture_output=True, check=True).stdout


def _modules(commit: str) -> Iterator[tuple[str, str]]:
    """The path below `src/hermes` and the text of each module."""
    paths = [one for one in _git("ls-tree", "-r", "--name-only", commit, _ROOT).decode().split() if one.endswith(".py")]
    told = _git("cat-file", "--batch", given="".join(f"{commit}:{path}\n" for path in paths))
    at = 0
    for path in paths:
        end = told.index(b"\n", at)
        size = int(told[at:end].split()[2])
        yield path.removeprefix(_ROOT), told[end + 1 : end + 1 + size].decode()
        at = end + size + 2


def _sort(path: str) -> str:
    if path.endswith("/messages.py"):
        return "messages"
    return "facts" if path.startswith(("knowledge/", "model/tables/")) else "code"


def counted(commit: str) -> Counts:
    """The counts of a commit."""
    made = Counts()
    for path, text in _modules(commit):
        nodes = [*ast.walk(ast.parse(text))]
        wing = path.split("/")[0] if "/" in path else "hermes"
        made.statements[wing, _sort(path)] += sum(isinstance(node, ast.stmt) for node in nodes)
        made.functions += sum(isinstance(node, _FUNCTIONS) for node in nodes)
        made.files += 1
        made.measures += len(_MEASURE.findall(text))
        made.rules |= {*_RULE.findall(path)}
    return made


def main(commits: list[str]) -> None:
    """Print a table with a column for each commit."""
    found = [counted(one) for one in commits]
    wings = sorted({wing for one in found for wing, _ in one.statements})
    rows: list[tuple[str, list[int]]] = [(f"`{wing}`", [one.of(wing) for one in found]) for wing in wings]
    rows += [
        ("`profiles`, `model`, `report`", [one.of("profiles", "model", "report") for one in found]),
        *((f"all {sort}", [one.of(sort=sort) for one in found]) for sort in ("code", "messages", "facts")),
        ("all", [one.of() for one in found]),
        ("files", [one.files for one in found]),
        ("functions", [one.functions for one in found]),
        ("rules", [len(one.rules) for one in found]),
        ("measures of a rank", [one.measures for one in found]),
    ]
    print(f"| | {' | '.join(commits)} |")
    print(f"| --- |{' ---: |' * len(commits)}")
    for name, values in rows:
        print(f"| {name} | {' | '.join(f'{value:,}' for value in values)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
