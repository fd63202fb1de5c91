"""Puts the sentences that an action takes from known causes into Chinese."""

from __future__ import annotations

from dataclasses import replace

from hermes.knowledge.cases import case, in_chinese
from hermes.model.plan import Advice

_LEAD = " (lead)"


def advice_in_chinese(one: Advice) -> Advice:
    """The action with its known cause, and the causes that it may also be, in Chinese; code and names stay."""
    others = tuple(map(_other, one.others))
    known = case(one.case) if one.case else None
    if known is None:
        return replace(one, others=others)
    said = in_chinese(known)
    return replace(
        one,
        risk=said.risk if one.risk == known.risk else one.risk,
        cure=said.cure,
        confirm=said.confirm,
        doubts=said.not_measured if one.doubts == known.not_measured else one.doubts,
        others=others,
    )


def _other(text: str) -> str:
    known = case(text.partition(" ")[0])
    if known is None:
        return text
    return f"{known.id} {in_chinese(known).cause}{'（线索）' if text.endswith(_LEAD) else ''}"
