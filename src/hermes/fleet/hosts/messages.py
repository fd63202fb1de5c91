"""Messages about the hosts of a job."""

from __future__ import annotations

from hermes.base.message import Count, Name, Names, message, sentence

NO_HOSTS = sentence("fleet.no_hosts")
"""Error: a file of hosts names no host."""

DO_WRITE_HOSTS = sentence("fleet.do_write_hosts")
"""Advice on how to write a file of hosts for SSH."""

NO_ASYNCSSH = sentence("fleet.no_asyncssh")
"""Error: the library for SSH is not installed."""

DO_INSTALL_ASYNCSSH = sentence("fleet.do_install_asyncssh")
"""Advice on how to install the library for SSH."""

DO_SQUEUE = sentence("fleet.do_squeue")
"""Advice on how to list the jobs of Slurm."""

DO_KUBECTL = sentence("fleet.do_kubectl")
"""Advice on how to list the pods."""


@message("fleet.not_a_host")
def not_a_host(*, line: Name) -> None:
    """Error: a line of the file of hosts names no host, or names one twice."""


@message("fleet.no_slurm_number")
def no_slurm_number(*, job: Name) -> None:
    """Error: a text is not the number of a Slurm job."""


@message("fleet.no_slurm_job")
def no_slurm_job(*, job: Name) -> None:
    """Error: no Slurm job of that number runs."""


@message("fleet.slurm_silent")
def slurm_silent(*, why: Name) -> None:
    """Error: Slurm does not list the nodes of the job."""


@message("fleet.kubectl_silent")
def kubectl_silent(*, why: Name) -> None:
    """Error: kubectl does not list the pods."""


@message("fleet.no_pod")
def no_pod(*, n: Count) -> None:
    """Error: no pod of the selector runs; `n` pods exist that do not run."""


DO_NAME_HOSTS = sentence("fleet.do_name_hosts")
"""Advice on how to name the hosts."""


@message("fleet.hosts_one_way")
def hosts_one_way(*, given: Names) -> None:
    """Error: hosts are named in no way, or in several ways."""
