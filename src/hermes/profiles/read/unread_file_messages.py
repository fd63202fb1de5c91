"""Messages that say why a file of the input was not read."""

from __future__ import annotations

from hermes.base.message import Name, message, sentence

RAW = sentence("seen.raw")
OTHER_CAPTURE = sentence("seen.other_capture")
FRAMEWORK_EXPORTED = sentence("seen.framework_exported")
DEVICE_EXPORTED = sentence("seen.device_exported")
BESIDE_DATABASE = sentence("seen.beside_database")
MARK = sentence("seen.mark")
LOG = sentence("seen.log")
TEXT = sentence("seen.text")
OWN = sentence("seen.own")
SERVICE_SUMS = sentence("seen.service_sums")
ADVICE = sentence("seen.advice")
NO_PROFILE = sentence("seen.no_profile")
MORE = sentence("seen.more")


@message("seen.same_in")
def same_in(*, folder: Name) -> None:
    """Message: a file was not read because a folder holds the same data."""
