"""Runs one test over many things and names all that fail, or over a sample of them if each takes long."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Thing = TypeVar("Thing")


def each(things: Iterable[Thing], name: Callable[[Thing], object] = str) -> Callable[[Callable[..., None]], object]:
    """Call the test with every thing in turn as its first argument; fixtures are made once for all things."""
    every = list(things)
    assert every, "a test over nothing says nothing"

    def of(test: Callable[..., None]) -> object:
        def run(**fixtures: object) -> None:
            failed = []
            for one in every:
                try:
                    test(one, **fixtures)
                except Exception as error:  # noqa: BLE001 - whatever a test may raise, the others run too
                    failed.append(f"{name(one)}: {type(error).__name__}: {error}")
            if failed:
                pytest.fail(f"{len(failed)} of {len(every)} fail\n" + "\n".join(failed), pytrace=False)

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return of


def sampled(things: Iterable[Any], *fast: object) -> list[Any]:
    """The things as parameters of a test; all but the `fast` ones run only in `make test-all`; a tuple is several."""
    every = list(things)
    assert {*map(str, fast)} <= {*map(str, every)}
    several = [one if isinstance(one, tuple) else (one,) for one in every]
    return [
        pytest.param(*values, marks=() if one in fast else pytest.mark.slow)
        for one, values in zip(every, several, strict=True)
    ]
