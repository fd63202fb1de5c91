"""Gives operators, whom root's policy file names, access to other users' jobs; each access is written to an audit log.

The file /etc/hermes/operators.json (HERMES_POLICY) belongs to root and nobody else can write it:

    {"operators": ["root", "hermes-ops"], "users": ["*"], "capture": true, "audit": "/var/log/hermes-audit.jsonl"}

An account that is not root also needs the right to open folders of others (CAP_DAC_OVERRIDE): the policy does not grant
this right.
"""

from __future__ import annotations

import json
import os
import pwd
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import HermesError, InputError, QueryError
from hermes.inside.wire import shared_memory_file
from hermes.inside.wire.rundir import Job, live_jobs, memory_folders
from hermes.jobs import capture_messages

_FILE = "/etc/hermes/operators.json"
_LARGEST = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Root's policy: the operators, the users whose jobs they may see, whether they may request captures, and the audit
    log."""

    operators: tuple[str, ...]
    users: tuple[str, ...]
    capture: bool
    audit: Path


def jobs_of(user: str, environment: Mapping[str, str], *, action: str) -> list[Job]:
    """The running jobs of a user (a name or number); the access is first noted in the audit log.

    `action` is `see` or `capture`. Raises `HermesError` unless root's policy allows this account the action.
    """
    number = _number_of(user)
    if number == os.geteuid():
        return live_jobs(*memory_folders(environment))
    policy, name = read_policy(environment), _name_of(number)
    me = _name_of(os.geteuid())
    allowed = me in policy.operators and ("*" in policy.users or name in policy.users)
    if not allowed or (action != "see" and not policy.capture):
        raise InputError(
            capture_messages.policy_refuses(account=me, action=action, user=name), where=_place(environment)
        )  # fmt: skip
    _note(policy, action, name, environment)
    shared_memory_file.also_of.add(number)
    return live_jobs(*memory_folders(environment, user=number))


def following(user: str, environment: Mapping[str, str]) -> Callable[[], list[Job]]:
    """A function that lists a user's running jobs again and again; the access is noted once, now.

    Raises the same `HermesError` as `jobs_of`.
    """
    jobs_of(user, environment, action="see")
    number = _number_of(user)
    return lambda: live_jobs(*memory_folders(environment, user=number))


def read_policy(environment: Mapping[str, str]) -> Policy:
    """Root's policy. Raises `HermesError` when there is none, or when others than root could have written it."""
    place = _place(environment)
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as absent:
        raise InputError(capture_messages.no_policy(why=absent.strerror or ""), where=place) from absent
    try:
        facts = os.fstat(descriptor)
        if facts.st_uid != 0 or facts.st_mode & 0o022 or not stat.S_ISREG(facts.st_mode):
            raise InputError(capture_messages.POLICY_NOT_ROOTS, where=place)
        raw = json.loads(os.read(descriptor, _LARGEST))
        names = (raw["operators"], raw["users"])
        if not all(isinstance(some, list) and all(isinstance(one, str) for one in some) for some in names):
            raise TypeError
        if not isinstance(raw["capture"], bool) or not Path(raw["audit"]).is_absolute():
            raise TypeError
        return Policy(
            operators=tuple(names[0]), users=tuple(names[1]), capture=raw["capture"], audit=Path(raw["audit"])
        )
    except (ValueError, LookupError, TypeError) as broken:
        raise InputError(
            capture_messages.POLICY_DAMAGED, where=place, hint=capture_messages.SEE_CAPTURE_PAGE
        ) from broken
    finally:
        os.close(descriptor)


def _note(policy: Policy, action: str, user: str, environment: Mapping[str, str]) -> None:
    """Write a line in the audit log; an access that cannot be noted is refused."""
    who = {"account": _name_of(os.geteuid()), "behind": environment.get("SUDO_USER", ""), "process": os.getpid()}
    line = json.dumps({"time_ns": time.time_ns(), **who, "action": action, "user": user}) + "\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(policy.audit, flags, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
    except OSError as refused:
        what = capture_messages.cannot_write(path=str(policy.audit), why=refused.strerror or "")
        raise HermesError(what, where=str(policy.audit), lost=capture_messages.LOST_ACCESS) from refused


def _place(environment: Mapping[str, str]) -> str:
    return environment.get("HERMES_POLICY") or _FILE


def _number_of(user: str) -> int:
    if user.isascii() and user.isdecimal() and len(user) < 10:
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError) as absent:
        raise QueryError(capture_messages.no_user(user=user)) from absent


def _name_of(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
