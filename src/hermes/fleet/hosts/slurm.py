"""Reaches the hosts of a Slurm job, its nodes, by a step of `srun` beside the job's own steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes.base.errors import InputError, QueryError
from hermes.fleet.hosts import messages
from hermes.fleet.hosts.command_transport import Commands, listed
from hermes.fleet.hosts.hosts_file import NAME
from hermes.fleet.hosts.transport import SilentError

_JOB = re.compile(r"\d{1,12}(_\d{1,9})?(\+\d{1,6})?")
_PATIENCE_S = 60.0
_LARGEST = 16 << 20


async def slurm(job: str) -> Commands:
    """The nodes of a running job. Raises `HermesError` if there is no such job, or Slurm cannot be asked."""
    if not _JOB.fullmatch(job):
        raise InputError(messages.no_slurm_number(job=job[:40]), where="--slurm", hint=messages.DO_SQUEUE)
    try:
        nodes = await _lines("squeue", f"--jobs={job}", "--noheader", "--states=RUNNING", "--format=%N")
        hosts = await _lines("scontrol", "show", "hostnames", ",".join(nodes)) if nodes else []
    except SilentError as silent:
        what = messages.slurm_silent(why=silent.why)
        raise QueryError(what, where=f"--slurm {job}", hint=messages.DO_SQUEUE) from silent
    hosts = [one for one in dict.fromkeys(hosts) if NAME.fullmatch(one)]
    if not hosts:
        raise QueryError(messages.no_slurm_job(job=job), where="--slurm", hint=messages.DO_SQUEUE)

    def argv(host: str, words: Sequence[str], reads: str = "none") -> Sequence[str]:
        return (
            "srun", f"--jobid={job}", "--overlap", f"--nodelist={host}", "--nodes=1", "--ntasks=1", "--mem=0",
            f"--input={reads}", "--quiet", "--", *words,
        )  # fmt: skip

    return Commands(hosts=tuple(hosts), argv=argv, reads=lambda host, words: argv(host, words, "all"))


async def _lines(*argv: str) -> list[str]:
    out = await listed(argv, within_s=_PATIENCE_S, most_bytes=_LARGEST)
    return out.decode("utf-8", "replace").split()
