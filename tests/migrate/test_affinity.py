"""Plans of cores from recorded outputs and trees of sysfs; threads moved and moved back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.migrate.affinity import bind_threads
from hermes.migrate.affinity.machine_topology import Machine, cpus, ranges, read_machine
from hermes.migrate.affinity.plan import Plan, plan

TOPO = """\t   NPU0       NPU1       NPU2       NPU3       CPU Affinity
NPU0       X          HCCS       HCCS       HCCS       0-7
NPU1       HCCS       X          HCCS       HCCS       0-7
NPU2       HCCS       HCCS       X          HCCS       8-15
NPU3       HCCS       HCCS       HCCS       X          8-15

Legend:

  X    = Self
  SYS  = Path traversing PCIe and NUMA nodes. Nodes are connected through SMP, such as QPI, UPI.
  HCCS = Connection traversing HCCS.
  0-3  = not a device
"""
INFO = """+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 94.2        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3384 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | OK            | 91.1        37                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3370 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 4242          | python3                  | 3000                    |
+===========================+===============+====================================================+
| 1       0                 | 4243          | python3                  | 3000                    |
+===========================+===============+====================================================+
"""
GPU_TOPO = """\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPXB\t0-3,8-11\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t4-7,12-15\t1\t\tN/A
NIC0\tPXB\tSYS\t X \t\t\t\t
"""


def _tree(
    root: Path, nodes: list[str], siblings: int = 1, cgroup: str = "", buses: dict[str, int] | None = None
) -> Path:
    count = max(max(cpus(one)) for one in nodes) + 1
    for number, listed in enumerate(nodes):
        folder = root / f"sys/devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{listed}\n")
    base = root / "sys/devices/system/cpu"
    half = count // siblings
    for cpu in range(count):
        folder = base / f"cpu{cpu}/topology"
        folder.mkdir(parents=True)
        together = [cpu % half + half * other for other in range(siblings)]
        (folder / "thread_siblings_list").write_text(",".join(map(str, together)))
    (base / "online").write_text(f"0-{count - 1}\n")
    if cgroup:
        (root / "sys/fs/cgroup").mkdir(parents=True)
        (root / "sys/fs/cgroup/cpuset.cpus.effective").write_text(cgroup)
    for bus, node in (buses or {}).items():
        folder = root / "sys/bus/pci/devices" / bus
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
        (folder / "local_cpulist").write_text(nodes[node] if node >= 0 else f"0-{count - 1}")
    return root


def _machine(root: Path, **tools: str) -> Machine:
    return read_machine(root, {name.replace("_", "-"): text for name, text in tools.items()})


def _cores(found: Plan) -> list[str]:
    return [ranges(seat.cpus) for seat in found.seats]


def test_devices_of_one_node_share_its_cores_evenly(tmp_path: Path) -> None:
    found = plan(_machine(_tree(tmp_path, ["0-7", "8-15"]), npu_topo=TOPO))
    assert _cores(found) == ["0-3", "4-7", "8-11", "12-15"]
    assert [seat.device.node for seat in found.seats] == [0, 0, 1, 1]
    assert found.variable == "CPU_AFFINITY_CONF=1,npu0:0-3,npu1:4-7,npu2:8-11,npu3:12-15"
    assert found.seats[2].numactl == "numactl --physcpubind=8-11 --membind=1"


def test_the_bus_of_a_device_says_its_node_where_the_tool_says_nothing(tmp_path: Path) -> None:
    root = _tree(tmp_path, ["0-7", "8-15"], buses={"0000:c1:00.0": 1, "0000:01:00.0": 0})
    found = plan(_machine(root, npu_info=INFO))
    assert _cores(found) == ["8-15", "0-7"]
    assert [list(seat.device.pids) for seat in found.seats] == [[4242], [4243]]


def test_a_bus_without_a_node_leaves_the_tool_to_say(tmp_path: Path) -> None:
    root = _tree(tmp_path, ["0-7", "8-15"], buses={"0000:c1:00.0": -1, "0000:01:00.0": -1})
    found = plan(_machine(root, npu_info=INFO, npu_topo=TOPO))
    assert _cores(found)[0] == "0-3"


def test_hardware_threads_of_a_core_stay_together(tmp_path: Path) -> None:
    found = plan(_machine(_tree(tmp_path, ["0-15"], siblings=2), npu_topo=TOPO.replace("8-15", "0-7")))
    for seat in found.seats:
        assert {cpu + 8 for cpu in seat.cpus if cpu < 8} & {cpu for cpu in seat.cpus if cpu >= 8} in (
            set(),
            {cpu + 8 for cpu in seat.cpus if cpu < 8},
        )


def test_a_plan_of_gpus_reads_lists_of_ranges_and_colours(tmp_path: Path) -> None:
    found = plan(_machine(_tree(tmp_path, ["0-3,8-11", "4-7,12-15"], siblings=2), gpu_topo=GPU_TOPO))
    assert _cores(found) == ["0-3,8-11", "4-7,12-15"]
    assert found.variable == ""


def test_a_cgroup_limits_the_plan_and_is_said(tmp_path: Path) -> None:
    found = plan(_machine(_tree(tmp_path, ["0-7", "8-15"], cgroup="0-3,8-9"), npu_topo=TOPO))
    assert _cores(found) == ["0-1", "2-3", "8", "9"]
    assert "a cgroup allows 6 of 16 cores" in say(found.notes[0])


def test_a_device_whose_cores_are_not_allowed_gets_others_and_it_is_said(tmp_path: Path) -> None:
    found = plan(_machine(_tree(tmp_path, ["0-7", "8-15"], cgroup="0-7"), npu_topo=TOPO))
    assert all(seat.cpus <= cpus("0-7") for seat in found.seats)
    assert any("npu2: none of the cores near to it, 8-15, is allowed" in say(note) for note in found.notes)


def test_more_devices_than_cores_share_them_and_it_is_said(tmp_path: Path) -> None:
    found = plan(_machine(_tree(tmp_path, ["0-1"]), npu_topo=TOPO.replace("0-7", "0-1").replace("8-15", "0-1")))
    assert _cores(found) == ["0-1"] * 4
    assert any("4 devices share 2 cores" in say(note) for note in found.notes)


@pytest.mark.parametrize("text", ["", "no such command", "NPU0 X\n", "CPU Affinity\n", "NPU0 X N/A\n\x00\xff"])
def test_junk_from_a_tool_names_no_device(text: str, tmp_path: Path) -> None:
    assert all(not one.near for one in _machine(_tree(tmp_path, ["0-1"]), npu_topo=text).devices)


def test_numbers_and_ranges_go_back_and_forth() -> None:
    assert ranges(cpus("0-3,8,10-11")) == "0-3,8,10-11"
    assert cpus("") == frozenset()


def _tasks(pid: int) -> list[int]:
    return [int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()]


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    program = "import threading, time\nfor _ in range(3): threading.Thread(target=time.sleep, args=(60,)).start()\nprint(flush=True)\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.live
def test_every_thread_is_moved_and_moved_back(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    pid, state = busy.pid, tmp_path / "state" / "affinity.json"
    before = os.sched_getaffinity(pid)
    one = frozenset({min(before)})
    (done,) = bind_threads.apply({pid: one}, state)
    assert (done.threads, done.failed) == (4, ())
    assert all(os.sched_getaffinity(thread) == one for thread in _tasks(pid))
    bind_threads.apply({pid: one}, state)
    (back,) = bind_threads.restore(state)
    assert (back.threads, back.failed) == (4, ())
    assert all(os.sched_getaffinity(thread) == before for thread in _tasks(pid))
    with pytest.raises(InputError, match="no affinity was applied"):
        bind_threads.restore(state)


@pytest.mark.live
def test_a_process_that_has_ended_is_said_and_another_with_its_number_is_left_alone(
    busy: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    state = tmp_path / "affinity.json"
    bind_threads.apply({busy.pid: frozenset(os.sched_getaffinity(0))}, state)
    kept = json.loads(state.read_text())
    kept[str(busy.pid)]["started"] = "1"
    state.write_text(json.dumps(kept))
    (back,) = bind_threads.restore(state)
    assert [say(one) for one in back.failed] == [f"process {busy.pid} does not run"]


def test_a_process_that_does_not_run_is_said(tmp_path: Path) -> None:
    (done,) = bind_threads.apply({2**22 + 1: frozenset({0})}, tmp_path / "x.json")
    assert "does not run" in say(done.failed[0])
    assert threading.active_count() >= 1
