"""Two runs that should compute the same: whether they are set up alike, and where they first part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.lazy import names_of

if TYPE_CHECKING:
    from hermes.inside.record.start import record as record

# It runs in the training process: nothing else is loaded with it.
__getattr__ = names_of(__name__, {"record": "hermes.inside.record.start"})
