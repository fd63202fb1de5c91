"""Material for tests: drawn traces, and modelled jobs with planted faults in the files of real profilers."""

from hermes.testing.ascend_common import Options
from hermes.testing.draw import DrawingError, draw
from hermes.testing.faults import KINDS, Fault, FaultKind
from hermes.testing.generate import Format, as_written, generate
from hermes.testing.job import Job
from hermes.testing.simulate import Result, simulate
from hermes.testing.truth import StepTruth, steps_of

__all__ = [
    "KINDS",
    "DrawingError",
    "Fault",
    "FaultKind",
    "Format",
    "Job",
    "Options",
    "Result",
    "StepTruth",
    "as_written",
    "draw",
    "generate",
    "simulate",
    "steps_of",
]
