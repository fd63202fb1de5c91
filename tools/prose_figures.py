"""Prints figures of our prose: how long sentences are, how many hang on "so that", and how many address the reader.

Run it in the root of the repository: `python tools/prose_figures.py`. With paths, it prints those of another project:
its Markdown and reStructuredText, and the docstrings of its Python files. Code, tables, headings and addresses of links
are left out; code within a sentence counts as one word. A bullet is a sentence of its own. What has under three words
is no sentence.

No column should be worse than that of memray 1.20.0. This script says of its `docs` (without the list of licenses), its
README and `src/memray`, at commit f70db814:

| memray | sentences | words a sentence | over 30 words | hanging | says "you" |
|---|---|---|---|---|---|
| docs | 965 | 18.0 | 11.3% | 1.2% | 30.1% |
| docstrings | 84 | 11.8 | 1.2% | 1.2% | 4.8% |
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONG = 30
"""A sentence of more words than this is long."""

_HANGING = re.compile(r"\b(so that|of which|that it|than of|of what)\b", re.I)
_YOU = re.compile(r"\b(you|your|yours|yourself)\b", re.I)
_WORD = re.compile(r"[^\W_][\w'’.,/%+-]*")
_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*]*[A-Z0-9])")
_MARKER = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_SKIPPED = re.compile(r"^\s*(\||#|<|!\[|:[\w ]+:|[=~^*\"-]{3,}\s*$|\+[-=+]+$|[=~-]{2,} )")
_NOT_WORDS = (
    (re.compile(r"```.*?^\s*```|<!--.*?-->", re.M | re.S), ""),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"(?::\w+:)?`([^`<]*?)\s*<[^`>]*>`_{0,2}|:\w+:`([^`]*)`|`([^`]*)`_{1,2}"), r"\1\2\3"),
    (re.compile(r"``.+?``|`[^`\n]+`", re.S), "CODE"),
    (re.compile(r"<[^>\n]+>"), ""),
    (re.compile(r"https?://\S+"), "CODE"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was counted in a group of texts."""

    sentences: int
    words: int
    long: int
    hanging: int
    you: int

    def row(self, name: str) -> str:
        """One row of the table."""
        count = max(1, self.sentences)
        shares = (self.hanging, self.you)
        return (
            f"| {name} | {self.sentences} | {self.words / count:.1f} | {self.long / count:.1%} | "
            + " | ".join(f"{part / count:.1%}" for part in shares) + " |"
        )  # fmt: skip


def blocks(text: str, restructured: bool = False) -> Iterator[str]:
    """The paragraphs and bullets of a text, each in one line."""
    for pattern, instead in _NOT_WORDS:
        text = pattern.sub(instead, text)
    block: list[str] = []
    for line in _without_literals(text.splitlines()) if restructured else _without_indented(text.splitlines()):
        starts = _MARKER.match(line)
        if not line.strip() or starts or _SKIPPED.match(line):
            yield " ".join(block)
            block = []
        if line.strip() and not _SKIPPED.match(line):
            block.append(_MARKER.sub("", line).strip().lstrip("> "))
    yield " ".join(block)


def _without_indented(lines: list[str]) -> Iterator[str]:
    """The lines of Markdown that are no indented code: four spaces behind an empty line, outside of bullets."""
    code = bullets = False
    before = ""
    for line in lines:
        indented = line.startswith("    ")
        code = indented and (code or not before.strip()) and not bullets if line.strip() else code
        if line.strip():
            bullets = bool(_MARKER.match(line)) or (bullets and line.startswith(" "))
        if not code:
            yield line
        before = line


def _without_literals(lines: list[str]) -> Iterator[str]:
    """The lines of reStructuredText that are no directive, no literal block and no title."""
    inside: int | None = None
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if inside is not None and line.strip() and depth <= inside:
            inside = None
        if inside is not None:
            continue
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if re.match(r"^([=~^*\"#'`-])\1{2,}\s*$", below):
            continue  # a title
        if re.match(r"\s*\.\. (note|tip|important|warning|caution)::", line):
            line = re.sub(r"\.\. \w+::", "", line)  # it holds prose
        elif re.match(r"\s*\.\.( |$)", line):
            inside = depth
            continue
        if line.rstrip().endswith("::"):
            inside, line = depth, line.rstrip()[:-1]
        yield line


def sentences(text: str, restructured: bool = False) -> Iterator[str]:
    """The sentences of a text."""
    for block in blocks(text, restructured):
        for sentence in _END.split(block):
            if len(_WORD.findall(sentence)) > 2:
                yield sentence


def docstrings(path: Path) -> Iterator[str]:
    """The docstrings of a Python file, those behind an assignment too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield re.sub(r"^\s*(Args|Returns|Raises|Yields):$", "", node.value.value, flags=re.M)


def messages(path: Path) -> Iterator[str]:
    """The sentences of a catalogue of gettext."""
    for entry in path.read_text("utf-8").split("\n\n"):
        parts = re.findall(r'"(?:[^"\\]|\\.)*"', entry.partition("\nmsgstr ")[2])
        yield re.sub(r"\{[^}]*\}", "7", "".join(map(ast.literal_eval, parts)))


def texts(paths: Iterable[Path]) -> Iterator[tuple[str, bool]]:
    """The texts of files, each with whether it is reStructuredText."""
    for path in paths:
        if path.suffix == ".py":
            yield from ((text, True) for text in docstrings(path))
        elif path.suffix == ".po":
            yield from ((text, False) for text in messages(path))
        else:
            yield path.read_text("utf-8"), path.suffix == ".rst"


def figures(of: Iterable[tuple[str, bool]]) -> Figures:
    """Counts the sentences of texts."""
    found = [sentence for text, restructured in of for sentence in sentences(text, restructured)]
    words = [len(_WORD.findall(sentence)) for sentence in found]
    return Figures(
        sentences=len(found), words=sum(words), long=sum(count > LONG for count in words),
        hanging=sum(bool(_HANGING.search(sentence)) for sentence in found),
        you=sum(bool(_YOU.search(sentence)) for sentence in found),
    )  # fmt: skip


def groups() -> dict[str, list[Path]]:
    """Our files, by what they are."""
    docs = ROOT / "docs"
    good = [docs / f"{name}.md" for name in ("accuracy", "benchmarks", "judgement", "paper", "first-contact")]
    there = [path for path in good if path.exists()]
    return {
        "docs": [ROOT / "README.md", *sorted({*docs.glob("*.md"), *(docs / "contributing").glob("*.md")} - {*good})],
        "rule pages": sorted((docs / "rules").glob("*.md")),
        "cases": sorted((docs / "cases").glob("*.md")),
        "accuracy and benchmarks": there,
        "decisions and evidence": sorted([*(docs / "decisions").glob("*.md"), *(docs / "evidence").glob("*.md")]),
        "messages": [ROOT / "src/hermes/base/catalogue/en.po"],
        "docstrings": sorted((ROOT / "src").rglob("*.py")),
    }


def files(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """The files of another project, by what they are."""
    found = sorted(path for one in paths for path in ([one] if one.is_file() else one.rglob("*")) if path.is_file())
    return {
        "docs": [path for path in found if path.suffix in (".md", ".rst")],
        "docstrings": [path for path in found if path.suffix == ".py"],
    }


def main() -> None:
    """Print one row for each group."""
    print('| | sentences | words a sentence | over 30 words | hanging | says "you" |')
    print("|---|---|---|---|---|---|")
    for name, paths in (files(map(Path, sys.argv[1:])) if sys.argv[1:] else groups()).items():
        print(figures(texts(paths)).row(name))


if __name__ == "__main__":
    main()
