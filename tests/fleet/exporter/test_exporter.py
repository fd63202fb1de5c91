"""What the exporter tells of jobs: numbers and declared labels, whatever a job says of itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.fleet.exporter.conftest import Serve, asked  # type: ignore[import-not-found]
from tests.jobs.live_job import LiveJob, record
from tests.patience import until

from hermes.fleet.exporter import exporter as module
from hermes.fleet.exporter import metric_families
from hermes.fleet.exporter.exporter import Exporter, bounded
from hermes.inside.wire.recovery import open_ring
from hermes.inside.wire.step_record import FIELDS
from hermes.model.metric import MetricSample, openmetrics

HERMES = Path(sys.executable).with_name("hermes")
DECLARED = {family.served: family for group in metric_families.groups() for family in group}


def told(exporter: Exporter) -> dict[str, float]:
    exporter._fresh = (-9.0, [])
    lines = openmetrics(exporter.measured()).splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


@pytest.mark.live
def test_a_job_is_served_with_all_that_is_known_of_it(live_job: LiveJob, exporter: Exporter, serve: Serve) -> None:
    live_job.steps([10.0] * 40, cpu_ns=4_000_000, delay_ns=0, data_ns=1_000_000, data_cpu_ns=0, samples=8,
                   tokens=64, comm_ns=5_000_000)  # fmt: skip
    look = {"step": 40, "loss": 2.5, "norm": 0.5, "update": 0.01}
    (live_job.job.folder / "numerics-rank0.jsonl").write_text(json.dumps(look) + "\n")
    exporter.look()
    status, text = asked(serve(), Accept="application/openmetrics-text; version=1.0.0")
    found = {line.rsplit(" ", 1)[0]: line.rsplit(" ", 1)[1] for line in text.splitlines() if line[0] != "#"}
    rank = '{job_name="train-1-2",rank="0"}'
    assert status == 200
    assert [float(found[f"hermes_{name}{rank}"]) for name in
            ("step", "step_seconds", "step_own_seconds", "samples_per_second", "loss", "gradient_norm")
            ] == [40, 0.01, 0.005, 800, 2.5, 0.5]  # fmt: skip
    assert float(found['hermes_step_part_seconds{job_name="train-1-2",part="data wait",rank="0"}']) == 0.001
    assert found['hermes_job_info{job_name="train-1-2",launch="train-1-2",ranks="1"}'] == "1.0"
    assert found['hermes_exporter_source_up{source="host"}'] == "1.0"


def test_what_is_served_is_declared_and_holds_no_path_and_no_command(live_job: LiveJob, exporter: Exporter) -> None:
    live_job.steps([10.0] * 40)
    exporter.look()
    text = openmetrics(exporter.measured())
    families_ = list(text_string_to_metric_families(text))
    for sample in (one for family in families_ for one in family.samples):
        assert set(sample.labels) == set(DECLARED[sample.name].names)
    assert not re.search(r'="[^"]*/', text)
    assert "python" not in text


def test_a_command_line_is_told_when_asked_for(live_job: LiveJob) -> None:
    live_job.steps([10.0])
    made = Exporter(live_job.environment, root=Path("/"), users=(), peak_flops=None, commands=True,
                    say=lambda _: None, tool=lambda _: "")  # fmt: skip
    made.look()
    assert told(made)['hermes_job_command_info{command="python train.py",job_name="train-1-2"}'] == 1
    made.close()


def test_an_alarm_is_counted_and_the_job_is_called_slow(live_job: LiveJob, exporter: Exporter) -> None:
    live_job.steps([10.0, 10.1] * 100)
    exporter.look()
    assert told(exporter)['hermes_job_slow{job_name="train-1-2"}'] == 0
    live_job.steps([20.0] * 30)
    exporter.look()
    found = told(exporter)
    assert (found['hermes_job_slow{job_name="train-1-2"}'], found['hermes_job_alarms_total{job_name="train-1-2"}']) == (
        1,
        1,
    )


def test_nothing_is_written_beside_a_job_or_done_to_it(live_job: LiveJob, exporter: Exporter) -> None:
    live_job.steps([10.0, 10.1] * 100)
    exporter.look()
    live_job.steps([30.0] * 60)
    before = sorted(path.name for path in live_job.job.folder.rglob("*"))
    exporter.look()
    assert sorted(path.name for path in live_job.job.folder.rglob("*")) == before
    assert live_job.control.request() is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3), max_leaves=5,
)  # fmt: skip
KEYS = st.sampled_from(["rank", "world", "flops", "device", "launch", "host", "step", "stacks", "frameworks", "python"])
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
ROWS = st.lists(st.dictionaries(st.sampled_from([*FIELDS][1:-1]), NUMBERS, max_size=31), max_size=40)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    return tmp_path_factory.mktemp("hostile")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(about=st.dictionaries(KEYS, JSON, max_size=5), rows=ROWS, beside=JSON, look=JSON)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_hostile_job_costs_its_own_rows_and_never_the_answer(
    live_job: LiveJob, about: dict[str, object], rows: list[dict[str, int]], beside: object, look: object
) -> None:
    rank = 1 + len(list(live_job.job.segment.parent.iterdir()))
    try:
        ring = open_ring(live_job.job, rank, about)
    except Exception:  # noqa: BLE001 - more than a header holds: no ring, no attack
        return
    live_job.control.claim(rank)
    for number, row in enumerate(rows, 1):
        ring.add(record(number, **({"step": number, "wall_ns": 1000, "end_ns": 1} | row)))
    folder = live_job.job.folder
    (folder / f"comm-rank{rank}.json").write_text(json.dumps({"collectives": beside}))
    (folder / f"rank{rank}.json").write_text(json.dumps(beside))
    (folder / f"numerics-rank{rank}.jsonl").write_text(json.dumps(look) + "\n")
    live_job.steps([10.0])
    made = Exporter(live_job.environment, root=Path("/nowhere"), users=(), peak_flops=1e12, commands=True,
                    say=lambda _: None, tool=lambda _: "")  # fmt: skip
    try:
        made.look()
        text = openmetrics(made.measured())
        list(text_string_to_metric_families(text))
        assert "\x1b" not in text
        assert "hermes_exporter_left_out_rows 0.0" in text
    finally:
        made.close()
        ring.close()
        ring.path.unlink()


def test_escapes_and_quotes_in_names_stay_one_label(live_job: LiveJob, exporter: Exporter) -> None:
    live_job.steps([10.0])
    group = 'a"} 1\n\x1b[31mhermes_job_slow{job_name="b'
    row = {"kind": group, "group": group, "calls": 1, "bytes": 9, "ns": 3}
    (live_job.job.folder / "comm-rank0.json").write_text(json.dumps({"collectives": [row]}))
    exporter.look()
    text = openmetrics(exporter.measured())
    (sample,) = next(one.samples for one in text_string_to_metric_families(text)
                     if one.name == "hermes_collective_bytes_per_second")  # fmt: skip
    assert sample.labels["group"] == 'a"} 1 \ufffd[31mhermes_job_slow{job_name="b'


def test_a_job_that_claims_many_ranks_is_bounded(
    live_job: LiveJob, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter._overview, "_most_ranks", 3)
    for rank in range(1, 9):
        open_ring(live_job.job, rank, {}).add(record(1, step=1, wall_ns=5, end_ns=1))
    exporter.look()
    assert len([name for name in told(exporter) if name.startswith("hermes_step{")]) <= 3


def test_rows_beyond_the_bound_are_left_out_and_counted(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    found = told(exporter)
    assert found["hermes_exporter_left_out_rows"] > 0
    assert len([name for name in found if "exporter" not in name]) == 2
    many = MetricSample(family=metric_families.OOM_KILLS, rows=[((), 1.0)] * 5)
    kept, left_out = bounded([many, many], 6)
    assert ([len(one.rows) for one in kept], left_out) == ([5, 1], 4)


def test_whoever_asks_often_costs_no_more(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    monkeypatch.setattr(module, "host", lambda root: measured.append(root) or [])
    for _ in range(50):
        exporter.measured()
    assert len(measured) <= 2


def test_counters_of_devices_stay_between_two_looks_at_them(live_job: LiveJob) -> None:
    answers = {
        "nvidia-smi --query": "0, A, 1, 1, 2, 3, 4, 5, 6, 7",
        "nvidia-smi nvlink": "GPU 0: A\n Link 0: CRC Errors: 2",
    }

    def tool(words: Sequence[str]) -> str:
        return next((answers[one] for one in answers if " ".join(words).startswith(one)), "")

    made = Exporter(live_job.environment, root=Path("/nowhere"), users=(), peak_flops=None, commands=False,
                    say=lambda _: None, tool=tool)  # fmt: skip
    links = 'hermes_device_link_errors_total{device="0",kind="crc",maker="nvidia"}'
    for _ in range(2):
        made.look_at_devices()
        assert told(made)[links] == 2
    answers.clear()
    made.look_at_devices()
    found = told(made)
    assert (links in found, found['hermes_exporter_source_up{source="devices"}']) == (False, 0)
    made.close()


@pytest.mark.smoke
def test_the_command_serves_until_it_is_told_to_end(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 3)
    words = [str(HERMES), "exporter", "--listen", "127.0.0.1:0", "--no-devices", "--lang", "en"]
    with subprocess.Popen(
        words, env={**os.environ, **live_job.environment}, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        url = started.stdout.readline().split()[-1]

        class At:
            port = int(url.split(":")[2].split("/")[0])

        assert until(lambda: 'hermes_step{job_name="train-1-2",rank="0"} 3.0' in asked(At())[1])
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 143


def ran(live_job: LiveJob, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, whose run directory is that of the job."""
    return subprocess.run(
        [str(HERMES), "exporter", *words], env={**os.environ, **live_job.environment}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.live
def test_the_command_prints_once(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 3)
    done = ran(live_job, "--once", "--no-devices")
    assert (done.returncode, done.stderr) == (0, "")
    assert 'hermes_step{job_name="train-1-2",rank="0"} 3.0\n' in done.stdout
    list(text_string_to_metric_families(done.stdout))


@pytest.mark.live
@pytest.mark.parametrize(
    "given",
    [["--listen", "0.0.0.0:0"], ["--listen", "nowhere"], ["--user", "no such\x1b user"], ["--otlp", "ftp://a"],
     ["--otlp", "http://10.0.0.1:4318"], ["--otlp", "grpc://collector.example"], ["--tls-cert", "/etc/passwd"]],
    ids=" ".join,
)  # fmt: skip
def test_what_would_be_unsafe_or_senseless_is_refused(live_job: LiveJob, given: list[str]) -> None:
    done = ran(live_job, "--listen", "127.0.0.1:0", *given)
    assert done.returncode == 2
    assert done.stderr.startswith("hermes: ")
    assert "\x1b" not in done.stderr


def test_families_are_declared_once_and_named_as_openmetrics_asks() -> None:
    names = [family.served for group in metric_families.groups() for family in group]
    assert len(names) == len(set(names))
    for family in (one for group in metric_families.groups() for one in group):
        assert re.fullmatch(r"hermes_[a-z][a-z0-9_]*", family.name)
        assert not family.unit or family.name.endswith(f"_{family.unit}")
        assert len({*family.names}) == len(family.names)
        assert not {"job", "instance", "le", "quantile"} & {*family.names}
    assert replace(metric_families.OOM_KILLS, kind="gauge").served == "hermes_host_oom_kills"
