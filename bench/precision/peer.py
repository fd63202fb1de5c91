"""Tests msProbe on the planted faults of all programs of one rank: compares the first failing row with the culprit.

    python -m bench.precision.peer --out FOLDER [--only PROGRAM …]

Run the script by a Python that has torch and msProbe (`pip install mindstudio-probe==26.2.0`). Each step is dumped with
statistics at level L1 and compared by msProbe's own command, until a step has a row that is not `pass`. An answer is
right if the stack of that row has the line of the fault, or, for a fault without a line, if the row's name fits the
fault.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from msprobe.msprobe import main as msprobe
from msprobe.pytorch import PrecisionDebugger
from torch.optim.optimizer import register_optimizer_step_post_hook

from bench.precision.planted import STEPS, lines_of
from bench.precision.programs import HOMES


def apart(call: Callable[[], object], log: Path) -> int:
    """Run `call` in a separate process with its output in the log; returns the exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with log.open("a") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                call()
                code = 0
        except BaseException:  # noqa: BLE001 - of a child, and told in the log
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def dump(program: Callable[[str], None], fault: str, out: Path) -> None:
    """Train a program with a fault, and dump each step."""
    torch.set_num_threads(1)
    config = out.with_suffix(".json")
    config.write_text(json.dumps({"task": "statistics", "dump_path": str(out), "rank": [], "step": [], "level": "L1",
                                  "statistics": {"scope": [], "list": [], "data_mode": ["all"],
                                                 "summary_mode": "statistics"}}))  # fmt: skip
    debugger = PrecisionDebugger(config_path=str(config))
    first: list[int] = []

    def stepped(optimizer: object, *_: object) -> None:
        if not first:
            first.append(id(optimizer))
        if id(optimizer) == first[0]:
            debugger.stop()
            debugger.step()
            debugger.start()

    def called(*_: object) -> None:
        # As a user starts the dump, before the first step: filling the parameters is not part of a step.
        begins.remove()
        debugger.start()

    register_optimizer_step_post_hook(stepped)
    begins = torch.nn.modules.module.register_module_forward_pre_hook(called)
    program(fault)
    debugger.stop()
    debugger.step()


def compared(golden: Path, target: Path, out: Path, log: Path) -> dict[str, str] | None:
    """The first row that does not pass, of the first step that has one."""
    for step in range(STEPS):
        sides = [path / f"step{step}" for path in (golden, target)]
        if not all(path.is_dir() for path in sides):
            continue
        home = out / f"step{step}"
        words = ["msprobe", "compare", "-gp", str(sides[0]), "-tp", str(sides[1]), "-o", str(home)]

        def run(words: list[str] = words) -> None:
            sys.argv = words
            msprobe()

        apart(run, log)
        for table in home.glob("compare_result*.csv"):
            with table.open(encoding="utf-8-sig") as file:
                stack = ""
                for row in csv.DictReader(file):
                    # The stack is in the first row of a call.
                    stack = row["NPU_Stack_Info"] if "File" in row["NPU_Stack_Info"] else stack
                    if row["Result"] not in ("pass", ""):
                        return {**row, "NPU_Stack_Info": stack}
    return None


def is_right(fault: Any, row: dict[str, str] | None, file: str) -> bool:
    """Whether this row is the culprit."""
    if row is None:
        return False
    lines = lines_of(fault.name, file)
    name = Path(file).name
    if any(f"{name}, line {line}," in row["NPU_Stack_Info"] for line in lines):
        return True
    return bool(fault.word) and any(word in row["NPU Name"] for word in fault.word.split())


def main() -> None:
    """Print a line for each fault, and the figures as JSON at the end."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--only", nargs="*", default=[])
    given = asked.parse_args()
    given.out.mkdir(parents=True)
    figures: dict[str, dict[str, int]] = {}
    for home in HOMES:
        name = home.__name__.rsplit(".", 1)[-1]
        for program, call in home.PROGRAMS.items():
            if program in home.RANKS or (given.only and program not in given.only):
                continue
            log = given.out / f"{program}.log"
            golden = given.out / program
            apart(lambda call=call, golden=golden: dump(call, "", golden), log)  # type: ignore[misc]
            again = given.out / f"{program}-again"
            apart(lambda call=call, again=again: dump(call, "", again), log)  # type: ignore[misc]
            quiet = compared(golden, again, given.out / f"{program}-same", log)
            counts = figures.setdefault(name, {"faults": 0, "right": 0, "nothing": 0, "healthy pairs with a row": 0})
            counts["healthy pairs with a row"] += quiet is not None
            for fault in home.FAULTS:
                if fault.program != program:
                    continue
                target = given.out / f"{program}-{fault.name}".replace(" ", "_")
                apart(lambda call=call, target=target, fault=fault: dump(call, fault.name, target), log)  # type: ignore[misc]
                row = compared(golden, target, given.out / f"{target.name}-result", log)
                right = is_right(fault, row, str(home.__file__))
                counts["faults"] += 1
                counts["right"] += right
                counts["nothing"] += row is None
                said = "nothing" if row is None else f"{row['Result']}: {row['NPU Name']}"
                print(f"{name:9} {program:12} {fault.name:24} {'right' if right else 'WRONG'}: {said}", flush=True)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
