"""Options of `hermes fleet` that name the hosts, and how to reach them."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hermes.base.errors import InputError
from hermes.cli import shared_options

if TYPE_CHECKING:
    from hermes.fleet.api import HostChoice, Transport

T = TypeVar("T")
Command = Callable[..., None]

_HOSTS = (
    click.option("--hosts", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
                 help="File of hosts to reach by SSH: lines of NAME [ADDRESS]."),
    click.option("--ssh-config", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
                 help="SSH configuration to use instead of ~/.ssh/config; with --hosts."),
    click.option("--slurm", default="", metavar="JOB", help="Slurm job whose nodes to reach, by srun --overlap."),
    click.option("--kubernetes", default="", metavar="SELECTOR", help="Labels of the pods to reach, by kubectl exec."),
    click.option("--namespace", default="", help="Namespace of the pods; by default kubectl's configured one."),
    click.option("--container", default="", help="Container of the pods; by default the first."),
    click.option("--context", default="", help="Context of kubectl's configuration; by default the current one."),
)  # fmt: skip
_ASKING = (
    click.option("--hermes", "program", default="hermes", show_default=True, metavar="COMMAND",
                 help="Command of Hermes on the hosts, such as /opt/venv/bin/hermes."),
    click.option("--within", type=click.FloatRange(0.5, 3600), default=20.0, show_default=True,
                 help="Seconds in which a host has to answer."),
    click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output."),
    shared_options.lang,
)  # fmt: skip


def hosts(command: Command) -> Command:
    """Add the options to a command, which gets `places` and `program` from them."""

    @wraps(command)
    def called(
        hosts: Path | None, ssh_config: Path | None, slurm: str, kubernetes: str, namespace: str, container: str,
        context: str, program: str, **others: Any,
    ) -> None:  # fmt: skip
        from hermes.fleet.api import HostChoice

        places = HostChoice(
            hosts=hosts, ssh_config=ssh_config, slurm=slurm, kubernetes=kubernetes, namespace=namespace,
            container=container, context=context,
        )  # fmt: skip
        command(places=places, program=words_of(program), **others)

    for option in reversed((*_HOSTS, *_ASKING)):
        option(called)
    return called


def words_of(program: str) -> tuple[str, ...]:
    """The words of a command as a shell splits them. Raises `InputError` for a text that a shell cannot split."""
    try:
        words = tuple(shlex.split(program))
    except ValueError:
        words = ()
    if not words or not all(one.isprintable() for one in words):
        raise InputError(f"{program[:60]!r} is no command", where="--hermes", hint="write it like /opt/venv/bin/hermes")
    return words


def with_hosts(places: HostChoice, use: Callable[[Transport | None], Awaitable[T]], *, instead: str = "") -> T:
    """Connect to the hosts, run `use`, and close the connections. With `instead`, no host may be named or contacted."""
    from hermes.fleet.api import refuse_places, transport_of

    async def whole() -> T:
        if instead:
            refuse_places(places)
            return await use(None)
        transport = await transport_of(places)
        try:
            return await use(transport)
        finally:
            await transport.close()

    return asyncio.run(whole())
