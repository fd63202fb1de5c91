"""Verification on the stand-in: what is the same passes, what torch_npu lacks fails, what differs is named."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes.migrate import facts
from hermes.migrate.faces.verify import text
from hermes.migrate.model import Style, Target
from hermes.migrate.tree import convert_tree
from hermes.migrate.verify import STAND_IN, Run, Verdict, ask_again, compare, verify
from hermes.migrate.write import beside

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

PROGRAM = """import torch
from torch import nn

device = "cuda"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Embedding(7, 8)
        self.b = nn.Linear(8, 7, bias=False)
        self.b.weight = self.a.weight
        self.c = nn.BatchNorm1d(8)

    def forward(self, x):
        return self.b(nn.functional.dropout(torch.relu(self.c(self.a(x))), 0.2, self.training))


net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for step in range(6):
    x = torch.randint(0, 7, (16,)).to(device, non_blocking=True)
    with torch.cuda.amp.autocast():
        loss = nn.functional.cross_entropy(net(x), x)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    print(f"loss {loss:.4f} {loss.is_cuda}")
"""


def _verify(
    tmp_path: Path, program: str, style: Style = Style.NATIVE, change: str = "", by: str = "", compared: bool = False
) -> Verdict:
    original, converted = tmp_path / "original", tmp_path / "converted"
    original.mkdir()
    (original / "train.py").write_text(program)
    beside(convert_tree(original, Target(), style), converted)
    if change:
        path = converted / "train.py"
        assert change in path.read_text()
        path.write_text(path.read_text().replace(change, by))
    return verify(
        converted, original if compared else None, [sys.executable, "train.py"], steps=3, devices=1, timeout_s=300
    )


def _ranks(tmp_path: Path, program: str) -> Verdict:
    original, converted = tmp_path / "original", tmp_path / "converted"
    original.mkdir()
    (original / "train.py").write_text(program)
    beside(convert_tree(original, Target(), Style.NATIVE), converted)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    return verify(converted, original, command, steps=3, devices=2, timeout_s=300)


@needs_torch
@pytest.mark.parametrize("style", list(Style))
def test_a_converted_program_gives_the_losses_and_weights_of_the_original_bit_by_bit(
    tmp_path: Path, style: Style
) -> None:
    told = _verify(tmp_path, PROGRAM, style, compared=True)
    assert told.same, told
    assert told.steps == 3
    assert told.passed
    assert len(told.converted.weights["0"]) == 3


PARALLEL = """import os
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
net = parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    net(torch.ones(3, 4, device="cuda") * step).sum().backward()
    optimizer.step()
torch.distributed.destroy_process_group()
"""


@needs_torch
@pytest.mark.slow
def test_a_program_whose_layers_are_split_over_ranks_gives_the_same_losses(tmp_path: Path) -> None:
    told = _ranks(tmp_path, PARALLEL)
    assert told.same, told
    assert told.steps == 6


COMPLEX = """import torch
from torch import nn

values = torch.nn.Parameter(torch.randn(3, 4, 2, device="cuda"))
turn = torch.polar(torch.ones(3, 4), torch.arange(12.0).view(3, 4)).to("cuda")
optimizer = torch.optim.SGD([values], lr=0.1)
for step in range(3):
    turned = torch.view_as_complex(values) * turn
    spectrum = torch.fft.fft(turned.conj() @ turn.transpose(0, 1).conj())
    gate = nn.functional.silu(values).sum() + nn.functional.mish(values).sum()
    (gate + torch.view_as_real(turned).sin().sum() + spectrum.imag.abs().sum() + turned.conj().imag.exp().sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@needs_torch
@pytest.mark.slow
def test_conjugates_and_gradients_of_gates_are_those_of_the_cpu(tmp_path: Path) -> None:
    told = _verify(tmp_path, COMPLEX, compared=True)
    assert told.same, told
    assert told.steps == 3


COPIES = """import os

import torch
from torch import nn

net = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
host, total = torch.zeros(2, 4), 0.0
for step in range(4):
    host.fill_(step)
    there = host.cuda()
    there.to("cuda").add_(1)
    total = total + net(there).sum()
    host.fill_(7)
total.backward()
optimizer.step()
"""


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("style", list(Style))
def test_moving_to_the_device_copies_in_both_runs_once(tmp_path: Path, style: Style) -> None:
    told = _verify(tmp_path, COPIES, style, compared=True)
    assert told.passed, told
    assert told.steps == 1


ASKING = """import threading

import torch

weight = torch.ones(3, device="cuda", requires_grad=True)
seen = []
weight.register_hook(lambda grad: seen.append(threading.current_thread()))
(weight * 2).sum().backward()
other = threading.Thread(target=lambda: (weight * 3).sum().backward())
other.start()
other.join()
assert seen == [threading.main_thread(), other], seen
"""


@needs_torch
@pytest.mark.slow
def test_gradients_are_computed_by_the_thread_that_asks_so_that_none_of_the_device_is_busy_when_python_ends(
    tmp_path: Path,
) -> None:
    told = _verify(tmp_path, ASKING)
    assert told.passed, told


REMOTE = """import os
import sys

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.optim import DistributedOptimizer


def answer(x):
    torch.manual_seed(3)
    return nn.functional.linear(x.cuda(), torch.ones(2, 4, device="cuda")).cpu()


def work(rank):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29519"
    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=2)
    if rank == 1:
        weight = nn.Parameter(torch.ones(3, 4))
        optimizer = DistributedOptimizer(torch.optim.SGD, [rpc.RRef(weight)], lr=0.1)
        for step in range(1000000):
            with dist_autograd.context() as context:
                loss = rpc.rpc_sync("rank0", answer, args=(weight * (step + 1),)).sin().sum()
                dist_autograd.backward(context, [loss])
                optimizer.step(context)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""


@needs_torch
@pytest.mark.slow
def test_ranks_that_call_each_other_end_together_after_the_steps(tmp_path: Path) -> None:
    told = _verify(tmp_path, REMOTE, compared=True)
    assert told.passed, told
    assert told.steps == 3


SPLIT = """import os
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

torch.distributed.init_process_group()
torch.manual_seed(0)
net = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 2)).cuda()
for layer in net:
    fully_shard(layer)
fully_shard(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
for step in range(4):
    net(torch.arange(5, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.distributed.destroy_process_group()
"""


@needs_torch
@pytest.mark.slow
def test_a_program_whose_weights_are_split_over_ranks_gives_the_same_losses(tmp_path: Path) -> None:
    told = _ranks(tmp_path, SPLIT)
    assert told.same, told
    assert told.steps == 6


@needs_torch
@pytest.mark.slow
def test_a_call_that_torch_npu_does_not_have_fails(tmp_path: Path) -> None:
    told = _verify(tmp_path, PROGRAM, change="print(", by="torch.npu.CUDAGraph(); print(")
    assert not told.passed
    assert "has no attribute 'CUDAGraph'" in told.converted.output_tail


@needs_torch
@pytest.mark.slow
def test_a_call_that_does_not_fit_its_signature_fails(tmp_path: Path) -> None:
    told = _verify(tmp_path, PROGRAM, change="print(", by="torch.npu.set_device(0, 1); print(")
    assert not told.passed
    assert "too many positional arguments" in told.converted.output_tail


@needs_torch
@pytest.mark.slow
def test_a_tensor_that_was_forgotten_on_the_host_fails(tmp_path: Path) -> None:
    told = _verify(tmp_path, PROGRAM, change=".to(device, non_blocking=True)", by="")
    assert not told.passed
    assert "same device" in told.converted.output_tail


@needs_torch
@pytest.mark.slow
def test_a_program_that_computes_something_else_is_told_by_its_first_step(tmp_path: Path) -> None:
    told = _verify(tmp_path, PROGRAM, change="lr=0.1", by="lr=0.2", compared=True)
    assert not told.passed
    assert {(one.what, one.step) for one in told.differences} == {("loss", 1), ("weights", 0)}


@needs_torch
@pytest.mark.slow
def test_a_program_without_a_loss_is_not_verified(tmp_path: Path) -> None:
    told = _verify(tmp_path, "import torch\nprint(torch.ones(2).cuda().sum())\n")
    assert told.steps == 0
    assert not told.passed


UNWRITTEN = """import os
import torch
from torch import nn

net = nn.Embedding(7, 2).cuda()
for step in range(3):
    old = [torch.full((1000,), os.getpid() + i) for i in range(40)]
    del old
    x = torch.LongTensor(1000) % 7
    net(x.cuda()).sum().backward()
"""


@needs_torch
@pytest.mark.slow
def test_a_program_that_reads_memory_that_nobody_wrote_is_compared_with_such_memory_filled(tmp_path: Path) -> None:
    told = _verify(tmp_path, UNWRITTEN, compared=True)
    assert told.differences
    assert told.passed, told
    assert next(text(told)).startswith("PASSED, with fresh memory filled alike: 3 losses")


RACING = """import os
import torch
from torch import nn

net = nn.Linear(2, 1).cuda()
for step in range(3):
    net(torch.full((1, 2), float(os.getpid())).cuda()).sum().backward()
"""


@needs_torch
@pytest.mark.slow
def test_an_original_that_does_not_repeat_is_said_to_be_so_and_the_conversion_is_not_blamed(tmp_path: Path) -> None:
    told = _verify(tmp_path, RACING, compared=True)
    assert not told.passed
    assert next(text(told)).startswith("NOT COMPARED: the original itself does not repeat")


COMPILED = """import torch
from torch import nn

net = torch.compile(nn.Linear(2, 1).cuda(), fullgraph=True)
for step in range(3):
    net(torch.ones(1, 2).cuda()).sum().backward()
"""


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("style", list(Style))
def test_a_program_that_compiles_its_model_is_compared_without(tmp_path: Path, style: Style) -> None:
    told = _verify(tmp_path, COMPILED, style, compared=True)
    assert told.passed, told


def _of(*losses: float) -> Run:
    return Run(command=("x",), where=STAND_IN, code=0, seconds=0.0, losses={"0": losses}, weights={}, output_tail="")


def _runs(*runs: Run) -> Callable[[bool], Run]:
    left: Iterator[Run] = iter(runs)
    return lambda filled: next(left)


def _judged(before: Run, after: Run, originals: tuple[Run, ...], converted: tuple[Run, ...]) -> Verdict:
    again = ask_again(before, after, _runs(*originals), _runs(*converted))
    differences, steps = compare(before, after)
    return Verdict(converted=after, original=before, on_npu=False, differences=differences, steps=steps, again=again)


def test_losses_that_differ_are_blamed_on_the_conversion_where_both_programs_repeat() -> None:
    before, after = _of(1.0, 2.0), _of(1.0, 3.0)
    told = _judged(before, after, (before, before), (after,))
    assert not told.passed
    assert next(text(told)) == (
        "FAILED: losses on the stand-in for torch_npu differ from those of the original, which repeats its own"
    )


def test_a_converted_program_that_does_not_repeat_is_said_to_be_so() -> None:
    before, after = _of(1.0, 2.0), _of(1.0, 3.0)
    told = _judged(before, after, (before, before), (_of(1.0, 4.0),))
    assert not told.passed
    assert next(text(told)).startswith("NOT COMPARED: the converted program itself does not repeat")


def test_an_original_that_repeats_but_reads_unwritten_memory_is_compared_with_memory_filled() -> None:
    before, after, filled = _of(0.0), _of(3.0), _of(7.0)
    assert _judged(before, after, (before, filled), (filled,)).passed
    told = _judged(before, after, (before, filled), (_of(8.0),))
    assert not told.passed
    assert "The original reads memory that nobody wrote" in "\n".join(text(told))
    assert next(text(told)).startswith("FAILED")


def test_the_surface_is_that_of_the_wheel() -> None:
    names = facts.npu_names()
    assert {"NPUGraph", "Event", "memory_allocated", "amp.autocast", "mstx"} <= names
    assert not {"CUDAGraph", "nvtx", "get_arch_list"} & names
    table = json.loads((Path(facts.__file__).parent / "standin" / "surface.json").read_text())
    assert table["modules"]["torch_npu.npu"]["synchronize"]["signature"] == "(device=None)"
    assert len(table["operators"]) > 150
