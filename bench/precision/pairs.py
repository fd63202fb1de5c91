"""Compares whole tensors that msProbe dumped, with msProbe and with Hermes in one run, and measures both.

    python -m bench.precision.pairs --out FOLDER [--hermes COMMAND] [--rounds 2]

Run the script by a Python that has msProbe (`pip install mindstudio-probe==26.2.0`); `--hermes` is the command of
Hermes. The dumps are of one training step of the GPT of `cost.py`, with GELU once as erf and once as tanh in one block.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path


def dump(out: Path, fault: str) -> None:
    """Dump the whole tensors of one step of the program with msProbe."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from msprobe.pytorch import PrecisionDebugger

    from bench.precision import cost as program

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = program.Language()
    if fault:
        block = model.blocks[2]
        forward = block.forward

        def tanh(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            gelu = program.F.gelu
            program.F.gelu = lambda h: gelu(h, approximate="tanh")
            try:
                return forward(x, mask)
            finally:
                program.F.gelu = gelu

        block.forward = tanh
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    tokens = torch.randint(0, program.WORDS, (program.BATCH, program.LENGTH + 1))
    config = out.with_suffix(".json")
    config.write_text(json.dumps({"task": "tensor", "dump_path": str(out), "rank": [], "step": [], "level": "L1",
                                  "tensor": {"scope": [], "list": [], "data_mode": ["all"]}}))  # fmt: skip
    debugger = PrecisionDebugger(config_path=str(config))
    debugger.start(model=model)
    logits = model(tokens[:, :-1])
    F.cross_entropy(logits.reshape(-1, program.WORDS), tokens[:, 1:].reshape(-1)).backward()
    optimizer.step()
    debugger.stop()
    debugger.step()


def measured(command: list[str], log: Path) -> tuple[float, float, float]:
    """Wall time (s), CPU time (s) and peak memory (MB) of a command and its children."""
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with log.open("w") as said:
        # Installed packages have compiled modules; a checkout must be allowed to keep its own.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=environment)
        _, _, used = os.wait4(process.pid, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begun, spent, used.ru_maxrss / 1e3


def main() -> None:
    """Print a row for each tool and round."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--hermes", default="hermes")
    asked.add_argument("--rounds", type=int, default=2)
    asked.add_argument("--dump", default="", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.dump:
        dump(given.out, given.dump.strip("-"))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for name, fault in (("golden", "-"), ("target", "tanh")):
        if not (given.out / name).exists():
            again = [sys.executable, "-m", "bench.precision.pairs", "--out", str(given.out / name), "--dump", fault]
            subprocess.run(again, check=True)
    sides = [next((given.out / name / "step0").iterdir()) for name in ("golden", "target")]
    files = [sorted((side / "dump_tensor_data").iterdir()) for side in sides]
    size = sum(one.stat().st_size for one in files[0] + files[1])
    print(f"{len(files[0])} and {len(files[1])} files, {size / 1e6:.0f} MB")
    msprobe = str(Path(sys.executable).parent / "msprobe")
    for turn in range(given.rounds):
        commands = {
            "msProbe": [msprobe, "compare", "-tp", str(sides[1] / "dump.json"), "-gp", str(sides[0] / "dump.json"),
                        "-o", str(given.out / f"msprobe{turn}")],
            "Hermes": [given.hermes, "precision", "compare", str(sides[0]), str(sides[1]), "-o",
                       str(given.out / f"hermes{turn}")],
        }  # fmt: skip
        for name, command in commands.items():
            (given.out / f"msprobe{turn}").mkdir(exist_ok=True)
            wall, spent, peak = measured(command, given.out / f"{name}{turn}.log")
            print(f"{name:8} {wall:7.2f} s wall, {spent:7.2f} s CPU, peak {peak:6.0f} MB", flush=True)


if __name__ == "__main__":
    main()
