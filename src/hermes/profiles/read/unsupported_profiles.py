"""Recognises profiles that Hermes does not read, by name and first bytes, and names the program that wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import Diagnostic
from hermes.base.message import Message
from hermes.profiles.read import messages
from hermes.profiles.read import unsupported_messages as said
from hermes.profiles.read.chrome import head_of

_MOST_HEADS = 200
_SQLITE = b"SQLite format 3\0"
# The schema of a database lies on its first pages.
_SCHEMA = 1 << 20
_HEAD = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedFormat:
    """A format that Hermes does not read: its name, and how to get something that can be read."""

    name: Message
    instead: Message


_NSYS = UnsupportedFormat(name=said.NSYS, instead=said.NSYS_DO)
_NSYS_EXPORT = UnsupportedFormat(name=said.NSYS_EXPORT, instead=said.NSYS_EXPORT_DO)
_NCU = UnsupportedFormat(name=said.NCU, instead=said.NCU_DO)
_OPERATOR_RUN = UnsupportedFormat(name=said.OPERATOR_RUN, instead=said.OPERATOR_RUN_DO)
_JAX = UnsupportedFormat(name=said.JAX, instead=said.JAX_DO)
_ROCPD = UnsupportedFormat(name=said.ROCPD, instead=said.ROCPD_DO)
_ROCPROF = UnsupportedFormat(name=said.ROCPROF, instead=said.ROCPROF_DO)
_PERFETTO = UnsupportedFormat(name=said.PERFETTO, instead=said.PERFETTO_DO)
_MINDSPORE = UnsupportedFormat(name=said.MINDSPORE, instead=said.MINDSPORE_DO)
_OLD_EXPORT = UnsupportedFormat(name=said.OLD_EXPORT, instead=said.OLD_EXPORT_DO)
_VIZ = UnsupportedFormat(name=said.VIZTRACER, instead=said.PYTHON_ALONE_DO)
_SPEEDSCOPE = UnsupportedFormat(name=said.SPEEDSCOPE, instead=said.PYTHON_ALONE_DO)
_EXECUTION = UnsupportedFormat(name=said.EXECUTION, instead=said.EXECUTION_DO)
_SNAPSHOT = UnsupportedFormat(name=said.PICKLE, instead=said.PICKLE_DO)
_BROWSER = UnsupportedFormat(name=said.BROWSER, instead=said.RECORD_JOB_DO)

_BY_NAME: tuple[tuple[re.Pattern[str], UnsupportedFormat], ...] = (
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
_BY_HEAD: tuple[tuple[re.Pattern[bytes], UnsupportedFormat], ...] = (
    (re.compile(rb'"highres-ticks"|"name"\s*:\s*"/(host|device):(CPU|GPU|TPU)|"hlo_module"'), _JAX),
    (re.compile(rb'"rocprofiler-sdk-tool"|"CPU HIP API"|"\d+ CPU HIP API"|"BeginNs"|"rpd_'), _ROCPROF),
    (re.compile(rb'"viztracer_metadata"|"cat"\s*:\s*"FEE"'), _VIZ),
    (re.compile(rb"speedscope\.app/file-format-schema"), _SPEEDSCOPE),
    (re.compile(rb'"schema"\s*:\s*"\d+\.\d+\.\d+-chakra'), _EXECUTION),
    (re.compile(rb'"cat"\s*:\s*"(blink|v8|devtools|toplevel|cc)[",]|"clock-domain"'), _BROWSER),
)
_OF_CSV = re.compile(rb'^"?(Index"?,"?KernelName|Kind"?,"?(Agent_Id|Domain))')
_PROF = re.compile(r"^PROF_\d+_\d+_")


def of_head(head: bytes) -> UnsupportedFormat | None:
    """The format of a Chrome trace or another JSON file, by its first bytes; None if unknown."""
    return next((form for pattern, form in _BY_HEAD if pattern.search(head)), None)


def format_of(path: Path, *, look: bool = True) -> UnsupportedFormat | None:
    """The format of a file that Hermes does not read; None for all other files. `look` allows opening it."""
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


def _of_database(head: bytes) -> UnsupportedFormat | None:
    if not head.startswith(_SQLITE):
        return None
    if b"CUPTI_ACTIVITY_KIND" in head or b"TARGET_INFO_GPU" in head or b"NVTX_EVENTS" in head:
        return _NSYS_EXPORT
    if b"rocpd_kernel_dispatch" in head:
        return _ROCPD
    return _ROCPROF if b"rocpd_" in head else None


def unsupported_files(files: Iterable[Path]) -> dict[UnsupportedFormat, list[Path]]:
    """The files whose format is known and not read, by format; only a limited number of files are opened."""
    found: dict[UnsupportedFormat, list[Path]] = {}
    looks = _MOST_HEADS
    for path in files:
        form = format_of(path, look=looks > 0)
        looks -= form is None
        if form is not None:
            found.setdefault(form, []).append(path)
    return found


def notes(files: Sequence[Path]) -> list[Diagnostic]:
    """Notes about files that lie beside a profile and were not read."""
    return [
        Diagnostic(
            level="info",
            message=messages.foreign(n=len(paths), form=form.name),
            where=str(paths[0]),
            hint=form.instead,
        )
        for form, paths in unsupported_files(files).items()
    ]
