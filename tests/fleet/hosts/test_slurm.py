"""The nodes of a job of a real Slurm are asked by steps of `srun` beside it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.hosts.apart import Apart, apart
from tests.fleet.hosts.lab import HERMES
from tests.fleet.hosts.test_hosts_apart import LOOP
from tests.patience import until
from tests.skips import needs_root

pytestmark = [pytest.mark.live, needs_root, pytest.mark.slow]
NODES = 4


def program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.skip("no Slurm is installed")
    return found


def configuration(folder: Path) -> Path:
    text = f"""
ClusterName=t
SlurmctldHost=ctl(10.77.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/m.sock
CredType=cred/munge
StateSaveLocation={folder}/ctl
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/ctl.pid
SlurmdPidFile={folder}/d-%n.pid
SlurmctldLogFile={folder}/ctl.log
SlurmdLogFile={folder}/d-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=2
SlurmdParameters=config_overrides
NodeName=node[1-{NODES}] NodeAddr=10.77.0.[1-{NODES}] CPUs=4 RealMemory=1000
PartitionName=main Nodes=node[1-{NODES}] Default=YES MaxTime=60 State=UP
"""
    path = folder / "slurm.conf"
    path.write_text(text)
    return path


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Apart]:
    munged, controller, daemon = program("munged"), program("slurmctld"), program("slurmd")
    # A socket of munge has a short path.
    folder = Path("/tmp") / f"hermes-slurm-{os.getpid()}"
    for name in ("", "munge", "ctl", *(f"spool-node{one}" for one in range(1, NODES + 1))):
        (folder / name).mkdir(mode=0o755)
    (folder / "munge").chmod(0o755)
    key = folder / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    monkeypatch.setenv("SLURM_CONF", str(configuration(folder)))
    munge = subprocess.Popen(
        [munged, "--force", "--foreground", f"--key-file={key}", f"--socket={folder}/munge/m.sock",
         f"--pid-file={folder}/munge/pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/seed"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with apart(tmp_path / "lab", NODES) as made:
            inside = ["nsenter", f"--net=/run/netns/{made.hub}", "unshare", "--uts", "--mount", "sh", "-c"]
            names = tmp_path / "lab" / "names"
            for number in range(1, NODES + 1):
                made.begin(number, f"{daemon} -D -N node{number}")
            begin = f'hostname ctl; mount --bind {names} /etc/hosts; exec "$@"'
            control = subprocess.Popen([*inside, begin, "sh", controller, "-D"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)  # fmt: skip
            made.started.append(control)
            until(lambda: outside(made, "sinfo", "-h", "-o", "%T %D").split() == ["idle", str(NODES)], 120)
            yield made
    finally:
        munge.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            munge.wait(10)
        munge.kill()
        munge.wait()
        shutil.rmtree(folder, ignore_errors=True)


def outside(made: Apart, *words: str) -> str:
    """What a program prints beside the hosts."""
    names = made.lab.folder / "names"
    begin = f'hostname ctl; mount --bind {names} /etc/hosts; exec "$@"'
    whole = ["nsenter", f"--net=/run/netns/{made.hub}", "unshare", "--uts", "--mount", "sh", "-c", begin, "sh", *words]
    return subprocess.run(whole, capture_output=True, text=True, check=False, timeout=200, cwd="/").stdout


def test_a_job_of_slurm_is_one_picture_by_its_number(cluster: Apart, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    (folder / "loop.py").write_text(LOOP)
    script = folder / "job.sh"
    # Each node has memory of its own, as hosts have.
    script.write_text(f"""#!/bin/sh
#SBATCH -N{NODES} --ntasks-per-node=1 --output={folder}/job.out
srun sh -c 'export HERMES_RUN_DIR={folder}/$SLURMD_NODENAME/jobs HERMES_SHM_DIR={folder}/$SLURMD_NODENAME/shm
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS
exec {HERMES} run --no-capture -- {sys.executable} {folder}/loop.py'
""")
    hermes = folder / "hermes"
    hermes.write_text(f"""#!/bin/sh
export HERMES_RUN_DIR={folder}/$SLURMD_NODENAME/jobs HERMES_SHM_DIR={folder}/$SLURMD_NODENAME/shm
exec {HERMES} "$@"
""")
    hermes.chmod(0o755)
    job = outside(cluster, "sbatch", "--parsable", str(script)).strip()
    words = (str(HERMES), "fleet", "status", "--slurm", job, "--hermes", str(hermes), "--format", "json")

    def seen() -> dict[str, object]:
        found: dict[str, object] = json.loads(outside(cluster, *words) or "{}")
        return found

    until(lambda: len(seen().get("ranks", ())) == NODES, 120)  # type: ignore[arg-type]
    found = seen()
    ranks = found["ranks"]
    assert isinstance(ranks, list)
    assert {(row["host"], row["job"]) for row in ranks} == {(f"node{one}", f"slurm-{job}") for one in range(1, 5)}
    assert sorted(row["rank"] for row in ranks) == [0, 1, 2, 3]
    assert found["silent"] == 0
    asks = (str(HERMES), "fleet", "stacks", "--slurm", job, "--hermes", str(hermes), "--format", "json")
    stood = json.loads(outside(cluster, *asks))["ranks"]
    assert sorted((row["rank"], row["host"]) for row in stood) == [(at, f"node{at + 1}") for at in range(NODES)]
    assert all("loop.py" in row["line"] for row in stood), stood
    assert "Invalid job id" in outside(cluster, "sh", "-c", f"{HERMES} fleet status --slurm 999999 2>&1")
    outside(cluster, "scancel", job)
