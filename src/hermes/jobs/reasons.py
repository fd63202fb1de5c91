"""Why something failed, as a message."""

from __future__ import annotations

from hermes.base.errors import HermesError
from hermes.base.message import Text
from hermes.jobs.detect.messages import quoted


def reason(failed: Exception) -> Text:
    """What an error says happened; of one without messages its own words."""
    return failed.what if isinstance(failed, HermesError) else quoted(text=str(failed))
