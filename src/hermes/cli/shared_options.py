"""Arguments and options that several commands share, and the parser of their lists of numbers."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.errors import InputError
from hermes.base.sanitize_text import shell_command
from hermes.store.remote import is_url

if TYPE_CHECKING:
    from hermes.report.localized_texts import Tell

_RANGES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
# Largest number in a list: a list must not take all memory.
_LONGEST = 1_000_000


class PathOrUrl(click.ParamType[Path | str]):
    """An argument type: a path, or a URL such as `s3://bucket/job`, which stays text."""

    name = "path"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        """Convert an argument's text to a path, or keep a URL as text."""
        if isinstance(value, Path):
            return value
        return str(value) if is_url(str(value)) else Path(str(value))


class LocalPath(PathOrUrl):
    """An argument type: a path on this machine; raises `InputError` for a URL."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Convert an argument's text to a path; raise `InputError` for a URL."""
        place = super().convert(value, param, ctx)
        if isinstance(place, str):
            raise InputError(
                "pages are made of files on this machine alone", where=place,
                hint=f"{shell_command('hermes', 'analyze', place)} --open shows what lies there",
            )  # fmt: skip
        return place


profiles = click.argument(
    "paths", nargs=-1, required=True, metavar="PATH…", type=PathOrUrl(),
    help="Folders or files with profiles, one rank or many; an archive or a URL of them, such as s3://bucket/job.",
)  # fmt: skip
capture = click.option(
    "--capture", default="", help="Part of a capture's name or time, where a rank has several captures."
)


lang = click.option("--lang", type=click.Choice(["en", "zh"]), help="Language of the text; by default the locale's.")


def language(chosen: str | None) -> str:
    """The chosen language, else the locale's language, if the output can show it: `en` or `zh`."""
    from hermes.report import chinese_sentences

    wide = (sys.stdout.encoding or "").lower().startswith(("utf", "gb"))
    return "zh" if (chosen or chinese_sentences.language()) == "zh" and wide else "en"


def teller(chosen: str | None) -> Tell:
    """A function that says a message in that language."""
    from hermes.report.localized_texts import teller

    return teller(language(chosen))


def numbers(option: str, text: str) -> frozenset[int] | None:
    """The numbers in a text such as `0,4-7`; None for an empty text. Raises `InputError` for anything else."""
    text = text.replace(" ", "")
    if not text:
        return None
    if not _RANGES.fullmatch(text):
        raise InputError(f"{text[:40]!r} is no list of numbers", where=option, hint="write it like 0,4-7")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), int(first) + _LONGEST) + 1))
    return frozenset(found)
