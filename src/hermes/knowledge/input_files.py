"""The files that Hermes analyzes, by the program that writes them: the one list behind hints and docs/inputs.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """The files of one program: `names` with `*` for any text, and what to know about them, as a sentence of a page.

    `beside` are names of files that tell something only beside the others.
    """

    program: str
    names: tuple[str, ...]
    about: str
    beside: tuple[str, ...] = ()


INPUT_FILES: tuple[InputFiles, ...] = (
    InputFiles(
        program="torch_npu and MindSpore",
        names=(
            "*_ascend_pt/", "*_ascend_ms/", "trace_view.json", "kernel_details.csv", "ascend_pytorch_profiler_*.db",
            "ascend_mindspore_profiler_*.db", "op_statistic.csv", "api_statistic.csv", "operator_details.csv",
            "step_trace_time.csv",
        ),
        beside=(
            "profiler_info_*.json", "profiler_metadata.json", "communication.json", "communication_matrix.json",
            "memory_record.csv", "operator_memory.csv", "npu_module_mem.csv", "l2_cache.csv", "analysis.db",
            "minddata_pipeline_raw_*.csv", "minddata_pipeline_summary_*.csv",
        ),
        about="A whole folder, its folder `ASCEND_PROFILER_OUTPUT` alone, or single files. Hermes merges text and "
        "database of one run. A folder that no tool has exported is exported first, if CANN or the framework is here. "
        "From `op_statistic.csv`, `api_statistic.csv` and `operator_details.csv` alone you learn sums.",
    ),
    InputFiles(
        program="msprof",
        names=(
            "PROF_*/", "msprof_*.json", "op_summary_*.csv", "task_time_*.csv", "op_statistic_*.csv",
            "api_statistic_*.csv", "msprof_*.db",
        ),
        beside=(
            "step_trace_*.csv", "msprof_tx_*.csv", "npu_mem_*.csv", "fusion_op_*.csv", "communication_statistic_*.csv",
        ),
        about="A whole folder, its folder `mindstudio_profiler_output` alone, or single files; before CANN 7.0 the "
        "timelines `PROF_*/device_*/timeline/msprof_D_M_I.json`, one for each iteration of a graph. From "
        "`op_statistic_*.csv` and `api_statistic_*.csv` alone you learn sums: which types of operators take the "
        "device's time, and which calls the host's. What bounds a step needs a timeline.",
    ),
    InputFiles(
        program="msprof-analyze", names=("cluster_step_trace_time.csv", "cluster_analysis.db"),
        beside=("cluster_communication.json", "cluster_communication_matrix.json", "communication_group.json"),
        about="A finished `cluster_analysis_output`: the split of each step, and sums of communication.",
    ),
    InputFiles(
        program="torch.profiler", names=("*.pt.trace.json", "*.json", "*.json.gz"),
        about="Kineto traces of CUDA, ROCm and CPU jobs, and lists of the older `torch.autograd.profiler`.",
    ),
    InputFiles(
        program="torch.cuda.memory", names=("*.pickle", "*.pkl", "*.pickle.gz", "*.pkl.gz"),
        about="Memory snapshots of `_dump_snapshot`, of `torch.npu` too. Hermes never unpickles them.",
    ),
    InputFiles(
        program="msMemScope", names=("memscope_dump_*.csv", "memscope_dump_*.db"),
        about="The memory of one device; files of earlier versions begin with `leaks_dump_`.",
    ),
    InputFiles(
        program="Nsight Systems", names=("*.sqlite",), about="Reports exported with `nsys export --type sqlite`.",
    ),
    InputFiles(
        program="rocprofv3", names=("*.db",), about="The database that `--output-format rocpd` writes.",
    ),
    InputFiles(
        program="msServiceProfiler",
        names=("request.csv", "batch.csv", "forward.csv", "kvcache.csv", "pd_split_*.csv", "profiler.db"),
        about="Inference services of MindIE, vLLM and SGLang, alone or beside captures.",
    ),
)  # fmt: skip
