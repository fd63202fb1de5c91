"""Three simulated hosts with namespaces and caches of their own, Ray on each, and a job on an S3 server beside them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fleet.hosts.apart import Apart, apart
from tests.fleet.hosts.lab import HERMES
from tests.patience import until

NODES = 3
HEAD = "10.77.0.1:6380"
URL = "s3://profiles/runs/job"
_S3 = "10.77.0.254"
_PORT = 5555
_SERVER = f"from moto.server import main; main(['-H', '{_S3}', '-p', '{_PORT}'])"
_UPLOAD = """
import sys, boto3, pathlib
client = boto3.client("s3")
client.create_bucket(Bucket="profiles")
root = pathlib.Path(sys.argv[1])
for one in root.rglob("*"):
    if one.is_file():
        client.upload_file(str(one), "profiles", f"runs/job/{one.relative_to(root)}")
"""
_BEGIN = """
mount --bind {own} {cache}
exec {ray} start --block {role} --node-ip-address=10.77.0.{number} --num-cpus=1 --object-store-memory=83886080 \
  --disable-usage-stats --temp-dir={temp}
"""
REACHED = {
    "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ENDPOINT_URL": f"http://{_S3}:{_PORT}",
    # Otherwise Ray decides by whether the user has a token at home.
    "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
}  # fmt: skip


@dataclass(slots=True)
class Cluster:
    """A Ray cluster on separate hosts. `cache` is one path, behind which each host has a folder of its own."""

    hosts: Apart
    cache: Path
    serial_cpu_s: float = 0.0

    def cached(self, number: int) -> int:
        """How many ranks a host has read."""
        return len(list((self.hosts.lab.folder / f"node{number}" / "own" / "tables").glob("*/*/manifest.json")))

    def analyzed(self, *, kill: bool = False, after: int = 1) -> tuple[str, int]:
        """The report of the cluster, requested on its head, and the killed host: the first that had read `after` ranks.

        The head is never killed; without `kill` no host is, and the number is 0.
        """
        path = self.hosts.lab.folder / "report.json"
        words = ["sh", "-c", f'exec "$@" >{path}', "sh", HERMES, "analyze", URL, "--format", "json", "--engine", "ray"]
        child = self.hosts.on(1, words, HERMES_CACHE_DIR=str(self.cache), RAY_ADDRESS=HEAD, **REACHED)
        killed = 0
        if kill:
            # Ray alone decides which host reads first.
            until(lambda: self._reading(after) or child.poll() is not None, 3_000)
            assert child.poll() is None, self.hosts.output(1)
            killed = self._reading(after)
            self.hosts.kill(killed)
        assert child.wait(6_000) == 0, self.hosts.output(1)
        return path.read_text("utf-8"), killed

    def _reading(self, after: int) -> int:
        """The first host beside the head that has read this many ranks; 0 if none has."""
        return next((number for number in range(2, NODES + 1) if self.cached(number) >= after), 0)

    def serially(self) -> str:
        """The report that the hub makes alone, in a cache of its own."""
        alone = self.hosts.lab.folder / "alone"
        told = {**os.environ, **REACHED, "HERMES_CACHE_DIR": str(alone)}
        command = ["nsenter", f"--net=/run/netns/{self.hosts.hub}", HERMES, "analyze", URL, "--format", "json"]
        path = self.hosts.lab.folder / "serial.json"
        with path.open("wb") as out:
            child = subprocess.Popen([*command, "--engine", "serial", "--jobs", "1"], stdout=out, env=told)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        self.serial_cpu_s = used.ru_utime + used.ru_stime
        return path.read_text("utf-8")

    def alive(self) -> int:
        """The number of nodes that the head believes to be alive."""
        asked = (
            "import ray; ray.init(log_to_driver=False, logging_level='ERROR');"
            "print(sum(one['Alive'] for one in ray.nodes()), file=open('alive', 'w'))"
        )
        child = self.hosts.on(1, [sys.executable, "-c", asked], RAY_ADDRESS=HEAD)
        return int((self.hosts.lab.folder / "alive").read_text()) if child.wait(300) == 0 else 0


def needs(*modules: str) -> None:
    """Skip the test if one of the modules is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@contextlib.contextmanager
def cluster(folder: Path, job: Path) -> Iterator[Cluster]:
    """Three nodes of one core; the files of `job` are on an S3 server, which is the hosts' only way to them."""
    with apart(folder, NODES) as hosts:
        _serve(hosts, job)
        cache = hosts.lab.folder / "cache"
        cache.mkdir()
        for number in range(1, NODES + 1):
            _begin(hosts, number, cache)
        made = Cluster(hosts, cache)
        until(lambda: made.alive() == NODES, 300)
        yield made


def _serve(hosts: Apart, job: Path) -> None:
    inside = ["nsenter", f"--net=/run/netns/{hosts.hub}"]
    told = {**os.environ, **REACHED}
    with (hosts.lab.folder / "s3.log").open("wb") as log:
        server = subprocess.Popen([*inside, sys.executable, "-c", _SERVER], env=told, stdout=log, stderr=log)
    hosts.lab.running.append(server)
    asked = f"import socket; socket.create_connection(('{_S3}', {_PORT}), 5)"
    ask = [*inside, sys.executable, "-c", asked]
    until(lambda: subprocess.run(ask, check=False, capture_output=True).returncode == 0, 120)
    subprocess.run([*inside, sys.executable, "-c", _UPLOAD, job], check=True, env=told)


def _begin(hosts: Apart, number: int, cache: Path) -> None:
    place = hosts.lab.folder / f"node{number}"
    own, temp = place / "own", Path(f"/tmp/{hosts.tag}r{number}")
    own.mkdir(parents=True)
    role = "--head --port=6380 --include-dashboard=false" if number == 1 else f"--address={HEAD}"
    script = place / "ray.sh"
    ray = Path(sys.executable).with_name("ray")
    script.write_text(_BEGIN.format(own=own, cache=cache, ray=ray, role=role, number=number, temp=temp))
    # A busy machine starts a node slowly.
    patience = {"RAY_raylet_start_wait_time_s": "300"}
    hosts.begin(number, f"sh {script}", {**REACHED, **patience, "HERMES_CACHE_DIR": str(cache)})
