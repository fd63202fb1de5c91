"""Messages of the plan for a finding without a known action."""

from __future__ import annotations

from hermes.base.message import sentence

LOOK = sentence("plan.look")
LOOK_DO = sentence("plan.look_do")
LOOK_VERIFY = sentence("plan.look_verify")
NO_RISK = sentence("plan.no_risk")
