"""The faults that rules find, each with the leaf of the time tree, or the risk, that the fault is about.

Rules that compete by gain tell findings apart by their faults. The sentences stand in the catalogue as `fault.NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping

from hermes.base.message import Word
from hermes.model.leaf import HOST_WAITS, IDLE, LAUNCHES, Leaf, Risk


class Fault(Word):
    """A kind of fault of a training job, such as a straggler or a host stall; a closed list."""

    UNPACKING = "unpacking"
    CACHING_ALLOCATOR_OFF = "caching_allocator_off"
    SMALL_COLLECTIVES = "small_collectives"
    STRIDED_COPIES = "strided_copies"
    SLOW_TYPE = "slow_type"
    CHECKS_FOR_DEBUGGING = "checks_for_debugging"
    UNEVEN_ENVIRONMENT = "uneven_environment"
    COMPILATION = "compilation"
    COMPILATION_OF_NEW_SHAPES = "compilation_of_new_shapes"
    MEMORY_BOUND_KERNELS = "memory_bound_kernels"
    MATRIX_UNITS_UNDERUSED = "matrix_units_underused"
    DENSE_TABLE_GRADIENTS = "dense_table_gradients"
    BATCHES_OF_MANY_TENSORS = "batches_of_many_tensors"
    NO_CORE_FOR_WORKERS = "no_core_for_workers"
    TOO_FEW_WORKERS = "too_few_workers"
    TENSORS_IN_FILES = "tensors_in_files"
    CHECKPOINT_OR_LOGGING = "checkpoint_or_logging"
    DETAILED_LOGS = "detailed_logs"
    UNEVEN_BATCHES = "uneven_batches"
    STALLED_TRANSFERS = "stalled_transfers"
    SLOW_COLLECTIVES = "slow_collectives"
    CONTENTION = "contention"
    SMALL_OPERATORS = "small_operators"
    UNEVEN_STAGES = "uneven_stages"
    UNEVEN_EXPERTS = "uneven_experts"
    SLOW_LINK = "slow_link"
    IDLE_CORES = "idle_cores"
    REDUCTION_PER_MICRO_BATCH = "reduction_per_micro_batch"
    WRONG_TRANSPORT = "wrong_transport"
    THREADS_STARTED_ANEW = "threads_started_anew"
    THREAD_BESIDE = "thread_beside"
    CONCAT_GROWTH = "concat_growth"
    OUT_OF_MEMORY = "out_of_memory"
    GROWING_MEMORY = "growing_memory"
    GARBAGE_COLLECTION = "garbage_collection"
    FRESH_MEMORY = "fresh_memory"
    UNALIGNED_SIZES = "unaligned_sizes"
    PADDING = "padding"
    LOW_CLOCK = "low_clock"
    CASTS_OF_WIDE_BATCHES = "casts_of_wide_batches"
    CASTS = "casts"
    UNFUSED_LAYERS = "unfused_layers"
    MORE_THREADS_THAN_CORES = "more_threads_than_cores"
    FEWER_THREADS_THAN_CORES = "fewer_threads_than_cores"
    UNALIGNED_SHAPES = "unaligned_shapes"
    SHORT_KERNELS = "short_kernels"
    DISPATCH = "dispatch"
    COMPUTING_ON_HOST = "computing_on_host"
    UNFUSED_OPTIMIZER = "unfused_optimizer"
    TASK_QUEUE_OFF = "task_queue_off"
    SYNCHRONISING_CALL = "synchronising_call"
    PIPELINE_BUBBLE = "pipeline_bubble"
    ROWS_BY_INDEX = "rows_by_index"
    LISTS_TO_TENSORS = "lists_to_tensors"
    TOO_FEW_MICRO_BATCHES = "too_few_micro_batches"
    CORES_FULL = "cores_full"
    EXPENSIVE_PROFILING = "expensive_profiling"
    DATA_LOADING = "data_loading"
    DATA_READING = "data_reading"
    DATA_PROCESSING = "data_processing"
    COPIES_FROM_PAGEABLE_MEMORY = "copies_from_pageable_memory"
    EXPOSED_INPUT_COPIES = "exposed_input_copies"
    WORKERS_STARTED_ANEW = "workers_started_anew"
    SLOW_DEVICE = "slow_device"
    EXPLICIT_SYNCHRONISATION = "explicit_synchronisation"
    CHECKS_OF_NUMBERS = "checks_of_numbers"
    FILLED_MEMORY = "filled_memory"
    AI_CPU_OPERATORS = "ai_cpu_operators"
    FORMAT_CONVERSIONS = "format_conversions"
    FRAGMENTATION = "fragmentation"
    EXPOSED_COPIES = "exposed_copies"
    ALLOCATOR_CALLS = "allocator_calls"
    SLOW_SAMPLE = "slow_sample"
    RECOMPUTATION = "recomputation"
    LAUNCH_BLOCKING = "launch_blocking"
    STARVED_DEVICE = "starved_device"
    STRAGGLER = "straggler"
    FIRST_CALLS = "first_calls"
    HOT_FUNCTION = "hot_function"
    MADE_ANEW = "made_anew"
    FORWARD_UNLEARNED = "forward_unlearned"
    UNUSED_GRADIENTS = "unused_gradients"
    BACKWARD_AGAIN = "backward_again"
    COSTLY_FORM = "costly_form"
    ALL_DIFFERENCES = "all_differences"
    ONE_HOT_PRODUCTS = "one_hot_products"
    DECOMPOSITIONS = "decompositions"
    WHOLE_SORTS = "whole_sorts"
    GRADIENTS_OF_PIECES = "gradients_of_pieces"
    UNFOLDED_WINDOWS = "unfolded_windows"
    LONG_STEPS = "long_steps"
    DECODED_ANEW = "decoded_anew"
    EXPOSED_COMMUNICATION = "exposed_communication"

    @property
    def about(self) -> Leaf | Risk:
        """The leaf that most of the fault's time goes to, or the fault's risk."""
        return _ABOUT[self]

    @property
    def explains(self) -> frozenset[Leaf]:
        """The leaves that the fault's time goes to; a risk has none."""
        about = self.about
        return _MORE.get(self, frozenset()) | ({about} if isinstance(about, Leaf) else frozenset())


_ABOUT: Mapping[Fault, Leaf | Risk] = {
    Fault.UNPACKING: Leaf.LAYOUT,
    Fault.CACHING_ALLOCATOR_OFF: Leaf.ALLOCATOR,
    Fault.SMALL_COLLECTIVES: Leaf.TRANSFER,
    Fault.STRIDED_COPIES: Leaf.LAYOUT,
    Fault.SLOW_TYPE: Leaf.MATRIX_PRODUCT,
    Fault.CHECKS_FOR_DEBUGGING: Leaf.SYNCHRONISATION,
    Fault.UNEVEN_ENVIRONMENT: Risk.SETTING,
    Fault.COMPILATION: Leaf.COMPILING,
    Fault.COMPILATION_OF_NEW_SHAPES: Leaf.COMPILING,
    Fault.MEMORY_BOUND_KERNELS: Leaf.ELEMENTWISE,
    Fault.MATRIX_UNITS_UNDERUSED: Leaf.MATRIX_PRODUCT,
    Fault.DENSE_TABLE_GRADIENTS: Leaf.EMBEDDING,
    Fault.BATCHES_OF_MANY_TENSORS: Leaf.INPUT_WORKERS,
    Fault.NO_CORE_FOR_WORKERS: Leaf.INPUT_WORKERS,
    Fault.TOO_FEW_WORKERS: Leaf.INPUT_WORKERS,
    Fault.TENSORS_IN_FILES: Leaf.FILE_OR_NETWORK,
    Fault.CHECKPOINT_OR_LOGGING: Leaf.FILE_OR_NETWORK,
    Fault.DETAILED_LOGS: Leaf.FILE_OR_NETWORK,
    Fault.UNEVEN_BATCHES: Leaf.WAIT,
    Fault.STALLED_TRANSFERS: Leaf.TRANSFER,
    Fault.SLOW_COLLECTIVES: Leaf.TRANSFER,
    Fault.CONTENTION: Leaf.CONTENTION,
    Fault.SMALL_OPERATORS: Leaf.DISPATCH,
    Fault.UNEVEN_STAGES: Leaf.PIPELINE_BUBBLE,
    Fault.UNEVEN_EXPERTS: Leaf.WAIT,
    Fault.SLOW_LINK: Leaf.TRANSFER,
    Fault.IDLE_CORES: Leaf.OTHER_COMPUTE,
    Fault.REDUCTION_PER_MICRO_BATCH: Leaf.TRANSFER,
    Fault.WRONG_TRANSPORT: Leaf.TRANSFER,
    Fault.THREADS_STARTED_ANEW: Leaf.PYTHON,
    Fault.THREAD_BESIDE: Leaf.INTERPRETER_LOCK,
    Fault.CONCAT_GROWTH: Leaf.LAYOUT,
    Fault.OUT_OF_MEMORY: Risk.OUT_OF_MEMORY,
    Fault.GROWING_MEMORY: Risk.GROWING_MEMORY,
    Fault.GARBAGE_COLLECTION: Leaf.GARBAGE_COLLECTION,
    Fault.FRESH_MEMORY: Leaf.ALLOCATOR,
    Fault.UNALIGNED_SIZES: Leaf.TRANSFER,
    Fault.PADDING: Leaf.MATRIX_PRODUCT,
    Fault.LOW_CLOCK: Risk.LOW_CLOCK,
    Fault.CASTS_OF_WIDE_BATCHES: Leaf.LAYOUT,
    Fault.CASTS: Leaf.LAYOUT,
    Fault.UNFUSED_LAYERS: Leaf.ELEMENTWISE,
    Fault.MORE_THREADS_THAN_CORES: Leaf.OTHER_WORK_ON_CORES,
    Fault.FEWER_THREADS_THAN_CORES: Leaf.HOST_OPERATOR,
    Fault.UNALIGNED_SHAPES: Leaf.MATRIX_PRODUCT,
    Fault.SHORT_KERNELS: Leaf.DISPATCH,
    Fault.DISPATCH: Leaf.DISPATCH,
    Fault.COMPUTING_ON_HOST: Leaf.HOST_OPERATOR,
    Fault.UNFUSED_OPTIMIZER: Leaf.OPTIMIZER,
    Fault.TASK_QUEUE_OFF: Leaf.LONG_LAUNCH,
    Fault.SYNCHRONISING_CALL: Leaf.SYNCHRONISATION,
    Fault.PIPELINE_BUBBLE: Leaf.PIPELINE_BUBBLE,
    Fault.ROWS_BY_INDEX: Leaf.EMBEDDING,
    Fault.LISTS_TO_TENSORS: Leaf.PYTHON,
    Fault.TOO_FEW_MICRO_BATCHES: Leaf.PIPELINE_BUBBLE,
    Fault.CORES_FULL: Leaf.OTHER_WORK_ON_CORES,
    Fault.EXPENSIVE_PROFILING: Leaf.PROFILER,
    Fault.DATA_LOADING: Leaf.INPUT_HERE,
    Fault.DATA_READING: Leaf.INPUT_READ,
    Fault.DATA_PROCESSING: Leaf.INPUT_HERE,
    Fault.COPIES_FROM_PAGEABLE_MEMORY: Leaf.BLOCKING_COPY,
    Fault.EXPOSED_INPUT_COPIES: Leaf.EXPOSED_COPY,
    Fault.WORKERS_STARTED_ANEW: Leaf.INPUT_WORKERS,
    Fault.SLOW_DEVICE: Leaf.OTHER_COMPUTE,
    Fault.EXPLICIT_SYNCHRONISATION: Leaf.SYNCHRONISATION,
    Fault.CHECKS_OF_NUMBERS: Leaf.SYNCHRONISATION,
    Fault.FILLED_MEMORY: Leaf.ELEMENTWISE,
    Fault.AI_CPU_OPERATORS: Leaf.AI_CPU,
    Fault.FORMAT_CONVERSIONS: Leaf.LAYOUT,
    Fault.FRAGMENTATION: Leaf.ALLOCATOR,
    Fault.EXPOSED_COPIES: Leaf.EXPOSED_COPY,
    Fault.ALLOCATOR_CALLS: Leaf.ALLOCATOR,
    Fault.SLOW_SAMPLE: Leaf.INPUT_WORKERS,
    Fault.RECOMPUTATION: Leaf.OTHER_COMPUTE,
    Fault.LAUNCH_BLOCKING: Leaf.SYNCHRONISATION,
    Fault.STARVED_DEVICE: Leaf.DISPATCH,
    Fault.STRAGGLER: Leaf.WAIT,
    Fault.FIRST_CALLS: Leaf.FIRST_CALL,
    Fault.HOT_FUNCTION: Leaf.PYTHON,
    Fault.MADE_ANEW: Leaf.PYTHON,
    Fault.FORWARD_UNLEARNED: Leaf.OTHER_COMPUTE,
    Fault.UNUSED_GRADIENTS: Leaf.OTHER_COMPUTE,
    Fault.BACKWARD_AGAIN: Leaf.OTHER_COMPUTE,
    Fault.COSTLY_FORM: Leaf.OTHER_COMPUTE,
    Fault.ALL_DIFFERENCES: Leaf.ELEMENTWISE,
    Fault.ONE_HOT_PRODUCTS: Leaf.MATRIX_PRODUCT,
    Fault.DECOMPOSITIONS: Leaf.OTHER_COMPUTE,
    Fault.WHOLE_SORTS: Leaf.SORT,
    Fault.GRADIENTS_OF_PIECES: Leaf.LAYOUT,
    Fault.UNFOLDED_WINDOWS: Leaf.LAYOUT,
    Fault.LONG_STEPS: Leaf.PYTHON,
    Fault.DECODED_ANEW: Leaf.OTHER_COMPUTE,
    Fault.EXPOSED_COMMUNICATION: Leaf.TRANSFER,
}

_COMPUTE = frozenset(leaf for leaf in Leaf if leaf.part == "compute")
_INPUT = frozenset({Leaf.INPUT_HERE, Leaf.INPUT_WORKERS, Leaf.INPUT_READ})
_UNTOLD = frozenset({Leaf.COMMUNICATION})
_MATRIX = frozenset({Leaf.MATRIX_PRODUCT, Leaf.CONVOLUTION, Leaf.ATTENTION, Leaf.RECURRENT})
_MEMORY_BOUND = frozenset(
    {Leaf.ELEMENTWISE, Leaf.NORM, Leaf.REDUCTION, Leaf.LAYOUT, Leaf.OPTIMIZER, Leaf.EMBEDDING, Leaf.RANDOM}
)
_LINE = _COMPUTE | {Leaf.PYTHON, Leaf.DISPATCH, Leaf.HOST_OPERATOR, Leaf.NOT_RECORDED}

_MORE: Mapping[Fault, frozenset[Leaf]] = {
    Fault.SMALL_COLLECTIVES: _UNTOLD,
    Fault.CONTENTION: _COMPUTE,
    Fault.CHECKS_FOR_DEBUGGING: LAUNCHES | {Leaf.PYTHON},
    Fault.COMPILATION: frozenset({Leaf.FIRST_CALL}),
    Fault.MEMORY_BOUND_KERNELS: _MEMORY_BOUND,
    Fault.MATRIX_UNITS_UNDERUSED: _MATRIX,
    Fault.SLOW_TYPE: _MATRIX,
    # Each pass over a dense gradient counts: zeroing, adding, and all that the optimizer does.
    Fault.DENSE_TABLE_GRADIENTS: frozenset({Leaf.OPTIMIZER, Leaf.ELEMENTWISE, Leaf.REDUCTION, Leaf.LAYOUT}),
    Fault.BATCHES_OF_MANY_TENSORS: _INPUT,
    Fault.NO_CORE_FOR_WORKERS: _INPUT,
    Fault.TOO_FEW_WORKERS: _INPUT,
    Fault.TENSORS_IN_FILES: _INPUT,
    Fault.CHECKPOINT_OR_LOGGING: HOST_WAITS | {Leaf.PYTHON},
    Fault.DETAILED_LOGS: HOST_WAITS | LAUNCHES | {Leaf.PYTHON},
    Fault.UNEVEN_BATCHES: _UNTOLD | _COMPUTE,
    Fault.STALLED_TRANSFERS: _UNTOLD,
    Fault.SLOW_COLLECTIVES: _UNTOLD,
    Fault.UNEVEN_STAGES: _UNTOLD | {Leaf.WAIT},
    Fault.UNEVEN_EXPERTS: _UNTOLD | {Leaf.MATRIX_PRODUCT},
    Fault.SLOW_LINK: _UNTOLD,
    Fault.IDLE_CORES: _COMPUTE,
    Fault.REDUCTION_PER_MICRO_BATCH: _UNTOLD,
    Fault.WRONG_TRANSPORT: _UNTOLD,
    Fault.THREADS_STARTED_ANEW: frozenset({Leaf.NOT_RECORDED}),
    Fault.THREAD_BESIDE: _LINE,
    Fault.UNALIGNED_SIZES: _UNTOLD,
    Fault.PADDING: _COMPUTE,
    Fault.UNFUSED_LAYERS: _MEMORY_BOUND | {Leaf.ATTENTION},
    Fault.MORE_THREADS_THAN_CORES: _COMPUTE,
    Fault.FEWER_THREADS_THAN_CORES: _COMPUTE,
    Fault.UNALIGNED_SHAPES: _MATRIX,
    Fault.SHORT_KERNELS: LAUNCHES | {Leaf.PYTHON},
    Fault.DISPATCH: LAUNCHES | {Leaf.PYTHON},
    Fault.SMALL_OPERATORS: _COMPUTE | LAUNCHES,
    Fault.UNFUSED_OPTIMIZER: LAUNCHES | {Leaf.ELEMENTWISE},
    Fault.TASK_QUEUE_OFF: LAUNCHES,
    Fault.SYNCHRONISING_CALL: HOST_WAITS,
    Fault.PIPELINE_BUBBLE: _UNTOLD | {Leaf.WAIT},
    Fault.ROWS_BY_INDEX: _LINE,
    Fault.LISTS_TO_TENSORS: _INPUT | {Leaf.HOST_OPERATOR},
    Fault.TOO_FEW_MICRO_BATCHES: _UNTOLD | {Leaf.WAIT},
    Fault.CORES_FULL: _COMPUTE | LAUNCHES | {Leaf.PYTHON} | _INPUT,
    Fault.EXPENSIVE_PROFILING: LAUNCHES | {Leaf.PYTHON},
    Fault.DATA_LOADING: _INPUT,
    Fault.DATA_READING: _INPUT | {Leaf.FILE_OR_NETWORK},
    Fault.DATA_PROCESSING: _INPUT,
    Fault.COPIES_FROM_PAGEABLE_MEMORY: frozenset({Leaf.EXPOSED_COPY}),
    Fault.WORKERS_STARTED_ANEW: _INPUT,
    Fault.SLOW_DEVICE: _COMPUTE,
    Fault.EXPLICIT_SYNCHRONISATION: HOST_WAITS,
    Fault.CHECKS_OF_NUMBERS: HOST_WAITS | _LINE,
    Fault.SLOW_SAMPLE: _INPUT,
    Fault.RECOMPUTATION: _COMPUTE,
    Fault.LAUNCH_BLOCKING: LAUNCHES,
    Fault.STARVED_DEVICE: IDLE,
    Fault.STRAGGLER: _UNTOLD,
    Fault.HOT_FUNCTION: _LINE,
    Fault.MADE_ANEW: _LINE,
    Fault.FORWARD_UNLEARNED: _LINE,
    Fault.UNUSED_GRADIENTS: _COMPUTE,
    Fault.BACKWARD_AGAIN: _COMPUTE,
    Fault.COSTLY_FORM: _COMPUTE,
    Fault.ALL_DIFFERENCES: _COMPUTE,
    Fault.ONE_HOT_PRODUCTS: _COMPUTE,
    Fault.DECOMPOSITIONS: _COMPUTE,
    Fault.GRADIENTS_OF_PIECES: _COMPUTE,
    Fault.UNFOLDED_WINDOWS: _COMPUTE,
    Fault.LONG_STEPS: IDLE,
    Fault.DECODED_ANEW: _LINE | _INPUT,
    Fault.EXPOSED_COMMUNICATION: frozenset({Leaf.COMMUNICATION, Leaf.WAIT}),
}
"""Leaves that a fault explains beside the leaf that `about` gives."""
