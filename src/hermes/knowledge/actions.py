"""Makes actions of messages: one identifier names the sentences of an action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hermes.base.message import Message, sentence
from hermes.model.advice_fit import ANY, Fit
from hermes.model.finding import Action

NO_RISK = sentence("action.no_risk")
OTHER_SUMS = sentence("action.other_sums")


def action(
    key: str, *, source: str, title: Message | str = "", do: Message | str = "", verify: Message | str = "",
    risk: Message | str = "", fit: Fit = ANY, cases: tuple[str, ...] = (), whole: bool = False,
) -> Action:  # fmt: skip
    """The action whose sentences are `key`, `key_do`, `key_verify` and `key_risk`.

    A sentence that is given, as a message or by its identifier, takes the place of that one.
    """
    return Action(
        title=_said(title or key),
        do=_said(do or f"{key}_do"),
        verify=_said(verify or f"{key}_verify"),
        risk=_said(risk or f"{key}_risk"),
        source=source,
        whole=whole,
        fit=fit,
        cases=cases,
    )


def _said(text: Message | str) -> Message:
    return text if isinstance(text, Message) else sentence(text)


def variants(key: str, fits: Mapping[str, Fit], **given: Any) -> tuple[Action, ...]:
    """One action for each way to do the same: by the ending of the identifier of what to do, the jobs that it fits."""
    return tuple(action(key, do=f"{key}_do{ending}", fit=fit, **given) for ending, fit in fits.items())


def with_tools(base: Action, do: Callable[..., Message], tools: Mapping[str, str], **given: Any) -> tuple[Action, ...]:
    """The action with the tool of each chip, then without a tool for any other chip; `do` says what to do with it."""
    own = (replace(base, do=do(tool=tool, **given), fit=Fit(chips=(chip,))) for chip, tool in tools.items())
    return (*own, replace(base, do=do(**given)))
