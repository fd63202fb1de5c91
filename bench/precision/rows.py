"""Compares two recordings of one large step by their statistics alone, and measures the command's time and memory.

    python -m bench.precision.rows [--rows 100000] [--rounds 3] [--hermes COMMAND] [--out FOLDER]

A row is a tensor. Two of three rows are results of operators in a chain, every third is a parameter. All numbers differ
in their last digits, as between two chips, so that no row is equal and none is to blame.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import tempfile
from pathlib import Path
from typing import Any

from bench.precision.pairs import measured
from hermes.inside.record.layout import FORMAT

_NAMES = (
    "aten.mm.default",
    "aten.add.Tensor",
    "aten.gelu.default",
    "aten.native_layer_norm.default",
    "aten.mul.Tensor",
)
_MODULES, _LINES = 200, 300


def draw(folder: Path, rows: int, seed: int) -> Path:
    """A recording of `rows` tensors; recordings of different seeds differ only in the numbers' last digits."""
    drawn, digits = random.Random(1), random.Random(seed)
    values: list[dict[str, Any]] = []
    operators: list[dict[str, Any]] = []

    def tensor(**more: Any) -> int:
        row = [drawn.gauss(0, 3) for _ in range(15)]
        row[3] = abs(row[3]) * 300 + 50
        row = [struct.unpack("f", struct.pack("f", one * (1 + (digits.random() - 0.5) * 4e-7)))[0] for one in row]
        row[4:7] = [0.0, 0.0, 0.0]
        number = len(values)
        values.append(
            {"value": number, "dtype": "float32", "shape": [4, 64, 128], "device": "cpu", **more, "stats": row}
        )
        return number

    last = tensor()
    while len(values) < rows:
        at = len(operators)
        given = [last]
        if at % 2 == 0:
            given.append(tensor(name=f"Net.layers.{at % 50}.w{at}", role="parameter"))
        last = tensor(by=at)
        operators.append(
            {"op": _NAMES[at % 5], "n": at, "phase": "forward", "module": at % _MODULES, "stack": at % _LINES,
             "in": given, "out": [last], "args": [f"@{place}" for place in range(len(given))]}
        )  # fmt: skip
    lines = [
        {"format": FORMAT, "framework": "pytorch", "rank": 0, "options": {"what": "statistics", "level": "operators"}},
        {"step": 0, "rng": ""},
        *({"module": at, "path": f"Net.layers.{at // 4}.part{at % 4}", "type": "Linear"} for at in range(_MODULES)),
        *({"stack": at, "frames": [["train.py", at + 1, "forward", f"code {at}"]]} for at in range(_LINES)),
        *values, *operators, {"end": 0, "dropped": 0},
    ]  # fmt: skip
    (folder / "rank0").mkdir(parents=True)
    (folder / "rank0" / "index.jsonl").write_text(
        "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in lines)
    )
    print(f"{len(values):,} tensors of {len(operators):,} operators: {folder}", flush=True)
    return folder


def main() -> None:
    """Print a row for each round."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=int, default=100_000)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--hermes", default="hermes")
    asked.add_argument("--out", type=Path)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = given.out or Path(scratch)
        sides = [draw(out / name, given.rows, seed) for name, seed in (("golden", 5), ("target", 6))]
        for turn in range(given.rounds):
            log = out / f"{turn}.log"
            wall, spent, peak = measured([given.hermes, "precision", "compare", *map(str, sides)], log)
            print(
                f"{wall:7.2f} s wall, {spent:7.2f} s CPU, peak {peak:6.0f} MB: {log.read_text().splitlines()[0]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
