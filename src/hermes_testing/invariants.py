"""What no report may say: times that do not add up, costs beyond their leaves, gains beyond what is lost.

Tests hold these laws against every real profile and modelled job. A report never prints a broken law.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from hermes.model.job import Job
from hermes.model.leaf_time import JobLeaf, LeafTime, PathRank, spent
from hermes.model.plan import Advice
from hermes.model.report import Report
from hermes.profiles.advise.bound_gains import TOGETHER, CostCertainty, GainBound, leaf_of, of_host
from hermes.profiles.tree.leaf_kinds import LeafKinds


def contradictions(report: Report) -> tuple[str, ...]:
    """What is said that cannot be; empty for a sound report."""
    return (*_sums(report), *_steps(report), *_tree(report), *_gains(report), *_actions(report))


def _sums(report: Report) -> Iterator[str]:
    for split in report.steps:
        parts = (split.compute_ns, split.exposed_comm_ns, split.copy_exposed_ns, split.free_ns)
        known = [part for part in parts if part is not None]
        if len(known) == len(parts) and (sum(known) != split.window_ns or min(known) < 0):
            yield f"the parts of step {split.step} of rank {split.rank} add up to {sum(known)} of {split.window_ns} ns"
    for path in report.paths:
        if sum(part.ns for part in path.parts) != path.window_ns:
            yield f"the critical path of rank {path.rank} does not add up"


def _steps(report: Report) -> Iterator[str]:
    """The steps of a rank follow each other without a gap, and its leaves and its splits give each part one time."""
    leaves: dict[int, Counter[str]] = {}
    for row in report.rows(LeafTime):
        part = "idle" if row.leaf.part == "outside" else row.leaf.part
        leaves.setdefault(row.rank, Counter())[part] += row.total_ns
    steps = report.measures.job.steps
    for rank in steps.ranks:
        own = sorted(steps.of(rank), key=lambda split: split.start_ns)
        # The profiler's own split does not tell when a step began.
        for one, following in pairwise(own) if own[-1].start_ns and rank in steps.devices else ():
            if following.start_ns != one.start_ns + one.window_ns:
                yield f"step {following.step} of rank {rank} does not begin where the step before it ends"
        parts = Counter[str]()
        for split in own:
            parts["compute"] += split.compute_ns or 0
            parts["communication"] += split.exposed_comm_ns or 0
            parts["copy"] += split.copy_exposed_ns or 0
            parts["idle"] += split.free_ns or 0
        if rank in steps.devices and +parts != +leaves.get(rank, Counter()):
            yield f"the steps of rank {rank} have {dict(parts)}, and its leaves {dict(leaves.get(rank, {}))}"


def _tree(report: Report) -> Iterator[str]:
    """The tree of the job is as long as its path of waits; the headline is the kind with most to win."""
    times, rows = report.rows(LeafTime), report.rows(JobLeaf)
    lengths = Counter[int]()
    for row in times:
        lengths[row.rank] += row.total_ns
        if row.total_ns < 0 or not 0 <= row.step_ns + row.long_ns <= 2 * row.total_ns:
            yield f"{row.leaf.value} of rank {row.rank} takes {row.total_ns} ns, {row.step_ns} of them in one step"
    tree = sum(row.total_ns for row in rows)
    path = {row.rank: row.total_ns for row in report.rows(PathRank)}
    if path and abs(sum(path.values()) - tree) > len(times):
        yield f"the tree has {tree} ns, and its path {sum(path.values())} ns"
    for rank, ns in path.items():
        if ns > lengths[rank]:
            yield f"the path lies on rank {rank} for {ns} ns, and the rank takes {lengths[rank]} ns"
    for leaf in rows:
        if leaf.curable_ns is not None and not 0 <= leaf.curable_ns <= leaf.total_ns:
            yield f"{leaf.curable_ns} of {leaf.total_ns} ns of {leaf.leaf.value} can be won"
    kinds = {kind.leaf for kind in LeafKinds.of(rows).competing}
    if kinds and report.verdict.leaf not in kinds:
        yield f"the headline is about {report.verdict.leaf}, which takes no time"


def _gains(report: Report) -> Iterator[str]:
    longest = max((split.window_ns for split in report.steps), default=0)
    room = GainBound.of(report.measures.job.steps)
    known = CostCertainty(floor=report.plan.floor, room=room)
    steps = report.measures.job.steps
    job = Job(steps=steps, spent=spent(report.rows(LeafTime), steps.counts))
    for one in (*report.findings, *report.plan.minor):
        if not 0 <= one.gain.low_ns <= one.gain.high_ns:
            yield f"{one.code}: a gain of {one.gain.low_ns} to {one.gain.high_ns} ns"
        if 0 < one.gain.low_ns == one.gain.high_ns:
            yield f"{one.code}: a range that is a point, {one.gain.high_ns} ns"
        if one.gain.high_ns > known.most_of([one], one.replay) and not one.endangers:
            yield f"{one.code} gives {one.gain.high_ns} ns and costs {one.cost_ns}"
        if room.step_ns and of_host(one) and one.gain.high_ns > max(room.host_ns, room.mean_ns):
            yield f"{one.code} gives {one.gain.high_ns} ns, and the busiest device is free for {room.host_ns}"
        if longest and one.cost_ns > longest:
            yield f"{one.code} costs {one.cost_ns} ns of a step of {longest}"
        leaf = leaf_of(job, one)
        if leaf is not None and (one.about, one.cost_ns) != (leaf[0], min(one.cost_ns, leaf[1])):
            yield f"{one.code} costs {one.cost_ns} ns of {one.about}, and its ranks spend {leaf[1]} in {leaf[0]}"


def _actions(report: Report) -> Iterator[str]:
    planned = {key for one in report.plan.actions for key in one.answers}
    behind = {one.key: planned & {*one.causes} for one in report.findings}
    to_come = [key for one in report.plan.actions for key in one.answers]
    for one in report.plan.actions:
        for key in one.answers:
            to_come.remove(key)
        causes = {cause for key in one.answers for cause in behind.get(key, ())}
        if causes and causes <= {*to_come}:
            yield f"{_of(one)} comes before {', '.join(sorted(code for code, _ in causes))}, which explain it"
        if one.share_high > 1:
            yield f"{_of(one)} gives {one.share_high:.0%} of the step"
    yield from _chosen(report)
    together = report.plan.combined
    if together and together.low_ns > together.step_ns:
        yield "all actions together give more than the step"
    highs = [one.gain.high_ns for one in report.plan.actions[:TOGETHER] if one.specs]
    if together and together.high_ns > sum(highs):
        yield f"together {together.high_ns} ns, and one by one {sum(highs)}"


def _chosen(report: Report) -> Iterator[str]:
    """The chosen actions: one for each cause, together at most the step, in the order of the tree, as the headline."""
    actions, step_ns = report.plan.actions, report.plan.floor.step_ns
    found = {one.key: one for one in report.findings}
    causes = Counter((one.case or (one.title, one.do), one.about, one.ranks, one.blames) for one in actions)
    for (said, *_), many in causes.items():
        if many > 1:
            yield f"{many} actions for one cause: {said}"
    keys = {key for one in actions for key in one.answers if key in found and not found[key].endangers}
    costs = sum(found[key].cost_ns for key in keys)
    if costs > step_ns:
        yield f"the chosen actions cost {costs} ns of a step of {step_ns}"
    claims = [max((found[key].claim for key in one.answers if key in found), default=0.0) for one in actions]
    for at, (one, following) in enumerate(pairwise(actions[:TOGETHER])):
        waits = {cause for key in following.answers if key in found for cause in found[key].causes}
        if claims[at + 1] > claims[at] and not waits & {*one.answers}:
            yield f"{_of(following)} stands for more of the step than {_of(one)}, and comes after it"
    headline = report.verdict
    # Where no rule explains the headline's leaf, the report says that the actions are for smaller leaves.
    agree = not actions or actions[0].fault is headline.fault or actions[0].about is headline.leaf
    if headline.fault is not None and not agree:
        yield f"the headline is about {headline.fault}, and the first action about {actions[0].fault}"


def _of(one: Advice) -> str:
    return "/".join(one.codes)
