"""Real PyTorch on the CPU: what is measured, what is left untouched, and which loops a step is found in."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest
from tests.inside.conftest import Column, Place

from hermes.inside.wire.step_record import FLAGS

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("with_torch")]

_MODEL = """
    import sys, time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset, TensorDataset
    torch.manual_seed(3)
    torch.set_num_threads(1)
    import hermes.inside as capture
    {start}
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(640, 64), torch.randint(0, 8, (640,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    def train(model=model, optimizer=optimizer, before=lambda: None):
        for x, y in loader:
            before()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""


def model(body: str, start: str = "capture.start()", optimizer: str = "SGD") -> str:
    return _MODEL.format(start=start, optimizer=optimizer) + body


def log_of(place: Place, script: str) -> tuple[str, object]:
    done = place.python(script)
    # Kineto says when it starts and stops, whoever asks it to.
    said = [line for line in done.stderr.splitlines() if not line.startswith("USDT:")]
    assert (done.returncode, said) == (0, [])
    (job,) = place.jobs()
    return done.stdout, job.log_path(0)


@pytest.mark.smoke
def test_a_plain_loop_needs_one_line(place: Place, column: Column) -> None:
    _, log = log_of(place, model("    train(before=lambda: time.sleep(0.008))"))
    assert column(log, "step") == list(range(1, 40))
    assert set(column(log, "batches")) == {1}
    assert set(column(log, "samples")) == {16}
    assert 8e6 < median(column(log, "forward_ns")) < 40e6
    assert all(column(log, "backward_ns"))
    assert all(column(log, "optimizer_ns"))
    assert set(column(log, "comm_ns")) == {None}
    assert min(size for size in column(log, "rss_bytes") if size) > 50e6


@pytest.mark.slow
def test_the_one_line_may_come_before_torch(place: Place, column: Column) -> None:
    script = "\n    import hermes.inside as capture; capture.start()\n" + model("    train()", start="")
    _, log = log_of(place, script)
    assert len(column(log, "step")) == 39


@pytest.mark.smoke
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.slow
def test_training_gives_the_same_bits_with_and_without(place: Place, optimizer: str) -> None:
    tail = "    train()\n    print([p.detach().numpy().tobytes().hex() for p in model.parameters()])"
    with_it, _ = log_of(place, model(tail, optimizer=optimizer))
    without = place.python(model(tail, start="", optimizer=optimizer))
    assert with_it == without.stdout
    assert len(with_it) > 10_000


def test_time_spent_in_the_loader_is_told_apart_by_who_waits(place: Place, column: Column) -> None:
    body = """
    class Slow(Dataset):
        def __len__(self): return 30
        def __getitem__(self, i):
            if i < 15: time.sleep(0.005)
            else: sum(range(600_000))
            return torch.zeros(64), 0
    loader = DataLoader(Slow(), batch_size=1)
    train()
    """
    _, log = log_of(place, model(body))
    wait, own = column(log, "data_ns"), column(log, "data_cpu_ns")
    assert median(wait[2:14]) > 5e6
    assert median(own[2:14]) < 1e6
    assert median(own[18:]) > 3e6


@pytest.mark.smoke
def test_micro_batches_are_one_step(place: Place, column: Column) -> None:
    body = """
    for number, (x, y) in enumerate(loader):
        nn.functional.cross_entropy(model(x), y).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    """
    _, log = log_of(place, model(body))
    assert column(log, "step") == list(range(1, 10))
    assert set(column(log, "batches")) == {4}
    assert set(column(log, "samples")) == {64}


@pytest.mark.slow
def test_two_optimizers_are_one_step_and_a_new_one_takes_over(place: Place, column: Column) -> None:
    body = """
    second = torch.optim.Adam(model.parameters())
    train(before=second.step)
    """
    _, log = log_of(place, model(body))
    # The second steps first, and so it is the one that marks; none of its steps is counted twice.
    assert column(log, "step") == list(range(1, 40))


@pytest.mark.slow
def test_an_optimizer_that_is_replaced_is_followed(place: Place, column: Column) -> None:
    body = """
    train()
    train(optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    """
    _, log = log_of(place, model(body))
    assert 39 + 40 - 17 <= len(column(log, "step")) <= 79


@pytest.mark.slow
def test_steps_that_a_gradient_scaler_skips_are_no_steps(place: Place, column: Column) -> None:
    body = """
    scaler = torch.amp.GradScaler("cpu")
    for number, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y) * (float("inf") if number == 10 else 1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    """
    _, log = log_of(place, model(body))
    assert column(log, "step") == list(range(1, 39))
    # The batches say what happened.
    assert column(log, "batches").count(2) == 1


@pytest.mark.slow
def test_evaluation_checkpoints_and_text_are_seen(place: Place, column: Column) -> None:
    body = """
    class Text(Dataset):
        def __len__(self): return 12
        def __getitem__(self, i): return {"mask": torch.ones(7), "input_ids": torch.ones(7, dtype=torch.long)}
    loader = DataLoader(Text(), batch_size=2)
    for epoch in range(3):
        for batch in loader:
            model(torch.zeros(1, 64)).sum().backward()
            optimizer.step()
        with torch.no_grad():
            for batch in loader: pass
        torch.save(model.state_dict(), "model.pt")
    """
    _, log = log_of(place, model(body))
    assert column(log, "tokens")[0] == 14
    flags = column(log, "flags")
    assert [number for number, flag in enumerate(flags) if flag & FLAGS["evaluation"]] == [5, 11]
    assert [number for number, flag in enumerate(flags) if flag & FLAGS["checkpoint"]] == [5, 11]
    assert column(log, "save_ns")[5] > 0


@pytest.mark.slow
def test_workers_forked_and_spawned_are_no_ranks(place: Place, column: Column) -> None:
    script = place.folder / "train.py"
    script.write_text(
        "import sys\nimport torch\nfrom torch.utils.data import DataLoader, Dataset\nimport hermes.inside as c\n"
        "class D(Dataset):\n    def __len__(self): return 64\n    def __getitem__(self, i): return torch.zeros(8)\n"
        "if __name__ == '__main__':\n    c.start()\n    m = torch.nn.Linear(8, 1)\n"
        "    o = torch.optim.SGD(m.parameters(), lr=.1)\n"
        "    for kind in ('fork', 'spawn'):\n"
        "        for x in DataLoader(D(), batch_size=4, num_workers=2, multiprocessing_context=kind):\n"
        "            m(x).sum().backward(); o.step()\n    print('done')\n"
    )
    done = place.python("import runpy; runpy.run_path('train.py', run_name='__main__')")
    assert done.returncode == 0, done.stderr
    assert "hermes:" not in done.stderr
    (job,) = place.jobs()
    assert len(column(job.log_path(0), "step")) == 31
    assert json.loads((job.folder / "rank0.json").read_text())["frameworks"].keys() == {"torch"}


def test_a_profiler_of_the_job_is_noticed(place: Place, column: Column) -> None:
    body = """
    with torch.profiler.profile():
        train()
    train()
    """
    _, log = log_of(place, model(body))
    marked = [bool(flag & FLAGS["foreign_profiler"]) for flag in column(log, "flags")]
    assert (marked[:38], marked[40:]) == ([True] * 38, [False] * 39)


@pytest.mark.slow
def test_a_compiled_model_and_a_compiled_optimizer_train_as_without_us(place: Place) -> None:
    tail = """
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    step = torch.compile(lambda: optimizer.step(), backend="eager")
    for x, y in loader:
        nn.functional.cross_entropy(compiled(x), y).backward()
        step()
        optimizer.zero_grad()
    print([p.detach().numpy().tobytes().hex() for p in model.parameters()])
    import torch._dynamo.utils as utils
    print(dict(utils.counters["graph_break"]), utils.counters["stats"]["unique_graphs"], file=sys.stderr)
    """
    ours, bare = (place.python(model(tail, start=start), warnings="ignore") for start in ("capture.start()", ""))
    assert (ours.returncode, bare.returncode) == (0, 0), ours.stderr + bare.stderr
    assert ours.stdout == bare.stdout
    assert "hermes:" not in ours.stderr


@pytest.mark.slow
def test_the_flops_of_a_step_are_counted_and_change_no_bit(place: Place, column: Column) -> None:
    tail = """
    train()
    train()
    print([p.detach().numpy().tobytes().hex() for p in model.parameters()])
    """
    ours, log = log_of(place, model(tail, start="capture.start(count_flops=True)"))
    assert ours == place.python(model(tail, start="")).stdout
    assert isinstance(log, Path)
    # Multiplications and additions of two layers for 16 samples: forward, by weights, and by inputs but for the first.
    first, second = 2 * 16 * 64 * 64, 2 * 16 * 64 * 8
    assert json.loads((log.parent / "rank0.json").read_text())["flops"] == 2 * first + 3 * second
    flags = column(log, "flags")
    assert [bool(flag & FLAGS["profiled"]) for flag in flags].count(True) == 2


@pytest.mark.slow
def test_steps_of_different_lengths_have_no_flops(place: Place) -> None:
    body = """
    for number in range(30):
        model(torch.zeros(1 + number, 64)).sum().backward()
        optimizer.step()
    """
    done = place.python(model(body, start="capture.start(count_flops=True)"))
    assert done.stderr == "hermes: the FLOPs of a step are not counted: its steps differ in their FLOPs\n"
    (job,) = place.jobs()
    assert json.loads((job.folder / "rank0.json").read_text())["flops"] is None


@pytest.mark.slow
def test_a_compiled_model_has_no_counted_flops_and_trains_as_without_us(place: Place) -> None:
    tail = """
    compiled = torch.compile(model, backend="eager")
    train(model=compiled)
    print([p.detach().numpy().tobytes().hex() for p in model.parameters()])
    """
    starts = ("capture.start(count_flops=True)", "")
    ours, bare = (place.python(model(tail, start=start), warnings="ignore") for start in starts)
    assert (ours.returncode, ours.stdout) == (0, bare.stdout)
    assert "hermes: the FLOPs of a step are not counted: torch.compile hides operators" in ours.stderr


@pytest.mark.slow
def test_copies_to_a_device_are_timed_where_that_is_asked(place: Place, column: Column) -> None:
    # `meta` is a device that is always there: what goes there leaves the processor.
    script = """
    def moving():
        large.to("meta"), torch.ones(2).to(torch.float64), torch.empty(2, device="meta").to("meta")
        time.sleep(0.055)
    large = torch.ones(1000)
    train(before=moving)
    assert "to" in vars(torch.Tensor)
    assert torch.compile(lambda x: x.to(torch.float64).sum(), backend="eager", fullgraph=True)(torch.ones(3)) == 3
    capture.stop()
    assert "to" not in vars(torch.Tensor)
    """
    _, log = log_of(place, model(script, start="capture.start(transfers=True)"))
    times = column(log, "transfer_ns")
    assert all(0 < took < 55e6 for took in times[1:]), times


@pytest.mark.slow
def test_copies_are_not_measured_unless_asked(place: Place, column: Column) -> None:
    script = "    train(before=lambda: torch.ones(9).to('meta'))\n    assert 'to' not in vars(torch.Tensor)"
    _, log = log_of(place, model(script))
    assert set(column(log, "transfer_ns")) == {None}
