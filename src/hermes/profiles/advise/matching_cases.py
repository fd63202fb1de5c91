"""Finds the known cases that fit a finding: by framework, chip, and symptoms that hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hermes.knowledge import cases
from hermes.knowledge.advice_conditions import JobKind, fitted_case
from hermes.knowledge.cases import Case
from hermes.knowledge.vendor_traits import ADAPTERS, MACHINE_TOOLS, TOLD_APART, libraries_of
from hermes.model.finding import Loss
from hermes.profiles.advise.case_symptoms import JobFacts
from hermes.profiles.rules.rule import Rule

# Frameworks that a profile tells apart, each with the libraries that run under it. A library that a case names and the
# profile does not show neither confirms nor excludes the case.
_UNDER: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("pytorch", "torch.compile", "cpython", "torch"),
    "mindspore": ("mindspore", "cpython"),
}


def runs(framework: str, job: JobKind) -> bool | None:
    """Whether a case for these frameworks applies to this job; None if a profile cannot tell."""
    text = framework.lower()
    if re.search(r"\bany\b", text) or any(_has(text, word) for word in _words(job)):
        return True
    named = [word for word in TOLD_APART if _has(text, word)]
    return False if named else None


def _words(job: JobKind) -> frozenset[str]:
    words = {word for framework in job.frameworks for word in _UNDER.get(framework, (framework,))}
    words |= {word for chip in job.chips for word in libraries_of(chip)} | {*job.libraries}
    words |= {name for (chip, framework), name in ADAPTERS.items() if chip in job.chips and framework in job.frameworks}
    return frozenset(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingCase:
    """A known case that may fit: how many of its symptoms hold and how many are not measured; none of them fails."""

    case: Case
    held: int
    unknown: int
    framework: bool

    @property
    def confirmed(self) -> bool:
        """Whether every symptom of the case was measured and holds."""
        return self.held > 0 and not self.unknown and not self.case.not_measured and self.framework


def fitting(finding: Loss, facts: JobFacts, job: JobKind) -> tuple[MatchingCase, ...]:
    """The known cases that may explain a finding, the surest first.

    A symptom that fails excludes its case. A case whose change does not apply to the job is excluded too.
    """
    found = [cases.case(identity) for identity in finding.cases]
    fits = [fit for one in found if one is not None and (fit := _fit(one, facts, job)) is not None]
    order = {one.id: place for place, one in enumerate(one for one in found if one is not None)}
    return tuple(sorted(fits, key=lambda fit: (*_doubt(fit), order[fit.case.id])))


def _fit(case: Case, facts: JobFacts, job: JobKind) -> MatchingCase | None:
    framework = runs(case.framework, job)
    shown = fitted_case(case, job)
    if framework is False or shown is None or (job.chips and not {*case.chips} & {*job.chips}):
        return None
    said = {symptom.text: (symptom, facts.holds(symptom)) for symptom in case.symptoms}
    if any(holds is False for _, holds in said.values()):
        return None
    # A setting that is not set proves nothing by itself: only what the step shows does.
    held = sum(holds is True and not symptom.measure.startswith("setting") for symptom, holds in said.values())
    unknown = sum(holds is None for _, holds in said.values())
    return MatchingCase(case=shown, held=held, unknown=unknown, framework=framework is True)


def _doubt(fit: MatchingCase) -> tuple[bool, bool, bool]:
    # Equal cases keep the order of the finding: the finding's action is about its first cases.
    return fit.case.is_lead, not fit.framework, not fit.held


def _has(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", text) is not None


def effort(before: str, after: str) -> str:
    """The effort of a change, from the text of the change: a setting, a few lines of code, or more."""
    lines = [line for line in after.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if lines and all(_is_setting(line) for line in lines):
        return "a setting"
    if any(_is_machine(line) for line in (*lines, *before.splitlines())):
        return "work on the machine"
    changed = [line for line in lines if line not in before.splitlines()]
    return "a few lines" if len(changed) <= _FEW_LINES else "a change of the code"


_FEW_LINES = 4
_SETTING = re.compile(r"^\s*(export |unset |--[a-z]|[A-Z][A-Z0-9_]+=)")
_MACHINE = re.compile(rf"^\s*(echo|sysctl|cpupower|tc|docker|kubectl|systemctl|{'|'.join(MACHINE_TOOLS)}) ")


def _is_setting(line: str) -> bool:
    return bool(_SETTING.match(line))


def _is_machine(line: str) -> bool:
    return bool(_MACHINE.match(line))


def rules_of(case: Case, rules: Iterable[Rule]) -> tuple[str, ...]:
    """The codes of the rules that may find a case."""
    return tuple(rule.code for rule in rules if case.id in rule.cases)


def uncovered(rules: Sequence[Rule]) -> tuple[Case, ...]:
    """The cases that no rule points to."""
    linked = {identity for rule in rules for identity in rule.cases}
    return tuple(case for case in cases.cases() if case.id not in linked)
