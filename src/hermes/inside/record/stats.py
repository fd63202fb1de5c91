"""Statistics and fingerprints of tensors: a few reductions each, with one copy to the host for many tensors."""

from __future__ import annotations

import math
from typing import Any

from hermes.inside.record.layout import CHUNK, PROJECTIONS, sign_bytes

_Row = list[float]
_EXACT = 1 << 24
"""Integers that float32 holds exactly."""
_CHUNKS = 1 << 14
"""Chunks that have a sign of their own; longer tensors use them again."""
_ROWS = 256
_WIDTH = 5 + 2 * PROJECTIONS
_AT_ONCE = 16
"""Chunks that are looked at together: what that takes of memory beside the tensor is 4 MB."""
_SIGNS = [2.0 * one - 1 for one in sign_bytes(CHUNK)[:PROJECTIONS]]


class Statistics:
    """Computes rows as `layout.STATISTICS` says; `done` gets its row when as many wait as are fetched at once."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._signs: dict[tuple[str, Any], tuple[Any, Any]] = {}
        self._waiting: list[tuple[Any, Any]] = []
        self._host: dict[Any, _Host] = {}

    def of(self, tensor: Any, done: Any) -> None:
        """Hand the row of `tensor` to `done`, now or at `collect`; None where it has no element."""
        torch = self._torch
        count = tensor.numel()
        if not count:
            done(None)
            return
        kind = tensor.dtype
        if tensor.requires_grad:
            tensor = tensor.detach()  # operators of recurrent cells come by above autograd, which knows no `out`
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        if kind is not torch.float32:
            tensor = tensor.to(torch.float64 if kind in (torch.float64, torch.complex128) else torch.float32)
        flat = tensor.reshape(-1)
        if tensor.device.type != "cpu":
            self._waiting.append((done, torch.stack(self._device(flat))))
            if len(self._waiting) >= 2048:
                self.collect()
        elif flat.numel() < PROJECTIONS:
            done(_few(flat.tolist()))
        else:
            host = self._host.get(flat.dtype)
            if host is None:
                host = self._host[flat.dtype] = _Host(torch, flat.dtype, *self._signs_for(flat))
            host.of(flat, done)

    def collect(self) -> None:
        """Fetch all that was not handed over yet."""
        for host in self._host.values():
            host.collect()
        groups: dict[Any, list[tuple[Any, Any]]] = {}
        for done, row in self._waiting:
            groups.setdefault((row.device, row.dtype), []).append((done, row))
        self._waiting = []
        for rows in groups.values():
            table = self._torch.stack([row for _, row in rows]).cpu().tolist()
            for (done, _), row in zip(rows, table, strict=True):
                done(row)

    def _device(self, flat: Any) -> list[Any]:
        """Sums of signed elements, since a device may round the factors of its products."""
        torch = self._torch
        low, high = torch.aminmax(flat)
        kind, count = flat.dtype, flat.numel()
        counts = [flat.isnan().sum().to(kind), flat.isinf().sum().to(kind), (flat == 0).sum().to(kind)]
        signs, chunk_signs = self._signs_for(flat)
        sums = torch.zeros(PROJECTIONS, dtype=kind, device=flat.device)
        for first in range(0, count - CHUNK + 1, CHUNK * _AT_ONCE):
            rows = min(_AT_ONCE, (count - first) // CHUNK)
            part = (flat[first : first + rows * CHUNK].view(rows, CHUNK) * signs).view(rows, PROJECTIONS, -1).sum(2)
            at = first // CHUNK % _CHUNKS
            sums += (part * chunk_signs[at : at + rows, None]).sum(0)
        rest = count % CHUNK
        if rest:
            sums += self._last(flat[count - rest :], signs) * chunk_signs[count // CHUNK % _CHUNKS]
        return [low, high, flat.mean(), torch.linalg.vector_norm(flat), *counts, *sums.unbind()]

    def _last(self, tail: Any, signs: Any) -> Any:
        even = tail.numel() // PROJECTIONS * PROJECTIONS
        signed = tail * signs[: tail.numel()]
        sums = signed[:even].view(PROJECTIONS, -1).sum(1)
        sums[-1] += signed[even:].sum()
        return sums

    def _signs_for(self, flat: Any) -> tuple[Any, Any]:
        key = (str(flat.device), flat.dtype)
        if key not in self._signs:
            drawn = (sign_bytes(CHUNK), sign_bytes(_CHUNKS, of_chunks=True))
            bits = [self._torch.frombuffer(bytearray(one), dtype=self._torch.uint8) for one in drawn]
            elements, chunks = [(one.to(flat.dtype) * 2 - 1).to(flat.device) for one in bits]
            self._signs[key] = (elements, chunks)
        return self._signs[key]


def _few(elements: list[float]) -> _Row:
    """The row of a handful of elements, which no reduction is worth."""
    nan = sum(1.0 for one in elements if math.isnan(one))
    inf = sum(1.0 for one in elements if math.isinf(one))
    low, high = (math.nan, math.nan) if nan else (float(min(elements)), float(max(elements)))
    sums = [0.0] * PROJECTIONS
    sums[-1] = _CHUNK_SIGN * sum(sign * one for sign, one in zip(_SIGNS, elements, strict=False))
    norm = math.sqrt(sum(one * one for one in elements)) if not nan else math.nan
    zeros = float(sum(one == 0 for one in elements))
    return [low, high, sum(elements) / len(elements), norm, nan, inf, zeros, *sums]


_CHUNK_SIGN = 2.0 * sign_bytes(_CHUNKS, of_chunks=True)[0] - 1


class _Host:
    """Statistics of the processor's own tensors: results go into rows of one table, which becomes numbers at once."""

    def __init__(self, torch: Any, kind: Any, signs: Any, chunk_signs: Any) -> None:
        self._torch = torch
        self._signs = signs
        self._chunk_signs = chunk_signs
        self._table = torch.zeros(_ROWS, _WIDTH, dtype=kind)
        ends = (1, 2, 3, 4, 4 + PROJECTIONS, _WIDTH - 1)
        # Views into the table are made once: to make one takes as long as to fill it.
        self._views = [
            (row[0], row[1], row[2], row[3], row[4 : ends[4]], row[ends[4] : ends[5]]) for row in self._table.unbind()
        ]
        self._room = torch.empty(CHUNK, dtype=kind)
        self._waiting: list[tuple[Any, int, _Row]] = []

    def of(self, flat: Any, done: Any) -> None:
        torch = self._torch
        count = flat.numel()
        low, high, norm, nonzero, sums, signed = self._views[len(self._waiting)]
        torch.linalg.vector_norm(flat, out=norm)
        nan = inf = 0.0
        size = norm.item()
        if not math.isfinite(size):
            nan, inf = float(flat.isnan().sum().item()), float(flat.isinf().sum().item())
        torch.amin(flat, (), out=low)
        torch.amax(flat, (), out=high)
        if count <= CHUNK:
            self._chunk(flat, count, nonzero, sums, signed)
        else:
            self._chunks(flat, count, nonzero, sums, signed)
        rest = [nan, inf]
        if count % PROJECTIONS:
            rest += flat[count - count % PROJECTIONS :].tolist()
        if nan or inf or count > _EXACT:
            nonzero.fill_(torch.count_nonzero(flat).item())
        self._waiting.append((done, count, rest))
        if len(self._waiting) == _ROWS:
            self.collect()

    def _chunk(self, flat: Any, count: int, nonzero: Any, sums: Any, signed: Any) -> None:
        torch = self._torch
        even = count - count % PROJECTIONS
        body = flat if even == count else flat[:even]
        room = self._room if count == CHUNK else self._room[:count]
        torch.sign(flat, out=room)
        torch.dot(room, room, out=nonzero)
        torch.sum(body.view(PROJECTIONS, -1), 1, out=sums)
        room = room if even == count else room[:even]
        torch.mul(body, self._signs[:even], out=room)
        torch.sum(room.view(PROJECTIONS, -1), 1, out=signed)

    def _chunks(self, flat: Any, count: int, nonzero: Any, sums: Any, signed: Any) -> None:
        torch = self._torch
        one_nonzero, one_sums, one_signed = (torch.zeros_like(part) for part in (nonzero, sums, signed))
        for part in (nonzero, sums, signed):
            part.zero_()
        whole = count - count % CHUNK
        for first in range(0, whole, CHUNK * _AT_ONCE):
            rows = min(_AT_ONCE, (whole - first) // CHUNK)
            part = flat[first : first + rows * CHUNK]
            nonzero.add_(_nonzero(torch, part))
            parts = part.view(rows, PROJECTIONS, -1)
            sums.add_(parts.sum((0, 2)))
            at = first // CHUNK % _CHUNKS
            products = (parts * self._signs.view(PROJECTIONS, -1)).sum(2)
            signed.add_((products * self._chunk_signs[at : at + rows, None]).sum(0))
        if count > whole:
            if count - whole >= PROJECTIONS:
                self._chunk(flat[whole:], count - whole, one_nonzero, one_sums, one_signed)
            nonzero.add_(one_nonzero)
            sums.add_(one_sums)
            signed.add_(one_signed * self._chunk_signs[whole // CHUNK % _CHUNKS])

    def collect(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        for (done, count, rest), row in zip(waiting, self._table[: len(waiting)].tolist(), strict=True):
            low, high, norm, nonzero = row[:4]
            sums, signed = row[4 : 4 + PROJECTIONS], row[4 + PROJECTIONS : -1]
            total = math.fsum(sums) if norm == norm and abs(norm) != math.inf else sum(sums)
            last = count // CHUNK % _CHUNKS
            if count <= CHUNK:
                signed = signed if self.chunk_sign(last) > 0 else [-one for one in signed]
            tail = rest[2:]
            if tail:
                place = count % CHUNK - len(tail)
                total += sum(tail)
                signed[-1] += self.chunk_sign(last) * sum(self.sign(place + at) * one for at, one in enumerate(tail))
            done([low, high, total / count, norm, rest[0], rest[1], count - nonzero, *signed])

    def chunk_sign(self, chunk: int) -> float:
        return 1.0 if _CHUNK_BYTES[chunk] else -1.0

    def sign(self, place: int) -> float:
        return 1.0 if _ELEMENT_BYTES[place] else -1.0


_CHUNK_BYTES = sign_bytes(_CHUNKS, of_chunks=True)
_ELEMENT_BYTES = sign_bytes(CHUNK)


def _nonzero(torch: Any, part: Any) -> Any:
    # Several times as fast as to compare and count; the sum of a million ones is exact.
    sign = torch.sign(part)
    return torch.dot(sign, sign)


class Fingerprints:
    """A number for the bits of a tensor in their order: the same on every device, since integers do not round."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._weights: dict[str, tuple[Any, Any]] = {}

    def of(self, tensor: Any) -> str:
        """Sixteen hexadecimal digits."""
        torch = self._torch
        if not tensor.numel():
            return "0" * 16
        words = self._words(tensor)
        total = 0
        for number, chunk in enumerate(words.split(CHUNK)):
            mask, weight = self._weight(chunk)
            count = chunk.numel()
            mixed = (chunk ^ mask[:count]) * weight[:count]
            mixed = mixed ^ (mixed >> 15)
            total = (total * 0x100000001B3 + int(mixed.sum(dtype=torch.int64).item()) + number) % (1 << 64)
        return f"{total:016x}"

    def _words(self, tensor: Any) -> Any:
        torch = self._torch
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        flat = tensor.detach().reshape(-1).contiguous()
        size = flat.element_size()
        if flat.dtype is torch.bool:
            return flat.to(torch.int32)
        if size >= 4:
            return flat.view(torch.int32)
        return flat.view(torch.int16 if size == 2 else torch.uint8).to(torch.int32)

    def _weight(self, like: Any) -> tuple[Any, Any]:
        key = str(like.device)
        if key not in self._weights:
            torch = self._torch
            mask, weight = (
                torch.frombuffer(bytearray(drawn_words(seed)), dtype=torch.int32) for seed in FINGERPRINT_SEEDS
            )
            self._weights[key] = (mask.to(like.device), (weight | 1).to(like.device))
        return self._weights[key]


FINGERPRINT_SEEDS = (101, 102)
"""Of the words that elements are mixed with, and of those that they are multiplied by."""


def drawn_words(seed: int) -> bytes:
    """Random 32-bit words for the elements of a chunk."""
    import random

    return random.Random(seed).getrandbits(32 * CHUNK).to_bytes(4 * CHUNK, "little")


def state_print(data: bytes) -> str:
    """A fingerprint of the state of a random generator."""
    import hashlib

    return hashlib.blake2b(data, digest_size=8).hexdigest()
