"""Verification on the stand-in: what is the same passes, what torch_npu lacks fails, what differs is named."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.migrate import migration_facts
from hermes.migrate.scan_model import Style, Target
from hermes.migrate.scan_source_tree import convert_tree
from hermes.migrate.verification_outcome import Outcome, Recorded, Where
from hermes.migrate.verify import ProgramRun, Verdict, ask_again, compare, verify
from hermes.migrate.verify_document import verify_document
from hermes.migrate.write import write_beside_tree

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
    write_beside_tree(convert_tree(original, Target(), style), converted)
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
    write_beside_tree(convert_tree(original, Target(), Style.NATIVE), converted)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    return verify(converted, original, command, steps=3, devices=2, timeout_s=300)


@pytest.mark.smoke
@needs_torch
@pytest.mark.parametrize("style", list(Style))
def test_a_converted_program_gives_the_losses_and_weights_of_the_original_bit_by_bit(
    tmp_path: Path, style: Style
) -> None:
    told = _verify(tmp_path, PROGRAM, style, compared=True)
    assert told.holds, told
    assert told.steps == 3
    assert told.holds
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
    assert told.holds, told
    assert told.steps == 6


COMPLEX = """import torch
from torch import nn

values = torch.nn.Parameter(torch.randn(3, 4, 2, device="cuda"))
turn = torch.polar(torch.ones(3, 4), torch.arange(12.0).view(3, 4)).to("cuda")
optimizer = torch.optim.SGD([values], lr=0.1)
for step in range(3):
    turned = torch.view_as_complex(values) * turn
    spectrum = torch.fft.fft(turned.conj() * turn.conj())
    gate = nn.functional.silu(values).sum() + nn.functional.mish(values).sum()
    (gate + torch.view_as_real(turned).sin().sum() + spectrum.imag.abs().sum() + turned.conj().imag.exp().sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@needs_torch
@pytest.mark.slow
def test_conjugates_and_gradients_of_gates_are_those_of_the_cpu(tmp_path: Path) -> None:
    told = _verify(tmp_path, COMPLEX, compared=True)
    assert told.holds, told
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
    assert told.holds, told
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
    assert told.outcome is Outcome.NOT_GIVEN, told


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
    assert told.holds, told
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
    assert told.holds, told
    assert told.steps == 6


@needs_torch
@pytest.mark.slow
def test_a_call_that_torch_npu_does_not_have_fails(tmp_path: Path) -> None:
    told = _verify(tmp_path, PROGRAM, change="print(", by="torch.npu.CUDAGraph(); print(")
    assert not told.holds
    assert "has no attribute 'CUDAGraph'" in told.converted.output_tail


@needs_torch
@pytest.mark.slow
def test_a_call_that_does_not_fit_its_signature_fails(tmp_path: Path) -> None:
    told = _verify(tmp_path, PROGRAM, change="print(", by="torch.npu.set_device(0, 1); print(")
    assert not told.holds
    assert "too many positional arguments" in told.converted.output_tail


@pytest.mark.smoke
@needs_torch
@pytest.mark.slow
def test_a_tensor_that_was_forgotten_on_the_host_fails(tmp_path: Path) -> None:
    told = _verify(tmp_path, PROGRAM, change=".to(device, non_blocking=True)", by="")
    assert not told.holds
    assert "same device" in told.converted.output_tail


@needs_torch
@pytest.mark.slow
def test_a_program_that_computes_something_else_is_told_by_its_first_step(tmp_path: Path) -> None:
    told = _verify(tmp_path, PROGRAM, change="lr=0.1", by="lr=0.2", compared=True)
    assert not told.holds
    assert {(one.what, one.step) for one in told.differences} == {(Recorded.LOSS, 1), (Recorded.WEIGHTS, 0)}


@needs_torch
@pytest.mark.slow
def test_a_program_without_a_loss_is_not_verified(tmp_path: Path) -> None:
    told = _verify(tmp_path, "import torch\nprint(torch.ones(2).cuda().sum())\n")
    assert told.steps == 0
    assert not told.holds


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
    assert told.holds, told
    assert told.outcome is Outcome.PASSED_FILLED


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
    assert not told.holds
    assert told.outcome is Outcome.ORIGINAL_VARIES


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
    assert told.holds, told


def _of(*losses: float) -> ProgramRun:
    return ProgramRun(
        command=("x",), where=Where.STAND_IN, code=0, seconds=0.0, losses={"0": losses}, weights={}, output_tail=""
    )


def _runs(*runs: ProgramRun) -> Callable[[bool], ProgramRun]:
    left: Iterator[ProgramRun] = iter(runs)
    return lambda filled: next(left)


def _judged(
    before: ProgramRun, after: ProgramRun, originals: tuple[ProgramRun, ...], converted: tuple[ProgramRun, ...]
) -> Verdict:
    again = ask_again(before, after, _runs(*originals), _runs(*converted))
    differences, steps = compare(before, after)
    return Verdict(converted=after, original=before, differences=differences, steps=steps, again=again)


def test_losses_that_differ_are_blamed_on_the_conversion_where_both_programs_repeat() -> None:
    before, after = _of(1.0, 2.0), _of(1.0, 3.0)
    told = _judged(before, after, (before, before), (after,))
    assert not told.holds
    assert told.outcome is Outcome.DIFFERS


def test_what_a_run_that_failed_did_not_come_to_is_no_difference() -> None:
    early = replace(_of(), code=1, error="ValueError: mine", cause="error")
    assert compare(_of(1.0, 2.0), early) == ([], 0)
    assert compare(early, _of(1.0, 2.0)) == ([], 0)
    assert [one.step for one in compare(_of(1.0, 2.0), replace(_of(3.0), code=1))[0]] == [0]


def test_a_step_that_only_one_run_recorded_is_told_without_a_number() -> None:
    before, after = _of(1.0, 2.0), _of(1.0)
    told = _judged(before, after, (before, before), (after,))
    document = verify_document(told, "a", "b")
    assert [say(one.message) for one in document.findings] == [
        "loss of rank 0, step 1: only one run recorded it (original)"
    ]
    assert told.outcome is Outcome.DIFFERS


def test_losses_that_are_no_number_in_both_runs_are_equal() -> None:
    assert compare(_of(math.nan), _of(math.nan)) == ([], 1)
    assert compare(_of(math.nan), _of(1.0))[0]


def test_a_converted_program_that_does_not_repeat_is_said_to_be_so() -> None:
    before, after = _of(1.0, 2.0), _of(1.0, 3.0)
    told = _judged(before, after, (before, before), (_of(1.0, 4.0),))
    assert not told.holds
    assert told.outcome is Outcome.CONVERTED_VARIES


def test_an_original_that_repeats_but_reads_unwritten_memory_is_compared_with_memory_filled() -> None:
    before, after, filled = _of(0.0), _of(3.0), _of(7.0)
    assert _judged(before, after, (before, filled), (filled,)).holds
    told = _judged(before, after, (before, filled), (_of(8.0),))
    assert not told.holds
    assert "verify.about_memory" in [one.message.identifier for one in verify_document(told, "a", "b").coverage]
    assert told.outcome is Outcome.DIFFERS


def test_the_surface_is_that_of_the_wheel() -> None:
    names = migration_facts.npu_names()
    assert {"NPUGraph", "Event", "memory_allocated", "amp.autocast", "mstx"} <= names
    assert not {"CUDAGraph", "nvtx", "get_arch_list"} & names
    table = json.loads((Path(migration_facts.__file__).parent / "standin" / "surface.json").read_text())
    assert table["modules"]["torch_npu.npu"]["synchronize"]["signature"] == "(device=None)"
    assert len(table["operators"]) > 150


HEAD = """import os
import torch
from torch import nn
F = nn.functional
device = "npu"
"""
STEPS = """
net = nn.Linear(4, 2).to(device)
for step in range(9):
    net(torch.ones(3, 4, device=device)).sum().backward()
"""
GROUP = """import torch.distributed as dist
os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29521", RANK="0", WORLD_SIZE="1")
dist.init_process_group("hccl")
"""
_QUERY = "q = torch.ones(1, 2, 4, 8, device=device)\nF.scaled_dot_product_attention(q, q, q, "


def _alone(tmp_path: Path, program: str) -> Verdict:
    (tmp_path / "train.py").write_text(program)
    return verify(tmp_path, None, [sys.executable, "train.py"], steps=3, devices=1, timeout_s=300)


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("line", [
    "F.interpolate(torch.ones(1, 3, 4, 4, device=device), scale_factor=2)",
    f"{_QUERY}attn_mask=torch.zeros(4, 4, device=device))",
    "nn.DataParallel(nn.Linear(4, 2).to(device))",
    "torch.ones(2, device=device, dtype=torch.float64).mean()",
    "nn.Linear(4, 2, dtype=torch.float64).to(device)(torch.ones(3, 4, device=device, dtype=torch.float64))",
    f"{GROUP}dist.all_reduce(torch.ones(2, device=device, dtype=torch.float64))",
    "torch.npu.CUDAGraph()", "torch.npu.set_device(0, 1)", "torch.ones(2, device=device) + torch.ones(2)",
])  # fmt: skip
def test_what_the_table_refuses_is_refused(line: str, tmp_path: Path) -> None:
    told = _alone(tmp_path, f"{HEAD}{line}\n{STEPS}")
    assert told.outcome is Outcome.REFUSED, told
    assert not told.holds


@needs_torch
@pytest.mark.slow
def test_what_the_table_takes_is_not_refused(tmp_path: Path) -> None:
    told = _alone(tmp_path, f"""{HEAD}{_QUERY}attn_mask=torch.ones(4, 4, device=device, dtype=torch.bool))
F.interpolate(torch.ones(1, 3, 4, 4, device=device), size=(8, 8))
nn.Upsample(scale_factor=2)(torch.ones(1, 3, 4, 4, device=device))
torch.ones(2, device=device, dtype=torch.float64).float().mean()
{GROUP}dist.broadcast(torch.ones(2, device=device, dtype=torch.float64), 0)
dist.all_reduce(torch.ones(2, device=device))
{STEPS}""")  # fmt: skip
    # Nothing was compared, so it does not hold.
    assert told.outcome is Outcome.NOT_GIVEN, told
    assert told.steps == 3
    assert not told.holds


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(("line", "outcome"), [
    ('raise ValueError("mine")', Outcome.FAILED),
    ("import torch_npu\ntorch_npu.npu_fusion_attention(1)", Outcome.NOT_COMPUTED),
    ('if torch.accelerator.current_accelerator().type == "npu":\n    raise OSError("only here")', Outcome.HARNESS_FAILED),
])  # fmt: skip
def test_what_ends_a_program_is_laid_at_the_program_or_at_the_harness(
    line: str, outcome: Outcome, tmp_path: Path
) -> None:
    told = _alone(tmp_path, f"{HEAD}{line}\n{STEPS}")
    assert told.outcome is outcome, told
    assert bool(verify_document(told, "a", None).findings) is (outcome is Outcome.FAILED)


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("line", ["torch.ones(2).cuda()", 'torch.ones(2, device="cuda")', "torch.cuda.synchronize()"])
def test_what_was_left_for_cuda_is_laid_at_the_program(line: str, tmp_path: Path) -> None:
    told = _alone(tmp_path, f"{HEAD}{line}\n{STEPS}")
    assert told.outcome is Outcome.REFUSED, told
    assert "CUDA" in told.converted.error


@needs_torch
@pytest.mark.slow
def test_a_program_that_catches_the_end_of_its_steps_has_not_failed(tmp_path: Path) -> None:
    caught = STEPS.replace("    net", "    try:\n        net") + "    except BaseException:\n        os._exit(3)\n"
    told = _alone(tmp_path, HEAD + caught)
    assert told.outcome is Outcome.NOT_GIVEN, told
    assert told.steps == 3


@needs_torch
@pytest.mark.slow
def test_a_loss_that_cannot_be_recorded_is_told_and_not_raised_into_the_program(tmp_path: Path) -> None:
    odd = "class Odd(torch.optim.SGD):\n    @torch.no_grad()\n    def step(self):\n        self.param_groups[0]['params'] = [None]\n"
    told = _alone(tmp_path, f"{HEAD}{odd}{STEPS}    Odd(net.parameters(), lr=0.1).step()\n")
    assert told.outcome is Outcome.NOT_RECORDED, told


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(("original", "converted"), [
    (HEAD.replace("npu", "cuda") + STEPS, HEAD),
    (HEAD.replace("npu", "cuda"), HEAD),
    (HEAD.replace("npu", "cuda") + STEPS, HEAD + STEPS.replace("range(9)", "range(2)")),
])  # fmt: skip
def test_fewer_losses_than_the_original_has_do_not_hold(original: str, converted: str, tmp_path: Path) -> None:
    for name, text in (("original", original), ("converted", converted)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(text)
    command = [sys.executable, "train.py"]
    told = verify(tmp_path / "converted", tmp_path / "original", command, steps=3, devices=1, timeout_s=300)
    assert not told.holds, told


@pytest.mark.parametrize("command", [[], ["no-such-program-of-ours"]])
def test_what_cannot_be_run_is_refused(command: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        verify(tmp_path, None, command, steps=3, devices=1, timeout_s=1)


def test_a_tree_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        verify(tmp_path / "none", None, [sys.executable], steps=3, devices=1, timeout_s=1)


OWN_GRADIENTS = """import os
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
net = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.ones(3, 4, device=device)).sum()
    optimizer.zero_grad()
    loss.backward()
    for p in net.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.live
@needs_torch
def test_a_group_of_gloo_carries_no_tensors_of_an_npu(tmp_path: Path) -> None:
    told = _ranks(tmp_path, OWN_GRADIENTS)
    assert told.outcome is Outcome.REFUSED, told
    assert "No backend type associated with device type npu" in told.converted.error


OTHER_LIBRARY = """import torch
from torch import nn

library = torch.library.Library("vision", "DEF")
library.define("keep(Tensor boxes) -> Tensor")
library.impl("keep", lambda boxes: boxes * 2, "KEY")
torch.manual_seed(0)
net = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    with torch.no_grad():
        x = torch.ops.vision.keep(torch.ones(3, 4, device="cuda"))
    loss = net(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@needs_torch
@pytest.mark.slow
def test_weights_of_a_recurrent_layer_are_loaded_in_their_place(tmp_path: Path) -> None:
    program = f"""{HEAD}
net = nn.LSTM(4, 4).to(device)
held = net.weight_ih_l0
net.load_state_dict({{name: one * 2 for name, one in net.state_dict().items()}})
assert held is net.weight_ih_l0
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    net(torch.ones(3, 2, 4, device=device))[0].sum().backward()
    optimizer.step()
"""
    for name, device in (("original", "cuda"), ("converted", "npu")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(program.replace('"npu"', f'"{device}"'))
    command = [sys.executable, "train.py"]
    told = verify(tmp_path / "converted", tmp_path / "original", command, steps=3, devices=1, timeout_s=300)
    assert told.outcome is Outcome.PASSED, told


UNSEEDED = """import pickle
import numpy as np
from numpy.random import RandomState
old, new, again = RandomState(), np.random.default_rng(), np.random.RandomState(None)
assert old.rand() != again.rand()
assert isinstance(np.random.mtrand._rand, RandomState) and isinstance(old, np.random.RandomState)
assert np.random.RandomState(3).rand() == pickle.loads(pickle.dumps(np.random.RandomState(3))).rand()
for step in range(4):
    x = torch.tensor(np.concatenate([old.rand(3, 4), new.random((3, 4))]), dtype=torch.float32, device=device)
    net = nn.Linear(4, 2).to(device)
    net(x).sum().backward()
"""


@needs_torch
@pytest.mark.slow
def test_generators_without_a_seed_draw_the_same_numbers_in_both_runs(tmp_path: Path) -> None:
    for name, device in (("original", "cuda"), ("converted", "npu")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(HEAD.replace("npu", device) + UNSEEDED)
    command = [sys.executable, "train.py"]
    told = verify(tmp_path / "converted", tmp_path / "original", command, steps=3, devices=1, timeout_s=300)
    assert told.outcome is Outcome.PASSED, told


SAVED = """
net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(device)
net[0].bias.requires_grad_(False)
torch.save(net, "net.pt")
torch.save({"net": net.state_dict(), "n": 1, "host": torch.ones(2)}, "state.pt")
whole = torch.load("net.pt", weights_only=False)
assert {one.device.type for one in (*whole.parameters(), *whole.buffers())} == {"npu"}
assert all(isinstance(one, nn.Parameter) for one in whole.parameters())
assert [one.requires_grad for one in whole.parameters()] == [one.requires_grad for one in net.parameters()]
whole(torch.ones(3, 4, device=device))
for asked, expected in [(None, "npu"), ("cpu", "cpu"), (torch.device("cpu"), "cpu"), ("npu:0", "npu"),
                        (torch.device("npu"), "npu"), ({"npu:0": "cpu"}, "cpu"), (lambda storage, at: storage, "cpu"),
                        (lambda storage, at: None, "npu"), (lambda storage, at: storage.to(device="npu:0"), "npu")]:
    state = torch.load("state.pt", map_location=asked)
    assert state["net"]["0.weight"].device.type == expected, (asked, state)
    assert torch.equal(state["net"]["0.weight"].cpu(), net[0].weight.cpu())
    assert next(torch.load("net.pt", asked, weights_only=False).parameters()).device.type == expected, asked
assert torch.load("state.pt")["host"].device.type == "cpu"
"""


@needs_torch
@pytest.mark.slow
def test_what_was_saved_on_the_npu_is_loaded_where_it_was(tmp_path: Path) -> None:
    told = _alone(tmp_path, HEAD + SAVED + STEPS)
    assert told.outcome is Outcome.NOT_GIVEN, told
    plain = "import torch\nassert torch.load('net.pt', 'cpu', weights_only=False)[0].weight.device.type == 'cpu'\n"
    subprocess.run([sys.executable, "-c", plain], cwd=tmp_path, check=True)


@pytest.mark.live
@needs_torch
@pytest.mark.parametrize(("key", "outcome"), [("CPU", Outcome.REFUSED), ("CompositeExplicitAutograd", Outcome.PASSED)])
def test_an_operator_of_another_library_needs_a_kernel_for_the_npu(tmp_path: Path, key: str, outcome: Outcome) -> None:
    told = _verify(tmp_path, OTHER_LIBRARY.replace("KEY", key), compared=True)
    assert told.outcome is outcome, told


@pytest.mark.live
@needs_torch
def test_weights_that_a_graph_holds_are_moved(tmp_path: Path) -> None:
    program = PROGRAM.replace("self.c = nn.BatchNorm1d(8)", "self.c = nn.utils.weight_norm(nn.Linear(8, 8))")
    assert _verify(tmp_path, program, compared=True).holds
