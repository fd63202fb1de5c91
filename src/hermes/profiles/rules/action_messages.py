"""Messages about the risk of an action, which several rules share."""

from __future__ import annotations

from hermes.base.message import sentence

NO_RISK = sentence("action.no_risk")
OTHER_SUMS = sentence("action.other_sums")
