"""Every step of the job is found: optimizers made anew, processes that spawn, ranks that are started again."""

from __future__ import annotations

import sys

import pytest
from tests.inside.conftest import Column, Place
from tests.inside.test_profile import HERMES, begin
from tests.patience import PATIENCE_S

from hermes.inside.monitor.step_meter import StepMeter
from hermes.inside.wire.ring import LATE_NS

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("with_torch")]


class Optimizer:
    """Stands for one of torch: only its identity counts."""


def drive(meter: StepMeter, *steps: Optimizer, batches: int = 1) -> int:
    """How many of these optimizer steps end a step of the job."""
    found = 0
    for optimizer in steps:
        meter.batches += batches
        if id(optimizer) == meter.anchor or meter.anchored(optimizer):
            meter.next_step += 1
            meter.batches = 0
            found += 1
    return found


def test_an_optimizer_for_each_epoch_loses_no_step() -> None:
    meter = StepMeter()
    first = Optimizer()
    meter.follow(first)
    assert drive(meter, *[first] * 10) == 10
    del first
    assert sum(drive(meter, *[Optimizer()] * 10, batches=0) for _ in range(4)) == 40


def test_an_old_optimizer_that_is_kept_costs_no_step_where_batches_are_seen() -> None:
    meter = StepMeter()
    kept = [Optimizer() for _ in range(5)]
    meter.follow(kept[0])
    assert sum(drive(meter, *[optimizer] * 10) for optimizer in kept) == 50


def test_an_old_optimizer_that_is_kept_costs_one_step_where_no_batch_is_seen() -> None:
    meter = StepMeter()
    kept = [Optimizer() for _ in range(5)]
    meter.follow(kept[0])
    assert sum(drive(meter, *[optimizer] * 10, batches=0) for optimizer in kept) == 46


def test_the_second_optimizer_of_a_step_ends_none() -> None:
    meter = StepMeter()
    first, second = Optimizer(), Optimizer()
    meter.follow(first)
    found = 0
    for _ in range(20):
        found += drive(meter, first) + drive(meter, second, batches=0)
    assert found == 20


_SPAWN = """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
def rank(number, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=number, world_size=2)
    model = torch.nn.Linear(4, 1)
    for _ in range(4):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    dist.barrier()
    dist.destroy_process_group()
if __name__ == "__main__":
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(rank, args=(port,), nprocs=2)
"""


@pytest.mark.slow
def test_processes_that_are_spawned_are_ranks_of_one_job(place: Place, column: Column) -> None:
    (place.folder / "train.py").write_text(_SPAWN)
    run = begin(place, sys.executable, "-c", HERMES, "run", "--no-watch", "--", sys.executable, "train.py")
    _, said = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, said
    assert "hermes: a step is each step() of the optimizer SGD" in said
    (job,) = place.jobs()
    for rank in (0, 1):
        assert len(column(job.log_path(rank), "step")) == 39


# A store for each start: in that of torchrun the ranks of torch 2.13 wait for ever after a restart, without Hermes too.
_ELASTIC = """
import os, time
import torch
import torch.distributed as dist
store = f"file://{os.path.abspath('store')}{os.environ['TORCHELASTIC_RESTART_COUNT']}"
dist.init_process_group("gloo", init_method=store, rank=int(os.environ["RANK"]), world_size=2)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    dist.barrier()
    time.sleep(0.001)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    time.sleep(1.5)
    os._exit(3)
time.sleep(2 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else 0)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_that_are_started_again_number_on_in_their_logs(place: Place, column: Column) -> None:
    (place.folder / "train.py").write_text(_ELASTIC)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                "--max-restarts", "1", "train.py"]  # fmt: skip
    run = begin(place, sys.executable, "-c", HERMES, "run", "--no-watch", "--", *launcher)
    _, said = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, said
    (job,) = place.jobs()
    for rank in (0, 1):
        steps = column(job.log_path(rank), "step")
        assert column(job.log_path(rank), "index") == list(range(1, len(steps) + 1))
        assert steps[-29:] == list(range(1, 30))
        # The first start ends at once, or is killed: each step sleeps a millisecond, and those of the last 10 are lost.
        first = steps[:-29]
        assert first == list(range(1, len(first) + 1))
        assert 29 - LATE_NS // 1_000_000 <= len(first) <= 29
    assert list(place.memory.iterdir()) == []
