"""`hermes fleet measure` and `host`: print a host's captures and state as JSON, for a command that asks many hosts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from hermes.base.errors import InputError
from hermes.cli.print_output import show_data

_SCHEMA, _ASKED = "hermes.rank-answers/1", "hermes.rank-questions/1"
_LARGEST = 256 << 20


@click.command("measure")
@click.argument("path", type=click.Path(path_type=Path, file_okay=False, exists=True))
def measure(path: Path) -> None:
    """Print the measures of each rank in a folder as JSON, for one report of many hosts.

    `hermes fleet profile` runs this command on hosts. Standard input holds one question about some of the ranks, or
    nothing.
    """
    from hermes.cli.print_output import load_profiles
    from hermes.profiles.api import answer_text, code, engine_of, folder_text

    question, given = _question(sys.stdin.buffer.read(_LARGEST + 1))
    with engine_of() as engine:
        loaded = load_profiles((path,), "", engine=engine, lacks="in the answer")
        document: dict[str, object] = {"schema": _SCHEMA, "code": code()}
        if question:
            try:
                document["ranks"] = answer_text(loaded, question, given, engine)
            except ValueError as wrong:
                raise _no_question() from wrong
        else:
            document["folder"] = folder_text(loaded)
    show_data(json.dumps(document, separators=(",", ":")))


@click.command("host")
@click.argument("job", required=False, default="")
@click.option(
    "--seconds",
    type=click.FloatRange(0.2, 60),
    default=2.0,
    show_default=True,
    help="Seconds between the two readings of the host's counters.",
)
def host(job: str, seconds: float) -> None:
    """Print the state of this host as JSON: processes beside the job, pressure, errors, clock rates and temperatures.

    `hermes fleet status` runs this command where a rank keeps the others waiting, and on some other hosts to compare
    with.
    """
    from hermes.fleet.api import host_activity
    from hermes.jobs.api import request_capture

    show_data(host_activity.json_text(request_capture.find_job(job, os.environ), seconds))


def _question(raw: bytes) -> tuple[str, dict[int, str]]:
    """The question, empty for the first one; and the given text of each rank."""
    if not raw.strip():
        return "", {}
    try:
        found = json.loads(raw[: _LARGEST + 1])
        ranks = {int(rank): text for rank, text in found["ranks"].items() if isinstance(text, str)}
        if found["schema"] == _ASKED:
            return str(found["question"]), ranks
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as wrong:
        raise _no_question() from wrong
    raise _no_question()


def _no_question() -> InputError:
    return InputError(
        "this is no question about ranks", where="standard input", hint="hermes fleet profile asks them of hosts"
    )  # fmt: skip
