"""Work of attention operators of PyTorch and CANN, forward and backward.

Source: FlashAttention-2 (arXiv 2307.08691), section 4.1. The forward pass takes 4 B H Sq Sk D operations, half as many
when causal. The backward pass takes 2.5 times as many, because it computes the scores again. If the head sizes of keys
and values differ, 2 (Dk + Dv) replaces 4 D.
"""

from __future__ import annotations

from collections.abc import Callable

from hermes.knowledge.cost.tensors import Call, Tensor
from hermes.knowledge.cost.work_formulas import OperatorWorkload, plus, precision_of, total_bytes

# A mask of this shape is the compressed triangle of CANN's sparse modes 2 to 4 (aclnnFlashAttentionScore).
_TRIANGLE = (2048, 2048)
_MASK_PLACE = {"flash attention score": 6, "flash attention score grad": 7}
_FLAGS = ("True", "False")


def attention(call: Call, order: str, *, backward: bool) -> OperatorWorkload | None:
    """The work of ATen's attention; `order` of the dimensions is `bshd` or `bhsd`. Packed sequences are left out."""
    first = 1 if backward else 0
    parts = call.inputs[first : first + 3]
    if len(parts) < 3 or any(len(part.shape) != 4 for part in parts):
        return None
    query, key, value = parts
    s, h = (1, 2) if order == "bshd" else (2, 1)
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        return None
    if backward and call.inputs[0].shape[:3] != query.shape[:3]:
        return None
    causal = _causal(call)
    scores = query.shape[0] * query.shape[h] * query.shape[s] * key.shape[s]
    forward = 2 * scores * (query.shape[3] + value.shape[3])
    flops = (5 * forward // 2 if backward else forward) // (1 if causal is False else 2)
    sizes = total_bytes(parts)
    out = Tensor(shape=(*query.shape[:3], value.shape[3]), kind=query.kind)
    moved = plus(sizes, sizes, out.bytes, out.bytes) if backward else plus(sizes, out.bytes)
    return _work(flops, moved, query, "causal assumed: the flag is not recorded" if causal is None else "")


def stored_attention(call: Call, formula: str) -> OperatorWorkload | None:
    """The work of CANN's FlashAttentionScore and its gradient; the shape (B, N, Sq, 8) of maxima tells the layout."""
    backward = formula.endswith("grad")
    maxima = _at(call.inputs, 8) if backward else _at(call.outputs, 0)
    if maxima is None or len(maxima.shape) != 4 or maxima.shape[3] != 8 or len(call.inputs) < 3:
        return None
    query, key = call.inputs[:2]
    batch, heads, length, _ = maxima.shape
    keys = _keys(query, key, batch, heads, length)
    if keys is None:
        return None
    mask = _at(call.inputs, _MASK_PLACE[formula])
    square = mask is not None and len(mask.shape) >= 2 and mask.elements > 1
    triangle = square and mask is not None and mask.shape[-2:] == _TRIANGLE
    flops = 4 * keys * query.elements
    flops = (5 * flops // 2 if backward else flops) // (2 if square else 1)
    moved = plus(total_bytes(call.inputs), total_bytes(call.outputs))
    note = "a mask may hide half: counted as causal" if square and not triangle else ""
    return _work(flops, moved, query, note)


def _keys(query: Tensor, key: Tensor, batch: int, heads: int, length: int) -> int | None:
    """The number of keys that each query meets, by the one layout that fits: BSH, SBH, BNSD or BSND."""
    fits: set[int] = set()
    if len(query.shape) == len(key.shape) == 3:
        if query.shape[:2] == (batch, length) and key.shape[0] == batch:
            fits.add(key.shape[1])
        if query.shape[:2] == (length, batch) and key.shape[1] == batch:
            fits.add(key.shape[0])
    elif len(query.shape) == len(key.shape) == 4 and query.shape[0] == key.shape[0] == batch:
        if query.shape[1:3] == (heads, length):
            fits.add(key.shape[2])
        if query.shape[1:3] == (length, heads):
            fits.add(key.shape[1])
    return fits.pop() if len(fits) == 1 else None


def inference_attention(call: Call) -> OperatorWorkload | None:
    """The work of CANN's inference attention with query, key and value in one layout; not for a paged cache.

    A tensor of rank 3 is batch, length, all heads. In rank 4, heads and length may be swapped. The query has a multiple
    of the key's heads, or equally many; if heads and lengths both agree, the layout stays unknown. Equal lengths are
    counted as causal.
    """
    if len(call.inputs) < 3 or not call.outputs:
        return None
    query, key, value = call.inputs[:3]
    if len(query.shape) != len(key.shape) or query.shape[0] != key.shape[0] or value.shape != key.shape:
        return None
    place = 1 if len(query.shape) == 3 else _length_at(query.shape, key.shape) if len(query.shape) == 4 else None
    if place is None:
        return None
    asked, keys = query.shape[place], key.shape[place]
    causal = asked == keys > 1
    moved = plus(total_bytes(call.inputs[:3]), call.outputs[0].bytes)
    note = "counted as causal" if causal else "all keys counted: a mask may hide some"
    return _work(4 * query.elements * keys // (2 if causal else 1), moved, query, note)


def _length_at(query: tuple[int, ...], key: tuple[int, ...]) -> int | None:
    """Which of the two middle dimensions is the length; None if heads and lengths both agree."""
    heads = [place for place in (1, 2) if query[place] > key[place] and query[place] % key[place] == 0]
    other = [place for place in (1, 2) if query[place] != key[place] and place not in heads]
    if len(other) == 1:
        return other[0]
    return 3 - heads[0] if len(heads) == 1 and not other else None


def _causal(call: Call) -> bool | None:
    """Whether only past keys count, by the recorded values; None when the values are not recorded.

    Each operator has its own order of flags (`native_functions.yaml`). In most operators the first flag is `is_causal`.
    In cuDNN's forward pass, a flag for the log-sums precedes it. In the efficient variant it is the last flag, or a
    number before the first: 0 for no mask, 1 and 2 for the two triangles.
    """
    flags = [value for value in call.values if value in _FLAGS]
    if not flags:
        return None
    if "::_efficient_attention" in call.name:
        first = next(place for place, value in enumerate(call.values) if value in _FLAGS)
        kinds = [value for value in call.values[:first] if value in ("0", "1", "2")]
        return kinds[-1] != "0" if kinds else None
    if "efficient" in call.name:
        return flags[-1] == "True"
    if "cudnn" in call.name and "backward" not in call.name:
        return flags[1] == "True" if len(flags) > 1 else None
    return flags[0] == "True"


def _at(parts: tuple[Tensor, ...], place: int) -> Tensor | None:
    return parts[place] if place < len(parts) and parts[place].shape else None


def _work(flops: int, moved: int | None, operand: Tensor, note: str) -> OperatorWorkload:
    return OperatorWorkload(flops=flops, bytes=moved, unit="matrix", precision=precision_of([operand]), note=note)


FORMULAS: dict[str, Callable[[Call], OperatorWorkload | None]] = {
    "attention bshd": lambda call: attention(call, "bshd", backward=False),
    "attention bhsd": lambda call: attention(call, "bhsd", backward=False),
    "attention backward bshd": lambda call: attention(call, "bshd", backward=True),
    "attention backward bhsd": lambda call: attention(call, "bhsd", backward=True),
    "inference attention": inference_attention,
    "flash attention score": lambda call: stored_attention(call, "flash attention score"),
    "flash attention score grad": lambda call: stored_attention(call, "flash attention score grad"),
}
