"""Measures the cost of recording a step of a GPT with four layers on one thread, in turn with msProbe.

    python -m bench.precision.cost [--rounds 3] [--steps 6] [--profile KIND]

The script needs torch; msProbe (`pip install mindstudio-probe==26.2.0`) is measured if it is installed. A figure is the
best CPU time of a step, divided by the CPU time of the plain step in the same round. All losses must be equal bit by
bit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

WIDTH, WORDS, LENGTH, BATCH = 128, 512, 64, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(-1, -2)) / (width // 4) ** 0.5
        weights = F.softmax(scores.masked_fill(mask, float("-inf")), -1)
        x = x + self.out(torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.word(tokens) + self.place(torch.arange(tokens.shape[1]))
        mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


Around = Callable[[nn.Module, Path], Any]


def plain(_model: nn.Module, _out: Path) -> Any:
    return contextlib.nullcontext()


def hermes(**options: Any) -> Around:
    def around(_model: nn.Module, out: Path) -> Any:
        from hermes.inside.record.start import record

        return record(str(out), **options)

    return around


def unrecorded(_model: nn.Module, out: Path) -> Any:
    """A recording of a job in which another step is recorded."""
    from hermes.inside.record.start import record

    return record(str(out), steps="999999")


def msprobe(level: str) -> Around:
    def around(model: nn.Module, out: Path) -> Any:
        from msprobe.pytorch import PrecisionDebugger

        config = out.with_suffix(".json")
        config.write_text(json.dumps({"task": "statistics", "dump_path": str(out), "rank": [], "step": [],
                                      "level": level, "statistics": {"scope": [], "list": [], "data_mode": ["all"],
                                                                     "summary_mode": "statistics"}}))  # fmt: skip
        debugger = PrecisionDebugger(config_path=str(config))

        @contextlib.contextmanager
        def step() -> Iterator[None]:
            debugger.start(model=model)
            yield
            debugger.stop()
            debugger.step()

        class Steps:
            def __enter__(self) -> None:
                self.one = step()
                self.one.__enter__()

            def __exit__(self, *_: object) -> None:
                self.one.__exit__(None, None, None)

        return Steps()

    return around


KINDS: dict[str, Around] = {
    "plain": plain, "another step is recorded": unrecorded, "modules": hermes(level="modules"),
    "operators": hermes(level="operators"), "both": hermes(level="both"), "fingerprint": hermes(what="fingerprint"),
    "tensors": hermes(what="tensors"), "msProbe L0": msprobe("L0"), "msProbe L1": msprobe("L1"),
}  # fmt: skip


def steps(around: Around, out: Path, count: int) -> tuple[float, list[float]]:
    """The best CPU time of a step in ms, and all losses."""
    torch.manual_seed(0)
    model = Language()
    tokens = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    context, best, losses = around(model, out), float("inf"), []
    for _ in range(count):
        begun = time.process_time()
        with context:
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, WORDS), tokens[:, 1:].reshape(-1))
            loss.backward()
        best = min(best, time.process_time() - begun)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        losses.append(loss.item())
    return best * 1e3, losses


def main() -> None:
    """Print a row for each kind: the best of all rounds, and its ratio to the plain step."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--steps", type=int, default=6)
    asked.add_argument("--profile", default="", help="print where the time of one kind goes")
    asked.add_argument("--only", nargs="*", default=list(KINDS))
    given = asked.parse_args()
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="hermes-cost-"))
    if given.profile:
        import cProfile
        import pstats

        profile = cProfile.Profile()
        profile.runcall(steps, KINDS[given.profile], folder / "profile", given.steps)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    best: dict[str, float] = {}
    seen: dict[str, list[float]] = {}
    for turn in range(given.rounds):
        for name in ["plain", *(one for one in given.only if one != "plain")]:
            out = folder / f"{name.replace(' ', '_')}-{turn}"
            try:
                took, seen[name] = steps(KINDS[name], out, given.steps)
            except ImportError:
                continue
            best[name] = min(best.get(name, took), took)
            shutil.rmtree(out, ignore_errors=True)
    for name, took in best.items():
        same = "same losses" if seen[name] == seen["plain"] else "OTHER LOSSES"
        print(f"{name:26} {took:8.1f} ms {took / best['plain']:6.2f}  {same}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
