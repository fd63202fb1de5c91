"""Arguments and options that several commands share, and how their lists of numbers are written."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.errors import InputError
from hermes.base.foreign_text import shell_command
from hermes.store.remote import is_url

if TYPE_CHECKING:
    from hermes.report.told import Tell

_RANGES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
# As far as anybody counts: a list must not take all memory.
_LONGEST = 1_000_000


class Place(click.ParamType[Path | str]):
    """A path, or a URL such as `s3://bucket/job`, which stays the text that it is."""

    name = "path"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        """A text as a path or as a URL."""
        if isinstance(value, Path):
            return value
        return str(value) if is_url(str(value)) else Path(str(value))


class LocalPath(Place):
    """A path on this machine; raises `InputError` for a URL."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """A text as a path."""
        place = super().convert(value, param, ctx)
        if isinstance(place, str):
            raise InputError(
                "pages are made of files on this machine alone", where=place,
                hint=f"{shell_command('hermes', 'analyze', place)} --open shows what lies there",
            )  # fmt: skip
        return place


profiles = click.argument(
    "paths", nargs=-1, required=True, metavar="PATH…", type=Place(),
    help="Folders or files with profiles, one rank or many; an archive or a URL of them, such as s3://bucket/job.",
)  # fmt: skip
capture = click.option(
    "--capture", default="", help="Which capture, where a rank has several: part of its name or time."
)


lang = click.option(
    "--lang", type=click.Choice(["en", "zh"]), help="Language of the text; that of the locale without it."
)


def language(chosen: str | None) -> str:
    """The language that was chosen, else that of the locale, where the output can hold it: `en` or `zh`."""
    from hermes.report import chinese

    wide = (sys.stdout.encoding or "").lower().startswith(("utf", "gb"))
    return "zh" if (chosen or chinese.language()) == "zh" and wide else "en"


def teller(chosen: str | None) -> Tell:
    """Puts a text of ours into that language."""
    from hermes.report.told import teller

    return teller(language(chosen))


def numbers(option: str, text: str) -> frozenset[int] | None:
    """`0,4-7` as numbers; None for an empty text. Raises `InputError` for anything else."""
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
