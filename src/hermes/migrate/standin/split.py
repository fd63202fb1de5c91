"""Attention over tensors whose heads or batches are split over ranks: each rank computes its own part.

Torch splits the attention of a GPU in this way; torch's attention on the CPU has no such rule. Part of `hermes migrate
verify`, in both runs. The module runs inside the user's program, and imports torch and nothing of Hermes.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def install() -> None:
    """Replace torch's attention by one that accepts tensors (DTensor) whose heads or batches are split over ranks."""
    functional: Any = torch.nn.functional
    original = functional.scaled_dot_product_attention

    @functools.wraps(original)
    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
        placements = getattr(query, "placements", None)
        apart = (
            placements is not None
            and attn_mask is None
            and all(getattr(one, "placements", None) == placements for one in (key, value))
            and all(one.is_replicate() or one.is_shard(0) or one.is_shard(1) for one in placements)
        )
        if not apart:
            return original(query, key, value, attn_mask, *args, **kwargs)
        parts = [one.to_local() for one in (query, key, value)]
        out = functional.scaled_dot_product_attention(*parts, None, *args, **kwargs)
        return type(query).from_local(out, query.device_mesh, placements, run_check=False)

    functional.scaled_dot_product_attention = attention
