"""Lists what Hermes still says as a sentence in its code, where a message of the catalogue should stand.

Run it in the root of the repository: `python tools/sentences_left.py [ROOM ...]`. It prints `file:line` of each
sentence, then how many there are in each room.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "hermes"
ROOMS = ("jobs", "knowledge", "migrate", "model", "precision", "profiles", "store", "web")
"""Rooms that make values; `report` and `cli` are faces, and `inside` imports nothing."""
FIELDS = frozenset({"message", "title", "do", "verify", "risk", "what", "method", "lost", "hint"})
"""Arguments that hold a text for a reader."""
PLACES = frozenset({
    "Action", "Column", "Combined", "Diagnostic", "Evidence", "Finding", "Gain", "Loss", "Table", "Tree", "Code",
    "bound", "fact", "host_loss", "loss", "operators", "replace", "won",
})  # fmt: skip
"""What is made with such arguments."""


def is_sentence(node: ast.expr) -> bool:
    """Whether an expression writes a text here: a literal, a text with values in it, or one of several such."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and any(map(str.isalpha, node.value))
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.BinOp):
        return is_sentence(node.left) or is_sentence(node.right)
    return isinstance(node, ast.IfExp) and (is_sentence(node.body) or is_sentence(node.orelse))


def sentences(tree: ast.AST) -> Iterator[int]:
    """The lines of the sentences in a module, in order."""
    lines = {value.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) for value in _said(node)}
    yield from sorted(lines)


def _said(call: ast.Call) -> Iterator[ast.expr]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    is_error = name.endswith("Error") and name not in _OF_PYTHON
    if is_error:
        # An error says what happened by its first argument, or by the one behind the path.
        yield from [one for one in call.args if is_sentence(one)][:1]
    if is_error or name in PLACES:
        yield from (one.value for one in call.keywords if one.arg in FIELDS and is_sentence(one.value))


_OF_PYTHON = frozenset({"AssertionError", "KeyError", "OSError", "RuntimeError", "TypeError", "ValueError"})
"""Errors for programmers, which no user is meant to see."""


def left(room: str) -> Iterator[tuple[str, int]]:
    """File and line of each sentence in a room: a folder of `src/hermes`, or a file in it."""
    path = SOURCE / room
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        for line in sentences(ast.parse(file.read_text("utf-8"))):
            yield str(file.relative_to(SOURCE)), line


def main() -> None:
    """Print what is left."""
    counts: Counter[str] = Counter()
    for room in sys.argv[1:] or ROOMS:
        for file, line in left(room):
            counts[room] += 1
            print(f"src/hermes/{file}:{line}")
    for room in sys.argv[1:] or ROOMS:
        print(f"{room}: {counts[room]}")


if __name__ == "__main__":
    main()
