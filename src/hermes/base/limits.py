"""How much of an input Hermes accepts: each limit with its unit, its reason, and the variable that raises it.

Inputs are not trusted: a few bytes of a capture may ask for any amount of time, memory or disk.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from hermes.base.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLimit:
    """The most that Hermes accepts of one quantity of an input, such as bytes of a file or entries of an archive."""

    name: str
    most: int
    unit: str
    why: str

    @property
    def variable(self) -> str:
        """The name of the environment variable that sets another limit."""
        return f"HERMES_LIMIT_{self.name.upper()}"

    def now(self, environment: Mapping[str, str] = os.environ) -> int:
        """The value of the environment variable, or the default; raises `InputError` if the value is no number."""
        said = environment.get(self.variable, "")
        if not said:
            return self.most
        if not said.isdecimal():
            raise InputError(
                f"{said[:40]!r} is no number of {self.unit}", where=self.variable, hint="give a whole number"
            )
        return int(said)

    def exceeded(
        self, what: str, *, where: str, lost: str = "everything in it", most: int | None = None, needs: int = 0
    ) -> InputError:
        """The error to raise where an input exceeds this limit; `what` names the part of the input.

        `most` is the limit for this input, if lower; `needs` is the limit that would accept the input, where known.
        """
        what = f"{what}: Hermes takes at most {most or self.now():,} {self.unit}"
        return InputError(what, where=where, lost=lost, hint=self.hint(needs))

    def hint(self, needs: int = 0) -> str:
        """The hint that says how to raise this limit."""
        return f"if you trust it, raise the limit: {self.variable}={needs or 2 * self.now()}"


FILES = InputLimit(
    name="files", most=1_000_000, unit="files and folders below a path",
    why="a capture that its device's profiler exported has some 200 files: this is a job of 5,000 ranks",
)  # fmt: skip
ARCHIVE_ENTRIES = InputLimit(
    name="archive_entries", most=100_000, unit="files and folders in an archive",
    why="500 captures of 200 files; each entry costs a call of the file system",
)  # fmt: skip
ARCHIVE_RATIO = InputLimit(
    name="archive_ratio", most=250, unit="times the size that it has packed",
    why="text of profilers packs to a tenth, at best to a thirtieth; zeros pack to a thousandth",
)  # fmt: skip
FETCHED_BYTES = InputLimit(
    name="fetched_bytes", most=64 << 30, unit="bytes of one file at a URL",
    why="a hundred times the largest trace known; the answer of a server may have no end",
)  # fmt: skip
FETCHED_FILES = InputLimit(
    name="fetched_files", most=1_000_000, unit="files at a URL", why="as many as below a path",
)  # fmt: skip
FETCH_SECONDS = InputLimit(
    name="fetch_seconds", most=3_600, unit="seconds for one file at a URL",
    why="the largest file at 18 MB a second; a server may send a byte a minute",
)  # fmt: skip
LIST_SECONDS = InputLimit(
    name="list_seconds", most=300, unit="seconds to list what lies at a URL",
    why="a million names at the thousand a request that S3 gives, with 0.3 s a request",
)  # fmt: skip
PAGE_BYTES = InputLimit(
    name="page_bytes", most=16 << 20, unit="bytes of a page that lists files",
    why="a hundred thousand links of 160 bytes",
)  # fmt: skip
INDEX_BYTES = InputLimit(
    name="index_bytes", most=4 << 30, unit="bytes of the index of one rank's recording",
    why="20 million values, the most that are read of a step, of 200 bytes each; it is held in memory",
)  # fmt: skip
DUMP_BYTES = InputLimit(
    name="dump_bytes", most=2 << 30, unit="bytes of a JSON file of a dump",
    why="10 million values of 200 bytes each; parsing takes ten times as much memory",
)  # fmt: skip
SOURCE_BYTES = InputLimit(
    name="source_bytes", most=10 << 20, unit="bytes of a source file",
    why="a hundred times the longest modules that people write; longer ones are generated or data",
)  # fmt: skip
QUERY_BYTES = InputLimit(
    name="query_bytes", most=2 << 30, unit="bytes of memory for a query",
    why="a query sorts or joins the tables of one rank within it; DuckDB would take 80% of the machine",
)  # fmt: skip
LIMITS = (
    FILES, ARCHIVE_ENTRIES, ARCHIVE_RATIO, FETCHED_BYTES, FETCHED_FILES, FETCH_SECONDS, LIST_SECONDS, PAGE_BYTES,
    INDEX_BYTES, DUMP_BYTES, SOURCE_BYTES, QUERY_BYTES,
)  # fmt: skip

HARMLESS_BYTES = 1 << 30
"""Unpacking up to this many bytes takes seconds on any machine, so the size of the packed file does not matter."""
_FREE_ENTRIES = 10_000
_LEAST_ENTRY_BYTES = 10
"""An archive entry with its name takes more bytes than this, even packed with many alike."""


def most_unpacked(packed_bytes: int) -> int:
    """The most bytes that `packed_bytes` of an archive may unpack into."""
    return max(HARMLESS_BYTES, ARCHIVE_RATIO.now() * packed_bytes)


def most_entries(packed_bytes: int) -> int:
    """How many files and folders an archive of `packed_bytes` may hold; the user's value counts, where set."""
    most = ARCHIVE_ENTRIES.now()
    return min(most, _FREE_ENTRIES + packed_bytes // _LEAST_ENTRY_BYTES) if most == ARCHIVE_ENTRIES.most else most
