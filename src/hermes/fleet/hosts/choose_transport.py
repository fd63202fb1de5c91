"""Selects the hosts and the transport from the options of a command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import InputError
from hermes.fleet.hosts import messages
from hermes.fleet.hosts.hosts_file import read_hosts
from hermes.fleet.hosts.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChoice:
    """The options that say where the hosts of a job are: one of `hosts`, `slurm` and `kubernetes` is given."""

    hosts: Path | None = None
    ssh_config: Path | None = None
    slurm: str = ""
    kubernetes: str = ""
    namespace: str = ""
    container: str = ""
    context: str = ""

    @property
    def where(self) -> str:
        """The place of the hosts in words, for messages."""
        return f"slurm {self.slurm}" if self.slurm else self.kubernetes or str(self.hosts)

    @property
    def launch(self) -> str:
        """The scheduler's name of the job, since hosts may run several jobs; empty without a scheduler."""
        return f"slurm-{self.slurm}" if self.slurm.isdecimal() else ""


def _given(places: HostChoice) -> list[str]:
    return [name for name, value in (("--hosts", places.hosts), ("--slurm", places.slurm),
                                     ("--kubernetes", places.kubernetes)) if value]  # fmt: skip


def refuse_places(places: HostChoice) -> None:
    """Raise `InputError` if hosts are named for a command that contacts no host."""
    if given := _given(places):
        what = messages.hosts_one_way(given=["--prometheus", *given])
        raise InputError(what, where="hermes fleet", hint=messages.DO_NAME_HOSTS)


async def transport_of(places: HostChoice) -> Transport:
    """The transport to the hosts. Raises `HermesError` unless the hosts are named in one way, and can be found."""
    given = _given(places)
    if len(given) != 1:
        raise InputError(messages.hosts_one_way(given=given), where="hermes fleet", hint=messages.DO_NAME_HOSTS)
    if places.slurm:
        from hermes.fleet.hosts.slurm import slurm

        return await slurm(places.slurm)
    if places.kubernetes:
        from hermes.fleet.hosts.kubernetes import kubernetes

        return await kubernetes(
            places.kubernetes, namespace=places.namespace, container=places.container, context=places.context
        )  # fmt: skip
    from hermes.fleet.hosts.ssh import Ssh

    assert places.hosts is not None
    return Ssh(read_hosts(places.hosts), places.ssh_config)
