"""Profiles that Hermes does not read, by name and head: which program wrote them, and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import Diagnostic
from hermes.profiles.read.chrome import head_of

_TORCH = "record the job with torch.profiler, or with hermes profile"
_MOST_HEADS = 200
_SQLITE = b"SQLite format 3\0"
# The schema of a database lies on its first pages.
_SCHEMA = 1 << 20
_HEAD = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A format: what it is called, and how to get something that can be read."""

    name: str
    instead: str


_NSYS = Foreign(
    name="a report of NVIDIA Nsight Systems",
    instead="nsys export --type sqlite FILE makes a database of it, which is read",
)
_NSYS_EXPORT = Foreign(
    name="an exported report of NVIDIA Nsight Systems",
    instead="give it alone, recorded with nsys profile --trace=cuda,nvtx: beside captures of the framework it is not "
    "read, and without work of a device there is nothing in it",
)
_NCU = Foreign(name="a report of NVIDIA Nsight Compute", instead=f"it describes single kernels: {_TORCH}")
_OPERATOR_RUN = Foreign(
    name="output of msprof op, which ran an operator alone",
    instead="hermes operators PROFILE --alone FOLDER shows it beside the calls of a job's step",
)
_JAX = Foreign(
    name="a profile of JAX or TensorFlow (XProf)",
    instead="Hermes reads PyTorch and MindSpore: xprof --logdir DIR shows this one; for a PyTorch/XLA job, " + _TORCH,
)
_ROCPROF = Foreign(
    name="output of AMD's rocprof", instead=f"for PyTorch on ROCm, {_TORCH}; it sees HIP calls and kernels"
)
_PERFETTO = Foreign(
    name="a Perfetto trace", instead="traceconv json FILE FILE.json makes JSON of it, which is read if PyTorch wrote it"
)
_MINDSPORE = Foreign(
    name="output of the profiler of MindSpore 1.x",
    instead="export its PROF_* folders with msprof --export=on --output=PROF_…, and give those; "
    "or record again with MindSpore 2.3 or later",
)
_OLD_EXPORT = Foreign(
    name="an export of an older msprof (timeline/, summary/)",
    instead="export the folder again with the msprof of CANN 7.0 or later: msprof --export=on --output=PROF_…",
)
_RENAMED = Foreign(
    name="a timeline of msprof under another name",
    instead="give the folder that msprof wrote, with all that lies in it: its files are known by their names",
)
_VIZ = Foreign(name="a trace of VizTracer", instead=f"it sees Python alone: {_TORCH}")
_SPEEDSCOPE = Foreign(name="a profile for speedscope (py-spy and others)", instead=f"it sees Python alone: {_TORCH}")
_EXECUTION = Foreign(
    name="an execution trace of PyTorch (Chakra), which has no times of the device",
    instead="give the trace that torch.profiler wrote beside it",
)
_SNAPSHOT = Foreign(
    name="a pickle, which Hermes never loads",
    instead="of pickles only snapshots of PyTorch's allocator are read, as plain data: "
    "torch.cuda.memory._dump_snapshot",
)
_BROWSER = Foreign(name="a trace of a browser or of Android", instead=_TORCH)

_BY_NAME: tuple[tuple[re.Pattern[str], Foreign], ...] = (
    (re.compile(r"\.(nsys-rep|qdrep|qdstrm)$", re.I), _NSYS),
    (re.compile(r"\.(ncu-rep|nsight-cuprof-report)$", re.I), _NCU),
    (re.compile(r"^(visualize_data\.bin|OpBasicInfo\.csv)$"), _OPERATOR_RUN),
    (re.compile(r"\.xplane\.pb$|^perfetto_trace\.json\.gz$", re.I), _JAX),
    (re.compile(r"\.(pftrace|perfetto-trace|perfetto)$", re.I), _PERFETTO),
    (re.compile(r"\.rpd$|(^|_)(kernel|hip(_api)?|hsa(_api)?|memory_copy|marker(_api)?)_trace\.csv$", re.I), _ROCPROF),
    (
        re.compile(
            r"^(ascend_timeline_display|step_trace_raw|output_op_compute_time|aicore_intermediate|framework_raw|hccl_raw|"
            r"timeline_summary|pipeline_profiling|minddata_aicpu|output_timeline_data|cpu_op_detail_info)_\d+",
            re.I,
        ),
        _MINDSPORE,
    ),
    (re.compile(r"\.speedscope(\.json)?$", re.I), _SPEEDSCOPE),
    (re.compile(r"\.(pickle|pkl)$", re.I), _SNAPSHOT),
)  # fmt: skip
_BY_HEAD: tuple[tuple[re.Pattern[bytes], Foreign], ...] = (
    (re.compile(rb'"highres-ticks"|"name"\s*:\s*"/(host|device):(CPU|GPU|TPU)|"hlo_module"'), _JAX),
    (re.compile(rb'"rocprofiler-sdk-tool"|"CPU HIP API"|"\d+ CPU HIP API"|"BeginNs"|"rpd_'), _ROCPROF),
    (re.compile(rb'"Ascend Hardware"'), _RENAMED),
    (re.compile(rb'"viztracer_metadata"|"cat"\s*:\s*"FEE"'), _VIZ),
    (re.compile(rb"speedscope\.app/file-format-schema"), _SPEEDSCOPE),
    (re.compile(rb'"schema"\s*:\s*"\d+\.\d+\.\d+-chakra'), _EXECUTION),
    (re.compile(rb'"cat"\s*:\s*"(blink|v8|devtools|toplevel|cc)[",]|"clock-domain"'), _BROWSER),
)
_OF_CSV = re.compile(rb'^"?(Index"?,"?KernelName|Kind"?,"?(Agent_Id|Domain))')
_PROF = re.compile(r"^PROF_\d+_\d+_")


def of_head(head: bytes) -> Foreign | None:
    """What wrote a Chrome trace or another JSON file, by its first bytes; None for one that is not known."""
    return next((form for pattern, form in _BY_HEAD if pattern.search(head)), None)


def format_of(path: Path, *, look: bool = True) -> Foreign | None:
    """What a file is, of what Hermes does not read; None for everything else. `look` allows to open it."""
    by_name = next((form for pattern, form in _BY_NAME if pattern.search(path.name)), None)
    if by_name is not None:
        return by_name
    inside = any(_PROF.match(part) for part in path.parts[:-1])
    if inside and path.parent.name in ("timeline", "summary"):
        return _OLD_EXPORT
    name = path.name.lower()
    if not look or not name.endswith((".json", ".json.gz", ".csv", ".sqlite", ".db")):
        return None
    if name.endswith((".sqlite", ".db")):
        return _of_database(head_of(path, _SCHEMA))
    head = head_of(path, _HEAD)
    return _ROCPROF if _OF_CSV.match(head) else of_head(head)


def _of_database(head: bytes) -> Foreign | None:
    if not head.startswith(_SQLITE):
        return None
    if b"CUPTI_ACTIVITY_KIND" in head or b"TARGET_INFO_GPU" in head or b"NVTX_EVENTS" in head:
        return _NSYS_EXPORT
    return _ROCPROF if b"rocpd_" in head else None


def named(files: Iterable[Path]) -> dict[Foreign, list[Path]]:
    """The files whose format is known and not read, by format; of the others no more than some are opened."""
    found: dict[Foreign, list[Path]] = {}
    looks = _MOST_HEADS
    for path in files:
        form = format_of(path, look=looks > 0)
        looks -= form is None
        if form is not None:
            found.setdefault(form, []).append(path)
    return found


def notes(files: Sequence[Path]) -> list[Diagnostic]:
    """What to say of files that lie beside a profile and were not read."""
    return [
        Diagnostic(
            level="info",
            message=f"{len(paths)} file{'s' if len(paths) > 1 else ''} not read: {form.name}",
            where=str(paths[0]),
            hint=form.instead,
        )
        for form, paths in named(files).items()
    ]
