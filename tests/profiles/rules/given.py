"""Measures that a test gives to a rule, by the sides that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.model.comm_measures import Communication
from hermes.model.compute_measures import NO_COMPUTE, Compute
from hermes.model.host_measures import HostSide
from hermes.model.job import Job, JobMeasures, flattened
from hermes.model.measures import ExposedOp, HostStall, PeerWait, StepSplit
from hermes.model.path_measures import StepFree
from hermes.model.structure_measures import Structure
from hermes.model.typical_step import JobSteps


@dataclass(frozen=True, kw_only=True)
class Given(JobMeasures):
    """Everything that a test says of a job; each part may be empty."""

    splits: tuple[StepSplit, ...]
    waits: tuple[PeerWait, ...] = ()
    exposed_by_op: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    held: tuple[HostStall, ...] = ()
    inputs: Mapping[int, str] = field(default_factory=dict)
    vendors: Mapping[int, str] = field(default_factory=dict)
    host: HostSide = field(default_factory=HostSide)
    compute: Compute = NO_COMPUTE
    communication: Communication = field(default_factory=Communication)
    structure: Structure = field(default_factory=Structure)
    free: tuple[StepFree, ...] = ()
    certainty: float = 1.0
    more: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        job = Job(steps=JobSteps(self.splits), inputs=self.inputs, vendors=self.vendors, certainty=self.certainty)
        exposed = [
            ExposedOp(rank=rank, op=op, exposed_ns=ns)
            for rank, by_op in self.exposed_by_op.items()
            for op, ns in by_op.items()
        ]
        sides = flattened(self.host, self.compute, self.communication, self.structure)
        made = JobMeasures(job, [*self.waits, *exposed, *self.held, *self.free, *sides, *self.more])
        object.__setattr__(self, "job", made.job)
        object.__setattr__(self, "_of", made._of)
