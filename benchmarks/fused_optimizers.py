"""Measures the gain of optimizers' fused forms on a processor, and writes docs/evidence/fused-optimizers.md.

    .venv-torch/bin/python benchmarks/fused_optimizers.py

Each optimizer steps over the parameters of five models, in its plain, its foreach and its fused form, on one and on two
threads. A figure is the median of 25 steps.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.machine import about, sentence  # noqa: E402
from benchmarks.page import replace_block, table  # noqa: E402

PAGE = ROOT / "docs" / "evidence" / "fused-optimizers.md"
Shapes = list[tuple[int, ...]]
MODELS: Mapping[str, Shapes] = {
    "an autoencoder, 10 tensors": [(400, 784), (400,), *[(20, 400), (20,)] * 2, (400, 20), (400,), (784, 400),
                                   (784,)],
    "a small perceptron, 8 tensors": [(64, 64), (64,)] * 4,
    "a ResNet-18, 56 tensors": [*((width, width, 3, 3) for width in (64, 128, 256, 512) for _ in range(4)),
                                *[(512,)] * 40],
    "a transformer, 64 tensors": [*[(512, 512)] * 16, *[(2048, 512)] * 8, *[(512,)] * 40],
    "200 tensors of 256 numbers": [(16, 16)] * 200,
}  # fmt: skip
OPTIMIZERS = ("Adam", "AdamW", "Adagrad", "SGD")
FORMS: Mapping[str, Mapping[str, bool]] = {
    "plain": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
WARM, STEPS = 5, 25


def step_ms(optimizer: str, form: Mapping[str, bool], shapes: Shapes) -> float:
    """The median time of an optimizer's step, in ms."""
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    for one in parameters:
        one.grad = torch.randn_like(one)
    more = {"momentum": 0.9} if optimizer == "SGD" else {}
    made = getattr(torch.optim, optimizer)(parameters, lr=1e-4, **more, **form)
    for _ in range(WARM):
        made.step()
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        made.step()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main() -> None:
    """Measure all forms on all models, and write the page."""
    rows, saved = [], dict[str, list[float]]()
    for optimizer in OPTIMIZERS:
        for model, shapes in MODELS.items():
            for threads in (1, 2):
                torch.set_num_threads(threads)
                times = {name: step_ms(optimizer, form, shapes) for name, form in FORMS.items()}
                part = 1 - times["fused"] / times["plain"]
                saved.setdefault(optimizer, []).append(part)
                rows.append([optimizer, model, str(threads), *(f"{ms:.2f}" for ms in times.values()), f"{part:.0%}"])
                print(rows[-1], flush=True)
    said = "; ".join(f"{name} {min(parts):.0%} to {max(parts):.0%}" for name, parts in saved.items())
    body = "\n\n".join(
        (
            f"The fused form saves, of the time of the plain form: {said}.",
            table(["optimizer", "parameters", "threads", "plain, ms", "foreach, ms", "fused, ms", "saved"], rows),
            f"torch {torch.__version__.partition('+')[0]}. {sentence(about())}",
        )
    )
    PAGE.write_text(replace_block(PAGE.read_text("utf-8"), "fused-optimizers", body), "utf-8")


if __name__ == "__main__":
    main()
