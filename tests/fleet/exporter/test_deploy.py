"""What is shipped beside the exporter: its options exist, its queries name what is declared, and rules are rules."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from hermes.cli import exporter
from hermes.fleet.exporter import metric_families
from hermes.fleet.report import past_from_prometheus

pytestmark = pytest.mark.live

DEPLOY = Path(__file__).resolve().parents[3] / "deploy" / "exporter"
DECLARED = {family.served: family for group in metric_families.groups() for family in group}
RECORDED = {"hermes:rank_own_seconds"}
OF_PROMETHEUS = {"job", "instance", "launch"}
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="no Prometheus on the PATH")


def taken(words: list[str]) -> None:
    """The options, by the command itself."""
    with click.Context(exporter.run) as context:
        exporter.run.make_parser(context).parse_args(words)


def test_the_options_of_the_unit_the_pod_the_prolog_and_the_container_exist() -> None:
    unit = (DEPLOY / "hermes-exporter.service").read_text()
    assert "ExecStart=/usr/local/bin/hermes exporter $OPTIONS" in unit
    hint = next(line for line in unit.splitlines() if line.startswith("# OPTIONS"))
    known = {name for option in exporter.run.params for name in option.opts}
    assert set(re.findall(r"--[a-z-]+", hint)) <= known
    (container,) = pod()["containers"]
    taken(container["args"])
    prolog = (DEPLOY / "slurm-prolog.sh").read_text()
    taken(shlex.split(prolog.split("hermes exporter ")[1].splitlines()[0].partition("$HERMES")[0]))
    assert 'ENTRYPOINT ["hermes", "exporter"]' in (DEPLOY / "Containerfile").read_text()


def pod() -> dict[str, Any]:
    found = yaml.safe_load((DEPLOY / "daemonset.yaml").read_text())
    return dict(found["spec"]["template"]["spec"])


def test_the_pod_may_do_little_and_is_reached_by_tls_alone() -> None:
    (container,) = pod()["containers"]
    context = container["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"], context["runAsNonRoot"]) == (
        False, True, True,
    )  # fmt: skip
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in pod()["volumes"]}
    assert pod()["automountServiceAccountToken"] is False


def test_the_prolog_never_fails_a_job(tmp_path: Path) -> None:
    assert subprocess.run(["sh", "-n", DEPLOY / "slurm-prolog.sh"], check=False).returncode == 0
    for path in ("/nowhere", f"{tmp_path}:/usr/bin:/bin"):
        done = subprocess.run(
            ["/bin/sh", DEPLOY / "slurm-prolog.sh"], env={"PATH": path, "HOME": "/proc/nowhere"}, capture_output=True,
            check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, b"")


def test_the_prolog_starts_one_exporter_of_a_user(tmp_path: Path) -> None:
    said = tmp_path / "said"
    (tmp_path / "hermes").write_text(f'#!/bin/sh\necho "$@" >>{said}\nexec sleep 5\n')
    (tmp_path / "hermes").chmod(0o755)
    for _ in range(3):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        subprocess.run(["sh", DEPLOY / "slurm-prolog.sh"], env=environment, check=True)
    subprocess.run(
        ["flock", tmp_path / ".local" / "state" / "hermes" / "exporter.lock", "true"], check=True, timeout=60
    )
    assert said.read_text() == f"exporter --listen 127.0.0.1:{20000 + os.getuid() % 10000}\n"


def test_the_report_of_a_fleet_asks_for_stragglers_with_the_limits_of_the_alert() -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    alert = next(rule for group in rules["groups"] for rule in group["rules"] if rule.get("alert") == "HermesStraggler")
    limits = [sorted(re.findall(r"\b\d\.\d+\b", query)) for query in (alert["expr"], past_from_prometheus.LATE)]
    assert limits == [["0.1", "0.5", "0.5", "1.15"]] * 2
    assert alert["for"] == f"{past_from_prometheus.LATE_S / 60:.0f}m"


def queries() -> Iterator[str]:
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    yield from (rule["expr"] for group in rules["groups"] for rule in group["rules"])
    board = json.loads((DEPLOY / "dashboard.json").read_text())
    yield from (target["expr"] for panel in board["panels"] for target in panel["targets"])
    yield from (one["query"] for one in board["templating"]["list"] if one["type"] == "query")


def test_queries_name_metrics_and_labels_that_are_declared() -> None:
    labels = {name for family in DECLARED.values() for name in family.names} | OF_PROMETHEUS
    for query in queries():
        bare = re.sub(r'"[^"]*"', '""', query)
        assert set(re.findall(r"\bhermes[_:][a-z_:]+", bare)) <= {*DECLARED, *RECORDED, "hermes_job_state"}, query
        grouped = re.findall(r"(?:by|on|group_left) \(([^)]*)\)", bare)
        matched = re.findall(r"([a-z_]+)\s*(?:=~|!=|=)\s*\"", bare)
        assert {one.strip() for part in grouped for one in part.split(",") if one.strip()} | {*matched} <= labels, query


def test_what_a_dashboard_draws_has_its_place() -> None:
    board = json.loads((DEPLOY / "dashboard.json").read_text())
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len({*places}) == len(places)
    for panel in board["panels"]:
        legends = {name for target in panel["targets"] for name in re.findall(r"{{(\w+)}}", target["legendFormat"])}
        known = {name for family in DECLARED.values() for name in family.names} | OF_PROMETHEUS
        assert legends <= known, panel["title"]


def series(name: str, values: str, **labels: str) -> str:
    written = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"  - series: '{name}{{{written}}}'\n    values: '{values}'\n"


@needs_promtool
def test_alerts_fire_for_a_straggler_and_a_slow_job_and_not_before(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    own = {0: "0.05x60", 1: "0.05x60", 2: "0.05x29 0.08x30", 3: "0.05x60"}
    text = "rule_files: [alerts.yml]\nevaluation_interval: 15s\ntests:\n- interval: 15s\n  input_series:\n"
    for rank, values in own.items():
        job = {"job": "hermes", "instance": f"node{rank}:8656", "job_name": f"train-{rank}"}
        text += series("hermes_step_own_seconds", values.replace("x", "+0x"), rank=str(rank), **job)
        text += series("hermes_step_seconds", "0.1+0x60", rank=str(rank), **job)
        text += series("hermes_job_info", "1+0x60", launch="slurm-7", ranks="1", **job)
        text += series("hermes_job_slow", "0+0x29 1+0x30" if rank == 1 else "0+0x60", **job)
    text += "  alert_rule_test:\n"
    straggler = (
        'exp_labels: {severity: warning, instance: "node2:8656", job: hermes, job_name: train-2, launch: slurm-7, '
        'rank: "2"}\n'
        '        exp_annotations: {summary: "rank 2 of train-2 on node2:8656 holds up the others",'
        ' action: "look at pressure, clock, temperature and link errors of that host"}\n'
    )
    slow = (
        'exp_labels: {severity: warning, instance: "node1:8656", job_name: train-1, job: hermes}\n'
        '        exp_annotations: {summary: "train-1 on node1:8656 is slower than it was",'
        ' action: "hermes watch on that host says since when and why"}\n'
    )
    for name, expected in (("HermesStraggler", straggler), ("HermesJobSlower", slow)):
        for at, alerts in (("7m", ""), ("13m", expected)):
            text += f"  - eval_time: {at}\n    alertname: {name}\n    exp_alerts:\n"
            text += f"      - {alerts}" if alerts else ""
    (tmp_path / "test.yml").write_text(text)
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
