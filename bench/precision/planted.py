"""Defines planted faults, and runs a training program with one of them.

A program is a function of the name of a fault; it trains three steps. The line of a fault has the fault's name in a
comment. `FAULTS` of the program's file lists the faults, and the right answer for a fault without a line in the
program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

STEPS = 3


class Fault(NamedTuple):
    program: str
    name: str
    kinds: tuple[str, ...] = ()
    """Kinds of differences that count as right; empty means any."""
    word: str = ""
    """The word that an answer without a line must contain: of the operator, the module or the reason."""
    ranks: int = 1


def seeded(fault: str) -> None:
    torch.manual_seed(1 if fault == "seed" else 0)


def lines_of(fault: str, file: str) -> list[int]:
    """Numbers of the lines with the name of a fault."""
    with open(file, encoding="utf-8") as source:  # noqa: PTH123
        return [at for at, line in enumerate(source, 1) if line.rstrip().endswith(f"# fault: {fault}")]


def run(program: Callable[[str], None], ranks: int, fault: str, around: Callable[[int], Any], port: int) -> None:
    """Run a program in new processes, one a rank; `around` starts the recorder, and returns the function that stops
    it."""
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _child(program, fault, around, rank, ranks, port)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    if any(codes):
        raise SystemExit(f"{program.__name__} with {fault or 'no fault'} failed")


def _child(
    program: Callable[[str], None], fault: str, around: Callable[[int], Any], rank: int, ranks: int, port: int
) -> None:
    torch.set_num_threads(1)
    if ranks > 1:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    end = around(rank)
    try:
        program(fault)
    finally:
        end()
