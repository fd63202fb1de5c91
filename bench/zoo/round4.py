"""A fourth round of programs, by somebody who knew neither the rules nor what became of the others."""

from __future__ import annotations

from bench.zoo.entry import Entry

FOURTH: tuple[Entry, ...] = (
    Entry(
        name="scans-then-cubes", file="input_round4", program="scans_then_cubes", layer="io",
        causes=("IO-02",), also=("IO-01",), monitor=("data wait", "data work"),
        cure="cut out the cube first",
    ),
    Entry(
        name="doubles-from-worker", file="input_round4", program="doubles_from_worker", layer="io",
        causes=("IO-12",), also=("IO-13", "IO-01", "CMP-05"), monitor=("data wait", "data work"),
        cure="send bytes, and make floats of them in the loop",
    ),
    Entry(
        name="replay-of-tuples", file="input_round4", program="replay_of_tuples", layer="cpu",
        causes=("CPU-20",), also=("IO-02", "CPU-29"),
        cure="keep moves in tables, and take rows",
    ),
    Entry(
        name="column-by-column", file="compute_round4", program="column_by_column", layer="cpu",
        causes=("CPU-29",), also=("CPU-12", "CPU-14", "CPU-11", "CMP-13"),
        cure="one table for all fields",
    ),
    Entry(
        name="causal-by-mask", file="compute_round4", program="causal_by_mask", layer="compute",
        causes=("CMP-16",), also=("CMP-20",),
        cure="is_causal=True",
    ),
    Entry(
        name="undetached-painter", file="compute_round4", program="undetached_painter", layer="compute",
        causes=("CPU-48",), also=("CPU-49", "CPU-28"),
        cure="detach what was painted",
    ),
    Entry(
        name="followed-anew", file="compute_round4", program="followed_anew", layer="memory",
        causes=("MEM-14",), also=("CMP-37", "CMP-23"),
        cure="lerp_ in place",
    ),
    Entry(
        name="layers-in-halves", file="communication_round4", program="layers_in_halves", layer="parallelism", ranks=2,
        causes=("PAR-07",), also=("COM-19", "PAR-15"), cure="cut the batch, with DDP",
    ),
    Entry(
        name="needless-shards", file="communication_round4", program="needless_shards", layer="parallelism", ranks=2,
        causes=("PAR-08",), also=("PAR-17", "COM-10", "COM-09"), cure="DDP",
    ),
    Entry(
        name="noise-of-pictures", file="compute_round4", program="noise_of_pictures", layer="compute", kind="control"
    ),
    Entry(
        name="mapped-tokens", file="input_round4", program="mapped_tokens", layer="io", kind="decoy",
        never=("IO-01", "IO-02", "IO-03", "IO-15", "IO-21", "CPU-20"),
    ),
    Entry(
        name="lengths-that-vary", file="compute_round4", program="lengths_that_vary", layer="cpu", kind="decoy",
        period=7, profiled=7, never=("CPU-01", "CPU-02", "CMP-30", "MEM-16"),
    ),
)  # fmt: skip
