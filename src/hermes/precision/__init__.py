"""Checks the precision of a training run: compares its setup and its operators' results with those of a golden run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.lazy_imports import lazy_names

if TYPE_CHECKING:
    from hermes.inside.record.start import record as record

# This package runs in the training process: importing it loads nothing else.
__getattr__ = lazy_names(__name__, {"record": "hermes.inside.record.start"})
