"""Which known cases fit a finding: by framework, by chip, and by symptoms that hold on this report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hermes.knowledge import cases
from hermes.knowledge.cases import Case
from hermes.knowledge.vendors import ADAPTERS, MACHINE_TOOLS, TOLD_APART, libraries_of
from hermes.profiles.advise.facts import Facts
from hermes.profiles.rules.rule import Rule

# Frameworks that a profile tells apart, and what runs under each on which chip; anything else that a case names
# (Megatron, DeepSpeed, …) a profile does not show, which neither confirms nor excludes it.
_UNDER: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("pytorch", "torch.compile", "cpython", "torch"),
    "mindspore": ("mindspore", "cpython"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a job runs on: chips in the words of cases, and frameworks in lower case (`pytorch`, `mindspore`)."""

    chips: tuple[str, ...]
    frameworks: tuple[str, ...]

    @property
    def _words(self) -> frozenset[str]:
        words = {word for framework in self.frameworks for word in _UNDER.get(framework, (framework,))}
        words |= {word for chip in self.chips for word in libraries_of(chip)}
        words |= {
            name for (chip, framework), name in ADAPTERS.items() if chip in self.chips and framework in self.frameworks
        }
        return frozenset(words)

    def runs(self, framework: str) -> bool | None:
        """Whether a case for these frameworks is for this job; None where a profile cannot tell."""
        text = framework.lower()
        if re.search(r"\bany\b", text) or any(_has(text, word) for word in self._words):
            return True
        if not self.frameworks:
            return None
        named = [word for word in TOLD_APART if _has(text, word)]
        return False if named else None


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


def fitting(rule: Rule, facts: Facts, site: Site) -> tuple[Fit, ...]:
    """The cases of a rule that may be what it found, the surest first; a symptom that fails excludes its case."""
    found = [cases.case(identity) for identity in rule.cases]
    fits = [fit for one in found if one is not None and (fit := _fit(one, facts, site)) is not None]
    order = {one.id: place for place, one in enumerate(one for one in found if one is not None)}
    return tuple(sorted(fits, key=lambda fit: (*_doubt(fit), order[fit.case.id])))


def _fit(case: Case, facts: Facts, site: Site) -> Fit | None:
    framework = site.runs(case.framework)
    if framework is False or (site.chips and not {*case.chips} & {*site.chips}):
        return None
    said = {symptom.text: (symptom, facts.holds(symptom)) for symptom in case.symptoms}
    if any(holds is False for _, holds in said.values()):
        return None
    # That something is not set proves nothing by itself: only what the step shows does.
    held = sum(holds is True and not symptom.measure.startswith("setting") for symptom, holds in said.values())
    unknown = sum(holds is None for _, holds in said.values())
    return Fit(case=case.on(site.chips), held=held, unknown=unknown, framework=framework is True)


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
