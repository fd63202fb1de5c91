"""Measures the speed of `hermes migrate`, and which programs of two projects keep their losses after conversion.

    python benchmarks/migrate.py speed PROJECTS
    python benchmarks/migrate.py programs PROJECTS [--only NAME] [--timeout SECONDS]

PROJECTS holds `nanoGPT` and `pytorch-examples`. `programs` needs torch 2.13, torchvision and gymnasium. Times are CPU
seconds of all processes, wall time beside them.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from hermes.base.say import say
from hermes.migrate.api import Style, Target, Verdict, convert, scan, verify, write_beside
from hermes.migrate.verification_outcome import Outcome, Recorded

GPT = (
    "train.py --compile=False --dataset=toy --block_size=32 --batch_size=4 --n_layer=2 --n_head=2 --n_embd=32 "
    "--eval_iters=1 --max_iters=3 --gradient_accumulation_steps=2 --dropout=0.1 --dtype=float32"
)
TOY = "import numpy, os; os.makedirs('data/toy'); g = numpy.random.default_rng(0); " + "; ".join(
    f"g.integers(0, 60, 4000).astype(numpy.uint16).tofile('data/toy/{part}.bin')" for part in ("train", "val")
)
SMALL_BATCH = (
    "from pathlib import Path; main = Path('main.py'); text = main.read_text(); assert 'batch_size = 120' in text; "
    "main.write_text(text.replace('batch_size = 120', 'batch_size = 8'))"
)
RANKS = "-m torch.distributed.run --standalone --nproc-per-node"
# name, folder, what prepares it, command, devices
PROGRAMS: list[tuple[str, str, str, str, int]] = [
    ("nanoGPT train.py", "nanoGPT", TOY, GPT, 1),
    ("nanoGPT train.py, two ranks", "nanoGPT", TOY, f"{RANKS} 2 {GPT}", 2),
    ("dcgan", "pytorch-examples/dcgan", "", "main.py --dataset fake --accel --niter 1 --batchSize 4 --ngf 8 --ndf 8 --workers 0 --manualSeed 1 --dry-run", 1),
    ("regression", "pytorch-examples/regression", "", "main.py", 1),
    ("reinforce", "pytorch-examples/reinforcement_learning", "", "reinforce.py", 1),
    ("actor_critic", "pytorch-examples/reinforcement_learning", "", "actor_critic.py", 1),
    ("ddp single_gpu", "pytorch-examples/distributed/ddp-tutorial-series", "", "single_gpu.py 1 5 --batch_size 256", 1),
    ("ddp multigpu", "pytorch-examples/distributed/ddp-tutorial-series", "", "multigpu.py 1 5 --batch_size 256", 2),
    ("ddp multigpu_torchrun", "pytorch-examples/distributed/ddp-tutorial-series", "", f"{RANKS} 2 multigpu_torchrun.py 1 5 --batch_size 256", 2),
    ("ddp multinode", "pytorch-examples/distributed/ddp-tutorial-series", "", f"{RANKS} 2 multinode.py 1 5 --batch_size 256", 2),
    ("ddp example", "pytorch-examples/distributed/ddp", "", f"{RANKS} 2 example.py", 2),
    ("imagenet", "pytorch-examples/imagenet", "", "main.py --dummy --epochs 1 -b 2 -j 0 -a squeezenet1_1 --seed 1 --multiprocessing-distributed --world-size 1 --rank 0 --dist-url tcp://127.0.0.1:29571", 1),
    ("tensor_parallel", "pytorch-examples/distributed/tensor_parallelism", "", f"{RANKS} 2 tensor_parallel_example.py", 2),
    ("sequence_parallel", "pytorch-examples/distributed/tensor_parallelism", "", f"{RANKS} 2 sequence_parallel_example.py", 2),
    ("fsdp_tp", "pytorch-examples/distributed/tensor_parallelism", "", f"{RANKS} 4 fsdp_tp_example.py", 4),
    ("FSDP2", "pytorch-examples/distributed/FSDP2", "", f"{RANKS} 2 example.py", 2),
    ("rpc batch reinforce", "pytorch-examples/distributed/rpc/batch", "", "reinforce.py --num-episode 2", 1),
    ("rpc batch parameter_server", "pytorch-examples/distributed/rpc/batch", "", "parameter_server.py", 1),
    ("rpc ddp_rpc", "pytorch-examples/distributed/rpc/ddp_rpc", "", "main.py", 4),
    ("rpc pipeline", "pytorch-examples/distributed/rpc/pipeline", SMALL_BATCH, "main.py", 2),
    ("rpc rl", "pytorch-examples/distributed/rpc/rl", "", "main.py --world-size 2", 1),
    ("rpc rnn", "pytorch-examples/distributed/rpc/rnn", "", "main.py", 1),
    ("time_sequence_prediction", "pytorch-examples/time_sequence_prediction", "import runpy; runpy.run_path('generate_sine_wave.py')", "train.py --steps 1", 1),
]  # fmt: skip


def work_s() -> float:
    """CPU time in s of this process and of its ended children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def measured(what: str, lines: int, call: Callable[[], object]) -> None:
    """Print one row of the table."""
    worked, began = work_s(), time.perf_counter()
    call()
    cpu, wall = work_s() - worked, time.perf_counter() - began
    print(f"| {what} | {lines:,} | {cpu:.2f} | {wall:.2f} | {cpu / lines * 100:.4f} |", flush=True)


def speed(projects: Path) -> None:
    """Print the table of speed."""
    print("load", os.getloadavg(), "cores", len(os.sched_getaffinity(0)))
    print("| what | lines | CPU s | wall s | CPU s per 100 lines |\n|---|---|---|---|---|")
    for name in ("nanoGPT", "pytorch-examples"):
        root = projects / name
        lines = sum(file.lines for file in scan(root, Target()).files)
        command = [str(Path(sys.executable).parent / "hermes"), "migrate", "scan", str(root)]
        measured(f"`scan` of {name}, with the start", lines, lambda command=command: _quietly(command))  # type: ignore[misc]
        for style in Style:
            measured(
                f"`convert --style {style.value}` of {name}",
                lines,
                lambda root=root, style=style: convert(root, Target(), style),  # type: ignore[misc]
            )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for size in (500, 1000, 2000, 4000, 8000):
            one = root / f"one{size}"
            one.mkdir()
            (one / "x.py").write_text(generated(size, random.Random(0)))
            measured(f"`scan` of one file of {size} lines", size, lambda one=one: scan(one, Target()))  # type: ignore[misc]
        tree = root / "tree"
        for index in range(1000):
            (tree / f"p{index % 20}").mkdir(parents=True, exist_ok=True)
            (tree / f"p{index % 20}" / f"m{index}.py").write_text(generated(100, random.Random(index)))
        lines = sum(text.read_text().count("\n") for text in tree.rglob("*.py"))
        for workers in (1, 2):
            measured(f"`scan` of 1,000 files, {workers} processes", lines, lambda workers=workers: scan(tree, Target(), workers))  # type: ignore[misc]  # fmt: skip
        measured(
            "`convert` of 1,000 files, 2 processes", lines, lambda: convert(tree, Target(), Style.NATIVE, workers=2)
        )


def _quietly(command: Sequence[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def generated(lines: int, chance: random.Random) -> str:
    """A generated program of about `lines` lines with all kinds of code that the scan checks."""
    body = [
        "    x = torch.ones(2, device=device).cuda()", "    torch.cuda.synchronize()", '    y = x.to("cuda:0")',
        "    loss = self.net(x).float().sum()", "    loss.backward()", "    z = torch.nn.functional.relu(x)",
        '    name = f"run {x.shape}"', "    for i in range(3): x = x + i", "    if x.is_cuda: pass",
    ]  # fmt: skip
    text = ["import os", "import torch", "from torch import nn", 'device = "cuda"']
    while len(text) < lines:
        text += [f"def f{len(text)}(self, x):", *(chance.choice(body) for _ in range(8))]
    return "\n".join(text) + "\n"


def programs(projects: Path, only: str, timeout_s: float) -> None:
    """Print the table of programs: each style on the stand-in, and the native conversion on the CPU."""
    # time_sequence_prediction reads an array of NumPy that it wrote itself, which torch refuses by default.
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    print("| program | native | shim | native on the CPU alone |\n|---|---|---|---|")
    for name, folder, prepare, command, devices in PROGRAMS:
        if only in name:
            cells = [_verified(projects / folder, prepare, command, devices, style, timeout_s) for style in Style]
            cells.append(_alone(projects / folder, prepare, command, devices, timeout_s))
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _prepared(source: Path, prepare: str, style: Style | None, folder: Path) -> Path:
    change = convert(source, Target(), style or Style.NATIVE)
    for file in change.changed:
        if file.path.endswith(".py"):
            ast.parse(file.after)
    if style is None:
        change = type(change)(root=change.root, target=change.target, style=change.style, files=(), skipped=())
    write_beside(change, folder)
    if prepare:
        subprocess.run([sys.executable, "-c", prepare], cwd=folder, check=True, capture_output=True)
    return folder


def _verified(source: Path, prepare: str, command: str, devices: int, style: Style, timeout_s: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        before = _prepared(source, prepare, None, Path(folder) / "before")
        after = _prepared(source, prepare, style, Path(folder) / "after")
        words = [sys.executable, *shlex.split(command)]
        told = verify(after, before, words, steps=4, devices=devices, timeout_s=timeout_s)
    return _said(told)


def _said(told: Verdict) -> str:
    weights = sum(len(one) for one in told.converted.weights.values())
    if told.outcome is Outcome.PASSED_FILLED and told.again:
        return f"same, {told.again.steps} losses, with fresh memory filled; the program reads memory that nobody wrote"
    if told.outcome is Outcome.PASSED:
        return f"same, {told.steps} losses" + (f", {weights} sums of weights" if weights else "")
    if told.outcome in (Outcome.ORIGINAL_VARIES, Outcome.CONVERTED_VARIES):
        only_weights = {one.what for one in told.differences} == {Recorded.WEIGHTS}
        shown = f"same, {told.steps} losses; weights differ" if only_weights else f"{told.steps} losses, some differ"
        return f"{shown}: {say(told.outcome.message)}"
    failed = told.converted if told.converted.failed else told.original
    last = (failed.output_tail.strip().splitlines() or [""])[-1] if failed and failed.failed else ""
    return f"{told.outcome.value}: {last[:90] or f'{told.steps} steps, {len(told.differences)} differences'}"


def _alone(source: Path, prepare: str, command: str, devices: int, timeout_s: float) -> str:
    """Whether the losses of the original and of the natively converted program agree on the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        before = _prepared(source, prepare, None, Path(folder) / "before")
        after = _prepared(source, prepare, Style.NATIVE, Path(folder) / "after")
        on_cpu = command.replace("train.py --", "train.py --device=cpu --") if "nanoGPT" in str(source) else command
        words = [sys.executable, *shlex.split(on_cpu.replace(" --accel", ""))]
        told = verify(after, before, words, steps=4, devices=devices, timeout_s=timeout_s, as_is=True)
    if told.converted.failed and told.original and told.original.failed:
        last = [(run.output_tail.strip().splitlines() or [""])[-1] for run in (told.original, told.converted)]
        return f"neither runs without an accelerator: {last[0][:70]} / {last[1][:70]}"
    return _said(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "programs"])
    parser.add_argument("projects", type=Path)
    parser.add_argument("--only", default="", help="programs whose name holds this")
    parser.add_argument("--timeout", type=float, default=300.0)
    given = parser.parse_args()
    if given.what == "speed":
        speed(given.projects)
    else:
        programs(given.projects, given.only, given.timeout)


if __name__ == "__main__":
    main()
