"""What the tools of device makers print: recorded tables, and programs on the PATH that hang, fail or lie."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.fleet.exporter import devices as module
from hermes.fleet.exporter.device import Device
from hermes.fleet.exporter.devices import devices, measured, run
from hermes.model.metric import openmetrics

NPU = """+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 94.2        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 50          0    / 0          3384 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | Alarm         | 91.1        37                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3370 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
| 0       0                 | 4242          | python3                  | 3000                    |
+===========================+===============+====================================================+
"""
PAIRED = """
| 0     Ascend910           | OK            | 180.1       40                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 10          0    / 0          3000 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -           41                0    / 0             |
| 1     1                   | 0000:9F:00.0  | 20          0    / 0          3100 / 65536         |
"""
ECC = """        NPU ID                                   : 0
        HBM Single Bit Error Count               : 3
        HBM Double Bit Error Count               : 1
        HBM Single Bit Isolated Pages Count      : 9
"""
COMMON = "        Aicore Usage Rate(%)           : 50\n        Aicore curFreq(MHZ)            : 1800\n"
NVIDIA = """0, NVIDIA H100 80GB HBM3, 97, 70000, 81559, 612.33, 58, 1980, 4, 0
1, NVIDIA H100, [N/A], 1, 2, [N/A], 40, 210, [N/A], 2
"""
LINKS = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
\t Link 0: Replay Errors: 1
\t Link 0: Recovery Errors: 0
\t Link 0: CRC Errors: 2
\t Link 1: Replay Errors: 4
GPU 1: NVIDIA H100 (UUID: GPU-2)
\t Link 0: Bogus Errors: 4
"""
ROCM = json.dumps({
    "card0": {
        "Card series": "AMD Instinct MI300X", "GPU use (%)": "33", "VRAM Total Memory (B)": "1000",
        "VRAM Total Used Memory (B)": "10", "Current Socket Graphics Package Power (W)": "141.0",
        "Temperature (Sensor junction) (C)": "41.0", "sclk clock speed:": "(132Mhz)",
    },
    "system": {"Driver version": "6.7.0"},
})  # fmt: skip


def told(answers: dict[str, str], *, details: bool = True) -> list[Device]:
    def tool(command: object) -> str:
        words = " ".join(command)  # type: ignore[call-overload]
        return next((text for begin, text in answers.items() if words.startswith(begin)), "")

    return devices(tool, details=details)


def test_npus_are_read_from_the_table_and_its_details() -> None:
    first, second = told({"npu-smi info -t ecc -i 0": ECC, "npu-smi info -t common -i 0": COMMON,
                          "npu-smi info -t": "", "npu-smi info": NPU})  # fmt: skip
    assert (first.index, first.model, first.healthy, first.busy) == ("0", "910B3", True, 0.5)
    assert (first.watts, first.celsius, first.hertz) == (94.2, 36, 1.8e9)
    assert (first.used_bytes, first.total_bytes) == (3384 << 20, 65536 << 20)
    assert first.ecc == {"corrected": 3, "uncorrected": 1}
    assert (second.index, second.healthy, second.ecc, second.hertz) == ("1", False, {}, None)


def test_chips_of_one_npu_are_told_apart() -> None:
    found = told({"npu-smi info -t": "", "npu-smi info": PAIRED})
    assert [(one.index, one.watts, one.busy) for one in found] == [("0.0", 180.1, 0.1), ("0.1", None, 0.2)]


def test_gpus_are_read_from_their_table_and_links() -> None:
    first, second = told({"nvidia-smi --query": NVIDIA, "nvidia-smi nvlink": LINKS})
    assert (first.busy, first.watts, first.celsius, first.hertz) == (0.97, 612.33, 58, 1.98e9)
    assert (first.ecc, first.links) == (
        {"corrected": 4, "uncorrected": 0},
        {"replay": 5, "recovery": 0, "crc": 2},
    )
    assert (second.busy, second.watts, second.ecc, second.links) == (None, None, {"uncorrected": 2}, {})
    assert told({"nvidia-smi --query": NVIDIA, "nvidia-smi nvlink": LINKS}, details=False)[0].links == {}


def test_cards_are_read_from_the_document() -> None:
    (card,) = told({"rocm-smi": ROCM})
    assert (card.model, card.busy, card.watts, card.celsius) == ("AMD Instinct MI300X", 0.33, 141.0, 41.0)
    assert (card.used_bytes, card.total_bytes, card.hertz) == (10.0, 1000.0, 132e6)


def test_families_have_the_labels_that_are_declared() -> None:
    text = openmetrics(measured(told({"nvidia-smi --query": NVIDIA})))
    assert 'hermes_device_info{device="0",maker="nvidia",model="NVIDIA H100 80GB HBM3"} 1.0' in text
    assert 'hermes_device_ecc_errors_total{device="1",kind="uncorrected",maker="nvidia"} 2.0' in text
    assert 'hermes_device_busy_ratio{device="1"' not in text


_TABLES = (NPU, NVIDIA, LINKS, ROCM, ECC, COMMON)


@given(text=st.one_of(st.text(), st.sampled_from(_TABLES)), cut=st.integers(0, 500), junk=st.text(max_size=20))
def test_whatever_a_tool_prints_is_a_number_or_nothing(text: str, cut: int, junk: str) -> None:
    said = text[:cut] + junk + text[cut:]
    openmetrics(measured(devices(lambda _: said, details=True)))


def tool_on_path(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.live
def test_a_tool_is_run_from_the_root_and_without_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool_on_path(tmp_path, "nvidia-smi", 'pwd; cat; echo "$1"', monkeypatch)
    assert run(["nvidia-smi", "-L"]) == "/\n-L\n"


@pytest.mark.live
def test_a_tool_that_fails_hangs_or_is_absent_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.2)
    tool_on_path(tmp_path, "npu-smi", "echo 1; exit 3", monkeypatch)
    tool_on_path(tmp_path, "nvidia-smi", "echo 1; exec sleep 60", monkeypatch)
    assert [run([name]) for name in ("npu-smi", "nvidia-smi", "no-such-smi")] == ["", "", ""]
