"""Finds the first difference between the arguments of two operator calls."""

from __future__ import annotations

from typing import NamedTuple

from hermes.base.message import Message
from hermes.precision.messages import added_argument, dropped_argument, other_argument

_IGNORED_ARGS = frozenset(["device", "pin_memory", "layout", "generator", "memory_format", "non_blocking"])
_SAME_NUMBER = 1e-5
_SHOWN = 60


class Change(NamedTuple):
    """An argument that differs between two calls: its value on either side (None if left out), and its known name."""

    golden: str | None
    target: str | None
    name: str = ""

    @property
    def message(self) -> Message:
        """The message that gives the argument's value on both sides."""
        name = self.name or None
        if self.golden is None:
            return added_argument(target=self.target or "", name=name)
        if self.target is None:
            return dropped_argument(golden=self.golden, name=name)
        return other_argument(golden=self.golden, target=self.target, name=name)


def difference(one: object, two: object, *, same: float = _SAME_NUMBER) -> Change | None:
    """The first difference between the arguments of two calls; None if they agree. Numbers agree within `same`."""
    if one == two:
        return None
    if isinstance(one, dict) and isinstance(two, dict):
        for name in sorted((set(one) | set(two)) - _IGNORED_ARGS):
            if found := difference(one.get(name), two.get(name), same=same):
                return found if found.name else found._replace(name=str(name)[:_SHOWN])
        return None
    if isinstance(one, list) and isinstance(two, list):
        if len(one) != len(two):
            return None if _defaults(one, two) else _more(one, two)
        return next((found for a, b in zip(one, two, strict=True) if (found := difference(a, b, same=same))), None)
    if type(one) in (int, float) and type(two) in (int, float):
        return _numbers(float(one), float(two), same)  # type: ignore[arg-type]
    if _is_place(one) or _is_place(two):
        return None
    return Change(str(one)[:_SHOWN], str(two)[:_SHOWN])


def _numbers(one: float, two: float, same: float) -> Change | None:
    if abs(one - two) <= same * max(abs(one), abs(two)):
        return None
    digits = 6 if same else 12
    return Change(f"{one:.{digits}g}", f"{two:.{digits}g}")


def _more(one: list[object], two: list[object]) -> Change:
    """The argument that only the longer list of arguments has."""
    extra = max(one, two, key=len)[min(len(one), len(two)) :]
    parts: list[str] = []
    for part in extra:
        parts += [f"{name}={value}" for name, value in part.items()] if isinstance(part, dict) else [str(part)]
    shown = ", ".join(parts)[:80]
    return Change(None, shown) if len(two) > len(one) else Change(shown, None)


def _is_place(one: object) -> bool:
    return isinstance(one, str) and (one.startswith(("@", "cuda", "npu", "cpu")) or one == "ScriptObject")


def _defaults(one: list[object], two: list[object]) -> bool:
    """Whether the additional arguments of the longer list are all None, empty or False."""
    longer = max(one, two, key=len)
    return all(part in (None, {}, False) for part in longer[min(len(one), len(two)) :])
