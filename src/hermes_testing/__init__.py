"""Material for tests: drawn traces, and modelled jobs with planted faults in the files of real profilers."""

from hermes_testing.ascend_common import Options
from hermes_testing.draw import DrawingError, draw
from hermes_testing.faults import KINDS, Fault, FaultKind
from hermes_testing.generate import Format, as_written, generate
from hermes_testing.job import Job
from hermes_testing.simulate import Result, simulate
from hermes_testing.truth import StepTruth, steps_of

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
