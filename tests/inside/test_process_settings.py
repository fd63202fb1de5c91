"""What a process computes with, as far as it is known."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermes.inside.monitor import process_settings as module
from hermes.inside.monitor.process_settings import surroundings


def of(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    monkeypatch.setattr(module, "_CPUINFO", path)
    return surroundings({})


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_bf16\n", "amx"),
        ("flags\t\t: fpu avx512f avx512_bf16\n", "avx512"),
        ("Features\t: fp asimd bf16 i8mm\n", "arm"),
        ("flags\t\t: fpu avx2\n", "none"),
    ],
)
def test_the_processor_says_how_it_multiplies_short_numbers(
    text: str, short: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of(tmp_path, text, monkeypatch)["cpu.bf16"] == short


def test_what_is_not_known_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cpu.bf16" not in of(tmp_path, "model name : x\n", monkeypatch)
    monkeypatch.setattr(module, "_CPUINFO", tmp_path / "none")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert surroundings({"torch": object()}).keys() == {"cpu.cores"}


def test_threads_are_those_of_the_framework_that_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    torch = SimpleNamespace(get_num_threads=lambda: 3, is_anomaly_enabled=lambda: True)
    found = surroundings({"torch": torch})
    assert found["torch.num_threads"] == "3"
    assert found["torch.anomaly_enabled"] == "True"
    assert found["OMP_NUM_THREADS"] == "7"
    assert found["cpu.cores"] == str(len(os.sched_getaffinity(0)))
