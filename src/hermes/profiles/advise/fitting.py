"""Which known cases fit a finding: by framework, by chip, and by symptoms that hold on this report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hermes.knowledge import cases
from hermes.knowledge.cases import Case
from hermes.knowledge.fits import JobKind, fitted_case
from hermes.knowledge.vendors import ADAPTERS, MACHINE_TOOLS, TOLD_APART, libraries_of
from hermes.profiles.advise.facts import Facts
from hermes.profiles.rules.rule import Rule

# Frameworks that a profile tells apart, and what runs under each; a library that a case names and the profile does not
# show neither confirms nor excludes it.
_UNDER: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("pytorch", "torch.compile", "cpython", "torch"),
    "mindspore": ("mindspore", "cpython"),
}


def runs(framework: str, job: JobKind) -> bool | None:
    """Whether a case for these frameworks is for this job; None where a profile cannot tell."""
    text = framework.lower()
    if re.search(r"\bany\b", text) or any(_has(text, word) for word in _words(job)):
        return True
    if not job.frameworks:
        return None
    named = [word for word in TOLD_APART if _has(text, word)]
    return False if named else None


def _words(job: JobKind) -> frozenset[str]:
    words = {word for framework in job.frameworks for word in _UNDER.get(framework, (framework,))}
    words |= {word for chip in job.chips for word in libraries_of(chip)} | {*job.libraries}
    words |= {name for (chip, framework), name in ADAPTERS.items() if chip in job.chips and framework in job.frameworks}
    return frozenset(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A case, how many of its symptoms hold, and how many are not known; none of them fails to hold."""

    case: Case
    held: int
    unknown: int
    framework: bool

    @property
    def confirmed(self) -> bool:
        """Whether every symptom that can be measured holds, and nothing is left open."""
        return self.held > 0 and not self.unknown and not self.case.not_measured and self.framework


def fitting(rule: Rule, facts: Facts, job: JobKind) -> tuple[Fit, ...]:
    """The cases of a rule that may be what it found, the surest first.

    A symptom that fails excludes its case, and so does a change that means nothing to the job.
    """
    found = [cases.case(identity) for identity in rule.cases]
    fits = [fit for one in found if one is not None and (fit := _fit(one, facts, job)) is not None]
    order = {one.id: place for place, one in enumerate(one for one in found if one is not None)}
    return tuple(sorted(fits, key=lambda fit: (*_doubt(fit), order[fit.case.id])))


def _fit(case: Case, facts: Facts, job: JobKind) -> Fit | None:
    framework = runs(case.framework, job)
    shown = fitted_case(case, job)
    if framework is False or shown is None or (job.chips and not {*case.chips} & {*job.chips}):
        return None
    said = {symptom.text: (symptom, facts.holds(symptom)) for symptom in case.symptoms}
    if any(holds is False for _, holds in said.values()):
        return None
    # That something is not set proves nothing by itself: only what the step shows does.
    held = sum(holds is True and not symptom.measure.startswith("setting") for symptom, holds in said.values())
    unknown = sum(holds is None for _, holds in said.values())
    return Fit(case=shown, held=held, unknown=unknown, framework=framework is True)


def _doubt(fit: Fit) -> tuple[bool, bool, bool]:
    # Among equals the order of the rule: its first cases are those that its action is about.
    return fit.case.is_lead, not fit.framework, not fit.held


def _has(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", text) is not None


def effort(before: str, after: str) -> str:
    """How much work a change is, told by its text: a setting, lines of code, or something bigger."""
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
