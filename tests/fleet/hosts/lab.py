"""OpenSSH servers and jobs of plain processes, for tests that reach hosts as users do."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.patience import until

HERMES = Path(sys.executable).with_name("hermes")
NO_SSHD = "no OpenSSH server is installed"


def sshd() -> str:
    """The path of OpenSSH's server; skips where it is not installed."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(NO_SSHD)
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass(slots=True)
class Lab:
    """Keys, servers and a configuration of SSH below one folder."""

    folder: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        for name in ("host", "user", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)

    @property
    def config(self) -> Path:
        """A configuration like a user's `~/.ssh/config`, with all hosts served so far."""
        known = self.folder / "known"
        known.write_text("".join(self.known))
        text = f"Host *\n  IdentityFile {self.folder / 'user'}\n  UserKnownHostsFile {known}\n  IdentitiesOnly yes\n"
        path = self.folder / "ssh_config"
        path.write_text("".join(self.blocks) + text)
        return path

    def serve(
        self,
        name: str,
        environment: Mapping[str, str],
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        inside: Sequence[str] = (),
        key: str = "host",
    ) -> subprocess.Popen[bytes]:
        """Start the server of a host, whose sessions have this environment. `inside` is a command that starts the
        server.

        Sessions have an empty home: a user's own start files may take a minute.
        """
        port = port or free_port()
        config = self.folder / f"{name}.sshd"
        home = self.folder / f"{name}.home"
        home.mkdir(exist_ok=True)
        told = " ".join(f'"{key}={value}"' for key, value in {"HOME": home, **environment}.items())
        config.write_text(
            f"ListenAddress {address}\nPort {port}\nHostKey {self.folder / key}\n"
            f"AuthorizedKeysFile {self.folder / 'user.pub'}\n"
            "StrictModes no\nPasswordAuthentication no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\n"
            f"MaxStartups 100\nSetEnv {told}\n"
        )
        with (self.folder / f"{name}.log").open("wb") as log:
            server = subprocess.Popen([*inside, sshd(), "-D", "-e", "-f", config], stdout=log, stderr=log)
        self.running.append(server)
        public = (self.folder / "host.pub").read_text().split()
        self.known.append(f"[{address}]:{port} {public[0]} {public[1]}\n" if port != 22 else
                          f"{address} {public[0]} {public[1]}\n")  # fmt: skip
        self.blocks.append(f"Host {name}\n  HostName {address}\n  Port {port}\n")
        said = self.folder / f"{name}.log"
        until(lambda: b"Server listening" in said.read_bytes() or server.poll() is not None, 60)
        assert server.poll() is None, said.read_text()
        return server

    def hosts(self, *names: str) -> Path:
        """A file of hosts with these names."""
        path = self.folder / "hosts"
        path.write_text("".join(f"{name}\n" for name in names))
        return path

    def fleet(self, *words: str | Path, code: Sequence[int] = (0,)) -> str:
        """The output of `hermes fleet` for these hosts."""
        whole = [HERMES, "fleet", *words, "--ssh-config", self.config, "--hermes", str(HERMES)]
        done = subprocess.run(whole, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode in code, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    def close(self) -> None:
        for one in self.running:
            one.kill()
            one.wait()


@contextlib.contextmanager
def lab(folder: Path) -> Iterator[Lab]:
    """A lab that ends with all processes that it started."""
    made = Lab(folder)
    try:
        yield made
    finally:
        made.close()


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
