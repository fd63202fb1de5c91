"""Reports for rendering tests: a real one, a hostile one, one of many ranks, one without a measure, an empty one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import pytest
from tests.with_rows import with_rows

from hermes.base.errors import Diagnostic
from hermes.model.compute_measures import ChipUsed, KindCost, Losses, OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, JobLeaf, LeafTime
from hermes.model.path_measures import NearCritical, PathPart, PathStretch, StepPath
from hermes.model.report import Coverage, Input, Report, Verdict
from hermes.model.step_measures import (
    ArrivalWait,
    AscendSplit,
    ClockOffset,
    CommunicationTop,
    HostCallTop,
    KernelTop,
    LinkSpeed,
    OperatorTop,
    RankTotal,
    StepSplit,
    StreamBusy,
    TaskWait,
    TopRow,
)
from hermes.model.typical_step import JobSteps
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.profiles.tree.leaf_kinds import LeafKinds
from hermes.profiles.tree.verdict import VerdictGrounds, verdict
from hermes.store.cache import Cache

MS = 1_000_000
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' autofocus onfocus=alert(1) x='",
    "[bold red]markup[/bold red] [/nonsense] [link=https://example.com]x[/link]",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "line one\nline two\r\x9b2J",
    "user\u202egpj.exe\u2066\u200b",
    "{{ 7 * 7 }}{% raw %}",
    "=HYPERLINK(1)",
    "a|b`c\\d<e>",
    "broken \udcff byte",
)


Top = TypeVar("Top", bound=TopRow)


def top_row(kind: type[Top], name: str, detail: str, count: int, total_ns: int, share: float) -> Top:
    mean = total_ns // count
    return kind(
        name=name,
        detail=detail,
        ranks=(0, 1),
        count=count,
        total_ns=total_ns,
        share=share,
        min_ns=mean // 2,
        median_ns=mean,
        max_ns=mean * 2,
    )


def step(rank: int, number: int | None, window: int, compute: int, comm: int, copy: int) -> StepSplit:
    return StepSplit(
        rank=rank,
        step=number,
        window_kind="device",
        start_ns=1_736_412_474_721_169_590,
        window_ns=window,
        compute_ns=compute,
        comm_ns=comm + 4_011_262,
        exposed_comm_ns=comm,
        overlapped_comm_ns=4_011_262,
        copy_ns=copy,
        copy_exposed_ns=copy,
        free_ns=window - compute - comm - copy,
        preparing_ns=17_483_750,
        host_ns=147_346_625,
    )


def _finding() -> Loss:
    return Loss(
        code="COM004",
        layer="communication",
        fault=Fault.STRAGGLER,
        message="All collected ranks wait in the first all_reduce for a rank that was not collected",
        ranks=(0, 1),
        blames=(Blame("rank 5 (not collected)", "rank", 5),),
        cost_ns=86_470_907,
        share=0.666,
        gain=Gain(low_ns=60 * MS, high_ns=84 * MS, method="median over ranks of the wait, minus the transfer time"),
        confidence=0.72,
        evidence=(
            Evidence(
                what="longest wait for one peer",
                value=86_221_407.0,
                unit="ns",
                threshold=5_000_000.0,
                where="communication.json, hcom_allReduce__271_0_1",
            ),
            Evidence(what="waits that end together", value=0.97, unit="of waits", threshold=0.9, where="rank 0"),
        ),
        actions=(
            Action(
                title="Profile rank 5 over the same step",
                do="Start the profiler on rank 5 as well (schedule: wait 1, warmup 1, active 2).",
                verify="The wait of rank 0 ends when rank 5 enters the collective.",
                risk="None beyond the cost of the profiler on one more rank.",
                source="https://www.hiascend.com/document",
            ),
            Action(
                title="Check the data loader of rank 5",
                do="Raise num_workers to 8 and set pin_memory.",
                verify="hermes compare before after: exposed communication falls by 60 to 84 ms a step.",
                risk="More host memory.",
                source="Hermes, docs/evidence/com004.md",
            ),
        ),
    )


def _second_finding() -> Loss:
    return replace(
        _finding(),
        code="CMP003",
        layer="compute",
        fault=Fault.FORMAT_CONVERSIONS,
        message="57 TransData kernels convert tensor formats back and forth",
        blames=(),
        cost_ns=1_393_328,
        share=0.011,
        gain=Gain(low_ns=400_000, high_ns=1_200_000, method="the share of conversions that cancel out"),
        confidence=0.9,
        evidence=(
            Evidence(what="TransData of compute", value=0.157, unit="", threshold=0.05, where="kernel_details.csv"),
        ),
    )


def _ascend(rank: int, source: str) -> AscendSplit:
    reported = source == "reported"
    return AscendSplit(
        rank=rank,
        step=50,
        source="reported" if reported else "computed",
        compute_ns=8_868_240,
        exposed_comm_ns=95_962_016,
        overlapped_ns=4_011_262,
        comm_ns=99_973_278,
        free_ns=25_032_619,
        stage_ns=129_862_750 if reported else 129_862_875,
        bubble_ns=0,
        preparing_ns=17_483_750 if reported else 17_483_712,
    )


def _kernels() -> tuple[KernelTop, ...]:
    return (
        top_row(
            KernelTop, "aclnnForeachAddListV2_ForeachAddListV2_ForeachAddList", "ForeachAddList", 6, 3_903_839, 0.2197
        ),
        top_row(KernelTop, "trans_TransData_12", "TransData", 114, 2_786_656, 0.1568),
        top_row(KernelTop, "aclnnInplaceCopy_TensorMoveAiCore_TensorMove", "TensorMove", 22, 1_150_680, 0.0648),
        top_row(KernelTop, "aclnnAddmm_MatMulCommon_MatMulV2", "MatMulV2", 6, 1_074_681, 0.0605),
        top_row(
            KernelTop,
            "aclnnMaxPool2dWithMask_MaxPoolWithArgmaxV1AiCore_MaxPoolWithArgmaxV1",
            "MaxPoolWithArgmaxV1",
            6,
            825_996,
            0.0465,
        ),
        top_row(KernelTop, "aclnnMm_MatMulCommon_MatMulV2", "MatMulV2", 10, 822_056, 0.0463),
        top_row(
            KernelTop,
            "void at::native::" + "vectorized_elementwise_kernel<4, " * 20 + ">",
            "Elementwise",
            3,
            12_400,
            0.0007,
        ),
    )


def _total(rank: int) -> RankTotal:
    return RankTotal(
        rank=rank,
        tasks=1_204,
        span_ns=129_862_875,
        busy_ns=104_842_256,
        idle_ns=25_020_619,
        compute_ns=8_868_240,
        comm_ns=99_973_278,
        exposed_comm_ns=95_962_016,
        copy_ns=12_000,
        copy_exposed_ns=12_000,
        task_ns=108_853_518,
    )


def leaf(leaf: Leaf, us: int, what: str = "", **more: object) -> JobLeaf:
    """A row of the tree of a job whose steps take 130 ms."""
    row = JobLeaf(
        leaf=leaf, how=How.CALL, what=what, place="", rank=None, total_ns=us * 1_000, share=us / 130_000,
        curable_ns=None,
    )  # fmt: skip
    return replace(row, **more)  # type: ignore[arg-type]


def _tree() -> tuple[JobLeaf, ...]:
    return (
        leaf(Leaf.WAIT, 90_000, rank=5, curable_ns=90 * MS),
        leaf(Leaf.DISPATCH, 20_000, "aten::mm", how=How.OPERATORS, place="train.py:12 `step`", curable_ns=20 * MS),
        leaf(Leaf.CONVOLUTION, 7_900, "Conv2D"),
        leaf(Leaf.TRANSFER, 6_000, "all_reduce", curable_ns=2 * MS),
        leaf(Leaf.NOT_RECORDED, 5_000, "MatMul", how=How.BEFORE, curable_ns=5 * MS),
        leaf(Leaf.NORM, 600, "BatchNorm"),
        leaf(Leaf.REDUCTION, 400, "ReduceSum"),
        leaf(Leaf.EXPOSED_COPY, 100),
    )


def _path(rank: int) -> StepPath:
    parts = (
        PathPart(rank=rank, component="wait", reason="rank 5", ns=95_465_267),
        PathPart(rank=rank, component="host", reason="operators", ns=23_194_803),
        PathPart(rank=rank, component="compute", reason="", ns=8_500_000),
        PathPart(rank=rank, component="unexplained", reason="", ns=2_702_805),
    )
    return StepPath(
        rank=rank,
        step=50,
        across=rank == 0,
        start_ns=1_736_412_474_730_135_217,
        window_ns=sum(part.ns for part in parts),
        parts=parts,
        stretches=(
            PathStretch(
                rank=rank,
                component="wait",
                name="waits for rank 5 in hcom_allReduce__271_0_1",
                where="group 11022204950826225271",
                start_ns=1_736_412_474_757_059_740,
                dur_ns=86_157_761,
            ),
        ),
        near_critical=(
            NearCritical(
                component="compute", where="stream 7", tasks=3, ns=8_900_000, slack_ns=8_571_012, least_ns=8_571_012
            ),
        ),
    )


def _compute() -> tuple[object, ...]:
    losses = Losses(frequency_ns=0, blocks_ns=1_008_011, pipe_ns=None, layout_ns=1_514_773)
    return (
        ChipUsed(
            ranks=(0, 1),
            recorded="Ascend910B",
            chip="Ascend910B2",
            told_by="counters",
            matrix={"fp16": 353.9e12, "fp32": 88.5e12},
            bandwidth=1.6e12,
            cores=24,
            mhz=1_800,
            sources={"matrix": "CANN, data/platform_config/Ascend910B2.ini", "bandwidth": "a data sheet"},
        ),
        *(
            StepCompute(
                rank=rank,
                step=50,
                kernel_ns=8_868_240,
                roofed_ns=7_621_378,
                flops=147_618_856_960,
                mfu=0.0069,
                known_share=0.9958,
                losses=losses,
                ai_cpu_ns=0,
                cast_ns=5_360,
                transpose_ns=116_081,
                conversion_ns=1_393_332,
                recompute_ns=None,
                over_peers_ns=None,
                unaligned_ns=58_101,
                mhz=1_800.0,
            )
            for rank in (0, 1)
        ),
        KindCost(
            kind="matmul",
            calls=18,
            ns=2_047_000,
            share=0.6,
            flops=22_548_578_304,
            bytes=1_427_000_000,
            tflops=11.0,
            gb_per_s=697.3,
            roofed_ns=1_836_000,
            roof_share=0.336,
            losses=losses,
        ),
        OperatorCost(
            kind="matmul",
            operator="MatMulV2",
            shapes="32,9216;4096,9216;4096",
            dtypes="FLOAT;FLOAT;FLOAT",
            chip="Ascend910B2",
            ranks=(0, 1),
            calls=2,
            kernels=2,
            ns=714_000,
            share=0.04,
            median_ns=357_000,
            flops=2_415_919_104,
            bytes=152_715_264,
            precision="fp32",
            tflops=6.77,
            gb_per_s=427.8,
            limit="memory",
            roof_share=0.267,
            bound="neither",
            losses=losses,
            aligned=True,
            note="",
        ),
    )


def judged(report: Report) -> Report:
    """The report with the verdict that an analysis gives on its steps, tree and findings: no headline is made up."""
    made = verdict(
        VerdictGrounds(
            steps=JobSteps(report.steps), times=report.rows(LeafTime), kinds=LeafKinds.of(report.rows(JobLeaf)),
            problems=report.findings, expected=report.coverage.ranks_expected,
        )
    )  # fmt: skip
    return replace(report, verdict=made)


_NOT_JUDGED = Verdict(bound="unknown", message="", rank=None, step=None)


def _real() -> Report:
    return judged(_without_verdict())


def _without_verdict() -> Report:
    return Report(
        version="0.1.0",
        title="alexnet_text_level2",
        verdict=_NOT_JUDGED,
        inputs=tuple(
            Input(
                path=f"alexnet_text_level2/rank{rank}_ascend_pt",
                format="ascend-text",
                rank=rank,
                capture="20250109084754",
                level="Level2",
                chip="Ascend 910B",
                vendor="ascend",
                degraded=(),
            )
            for rank in (0, 1)
        ),
        coverage=Coverage(
            ranks_seen=(0, 1),
            ranks_expected=8,
            ranks_expected_source="world size in profiler_metadata.json",
            steps=(50,),
            missing=(
                "only ranks 0 and 1 of 8 were collected",
                "one step per rank: no spread over steps is known",
            ),
        ),
        steps=(
            step(0, 50, 129_862_875, 8_868_240, 95_962_016, 12_000),
            step(1, 50, 128_755_772, 8_902_301, 93_411_782, 12_400),
        ),
        ascend_notes=("Here copies count as free: free is 12.000 us more than in the split above.",),
        paths=(_path(0), _path(1)),
        measured=(
            *_compute(),
            *(_ascend(rank, source) for rank in (0, 1) for source in ("computed", "reported")),
            _total(0),
            _total(1),
            *(
                StreamBusy(rank=rank, stream=stream, component=component, tasks=tasks, busy_ns=busy)
                for rank in (0, 1)
                for stream, component, tasks, busy in (
                    (2, "compute", 214, 8_868_240),
                    (30, "comm", 8, 99_973_278),
                    (None, "copy", 1, 12_000),
                )
            ),
            ClockOffset(rank=0, offset_ns=0, error_ns=None, anchors=0, method="same host"),
            ClockOffset(rank=1, offset_ns=-2_310, error_ns=640, anchors=4, method="collectives"),
            *(
                ArrivalWait(
                    rank=rank,
                    peer=5,
                    peer_collected=False,
                    waits=3,
                    total_ns=95_465_267 - rank * MS,
                    longest_ns=86_157_761,
                    longest_at_ns=1_736_412_474_757_059_740,
                )
                for rank in (0, 1)
            ),
            *(
                TaskWait(
                    rank=0,
                    peer=peer,
                    peer_collected=peer < 2,
                    waits=48,
                    total_ns=(90 if peer == 5 else 2) * MS + peer * 7_013,
                    longest_ns=(86_221_407 if peer == 5 else 310_022),
                    longest_at_ns=1_736_412_474_757_069_280,
                )
                for peer in range(1, 8)
            ),
            LinkSpeed(rank=0, transport="HCCS", bytes=264_241_152, time_ns=15_159_375, gb_per_s=17.43),
            LinkSpeed(rank=0, transport="LOCAL", bytes=4_128_776, time_ns=8_320, gb_per_s=496.24),
            *_kernels(),
            top_row(OperatorTop, "aten::_foreach_add_", "op", 6, 5_121_004, 0.12),
            top_row(OperatorTop, "aten::mm", "op", 10, 900_000, 0.02),
            top_row(HostCallTop, "launch", "runtime", 2_100, 31_400_000, 0.31),
            top_row(CommunicationTop, "hcom_allReduce__271_0_1", "all_reduce", 2, 170_422_844, 0.864),
            top_row(CommunicationTop, "hcom_allReduce__271_3_1", "all_reduce", 2, 17_653_132, 0.089),
            top_row(CommunicationTop, "hcom_allReduce__271_2_1", "all_reduce", 2, 4_933_258, 0.025),
            top_row(CommunicationTop, "hcom_allReduce__271_1_1", "all_reduce", 2, 4_419_364, 0.022),
            *_tree(),
        ),
        findings=(_finding(), _second_finding()),
        diagnostics=(
            Diagnostic(
                level="degraded",
                message="two transfers name no peer",
                where="rank1_ascend_pt/ASCEND_PROFILER_OUTPUT/communication.json",
                lost="their share of the waits by peer",
                hint="nothing; the totals hold them",
            ),
            Diagnostic(level="info", message="Python stacks were recorded", where="rank0_ascend_pt"),
        ),
    )


@pytest.fixture
def real(host_rows: Callable[[str], tuple[object, ...]]) -> Report:
    """A report on ranks 0 and 1 of 8 of a real AlexNet job on Ascend 910B (waits, findings and offsets are made up)."""
    return with_rows(_real(), host_rows("PTA"))


@pytest.fixture
def hostile(host_rows: Callable[[str], tuple[object, ...]]) -> Report:
    """The same report with names in every text that try to break out of their place."""
    real = _real()
    (bad, *_) = HOSTILE
    everything = " ".join(HOSTILE)
    tops = {
        kind: [top_row(kind, name, name, 2, MS * (20 - at), 0.1) for at, name in enumerate(HOSTILE)]
        for kind in (KernelTop, OperatorTop, HostCallTop, CommunicationTop)
    }
    tops[KernelTop].insert(0, top_row(KernelTop, "".join(HOSTILE) + "K" * 5_000, bad, 1, 30 * MS, float("nan")))
    tree = (replace(row, what=name, place=everything) for row, name in zip(_tree(), HOSTILE, strict=False))
    rows = (
        *(replace(row, component=everything) for row in real.rows(StreamBusy)),
        *(replace(row, transport=everything, gb_per_s=float("nan")) for row in real.rows(LinkSpeed)),
        *(replace(row, recorded=everything) for row in real.rows(ChipUsed)),
        *(replace(row, kind=everything) for row in real.rows(KindCost)),
        *(
            replace(row, operator=everything, shapes=everything, dtypes=bad, note=everything)
            for row in real.rows(OperatorCost)
        ),
        *host_rows(everything),
        *tree,
        *chain(*tops.values()),
    )
    finding = replace(
        _finding(),
        code=bad,
        message=everything,
        blames=tuple(map(Blame, HOSTILE)),
        share=float("inf"),
        confidence=float("nan"),
        gain=Gain(low_ns=0, high_ns=5, method=everything),
        evidence=(Evidence(what=everything, value=float("nan"), unit=bad, threshold=float("inf"), where=everything),),
        actions=(
            Action(
                title=everything,
                do=everything,
                verify=everything,
                risk=everything,
                source="javascript:alert(1)",
            ),
            Action(title=bad, do=bad, verify=bad, risk=bad, source='https://x/"onmouseover="alert(1)'),
        ),
    )
    return replace(
        with_rows(real, rows),
        version=bad,
        title=everything,
        verdict=replace(real.verdict, bound=bad, message=everything),
        inputs=(
            replace(
                real.inputs[0],
                path=everything,
                format=bad,
                capture=bad,
                level=bad,
                chip=bad,
                degraded=HOSTILE,
            ),
        ),
        coverage=replace(real.coverage, missing=HOSTILE, ranks_expected_source=everything),
        ascend_notes=(everything,),
        paths=tuple(
            replace(
                path,
                parts=tuple(replace(part, reason=everything) for part in path.parts),
                stretches=tuple(
                    replace(row, component=bad, name=everything, where=everything) for row in path.stretches
                ),
            )
            for path in real.paths
        ),
        findings=(finding,) * 3,
        diagnostics=tuple(
            Diagnostic(level="degraded", message=text, where=text, lost=text, hint=text) for text in HOSTILE
        ),
    )


@pytest.fixture
def many() -> Report:
    """A report on all 64 ranks of a job, eight steps each; rank 17 computes longer and the others wait for it."""
    real = _real()
    steps = tuple(
        step(
            rank,
            number,
            400 * MS + number * 100_003 + rank,
            (330 if rank == 17 else 240 + rank % 7) * MS,
            (20 if rank == 17 else 105 - rank % 7) * MS,
            2 * MS,
        )
        for rank in range(64)
        for number in range(10, 18)
    )
    (wait, *_) = real.rows(TaskWait)
    waits = (replace(wait, rank=rank, peer=17, total_ns=rank * MS) for rank in range(64) if rank != 17)
    many = replace(
        with_rows(real, (*map(_total, range(64)), *waits), without={AscendSplit}),
        title="llama-64",
        coverage=Coverage(
            ranks_seen=tuple(range(64)),
            ranks_expected=64,
            ranks_expected_source="distributed_args",
            steps=tuple(range(10, 18)),
            missing=(),
        ),
        inputs=tuple(replace(real.inputs[0], rank=rank, path=f"llama-64/rank{rank}") for rank in range(64)),
        steps=steps,
        ascend_notes=(),
        paths=real.paths[:1],
        diagnostics=(),
        findings=tuple(replace(_finding(), code=f"COM{at:03d}", ranks=tuple(range(64))) for at in range(6)),
    )
    return judged(many)


def _span(category: str, name: str, start_us: float, us: float) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start_us, "dur": us}


@pytest.fixture(scope="session")
def _of_a_processor(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("processor")
    operators = [*(("aten::mm", 4_000),) * 9, ("aten::_foreach_add_", 900)]
    events = [
        _span("user_annotation", "ProfilerStep#6", 0, 47_151.4),
        *(_span("cpu_op", name, 1_000 + at * 4_600, us) for at, (name, us) in enumerate(operators)),
    ]  # fmt: skip
    trace = {"schemaVersion": 1, "distributedInfo": {"rank": 34}, "traceEvents": events}
    (folder / "cpu_only_rank34.json").write_text(json.dumps(trace), "utf-8")
    return pickle.dumps(analyze(load([folder / "cpu_only_rank34.json"], Cache(folder / "cache"))))


@pytest.fixture
def unmeasured(_of_a_processor: bytes) -> Report:
    """The report on one rank on a CPU: there is a step mark, and no device task that could be split."""
    report: Report = pickle.loads(_of_a_processor)  # written by this run
    return report


@pytest.fixture
def empty() -> Report:
    """An input without one row."""
    real = _real()
    nothing = Coverage(
        ranks_seen=(), ranks_expected=None, ranks_expected_source="", steps=(), missing=("nothing was read",)
    )
    empty = replace(
        real,
        title="empty",
        inputs=(),
        coverage=nothing,
        steps=(),
        ascend_notes=(),
        paths=(),
        findings=(),
        diagnostics=(Diagnostic(level="degraded", message="the folder holds no profile", where="empty"),),
        measured=(),
    )
    return judged(empty)
