"""Records the tensors of a training for precision comparisons: operators, modules, gradients and updates."""

from __future__ import annotations
