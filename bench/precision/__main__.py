"""Plants faults in training programs and counts how often the first culprit is right.

    python -m bench.precision [--what statistics tensors] [--only NAME] [--chips] [--out DIR]

The script needs torch. An answer is right if it names the line with the fault, or the answer that the `Fault` gives.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from pathlib import Path
from typing import Any

from bench.precision.planted import Fault, lines_of, run
from bench.precision.programs import FAULTS, HEALTHY, home_of
from hermes.base.say import say
from hermes.precision.api import Comparison, compare


def record(folder: Path, program: str, fault: str, **options: Any) -> Path:
    """Record all steps of a program with a fault, and return the recording."""
    if not folder.exists():
        import torch

        from hermes.inside.record import start
        from hermes.inside.record.options import Options

        def around(_rank: int) -> Any:
            recorder = start.start(torch, Options({"out": str(folder), "steps": "0-9", **options}))
            return recorder.close

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        home = home_of(program)
        run(home.PROGRAMS[program], home.RANKS.get(program, 1), fault, around, port)
    return folder


def is_right(fault: Fault, found: Comparison) -> str:
    """Empty if the first culprit is right, else the wrong answer."""
    first = found.first
    if first is None:
        return "nothing"
    said = f"{first.kind}, {first.operator}, {first.module}, {first.line.rsplit('/')[-1]}: {say(first.why)}"
    if fault.kinds and first.kind not in fault.kinds:
        return said
    lines = lines_of(fault.name, str(home_of(fault.program).__file__))
    if lines and int(first.line.rsplit(":", 1)[-1] or 0) in lines:
        return ""
    text = f"{first.operator} {first.module} {say(first.why)}"
    if fault.word and any(word in text for word in fault.word.split()):
        return ""
    if not lines and not fault.word:
        return ""
    return said


def main() -> None:
    """Print a table, and the figures as JSON at the end."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--what", nargs="*", default=["statistics", "tensors"])
    asked.add_argument("--only", default="")
    asked.add_argument("--chips", action="store_true", help="the target's operators round as another chip's would")
    asked.add_argument("--out", type=Path, default=Path("out/precision"))
    given = asked.parse_args()
    figures: dict[str, Any] = {}
    started = time.time()
    for what in given.what:
        right, wrong, false = 0, [], []
        more = {"arithmetic": "perturbed", "seed": 3} if given.chips else {}
        chip = "-chip" if given.chips else ""
        for fault in FAULTS:
            if given.only and given.only not in fault.name:
                continue
            golden = record(given.out / what / fault.program, fault.program, "", what=what)
            name = f"{fault.program}-{fault.name}{chip}".replace(" ", "_")
            target = record(given.out / what / name, fault.program, fault.name, what=what, **more)
            said = is_right(fault, compare(golden, target, jobs=1))
            right += not said
            if said:
                wrong.append(f"{fault.program}: {fault.name}")
            print(
                f"{what:10} {fault.program:12} {fault.name:22} {'right' if not said else 'WRONG: ' + said}", flush=True
            )
        for program, fault_name in HEALTHY if not given.only else ():
            for seed in range(1, 4) if given.chips or not fault_name else (0,):
                golden = record(given.out / what / program, program, "", what=what)
                options = {"arithmetic": "perturbed", "seed": seed} if seed else {}
                name = f"healthy-{program}-{fault_name}-{seed}".replace(" ", "_")
                found = compare(
                    golden, record(given.out / what / name, program, fault_name, what=what, **options), jobs=1
                )
                if found.first is not None:
                    false.append(f"{program} {fault_name} {seed}: {say(found.answer)}")
                print(f"{what:10} {program:12} healthy {fault_name} {seed}: {say(found.answer)}", flush=True)
        count = right + len(wrong)
        figures[what] = {"faults": count, "right": right, "wrong": wrong, "false": false}
    print(json.dumps({**figures, "chips": given.chips, "seconds": round(time.time() - started)}, indent=1))


if __name__ == "__main__":
    main()
