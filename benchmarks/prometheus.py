"""Runs a real Prometheus and Alertmanager beside a training job for ten minutes, and shows which alert fires when.

Run `python -m benchmarks.prometheus [SECONDS]`: four processes train on gloo, each as a host of its own with its own
exporter, and the alerts are the shipped ones. After four tenths of the time one rank takes longer, later all ranks do.
A step is mostly a pause, as if for a device, so that other work on the machine counts little.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
HOSTS, LATE = 4, 2
SECONDS = 600.0
STEP_MS = 100.0
PHASES = (
    (0.0, "nothing", 1.0, 1.0), (0.4, f"rank {LATE} takes 1.6 times as long", 1.6, 1.0), (0.65, "nothing", 1.0, 1.0),
    (0.75, "all ranks take 1.6 times as long", 1.6, 1.6),
)  # fmt: skip
"""The share of the time at which a phase begins, its planted change, and the factors for the late rank and the
others."""
EVERY_S = 5
_OF_JOBS = ("HermesStraggler", "HermesJobSlower", "HermesNoProgress", "HermesLossNotFinite")


def main(seconds: float) -> None:
    """Run the phases and print a table of the alerts that fired."""
    with contextlib.suppress(PermissionError):
        # Other work on the machine is not part of the planted changes; child processes inherit this priority.
        os.nice(-15)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as closing:
        folder = Path(place)
        (folder / "plan").write_text("1 1")
        environments = [_environment(folder / f"host{rank}", rank) for rank in range(HOSTS)]
        for rank, environment in enumerate(environments):
            words = [sys.executable, __file__, "rank", str(folder), str(rank)]
            closing.enter_context(_started(words, environment))
        addresses = [closing.enter_context(_exporter(environment)) for environment in environments]
        fired = closing.enter_context(_alerting(folder, addresses))
        begin, answered = time.monotonic(), 0.0
        seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
        while (now := time.monotonic() - begin) < seconds:
            at = max(place for place, phase in enumerate(PHASES) if now >= phase[0] * seconds)
            (folder / "plan.new").write_text(f"{PHASES[at][2]} {PHASES[at][3]}")
            (folder / "plan.new").replace(folder / "plan")
            alerts = fired()
            last, answered = answered, answered if alerts is None else now
            for alert in alerts or ():
                spans = seen.setdefault(alert, [])
                if spans and spans[-1][1] == last:
                    spans[-1] = spans[-1][0], now
                else:
                    spans.append((now, now))
            time.sleep(1)
        _table(seconds, seen)


def _table(seconds: float, seen: Mapping[tuple[str, str], list[tuple[float, float]]]) -> None:
    print("| from | to | planted | fires |\n|---|---|---|---|")
    starts = [part * seconds for part, *_ in PHASES]
    for at, (_, planted, *_) in enumerate(PHASES):
        begin, end = starts[at], [*starts[1:], seconds][at]
        told = [
            f"{name} of {rank} from {max(first, begin) - begin:.0f} s on" + (
                f" until {last - begin:.0f} s" if last < end - 3 * EVERY_S else "")
            for (name, rank), spans in sorted(seen.items()) for first, last in spans if first < end and last > begin + 1
        ]  # fmt: skip
        print(f"| {begin:.0f} s | {end:.0f} s | {planted} | {'; '.join(told) or 'nothing'} |")


def _environment(folder: Path, rank: int) -> dict[str, str]:
    (folder / "shm").mkdir(parents=True)
    return {
        **os.environ, "HERMES_RUN_DIR": str(folder / "jobs"), "HERMES_SHM_DIR": str(folder / "shm"),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999", "RANK": str(rank), "LOCAL_RANK": "0",
        "WORLD_SIZE": str(HOSTS), "OMP_NUM_THREADS": "1",
    }  # fmt: skip


@contextlib.contextmanager
def _started(words: list[str], environment: Mapping[str, str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(words, env=environment, text=True, **more) as started:
        try:
            yield started
        finally:
            started.kill()


@contextlib.contextmanager
def _exporter(environment: Mapping[str, str]) -> Iterator[str]:
    words = [str(Path(sys.executable).with_name("hermes")), "exporter", "--listen", "127.0.0.1:0"]
    with _started(words, environment, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        yield started.stdout.readline().split()[-1].split("/")[2]


@contextlib.contextmanager
def _alerting(folder: Path, addresses: list[str]) -> Iterator[Any]:
    """The firing alerts as pairs of an alert and the rank of its exporter; None if nobody answers."""
    from tests.fleet.exporter.test_prometheus import DEPLOY, free_port, get, running

    prometheus, manager = free_port(), free_port()
    shutil.copy(DEPLOY / "alerts.yml", folder)
    config = {
        "global": {"scrape_interval": f"{EVERY_S}s", "evaluation_interval": f"{EVERY_S}s"},
        "rule_files": ["alerts.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{manager}"]}]}]},
        "scrape_configs": [{"job_name": "hermes", "static_configs": [{"targets": addresses}]}],
    }
    (folder / "p.yml").write_text(yaml.safe_dump(config))
    (folder / "am.yml").write_text(yaml.safe_dump({"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}))

    def fired() -> set[tuple[str, str]] | None:
        found = get(manager, "/api/v2/alerts")
        return None if found is None else {
            (one["labels"]["alertname"], f"rank {addresses.index(one['labels']['instance'])}")
            for one in found if one["labels"]["alertname"] in _OF_JOBS
        }  # fmt: skip

    with running("prometheus", f"--config.file={folder}/p.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{prometheus}"), \
         running("prometheus-alertmanager", f"--config.file={folder}/am.yml", f"--storage.path={folder}/am",
                 f"--web.listen-address=127.0.0.1:{manager}", "--cluster.listen-address="):  # fmt: skip
        while not get(manager, "/api/v2/status") or not _known(get, prometheus):
            time.sleep(1)
        yield fired


def _known(get: Any, port: int) -> bool:
    """Whether all exporters see their rank step."""
    found = get(port, "/api/v1/query?query=count(hermes_step_own_seconds)")
    result = found["data"]["result"] if found else []
    return bool(result) and int(result[0]["value"][1]) == HOSTS


def train(folder: Path, rank: int) -> None:
    """Train as one rank, until the process is ended."""
    import torch
    import torch.distributed as dist

    import hermes.inside

    torch.set_num_threads(1)
    hermes.inside.start(collectives=True)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=HOSTS)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    gradients = torch.ones(4096)
    while True:
        late, others = map(float, (folder / "plan").read_text().split())
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        time.sleep(STEP_MS / 1e3 * (late if rank == LATE else others))
        dist.all_reduce(gradients)
        optimizer.step()


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        train(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
