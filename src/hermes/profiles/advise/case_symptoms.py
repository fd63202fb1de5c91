"""Evaluates the symptoms of cases on the measures of a job."""

from __future__ import annotations

from hermes.knowledge.cases.predicate import Predicate
from hermes.model.job import JobMeasures
from hermes.model.symptom import ANY, Symptom, Value, symptoms
from hermes.profiles.measure import load_all


class JobFacts:
    """The measures of a job, as symptoms of cases read them; an empty answer means "not measured", not zero."""

    def __init__(self, measures: JobMeasures) -> None:
        load_all()
        self._measures = measures

    def holds(self, predicate: Predicate) -> bool | None:
        """Whether a symptom holds for any rank, group or link; None if its reading was not measured."""
        said = [predicate.holds(value) for value in self.values(predicate.measure, predicate.of)]
        return any(said) if said else None

    def values(self, name: str, of: str = "") -> list[Value]:
        """All values of a reading; `of` is the text in its brackets.

        Raises KeyError for a reading that nothing declares.
        """
        return list(symptoms()[name].read(self._measures, of))

    @property
    def steps(self) -> int:
        """The number of steps of the rank that has most steps."""
        steps = self._measures.job.steps
        return max((len(steps.of(rank)) for rank in steps.ranks), default=0)


def faults_of_symptom(predicate: Predicate) -> str:
    """What is wrong with a symptom beyond its form; an empty text if the symptom is valid."""
    load_all()
    known = symptoms().get(predicate.measure)
    if known is None:
        return f"nothing measures {predicate.measure!r}"
    return _brackets(predicate, known) or _value(predicate, known)


def _brackets(predicate: Predicate, known: Symptom) -> str:
    name, of, allowed = predicate.measure, predicate.of, known.of
    if bool(of) is not bool(allowed):
        return f"{name!r} {'needs brackets' if allowed else 'takes no brackets'}"
    if of and allowed != ANY and of not in allowed:
        return f"{of!r} in brackets: {name!r} knows {', '.join(allowed)}"
    return ""


def _value(predicate: Predicate, known: Symptom) -> str:
    name, value = predicate.measure, predicate.value
    if known.unit == "text":
        if predicate.sign not in ("==", "!="):
            return f"{name!r} is a text: it is equal or not, and neither less nor more"
        return ""
    if isinstance(value, str):
        return f"{value!r} is no number, and {name!r} is one"
    if known.unit == "share" and not 0 <= value <= 1:
        return f"{name!r} is a share: {value:g} is beyond 0 to 1"
    return ""
