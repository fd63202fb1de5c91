"""A symptom as a comparison of one measure with a value: `idle.share_of[input_workers] > 0.05`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

_FORM = re.compile(r"^(?P<name>[a-z_.]+)(?:\[(?P<of>[^\[\]]+)\])? (?P<sign>>=|<=|==|!=|>|<) (?P<value>\S.*)$")
_NUMBER = re.compile(r"^-?\d+(\.\d+)?(e\d+)?$")
_ORDER: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A comparison `measure[of] sign value`; `of` is empty if the measure has no brackets.

    `value` is a number or a word.
    """

    measure: str
    of: str
    sign: str
    value: float | str
    text: str

    def holds(self, measured: float | str | None) -> bool | None:
        """Whether the comparison holds for a value; None if nothing was measured."""
        if measured is None:
            return None
        if isinstance(self.value, str):
            return self.sign in ("==", "!=") and (str(measured) == self.value) is (self.sign == "==")
        if isinstance(measured, str):
            return self.sign in ("==", "!=") and (measured == self._word) is (self.sign == "==")
        return _ORDER[self.sign](measured, self.value)

    @property
    def _word(self) -> str:
        """The value of the comparison as text."""
        return self.text.rpartition(f" {self.sign} ")[2]


def parse(text: str) -> Predicate:
    """The predicate of a text; raises `ValueError` for a text that is no comparison.

    `parse` does not check whether the measure exists: see `hermes.profiles.advise.case_symptoms`.
    """
    found = _FORM.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no comparison such as 'free.share > 0.1'")
    value: float | str = float(found["value"]) if _NUMBER.match(found["value"]) else found["value"]
    return Predicate(measure=found["name"], of=found["of"] or "", sign=found["sign"], value=value, text=text)
