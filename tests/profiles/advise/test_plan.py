"""Actions with the case that fits, what they give together, and what to record next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from hermes.knowledge.advice_conditions import JobKind
from hermes.knowledge.cases import case
from hermes.knowledge.recorders import MSPROF, Recorder, recorder_of
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.host_measures import HostEvents, SettingValues
from hermes.model.job import Job, JobMeasures
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, LeafTime
from hermes.model.plan import NoiseFloor, Plan, Unprofiled
from hermes.model.step_measures import HostCallTop, StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.advise.case_symptoms import JobFacts
from hermes.profiles.advise.matching_cases import MatchingCase, effort, fitting, runs
from hermes.profiles.advise.messages import NO_STACKS
from hermes.profiles.advise.next_capture import CaptureContents, next_captures
from hermes.profiles.advise.plan import plan
from hermes.profiles.advise.rank_findings import Replay, rank
from hermes.report.plan_words import beyond_words

Make = Callable[..., Loss]
Replaying = Callable[[Mapping[str, int]], Replay]

TORCH_NPU = JobKind(chips=("ascend",), frameworks=("pytorch",))
STEP = StepSplit(
    rank=0, step=1, window_kind="device", start_ns=0, window_ns=100_000_000, compute_ns=60_000_000, comm_ns=0,
    exposed_comm_ns=0, overlapped_comm_ns=0, copy_ns=0, copy_exposed_ns=0, free_ns=None, preparing_ns=None,
    host_ns=None,
)  # fmt: skip
CALL = HostCallTop(
    name="aclopCompileAndExecute", detail="runtime", ranks=(0,), count=1, total_ns=1, share=0.4, min_ns=1, median_ns=1,
    max_ns=1,
)  # fmt: skip
BLIND = (
    LeafTime(
        rank=0, leaf=Leaf.COMPILING, how=How.CALL, what="", place="", awaited=None, total_ns=40_000_000,
        step_ns=40_000_000, long_ns=0,
    ),
    HostEvents(
        rank=0, what="compilation", steps=4, steps_hit=4, calls=4, ns=200_000_000, longest_ns=9_000_000,
        device_free_ns=None, names=(), source="",
    ),
)  # fmt: skip


def facts(*rows: object) -> JobFacts:
    return JobFacts(JobMeasures(Job(steps=JobSteps([STEP])), [STEP, *rows]))


COMPILES = facts(*BLIND, CALL)


def of_cases(*identities: str) -> Loss:
    """A finding that may point to these cases."""
    return Loss(
        code="CPU002", message="operators are compiled", cost_ns=1, share=0.1, confidence=1.0, cases=identities,
        gain=Gain(low_ns=0, high_ns=1, method="bound"),
    )  # fmt: skip


def planned(
    findings: Sequence[Loss], replay: Replay, floor: NoiseFloor, fits: Sequence[Sequence[MatchingCase]] | None = None
) -> Plan:
    ranking = rank(findings, replay, floor)
    return plan(ranking, fits or [()] * len(ranking.problems), replay, (), 4)


def test_a_case_fits_whose_symptoms_hold() -> None:
    (fit,) = fitting(of_cases("CPU-01"), COMPILES, TORCH_NPU)
    assert (fit.case.id, fit.held, fit.unknown, fit.confirmed) == ("CPU-01", 3, 0, True)


def test_a_symptom_that_fails_excludes_a_case() -> None:
    calm = facts(*BLIND, replace(CALL, name="aclrtLaunchKernel", share=1.0))
    assert fitting(of_cases("CPU-01"), calm, TORCH_NPU) == ()


def test_a_symptom_that_was_not_measured_neither_confirms_nor_excludes() -> None:
    (fit,) = fitting(of_cases("CPU-01"), facts(*BLIND), TORCH_NPU)
    assert (fit.held, fit.unknown, fit.confirmed) == (2, 1, False)


@pytest.mark.parametrize(
    "site", [JobKind(chips=("cuda",), frameworks=("pytorch",)), JobKind(chips=("ascend",), frameworks=("mindspore",))]
)
def test_a_case_of_another_chip_or_framework_does_not_fit(site: JobKind) -> None:
    assert fitting(of_cases("CPU-01"), COMPILES, site) == ()


@pytest.mark.parametrize(
    ("framework", "told"),
    [("any", True), ("PyTorch, MindSpeed", True), ("torch_npu", True), ("HCCL", True), ("MindSpore", False),
     ("NCCL", False), ("Megatron, MindSpeed", None)],
)  # fmt: skip
def test_what_a_profile_cannot_tell_of_frameworks_is_open(framework: str, told: bool | None) -> None:
    assert runs(framework, TORCH_NPU) is told


def test_an_unset_variable_alone_holds_nothing() -> None:
    setting = SettingValues(source="environment", name="TASK_QUEUE_ENABLE", values=((None, (0,)),), absent=())
    (fit,) = fitting(of_cases("CPU-11"), facts(setting), TORCH_NPU)
    assert fit.held == 0


def test_an_action_has_the_change_of_the_case_that_fits(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    fits = [fitting(of_cases("CPU-01"), COMPILES, TORCH_NPU)]
    found = finding("CPU002", low=50, cases=("CPU-01",))
    (action,) = planned([found], replaying({"CPU002": 50}), floor, fits).actions
    known = case("CPU-01")
    assert known is not None
    assert (action.case, action.before, action.after) == ("CPU-01", known.before, known.after)
    assert "set_compile_mode" in action.source


def test_a_change_that_has_nothing_to_do_with_the_advice_is_not_shown(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    fits = [fitting(of_cases("CPU-01"), COMPILES, TORCH_NPU)]
    found = finding("CPU002", low=50, action="Compile the model")
    (action,) = planned([found], replaying({"CPU002": 50}), floor, fits).actions
    assert (action.case, action.after) == ("", "")


def test_a_place_to_look_comes_behind_what_explains_it(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    wide = finding("CPU004", high=700)
    part = finding("ENV005", low=0, high=300)
    made = planned([wide, part], replaying({"ENV005": 0}), floor)
    assert [one.codes for one in made.actions] == [("ENV005",), ("CPU004",)]


def test_a_case_that_may_be_the_cause_is_named_and_changes_nothing(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    fits = [fitting(of_cases("CPU-11"), facts(), TORCH_NPU)]
    (action,) = planned([finding("CPU002", low=50)], replaying({"CPU002": 50}), floor, fits).actions
    assert (action.case, action.after) == ("", "")
    assert action.others[0].startswith("CPU-11 ")


def test_gains_are_replayed_together_and_not_added(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    replay = replaying({"A": 300, "B": 200, "A+B": 350})
    made = planned([finding("A", low=300, high=300), finding("B", low=200, high=200)], replay, floor)
    assert made.combined is not None
    # As a range around what was replayed,.
    assert (made.combined.low_ns, made.combined.high_ns, made.combined.over_steps_ns) == (262, 473, 1_400)
    assert [one.beyond_ns for one in made.actions] == [None, 50]


def test_the_first_action_has_none_before_it_that_it_could_add_to(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    """A replay gives the first action something else than its own range begins with, as it mostly does."""
    replay = replaying({"A": 300, "B": 200, "A+B": 350})
    made = planned([finding("A", low=250, high=320), finding("B", low=150, high=210)], replay, floor)
    assert [beyond_words(one) for one in made.actions] == ["", "50 ns more after those above"]


def test_shares_are_of_the_captured_step_however_long_a_step_is_without_the_profiler(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    bare = Unprofiled(rank=0, steps=100, step_ns=500, captured_ns=1_000, calls=0.1, each_ns=0.0)
    replay = replaying({"A": 300})
    ranking = rank([finding("A", low=300, high=400)], replay, floor, bare)
    (action,) = plan(ranking, [()], replay, (), 4).actions
    assert action.gain.high_ns > 0
    assert (action.share_low, action.share_high) == (action.gain.low_ns / 1_000, action.gain.high_ns / 1_000)


def test_losses_of_chosen_actions_fit_into_one_step(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    """The loss of C lies on another rank, beside those of A and B."""
    replay = replaying({"A": 600, "B": 300, "C": 200, "D": 100, "A+B": 900, "A+C": 600, "A+D": 700})
    found = [finding(code, low=ns, high=ns) for code, ns in (("A", 600), ("B", 300), ("C", 200), ("D", 100))]
    assert [one.codes for one in planned(found, replay, floor).actions] == [("A",), ("B",), ("D",)]


def test_what_hides_behind_the_first_loss_comes_next(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    replay = replaying({"A": 300, "B": 200, "C": 0, "A+B": 310, "A+C": 450, "A+B+C": 460})
    found = [finding("A", low=300, high=300), finding("B", low=200, high=200), finding("C", low=0, high=160)]
    assert [one.codes for one in planned(found, replay, floor).actions] == [("A",), ("C",), ("B",)]


def test_what_is_explained_comes_after_its_cause_however_much_a_replay_of_it_gives(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    replay = replaying({"COM002": 500, "CPU002": 400, "CPU002+COM002": 500, "COM002+CPU002": 500})
    cause = finding("CPU002", low=400, high=400, ranks=(5,))
    wait_ = finding("COM002", low=500, high=500, blames=["rank 5"], cause="straggler", layer="communication")
    assert [one.codes for one in planned([wait_, cause], replay, floor).actions] == [("CPU002",), ("COM002",)]


def test_a_cause_below_the_noise_floor_lets_no_action_come_before_its_other_cause(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    gains = {"CPU002": 8, "CPU004": 40, "HOT001": 200}
    several = {"+".join(some): sum(gains[one] for one in some) for many in (2, 3) for some in permutations(gains, many)}
    replay = replaying(gains | several)
    small, large = finding("CPU002", low=8, high=8), finding("CPU004", low=40, high=40)
    ranking = rank([finding("HOT001", low=200, high=200), small, large], replay, floor)
    told = {"HOT001": ((small.key, large.key), 0.5), "CPU002": ((), 0.9), "CPU004": ((), 0.1)}
    found = tuple(replace(one, causes=told[one.code][0], claim=told[one.code][1]) for one in ranking.findings)
    ranking = replace(ranking, findings=found, floor=replace(floor, least_ns=20))
    actions = plan(ranking, [()] * len(ranking.problems), replay, (), 4).actions
    assert [one.codes for one in actions] == [("CPU004",), ("HOT001",)]


def test_an_action_does_not_wait_for_a_cause_that_is_part_of_it(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    slow = finding("CMP011", low=350, high=400, ranks=(5,), action="cool it", layer="compute")
    clock = finding("A", fault=Fault.LOW_CLOCK, low=340, high=400, ranks=(5,), action="cool it", layer="compute")
    other = finding("CPU004", low=200, high=200)
    gains = {"A": 340, "CMP011": 350, "CPU004": 200}
    together = {"+".join(codes): 550 for codes in permutations(gains, 3)}
    pairs = {"+".join(pair): 350 if "CPU004" not in pair else 545 for pair in permutations(gains, 2)}
    made = planned([slow, clock, other], replaying(gains | pairs | together), floor)
    assert [one.codes for one in made.actions] == [("A", "CMP011"), ("CPU004",)]


def test_two_findings_with_one_cure_are_one_action(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    replay = replaying({"A": 300, "B": 200, "A+B": 350})
    both = [finding("A", low=300, action="fix it"), finding("B", low=200, action="fix it")]
    (action,) = planned(both, replay, floor).actions
    assert (action.codes, action.gain.expected_ns) == (("A", "B"), 350)


def test_uneven_steps_are_not_multiplied(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    made = planned([finding("A", low=300)], replaying({"A": 300}), replace(floor, spread_ns=200))
    assert made.combined is not None
    assert made.combined.over_steps_ns is None


def test_nothing_found_is_a_plan_of_nothing(replaying: Replaying, floor: NoiseFloor) -> None:
    made = planned([], replaying({}), floor)
    assert (made.actions, made.combined, made.floor.ns) == ((), None, 5)


@pytest.mark.parametrize(
    ("after", "effort_"),
    [("export TASK_QUEUE_ENABLE=2", "a setting"), ("--use-distributed-optimizer", "a setting"),
     ("loss = loss.detach()", "a few lines"), ("a = 1\nb = 2\nc = 3\nd = 4\ne = 5", "a change of the code"),
     ("cpupower frequency-set -g performance", "work on the machine")],
)  # fmt: skip
def test_effort_is_told_by_the_change(after: str, effort_: str) -> None:
    assert effort("before", after) == effort_


def recorded(**given: object) -> CaptureContents:
    usual = {"ranks": (0, 1), "expected": 8, "levels": ("Level1",), "stacks": True, "vendors": ("ascend",), "steps": 1}
    return CaptureContents(**{**usual, **given})  # type: ignore[arg-type]


def wait(finding: Make, peer: int) -> Loss:
    return finding("COM002", low=500, high=500, blames=[f"rank {peer}"], cause="straggler", layer="communication")


def test_the_awaited_rank_is_recorded_next_with_stacks(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    (capture,) = next_captures(rank([wait(finding, 5)], replaying({"COM002": 500}), floor), recorded())
    assert (capture.ranks, capture.level) == ((5,), "Level1")
    assert capture.command == "hermes profile --steps 3 --ranks 5 --stack"
    assert "with_stack=True" in capture.profiler


@pytest.mark.parametrize(
    ("recorder", "command", "profiler"),
    [
        (MSPROF, "msprof --ascendcl=on --runtime-api=on --task-time=on", ""),
        (
            recorder_of("ascend-text", "pytorch"),
            "hermes profile --steps 3 --stack",
            "activities=[ProfilerActivity.CPU, ProfilerActivity.NPU], with_stack=True",
        ),
        (recorder_of("nsys", None), "nsys profile --trace=cuda,nvtx,osrt --python-sampling=true", ""),
        (None, "hermes profile --steps 3 --stack", "with_stack=True"),
    ],
)
def test_a_host_that_was_not_recorded_is_recorded_with_the_tool_that_made_the_file(
    recorder: Recorder | None, command: str, profiler: str, replaying: Replaying, floor: NoiseFloor
) -> None:
    ranking = rank([], replaying({}), floor)
    (capture,) = next_captures(ranking, recorded(stacks=None, unrecorded=0.83, recorder=recorder, host=False))
    assert (capture.command, capture.profiler) == (command, profiler)
    assert capture.why != NO_STACKS


@pytest.mark.parametrize("expected", [2, 8, None])
def test_no_rank_is_asked_for_that_was_recorded(
    expected: int | None, finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    for found in ([wait(finding, 1)], [finding("COM001", layer="communication")], [finding("CPU004")]):
        ranking = rank(found, replaying({"COM002": 500}), floor)
        for stacks in (True, False):
            for capture in next_captures(ranking, recorded(expected=expected, stacks=stacks, levels=("Level0",))):
                assert not {*capture.ranks} & {0, 1}


def test_missing_ranks_are_asked_for_where_communication_costs_and_nobody_is_late(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    exposed = rank([finding("COM001", layer="communication")], replaying({}), floor)
    (capture,) = next_captures(exposed, recorded())
    assert capture.ranks == (2, 3, 5, 6)
    assert next_captures(exposed, recorded(ranks=tuple(range(8)))) == ()


def test_nothing_is_recorded_for_nothing(replaying: Replaying, floor: NoiseFloor) -> None:
    assert next_captures(rank([], replaying({}), floor), recorded(stacks=False, levels=("Level0",))) == ()
