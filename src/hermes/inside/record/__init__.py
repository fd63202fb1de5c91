"""Records what a training computes: operators, modules, gradients and updates."""

from __future__ import annotations
