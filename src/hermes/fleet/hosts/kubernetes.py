"""Reaches the hosts of a Kubernetes job, its pods, by `kubectl exec`, with your own configuration of kubectl."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hermes.base.errors import QueryError
from hermes.fleet.hosts import messages
from hermes.fleet.hosts.command_transport import Commands, listed
from hermes.fleet.hosts.hosts_file import NAME
from hermes.fleet.hosts.transport import SilentError

_PATIENCE_S = 60.0
_LARGEST = 256 << 20


async def kubernetes(selector: str, *, namespace: str = "", container: str = "", context: str = "") -> Commands:
    """The pods that a selector names. Raises `QueryError` if no such pod runs, or kubectl cannot be asked."""
    where = f"--kubernetes {selector}"
    common = [f"--{name}={value}" for name, value in (("context", context), ("namespace", namespace)) if value]
    argv = ("kubectl", "get", "pods", f"--selector={selector}", "--output=json", *common)
    try:
        pods = _pods(await listed(argv, within_s=_PATIENCE_S, most_bytes=_LARGEST))
    except SilentError as silent:
        raise QueryError(messages.kubectl_silent(why=silent.why), where=where, hint=messages.DO_KUBECTL) from silent
    running = [name for name, phase in pods.items() if phase == "Running"]
    if not running:
        raise QueryError(messages.no_pod(n=len(pods)), where=where, hint=messages.DO_KUBECTL)
    inside = (f"--container={container}",) if container else ()

    def command(host: str, words: Sequence[str], *more: str) -> Sequence[str]:
        return ("kubectl", "exec", host, *more, *common, *inside, "--", *words)

    def reads(host: str, words: Sequence[str]) -> Sequence[str]:
        return command(host, words, "--stdin")

    absent = {name: phase for name, phase in pods.items() if phase != "Running"}
    return Commands(hosts=tuple(running), argv=command, absent=absent, reads=reads)


def _pods(text: bytes) -> Mapping[str, str]:
    """The phase of each pod by name; empty for a text that is no list of pods."""
    try:
        rows = json.loads(text)["items"]
        named = {str(row["metadata"]["name"]): str(row["status"].get("phase", "Unknown"))[:20] for row in rows}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return {name: phase for name, phase in named.items() if NAME.fullmatch(name)}
