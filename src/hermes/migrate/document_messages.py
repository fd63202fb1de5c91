"""Messages in the documents of a scan and a conversion: answers, actions, titles of tables and columns."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, message, sentence


@message("migrate.place")
def place(*, what: Message, why: Message) -> None:
    """A finding: a place in the source, and why the place matters."""


BY_HABIT = sentence("migrate.by_habit")
"""A place was recognised by usual naming."""
BY_TABLE = sentence("migrate.by_table")
"""The support table lists no support, or partial support, and some such calls run nevertheless."""
BY_WORDS = sentence("migrate.by_words")
"""A place was recognised by its words alone."""
BY_CONVERT = sentence("migrate.by_convert")
"""`hermes migrate convert` settles a place."""


@message("migrate.by_hand")
def by_hand(*, effort: Message) -> None:
    """A person has to settle a place."""


@message("migrate.once_measured")
def once_measured(*, rule: Name) -> None:
    """A place to work on once a profile shows the cost of the place."""


NO_WORK = sentence("migrate.no_work")
"""A place that needs no work."""
UNDER_AN_HOUR = sentence("migrate.under_an_hour")
"""Work of less than an hour."""


@message("migrate.hours")
def hours(*, low: Count, high: Count) -> None:
    """Work that takes hours."""


@message("migrate.days")
def days(*, low: Count, high: Count) -> None:
    """Work that takes days."""


@message("migrate.answer.scan")
def can_it_move(
    *, chip: Name, torch: Name, verdict: Message, work: Message | None = None, missing: Message | None = None
) -> None:
    """The answer of a scan; `missing` says which files were not checked."""


@message("migrate.files_not_checked")
def files_not_checked(*, n: Count) -> None:
    """Files that were not read or not understood."""


@message("migrate.answer.convert")
def converted(
    *, edits: Message, files: Message, style: Message, left: Message | None = None, missing: Message | None = None
) -> None:
    """The answer of a conversion."""


@message("migrate.edits")
def edits(*, n: Count) -> None:
    """The number of edits."""


@message("migrate.files")
def files(*, n: Count) -> None:
    """The number of files."""


@message("migrate.places_left")
def places_left(*, n: Count) -> None:
    """The number of places that are left to a person."""


@message("migrate.apis")
def apis(*, used: Count, listed: Count, on_chip: Count, chip: Name) -> None:
    """Numbers from the support table about the torch APIs of a program."""


NOT_SCANNED = sentence("migrate.not_scanned")
"""A file that was not scanned is requested."""


# -- titles of tables


TITLE_OBSTACLES = sentence("migrate.title.obstacles")
"""Title of the table of decisions for a person, the most work first."""
TITLE_FILES = sentence("migrate.title.files")
"""Title of the table of files."""
TITLE_APIS = sentence("migrate.title.apis")
"""Title of the table of torch APIs."""


@message("migrate.title.diff")
def title_diff(*, path: Name) -> None:
    """Title of the diff of a file."""


COLUMN_WHAT = sentence("migrate.column.what")
"""Column: the place or API."""
COLUMN_EFFORT = sentence("migrate.column.effort")
"""Column: how long a person works on a place."""
COLUMN_TODO = sentence("migrate.column.todo")
"""Column: what to do about a place."""
COLUMN_PLACES = sentence("migrate.column.places")
"""Column: how many places there are."""
COLUMN_FIRST = sentence("migrate.column.first")
"""Column: the first of the places."""
COLUMN_FILE = sentence("migrate.column.file")
"""Column: the path of a file."""
COLUMN_KIND = sentence("migrate.column.kind")
"""Column: how a file was read."""
COLUMN_LINES = sentence("migrate.column.lines")
"""Column: how many lines a file has."""
COLUMN_EDITS = sentence("migrate.column.edits")
"""Column: how many edits convert makes in a file."""
COLUMN_LEFT = sentence("migrate.column.left")
"""Column: how many places convert leaves in a file."""
COLUMN_API = sentence("migrate.column.api")
"""Column: the full name of a torch API."""
COLUMN_USES = sentence("migrate.column.uses")
"""Column: how often the API is used."""
COLUMN_CHIPS = sentence("migrate.column.chips")
"""Column: the chips for which the support table lists the API."""
