"""Says as a message why a call failed."""

from __future__ import annotations

from hermes.base.errors import HermesError
from hermes.base.message import Text
from hermes.jobs.detect.messages import quoted


def reason(failed: Exception) -> Text:
    """The message of an error; the error's own words if it has no message."""
    return failed.what if isinstance(failed, HermesError) else quoted(text=str(failed))
