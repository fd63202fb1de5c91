"""Simulated hosts with namespaces of their own for network, names, processes and mounts, and an OpenSSH server each."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fleet.hosts.lab import HERMES, Lab
from tests.patience import until


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass(slots=True)
class Apart:
    """`count` hosts on one bridge without a way out; `node1` is 10.77.0.1. `environment` is the programs'
    environment."""

    lab: Lab
    count: int
    tag: str = field(default_factory=lambda: f"hh{os.getpid() % 100_000}")
    inits: dict[int, int] = field(default_factory=dict)
    environment: dict[int, dict[str, str]] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def hub(self) -> str:
        return f"{self.tag}hub"

    def space(self, number: int) -> str:
        return f"{self.tag}n{number}"

    def network(self) -> None:
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "set", "lo", "up")
        ip("-n", self.hub, "link", "add", "br0", "type", "bridge")
        ip("-n", self.hub, "addr", "add", "10.77.0.254/24", "dev", "br0")
        ip("-n", self.hub, "link", "set", "br0", "up")
        for number in range(1, self.count + 1):
            name, port = self.space(number), f"p{number}"
            ip("netns", "add", name)
            ip("-n", self.hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", self.hub, "link", "set", port, "master", "br0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")

    def begin(self, number: int, program: str = "", more: Mapping[str, str] | None = None) -> None:
        """Start a host: its OpenSSH server, or another program, is its first process."""
        folder = self.lab.folder / f"node{number}"
        (folder / "shm").mkdir(parents=True, exist_ok=True)
        self.environment[number] = {
            "HERMES_RUN_DIR": str(folder / "jobs"), "HERMES_SHM_DIR": str(folder / "shm"),
            "XDG_CACHE_HOME": str(folder / "cache"), **(more or {}),
        }  # fmt: skip
        names = "".join(f"10.77.0.{one} node{one}\n" for one in range(1, self.count + 1))
        table = self.lab.folder / "names"
        table.write_text(f"127.0.0.1 localhost\n10.77.0.254 ctl\n{names}")
        shell = f'hostname node{number}; mount --bind {table} /etc/hosts; exec "$@"'
        inside = (
            "nsenter", f"--net=/run/netns/{self.space(number)}", "unshare", "--uts", "--pid", "--fork", "--kill-child",
            "--mount", "--mount-proc", "sh", "-c", shell, "sh",
        )  # fmt: skip
        if program:
            outer = subprocess.Popen([*inside, *program.split()], env={**os.environ, **(more or {})})
            self.lab.running.append(outer)
        else:
            outer = self.lab.serve(
                f"node{number}", self.environment[number], address=f"10.77.0.{number}", port=22, inside=inside
            )
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        until(lambda: children.read_text().split(), 30)
        self.inits[number] = int(children.read_text().split()[0])

    def on(self, number: int, words: Sequence[str | Path], **more: str) -> subprocess.Popen[bytes]:
        """Start a program on a host."""
        target = [
            "nsenter",
            f"--target={self.inits[number]}",
            "--net",
            "--uts",
            "--pid",
            "--mount",
            f"--wd={self.lab.folder}",
        ]
        log = self.lab.folder / f"node{number}" / "output"
        with log.open("ab") as out:
            child = subprocess.Popen(
                [*target, *words], stdout=out, stderr=out,
                env={**os.environ, **self.environment[number], **more},
            )  # fmt: skip
        self.started.append(child)
        return child

    def output(self, number: int) -> str:
        return (self.lab.folder / f"node{number}" / "output").read_text("utf-8", "replace")

    def kill(self, number: int) -> None:
        """Kill a host with all of its processes."""
        os.kill(self.inits.pop(number), signal.SIGKILL)

    def cut(self, number: int, state: str = "down") -> None:
        """Cut the link of a host; with `up`, restore the link."""
        ip("-n", self.hub, "link", "set", f"p{number}", state)

    def fleet(self, *words: str | Path, code: Sequence[int] = (0,), by: Sequence[str | Path] = ()) -> str:
        """The output of `hermes fleet`, run on a machine beside the hosts."""
        done = subprocess.run(self._outside(words, by), capture_output=True, text=True, check=False, timeout=500)
        assert done.returncode in code, (done.returncode, done.stdout[-3000:], done.stderr[-3000:])
        return done.stdout

    def begun_fleet(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start `hermes fleet` and return while it runs."""
        return subprocess.Popen(self._outside(words), stdout=subprocess.PIPE, text=True)

    def _outside(self, words: Sequence[str | Path], by: Sequence[str | Path] = ()) -> list[str | Path]:
        where = by or ("--hosts", self.lab.folder / "hosts", "--ssh-config", self.lab.config)
        space = f"--net=/run/netns/{self.hub}"
        return ["nsenter", space, HERMES, "fleet", *words, *where, "--hermes", str(HERMES)]

    def close(self) -> None:
        for init in self.inits.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)
        for child in self.started:
            child.kill()
            child.wait()
        self.lab.close()
        for name in (*map(self.space, range(1, self.count + 1)), self.hub):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@contextlib.contextmanager
def apart(folder: Path, count: int) -> Iterator[Apart]:
    """Hosts that end with all of their processes."""
    made = Apart(Lab(folder), count)
    try:
        made.network()
        yield made
    finally:
        made.close()
