"""A symptom as a comparison of one measure with a value: `free.share_of[data loading] > 0.05`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from hermes.knowledge.measure_names import ANY, MEASURES

UNSET = "unset"
"""The value of a setting that is known to have none."""

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
    """`measure[of] sign value`; `of` is empty where the measure has no brackets. `value` is a number or a word."""

    measure: str
    of: str
    sign: str
    value: float | str
    text: str

    def holds(self, measured: float | str | None) -> bool | None:
        """Whether it is true of a value; None where nothing was measured."""
        if measured is None:
            return None
        if isinstance(self.value, str):
            return (str(measured) == self.value) is (self.sign == "==")
        return _ORDER[self.sign](float(measured), self.value)


def parse(text: str) -> Predicate:
    """The predicate that a text stands for; ValueError says what is wrong with it."""
    found = _FORM.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no comparison such as 'free.share > 0.1'")
    name, of, sign, value = found["name"], found["of"] or "", found["sign"], found["value"]
    measure = MEASURES.get(name)
    if measure is None:
        raise ValueError(f"there is no measure {name!r}")
    _check_brackets(name, of, measure.of)
    if measure.unit == "text":
        if sign not in ("==", "!="):
            raise ValueError(f"{name!r} is a text: it is equal or not, and neither less nor more")
        return Predicate(measure=name, of=of, sign=sign, value=value, text=text)
    if not _NUMBER.match(value):
        raise ValueError(f"{value!r} is no number, and {name!r} is one")
    number = float(value)
    if measure.unit == "share" and not 0 <= number <= 1:
        raise ValueError(f"{name!r} is a share: {value} is beyond 0 to 1")
    return Predicate(measure=name, of=of, sign=sign, value=number, text=text)


def _check_brackets(name: str, of: str, allowed: tuple[str, ...]) -> None:
    if bool(of) is not bool(allowed):
        raise ValueError(f"{name!r} {'needs brackets' if allowed else 'takes no brackets'}")
    if of and allowed != ANY and of not in allowed:
        raise ValueError(f"{of!r} in brackets: {name!r} knows {', '.join(allowed)}")
