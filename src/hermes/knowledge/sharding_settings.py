"""PyTorch settings for when sharded parameters are gathered and which modules form a unit, each with its source."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.bucket_settings import BucketSetting

_UNITS = "PyTorch, fully_shard"
_UNITS_PAGE = "docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html"
_MODEL = "PyTorch, FullyShardedDataParallel"
_MODEL_PAGE = "docs.pytorch.org/docs/stable/fsdp.html"


def unit_settings(*, forward: int, backward: int, merged: int) -> Iterator[BucketSetting]:
    """How to set the number of units gathered ahead, and to merge `merged` present units into one.

    `blocks` are the modules that are wrapped now, in the order of forward, and `model` holds these modules.
    `fully_shard` makes one unit of the modules in a list. FullyShardedDataParallel gathers at most one unit ahead, and
    with `limit_all_gathers` holds two. If a number of units is 0, the default stays.
    """
    if merged > 1:
        yield BucketSetting(
            where=_UNITS,
            line=f"for at in range(0, len(blocks), {merged}): fully_shard(list(blocks[at:at + {merged}]))",
            source=f"torch 2.13, {_UNITS_PAGE}: a list of modules is gathered as one; then fully_shard(model)",
        )
    chosen = "blocks" if merged == 1 else f"blocks[::{merged}]"
    if forward or backward:
        yield BucketSetting(where=_UNITS, line=f"units = [model, *{chosen}]", source="the modules that are units then")
    if forward:
        yield BucketSetting(
            where=_UNITS,
            line="for at, unit in enumerate(units): "
            f"unit.set_modules_to_forward_prefetch(units[at + 1:at + {1 + forward}])",
            source=f"torch 2.13, {_UNITS_PAGE}: FSDPModule.set_modules_to_forward_prefetch",
        )
    if backward:
        yield BucketSetting(
            where=_UNITS,
            line="for at, unit in enumerate(units): "
            f"unit.set_modules_to_backward_prefetch(units[max(1, at - {backward}):at][::-1])",
            source=f"torch 2.13, {_UNITS_PAGE}: FSDPModule.set_modules_to_backward_prefetch; one ahead as it comes",
        )
    if merged == 1 and max(forward, backward) == 1:
        asked = [
            *(["forward_prefetch=True"] if forward else []),
            *(["backward_prefetch=BackwardPrefetch.BACKWARD_PRE"] if backward else []),
            "limit_all_gathers=True",
        ]
        yield BucketSetting(
            where=_MODEL,
            line=f"FullyShardedDataParallel(model, {', '.join(asked)})",
            source=f"torch 2.13, {_MODEL_PAGE}: at most two units are whole at once",
        )
