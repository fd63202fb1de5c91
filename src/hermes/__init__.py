"""Finds what bounds an AI training step, from the profiles you already have.

    import hermes
    result = hermes.analyze("runs/job")
    print(result.verdict)

Importing this imports nothing else: `hermes.inside` runs in training processes. Each name is loaded when it is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.python import Analysis as Analysis
    from hermes.python import Profiles as Profiles
    from hermes.python import analyze as analyze
    from hermes.python import compare as compare
    from hermes.python import load as load
    from hermes.python import say as say

__all__ = ["Analysis", "Profiles", "analyze", "compare", "load", "say"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'hermes' has no attribute {name!r}")
    from hermes import python

    return getattr(python, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
