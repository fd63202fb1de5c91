"""What differs between the arguments of two calls, in words."""

from __future__ import annotations

_IGNORED_ARGS = frozenset(["device", "pin_memory", "layout", "generator", "memory_format", "non_blocking"])
_SAME_NUMBER = 1e-5


def difference(one: object, two: object, *, same: float = _SAME_NUMBER) -> str:
    """What differs between two calls' arguments, as text; empty where they agree. Numbers agree within `same`."""
    if one == two:
        return ""
    if isinstance(one, dict) and isinstance(two, dict):
        for name in sorted((set(one) | set(two)) - _IGNORED_ARGS):
            if found := difference(one.get(name), two.get(name), same=same):
                return found if name in found else f"{name}: {found}"
        return ""
    if isinstance(one, list) and isinstance(two, list):
        if len(one) != len(two):
            return "" if _defaults(one, two) else _more(one, two)
        return next((found for a, b in zip(one, two, strict=True) if (found := difference(a, b, same=same))), "")
    if type(one) in (int, float) and type(two) in (int, float):
        assert isinstance(one, (int, float))
        assert isinstance(two, (int, float))
        if abs(one - two) <= same * max(abs(one), abs(two)):
            return ""
        digits = 6 if same else 12
        return f"{two:.{digits}g} instead of {one:.{digits}g}"
    if one == two or _is_place(one) or _is_place(two):
        return ""
    return f"{str(two)[:60]} instead of {str(one)[:60]}"


def _more(one: list[object], two: list[object]) -> str:
    """What only the longer list holds."""
    extra = max(one, two, key=len)[min(len(one), len(two)) :]
    parts = []
    for part in extra:
        parts += [f"{name}={value}" for name, value in part.items()] if isinstance(part, dict) else [str(part)]
    shown = ", ".join(parts)[:80]
    return f"{shown} instead of the default" if len(two) > len(one) else f"the default instead of {shown}"


def _is_place(one: object) -> bool:
    return isinstance(one, str) and (one.startswith(("@", "cuda", "npu", "cpu")) or one == "ScriptObject")


def _defaults(one: list[object], two: list[object]) -> bool:
    """Whether the longer list only goes on with nothing."""
    longer = max(one, two, key=len)
    return all(part in (None, {}, False) for part in longer[min(len(one), len(two)) :])
