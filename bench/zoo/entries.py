"""What stands in the zoo: each program's cause as ids of the case base, its cure, and what the monitor can see of it.

Which half an entry belongs to is settled by its name alone, before anything is measured: rules may be mended with the
`tuned` half in view, the `held-out` half is for reporting.
"""

from __future__ import annotations

from bench.zoo.entry import Entry
from bench.zoo.round4 import FOURTH

_INPUT = (
    Entry(
        name="heavy-transform", file="input", program="heavy_transform", layer="io", public="Z02",
        causes=("IO-02",), also=("IO-01", "IO-19"), monitor=("data work",),
        cure="work the samples out once, before training",
    ),
    Entry(
        name="small-files", file="input", program="small_files", layer="io", public="Z04",
        causes=("IO-04",), also=("IO-02", "IO-03", "IO-21"), monitor=("data wait", "data work"),
        cure="one file, read in a row",
    ),
    Entry(
        name="one-worker", file="input", program="one_worker", layer="io",
        causes=("IO-01",), also=("IO-03", "IO-07"), monitor=("data wait",),
        cure="eight workers",
    ),
    Entry(
        name="workers-anew", file="input", program="workers_anew", layer="io", period=8, profiled=16,
        causes=("IO-06",), also=("IO-01",), monitor=("data wait", "data work", "periodic"),
        cure="persistent_workers=True",
    ),
    Entry(
        name="lists-between", file="input", program="lists_between", layer="io",
        causes=("IO-13",), also=("IO-01", "IO-02"), monitor=("data wait", "data work"),
        cure="workers make the tensor",
    ),
    Entry(
        name="metrics-each-step", file="input", program="metrics_each_step", layer="io",
        causes=("IO-17",), also=("ENV-02", "IO-16"), monitor=("blocked",),
        cure="flush each hundredth step",
    ),
    Entry(
        name="checkpoint-waits", file="input", program="checkpoint_waits", layer="io", public="Z06", period=20,
        profiled=20, causes=("IO-16",), also=("IO-17",), monitor=("checkpoint", "periodic"),
        cure="copy the state, and write it in a thread",
    ),
    Entry(
        name="busy-but-hidden", file="input", program="busy_but_hidden", layer="cpu", kind="decoy", public="Z33",
        causes=("CPU-29", "CPU-12"), also=("CPU-14", "CPU-11"), never=("IO-01", "IO-02", "IO-03"),
        cure="one operator for all rows",
    ),
)  # fmt: skip

_HOST = (
    Entry(
        name="gc-called", file="host", program="gc_called", layer="cpu", public="Z08", period=5, profiled=10,
        causes=("CPU-46",), also=("CPU-30", "CPU-31", "CPU-33"), monitor=("garbage collection",),
        cure="freeze the heap, and drop the call",
    ),
    Entry(
        name="gc-heap", file="host", program="gc_heap", layer="cpu",
        causes=("CPU-33",), also=("CPU-30", "CPU-31", "CPU-46"), monitor=("garbage collection",),
        cure="gc.freeze() after start-up",
    ),
    Entry(
        name="rogue-process", file="host", program="rogue_process", layer="environment", public="Z10",
        causes=("CPU-34",), also=("CPU-35", "CPU-41", "CPU-42"), monitor=("CPU contention",), only_monitor=True,
        cure="stop the other processes",
    ),
    Entry(
        name="tiny-ops", file="host", program="tiny_ops", layer="cpu", public="Z13",
        causes=("CPU-29",), also=("CPU-12", "CPU-14", "CPU-11"),
        cure="one operator for all rows",
    ),
    Entry(
        name="heads-apart", file="host", program="heads_apart", layer="compute",
        causes=("CMP-13",), also=("CPU-29", "CPU-12"),
        cure="one batched product",
    ),
    Entry(
        name="recompile", file="host", program="recompile", layer="cpu", public="Z15", profiled=2,
        causes=("CPU-03",), also=("CPU-01", "CPU-02"),
        cure="dynamic=True",
    ),
    Entry(
        name="optimizer-loop", file="host", program="optimizer_loop", layer="cpu",
        causes=("CPU-15",), also=("CPU-12", "CPU-14"),
        cure="fused=True",
    ),
    Entry(
        name="anomaly", file="host", program="anomaly", layer="cpu",
        causes=("CPU-22",), also=("ENV-05",),
        cure="anomaly detection off",
    ),
    Entry(
        name="debug-log", file="host", program="debug_log", layer="environment",
        causes=("ENV-02",), also=("IO-17",),
        cure="level WARNING",
    ),
    Entry(
        name="finite-checks", file="host", program="finite_checks", layer="environment",
        causes=("ENV-05",), also=("CPU-18", "CPU-22"),
        cure="no checks in each step",
    ),
    Entry(
        name="lock-thread", file="host", program="lock_thread", layer="cpu",
        causes=("CPU-39",), also=("CPU-40", "CPU-34"), monitor=("interpreter lock", "CPU contention", "blocked"),
        only_monitor=True,
        cure="no thread that runs Python all the time",
    ),
    Entry(
        name="many-threads", file="host", program="many_threads", layer="environment",
        causes=("CPU-35",), also=("CPU-38", "CPU-34", "CPU-40"), monitor=("CPU contention",),
        cure="as many threads as cores",
    ),
)  # fmt: skip

_COMPUTE = (
    Entry(
        name="fp64", file="compute", program="fp64", layer="compute", public="Z17",
        causes=("CMP-05",), also=("CMP-04",),
        cure="astype(float32)",
    ),
    Entry(
        name="no-amp", file="compute", program="no_amp", layer="compute", public="Z20",
        causes=("CMP-04",), also=("CMP-03",),
        cure="autocast to bfloat16",
    ),
    Entry(
        name="casts", file="compute", program="casts", layer="compute",
        causes=("CMP-06",), also=("CMP-08", "CMP-05"),
        cure="no conversions",
    ),
    Entry(
        name="strided", file="compute", program="strided", layer="compute",
        causes=("CMP-09",), also=("CMP-07",),
        cure="keep the layout",
    ),
    Entry(
        name="few-threads", file="compute", program="few_threads", layer="compute",
        causes=("CMP-28",), cure="a thread for each core",
    ),
    Entry(
        name="attention", file="compute", program="attention", layer="compute",
        causes=("CMP-15",), also=("CMP-20",),
        cure="scaled_dot_product_attention",
    ),
    Entry(
        name="gelu-pieces", file="compute", program="gelu_pieces", layer="compute",
        causes=("CMP-20",), also=("CPU-14", "CMP-23"),
        cure="functional.gelu",
    ),
    Entry(
        name="recompute", file="compute", program="recompute", layer="memory",
        causes=("CMP-43",), also=("MEM-06",),
        cure="keep the activations",
    ),
    Entry(
        name="padding", file="compute", program="padding", layer="compute", profiled=8,
        causes=("CMP-30",), cure="batches of like length",
    ),
)  # fmt: skip

_COMMUNICATION = (
    Entry(
        name="straggler", file="communication", program="straggler", layer="communication", public="Z24", ranks=2,
        causes=("COM-21",), also=("PAR-05", "COM-22"), monitor=("straggler",),
        cure="the same work on both",
    ),
    Entry(
        name="late-host", file="communication", program="late_host", layer="communication", ranks=2,
        causes=("COM-22",), also=("COM-21", "IO-02", "IO-03", "IO-01"),
        monitor=("straggler", "data wait", "data work"), cure="batches in time",
    ),
    Entry(
        name="uneven-batches", file="communication", program="uneven_batches", layer="parallelism", ranks=2,
        period=6, profiled=6, causes=("PAR-05",), also=("COM-21", "PAR-14"), monitor=("straggler", "blocked"),
        cure="sort by length, and deal out evenly",
    ),
    Entry(
        name="small-reductions", file="communication", program="small_reductions", layer="communication",
        public="Z27", ranks=2, causes=("COM-01",), also=("COM-02", "COM-09", "COM-25", "COM-33"),
        cure="one reduction of all gradients",
    ),
    Entry(
        name="each-micro-batch", file="communication", program="each_micro_batch", layer="communication",
        public="Z30", ranks=2, causes=("COM-08",), also=("COM-38",), cure="no_sync() but for the last",
    ),
    Entry(
        name="scalars-apart", file="communication", program="scalars_apart", layer="communication", ranks=2,
        causes=("COM-33",), also=("COM-01", "COM-02", "COM-09", "COM-25"), cure="reduce them together",
    ),
)  # fmt: skip

_REST = (
    Entry(
        name="leak", file="memory", program="leak", layer="memory", public="Z22", profiled=12,
        causes=("MEM-04",), also=("MEM-13",), trend=True, cure="detach()",
    ),
    Entry(
        name="fresh-memory", file="memory", program="fresh_memory", layer="memory",
        causes=("MEM-14",), also=("CMP-37",), cure="write to memory that is kept",
    ),
    Entry(name="perceptron", file="healthy", program="perceptron", layer="compute", kind="control", public="Z00"),
    Entry(name="convolutions", file="healthy", program="convolutions", layer="compute", kind="control"),
    Entry(name="balanced", file="communication", program="balanced", layer="communication", kind="control", ranks=2),
    Entry(
        name="cheap-collections", file="healthy", program="cheap_collections", layer="cpu", kind="decoy",
        never=("CPU-30", "CPU-31", "CPU-33", "CPU-46"),
    ),
    Entry(name="cheap-reads", file="healthy", program="cheap_reads", layer="cpu", kind="decoy", never=("CPU-18",)),
    Entry(
        name="cheap-doubles", file="healthy", program="cheap_doubles", layer="compute", kind="decoy", never=("CMP-05",)
    ),
    Entry(
        name="cheap-log", file="healthy", program="cheap_log", layer="io", kind="decoy", period=10, profiled=10,
        never=("IO-16", "IO-17", "ENV-02"),
    ),
    Entry(
        name="input-and-collector", file="healthy", program="input_and_collector", layer="cpu", kind="tie",
        period=20, profiled=20,
        causes=("IO-02", "CPU-46"), also=("CPU-30", "CPU-31", "CPU-33"),
        monitor=("data work", "garbage collection"), cure="ready batches, and no call",
    ),
    Entry(
        name="doubles-and-loop", file="healthy", program="doubles_and_loop", layer="compute", kind="tie",
        causes=("CMP-05", "CPU-29"), also=("CPU-12", "CPU-14", "CPU-11"), cure="float32, and one operator",
    ),
)  # fmt: skip

FRESH = (
    Entry(
        name="words-to-tokens", file="input_round1", program="words_to_tokens", layer="io",
        causes=("IO-19",), also=("IO-02", "IO-01"), monitor=("data work",),
        cure="tokens made once, before training",
    ),
    Entry(
        name="packed-spectra", file="input_round1", program="packed_spectra", layer="io",
        causes=("IO-20",), also=("IO-01",), monitor=("data wait",),
        cure="store without compression",
    ),
    Entry(
        name="late-sequence", file="input_round1", program="late_sequence", layer="io", period=9, profiled=18,
        causes=("IO-07",), also=("IO-14", "IO-01", "IO-03"), monitor=("data wait", "periodic"),
        cure="prefetch_factor=16",
    ),
    Entry(
        name="metrics-posted", file="input_round1", program="metrics_posted", layer="io",
        causes=("IO-17",), monitor=("blocked",), cure="post each fiftieth step",
    ),
    Entry(
        name="best-is-kept", file="input_round1", program="best_is_kept", layer="io",
        causes=("IO-16",), also=("IO-17",), monitor=("checkpoint", "blocked"),
        cure="save each fiftieth step at most",
    ),
    Entry(
        name="evaluated-often", file="input_round1", program="evaluated_often", layer="io", period=8, profiled=16,
        causes=("IO-24",), also=("IO-06", "CPU-29"), monitor=("data wait", "data work", "periodic"),
        cure="keep the loader, and count with one operator",
    ),
    Entry(
        name="threads-in-workers", file="compute_round1", program="threads_in_workers", layer="io",
        causes=("IO-05",), also=("CPU-35",), monitor=("data wait", "CPU contention"),
        cure="one thread in each worker",
    ),
    Entry(
        name="pool-anew", file="compute_round1", program="pool_anew", layer="cpu",
        causes=("CPU-38",), also=("IO-02",), monitor=("data wait", "data work"),
        cure="keep the pool of threads",
    ),
    Entry(
        name="place-by-place", file="compute_round1", program="place_by_place", layer="cpu",
        causes=("CPU-29",), also=("CPU-12", "CPU-14", "CPU-11", "CMP-13"),
        cure="nn.LSTM",
    ),
    Entry(
        name="clipped-apart", file="compute_round1", program="clipped_apart", layer="cpu",
        causes=("CPU-16",), also=("CPU-12", "CPU-14"),
        cure="clip all gradients in one call",
    ),
    Entry(
        name="norm-spelled-out", file="compute_round1", program="norm_spelled_out", layer="compute",
        causes=("CMP-23",), also=("CMP-17", "CMP-20", "CMP-21", "CPU-14"),
        cure="functional.layer_norm",
    ),
    Entry(
        name="scatter-of-edges", file="compute_round1", program="scatter_of_edges", layer="compute",
        causes=("CMP-42",), also=("CMP-23",),
        cure="one product with a sparse matrix",
    ),
    Entry(
        name="target-of-doubles", file="compute_round1", program="target_of_doubles", layer="compute",
        causes=("CMP-05",), also=("CMP-06",),
        cure="target.float()",
    ),
    Entry(
        name="joined-queue", file="compute_round1", program="joined_queue", layer="memory",
        causes=("MEM-14",), also=("CMP-37", "CMP-23"),
        cure="write over the oldest",
    ),
    Entry(
        name="many-micro-batches", file="compute_round1", program="many_micro_batches", layer="parallelism",
        causes=("PAR-11",), also=("CPU-26", "CPU-12", "CPU-11", "CPU-29"),
        cure="two micro-batches",
    ),
    Entry(
        name="tiny-buckets", file="communication_round1", program="tiny_buckets", layer="communication", ranks=2,
        causes=("COM-02",), also=("COM-01", "COM-09", "COM-25"), cure="buckets of 25 MB",
    ),
    Entry(
        name="rank-that-scores", file="communication_round1", program="rank_that_scores", layer="communication",
        ranks=2,
        causes=("COM-22",), also=("COM-21", "PAR-05"), monitor=("straggler",), cure="score each fiftieth step",
    ),
    Entry(
        name="objects-gathered", file="communication_round1", program="objects_gathered", layer="communication",
        ranks=2,
        causes=("COM-33",), also=("COM-01", "COM-02", "COM-09", "COM-25", "COM-34"), cure="one tensor of all numbers",
    ),
    Entry(name="gated-units", file="compute_round1", program="gated_units", layer="compute", kind="control"),
    Entry(
        name="pair-of-painters", file="communication_round1", program="pair_of_painters", layer="communication",
        kind="control",
        ranks=2,
    ),
    Entry(
        name="large-experts", file="compute_round1", program="large_experts", layer="compute", kind="decoy",
        never=("CPU-29", "CMP-13", "CMP-33", "CPU-12"),
    ),
)  # fmt: skip
"""Written by somebody who did not know the rules; all of them are of the `held-out` half."""

UNSEEN = (
    Entry(
        name="crops-by-sample", file="input_round2", program="crops_by_sample", layer="io",
        causes=("IO-02",), also=("IO-01", "IO-11", "CPU-29", "CPU-12"), monitor=("data wait", "data work"),
        cure="change a batch of pictures at once",
    ),
    Entry(
        name="signals-in-gzip", file="input_round2", program="signals_in_gzip", layer="io",
        causes=("IO-20",), also=("IO-02", "IO-01", "IO-15"), monitor=("data wait", "data work"),
        cure="store without compression",
    ),
    Entry(
        name="bars-of-weights", file="input_round2", program="bars_of_weights", layer="io",
        causes=("IO-17",), also=("ENV-02", "ENV-05", "CPU-18", "CPU-29"), cure="histograms each fiftieth step",
    ),
    Entry(
        name="shadow-of-weights", file="compute_round2", program="shadow_of_weights", layer="cpu",
        causes=("CPU-15",), also=("CPU-12", "CPU-14", "CPU-29"),
        cure="one call for all weights",
    ),
    Entry(
        name="loss-by-sample", file="compute_round2", program="loss_by_sample", layer="cpu",
        causes=("CPU-29",), also=("CPU-12", "CPU-14", "CPU-11"),
        cure="one loss for all places, and a mask",
    ),
    Entry(
        name="mask-in-python", file="compute_round2", program="mask_in_python", layer="cpu",
        causes=("CPU-20",), also=("CPU-29", "CMP-16"),
        cure="compare numbers of places as tensors",
    ),
    Entry(
        name="large-table", file="compute_round2", program="large_table", layer="compute",
        causes=("CMP-42",), also=("CMP-23",),
        cure="sparse=True",
    ),
    Entry(
        name="teacher-learns-too", file="compute_round2", program="teacher_learns_too", layer="compute",
        causes=("CPU-28",), cure="no_grad() around the teacher",
    ),
    Entry(
        name="blocks-turned", file="compute_round2", program="blocks_turned", layer="compute",
        causes=("CMP-09",), also=("CMP-10", "CMP-07"),
        cure="turn once, before the first block",
    ),
    Entry(
        name="bytes-to-floats", file="compute_round2", program="bytes_to_floats", layer="memory",
        causes=("MEM-14",), also=("CMP-37", "CMP-23"),
        cure="write to memory that is kept",
    ),
    Entry(
        name="hooks-reduce", file="communication_round2", program="hooks_reduce", layer="communication", ranks=2,
        causes=("COM-01",), also=("COM-02", "COM-09", "COM-25", "COM-32", "COM-33"), cure="DDP",
    ),
    Entry(
        name="sorted-shards", file="communication_round2", program="sorted_shards", layer="parallelism", ranks=2,
        period=8, profiled=8, causes=("PAR-05",), also=("COM-21", "PAR-14"), monitor=("straggler",),
        cure="deal out in turn",
    ),
    Entry(name="next-token", file="compute_round2", program="next_token", layer="compute", kind="control"),
    Entry(
        name="plain-loader", file="input_round2", program="plain_loader", layer="io", kind="decoy",
        never=("IO-01", "IO-02", "IO-03"),
    ),
    Entry(
        name="barrier-each-step", file="communication_round2", program="barrier_each_step", layer="communication",
        kind="decoy", ranks=2, never=("COM-21", "COM-22", "COM-32", "COM-33", "PAR-05"),
    ),
)  # fmt: skip
"""Another round by somebody who knew neither the rules nor what became of the first."""

THIRD = (
    Entry(
        name="boxes-apart", file="input_round3", program="boxes_apart", layer="io", causes=("IO-13",),
        also=("IO-01",), monitor=("data wait", "data work"), cure="a few tensors for each batch"),
    Entry(
        name="archive-reopened", file="input_round3", program="archive_reopened", layer="io", causes=("IO-02",),
        also=("IO-01", "IO-04", "IO-20"), monitor=("data wait", "data work"), cure="keep the archive open"),
    Entry(
        name="heat-by-object", file="compute_round3", program="heat_by_object", layer="cpu", causes=("CPU-29",),
        also=("CPU-12", "CPU-14", "CPU-11", "CPU-20"), cure="draw all objects at once"),
    Entry(
        name="actors-in-turn", file="compute_round3", program="actors_in_turn", layer="cpu", causes=("CPU-29",),
        also=("CPU-12", "CPU-14", "CPU-11", "CPU-26"), cure="ask the policy once for all actors"),
    Entry(
        name="pairs-of-views", file="compute_round3", program="pairs_of_views", layer="compute",
        causes=("CMP-23",), also=("CMP-39", "CMP-37", "MEM-14"), cure="normalize, and one product"),
    Entry(
        name="weights-unpacked", file="compute_round3", program="weights_unpacked", layer="compute",
        causes=("CMP-08",), also=("CMP-06", "CMP-07"), cure="unpack once, before training"),
    Entry(
        name="activations-parked", file="compute_round3", program="activations_parked", layer="memory",
        causes=("MEM-15",), cure="keep activations in memory"),
    Entry(
        name="shared-norms", file="communication_round3", program="shared_norms", layer="communication", ranks=2,
        causes=("CMP-29",), also=("COM-01", "COM-02", "COM-09", "COM-25", "COM-33"), cure="plain batch norm"),
    Entry(
        name="expert-of-all", file="communication_round3", program="expert_of_all", layer="parallelism", ranks=2,
        causes=("PAR-06",), also=("PAR-05", "COM-21"), monitor=("straggler",), cure="a router that balances"),
    Entry(name="pixels-by-class", file="compute_round3", program="pixels_by_class", layer="compute", kind="control"),
    Entry(
        name="cheap-gates", file="compute_round3", program="cheap_gates", layer="compute", kind="decoy",
        never=("CMP-43", "MEM-06")),
    Entry(
        name="state-aside", file="input_round3", program="state_aside", layer="io", kind="decoy", period=10,
        profiled=10, never=("IO-16", "IO-17", "CPU-39")),
)  # fmt: skip
"""A third round by somebody who knew neither the rules nor what became of the others."""

ENTRIES: tuple[Entry, ...] = (*_INPUT, *_HOST, *_COMPUTE, *_COMMUNICATION, *_REST, *FRESH, *UNSEEN, *THIRD, *FOURTH)
