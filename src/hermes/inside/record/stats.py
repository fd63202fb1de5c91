"""Computes statistics and fingerprints of tensors, with one copy to the host for many tensors."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Dict, List, Optional

from hermes.inside.record.layout import CHUNK, PROJECTIONS, STATISTICS, sign_bytes

_Row = List[float]
Done = Callable[[Dict[str, Any], Optional[_Row]], None]
STATS = len(STATISTICS) - PROJECTIONS
_CHUNKS = 1 << 14
"""Number of chunks with a sign of their own; longer tensors use the signs again."""
_AT_ONCE = 16
"""Number of chunks that are computed together: this takes 4 MB of memory beside the tensor."""
_ROWS = 256
_SHORT = 512
"""Up to this many elements, tensors of equal length are first put beside each other: torch's calls take longer than
their computation."""
_SHORT_ROWS = 32
_LENGTHS = 64
_SIGN_BYTES = sign_bytes(CHUNK)
_CHUNK_BYTES = sign_bytes(_CHUNKS, of_chunks=True)


class Statistics:
    """The statistics of tensors, as `layout.STATISTICS` defines them; `done` gets a line and its row at `collect`, or
    before."""

    def __init__(self, torch: Any, done: Done) -> None:
        self._torch = torch
        self._done = done
        self._signs: dict[tuple[str, Any], tuple[Any, Any]] = {}
        self._waiting: list[tuple[dict[str, Any], Any]] = []
        self._host: dict[Any, _Host] = {}

    def of(self, tensor: Any, line: dict[str, Any]) -> None:
        """Compute the row of `tensor`; the row is None for a tensor without elements."""
        torch = self._torch
        kind = tensor.dtype
        if tensor.requires_grad and torch.is_grad_enabled():
            tensor = tensor.detach()  # operators of recurrent cells come by above autograd, which does not know `out`
        if kind is not torch.float32:
            if kind.is_complex:
                tensor = torch.view_as_real(tensor.resolve_conj())
            tensor = tensor.to(torch.float64 if kind in (torch.float64, torch.complex128) else torch.float32)
        flat = tensor.reshape(-1)
        count = flat.numel()
        if not count:
            self._done(line, None)
        elif not tensor.is_cpu:
            self._waiting.append((line, torch.stack(self._device(flat))))
            if len(self._waiting) >= 2048:
                self.collect()
        elif count < PROJECTIONS:
            self._done(line, _few(flat.tolist()))
        else:
            host = self._host.get(flat.dtype)
            if host is None:
                host = self._host[flat.dtype] = _Host(torch, self._done, *self._signs_for(flat))
            host.of(flat, count, line)

    def collect(self) -> None:
        """Pass on all rows that were not passed on yet, with one copy from the device."""
        for host in self._host.values():
            host.collect()
        groups: dict[Any, list[tuple[dict[str, Any], Any]]] = {}
        for line, row in self._waiting:
            groups.setdefault((row.device, row.dtype), []).append((line, row))
        self._waiting = []
        for rows in groups.values():
            table = self._torch.stack([row for _, row in rows]).cpu().tolist()
            for (line, _), row in zip(rows, table):
                self._done(line, row)

    def _device(self, flat: Any) -> list[Any]:
        """Signed sums of a tensor on a device. Signed elements are summed, since a device may round the factors of
        products."""
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
            bits = [
                self._torch.frombuffer(bytearray(one), dtype=self._torch.uint8) for one in (_SIGN_BYTES, _CHUNK_BYTES)
            ]
            elements, chunks = [(one.to(flat.dtype) * 2 - 1).to(flat.device) for one in bits]
            self._signs[key] = (elements, chunks)
        return self._signs[key]


def _few(elements: list[float]) -> _Row:
    """The row of a handful of elements, computed in Python: a torch reduction would take longer."""
    nan = sum(1.0 for one in elements if math.isnan(one))
    inf = sum(1.0 for one in elements if math.isinf(one))
    low, high = (math.nan, math.nan) if nan else (float(min(elements)), float(max(elements)))
    norm = math.sqrt(sum(one * one for one in elements)) if not nan else math.nan
    zeros = float(sum(one == 0 for one in elements))
    sums = [0.0] * (PROJECTIONS - 1)
    return [low, high, sum(elements) / len(elements), norm, nan, inf, zeros, *sums, _signed(elements, 0, 0)]


def _signed(elements: list[float], place: int, chunk: int) -> float:
    """The signed sum of elements that begin at `place` of chunk number `chunk`."""
    total = sum(one if _SIGN_BYTES[place + at] else -one for at, one in enumerate(elements))
    return total if _CHUNK_BYTES[chunk % _CHUNKS] else -total


class _Table:
    """A table of results: a row for each chunk, with the columns of `layout.STATISTICS`. The sum stands in the place of
    the mean, and the count of non-zeros in the place of zeros. The sign is that of the first chunk."""

    def __init__(self, torch: Any, signs: Any, room: Any, rows: int) -> None:
        self._torch = torch
        self._norm = torch.linalg.vector_norm
        self._signs = signs
        self._room = room
        self._zero = torch.zeros((), dtype=signs.dtype)
        self.rows = torch.zeros(rows, len(STATISTICS), dtype=signs.dtype)
        # Views into the table are made once: making a view takes as long as filling it. Only rows that a long tensor
        # has added to the table have no such view.
        self._views = [_columns(row) for row in self.rows[:_ROWS].unbind()]
        self._parts: dict[int, tuple[int, Any, Any, Any, Any]] = {}

    def one(self, flat: Any, count: int, at: int) -> float:
        """Fill row `at` from one chunk; returns the chunk's norm."""
        torch = self._torch
        low, high, total, norm, nonzero, signed = self._views[at] if at < _ROWS else _columns(self.rows[at])
        found = self._parts.get(count)
        even, signs, products, by_part, room = found if found is not None else self._parts_of(count)
        self._norm(flat, out=norm)
        torch.amin(flat, (), out=low)
        torch.amax(flat, (), out=high)
        torch.sum(flat, 0, out=total)
        torch.mul(flat if even == count else flat[:even], signs, out=products)
        torch.sum(by_part, 1, out=signed)
        # Filling with ones and adding them up is several times as fast as counting. Signs turn no element into zero.
        torch.ne(products if even == count else flat, self._zero, out=room)
        torch.sum(room, 0, out=nonzero)
        return float(norm.item())

    def fill(self, chunks: Any, at: int) -> None:
        """Fill rows from chunks of one length, a row for each chunk."""
        torch = self._torch
        rows, count = chunks.shape
        if rows == 1:
            self.one(chunks.view(-1), count, at)
            return
        even = count - count % PROJECTIONS
        table = self.rows[at : at + rows]
        low, high, total, norm, _, _, nonzero = table[:, :STATS].unbind(1)
        self._norm(chunks, dim=1, out=norm)
        torch.amin(chunks, 1, out=low)
        torch.amax(chunks, 1, out=high)
        torch.sum(chunks, 1, out=total)
        room = self._room[: rows * even].view(rows, PROJECTIONS, -1)
        torch.mul(chunks[:, :even].unflatten(1, (PROJECTIONS, -1)), self._signs[:even].view(PROJECTIONS, -1), out=room)
        torch.sum(room, 2, out=table[:, STATS:])
        room = self._room[: rows * count].view(rows, count)
        torch.ne(chunks, self._zero, out=room)
        torch.sum(room, 1, out=nonzero)

    def _parts_of(self, count: int) -> tuple[int, Any, Any, Any, Any]:
        if len(self._parts) >= _ROWS:
            self._parts.clear()
        even = count - count % PROJECTIONS
        products = self._room[:even]
        found = even, self._signs[:even], products, products.view(PROJECTIONS, -1), self._room[:count]
        self._parts[count] = found
        return found


def _columns(row: Any) -> tuple[Any, ...]:
    """The elements of a table row that `_Table.one` fills."""
    return row[0], row[1], row[2], row[3], row[6], row[-PROJECTIONS:]


class _Host:
    """The statistics of host tensors: each chunk fills a row of a table, which becomes numbers at once."""

    def __init__(self, torch: Any, done: Done, signs: Any, chunk_signs: Any) -> None:
        self._torch = torch
        self._done = done
        self._at_once = min(_AT_ONCE, torch.get_num_threads())
        """Number of chunks that one call of torch takes: for one thread no more than its cache holds."""
        self._make = torch, signs * chunk_signs[0], torch.empty(CHUNK * self._at_once, dtype=signs.dtype)
        self._size = _ROWS
        self._table = _Table(*self._make, _ROWS)
        self._used = 0
        self._waiting: list[tuple[dict[str, Any], int, int, list[float], list[float]]] = []
        self._short: dict[int, _Short] = {}

    def of(self, flat: Any, count: int, line: dict[str, Any]) -> None:
        """Compute the row of statistics of a host tensor's elements."""
        if count <= _SHORT:
            short = self._short.get(count)
            if short is None:
                short = self._short[count] = _Short(_Table(*self._make, _SHORT_ROWS), self._done, self._make[1], count)
            short.of(flat, line)
            return
        chunks = -(-count // CHUNK)
        if self._used + chunks > self._size:
            self.collect()
            if chunks > self._size:
                self._size, self._table = chunks, _Table(*self._make, chunks)
        norm = self._table.one(flat, count, self._used) if chunks == 1 else self._chunks(flat, count)
        self._used += chunks
        rest = count % PROJECTIONS
        bad = _NONE if math.isfinite(norm) else _bad(flat)
        self._waiting.append((line, count, chunks, flat[count - rest :].tolist() if rest else _NONE, bad))

    def _chunks(self, flat: Any, count: int) -> float:
        """Fill rows from a tensor of several chunks; returns a number that is finite where all elements are."""
        first, table = self._used, self._table
        whole, rest = divmod(count, CHUNK)
        if self._at_once == 1 and (rest >= PROJECTIONS or not rest):
            return sum(table.one(part, part.numel(), first + at) for at, part in enumerate(flat.split(CHUNK)))
        for at in range(0, whole, self._at_once):
            rows = min(self._at_once, whole - at)
            table.fill(flat[at * CHUNK : (at + rows) * CHUNK].view(rows, CHUNK), first + at)
        if rest >= PROJECTIONS:
            table.fill(flat[whole * CHUNK :].view(1, rest), first + whole)
        elif rest:
            row = _few(flat[whole * CHUNK :].tolist())
            row[2:7] = [row[2] * rest, row[3], 0.0, 0.0, rest - row[6]]
            table.rows[first + whole] = self._torch.tensor(row[:STATS] + [0.0] * PROJECTIONS, dtype=flat.dtype)
        return float(table.rows[first : first + whole + bool(rest), 3].sum().item())

    def collect(self) -> None:
        """Pass the rows of all waiting host tensors to `done`."""
        for short in self._short.values():
            short.collect()
        if len(self._short) > _LENGTHS:
            self._short.clear()
        waiting, self._waiting = self._waiting, []
        rows = self._table.rows[: self._used].tolist()
        self._used = first = 0
        for line, count, chunks, tail, bad in waiting:
            row = rows[first] if chunks == 1 else _together(rows[first : first + chunks])
            self._done(line, _finished(row, count, tail, bad))
            first += chunks


class _Short:
    """A batch of short tensors of equal length, placed beside each other."""

    def __init__(self, table: _Table, done: Done, like: Any, count: int) -> None:
        self._table = table
        self._done = done
        self._count = count
        self._elements = like.new_empty(_SHORT_ROWS, count)
        self._places = self._elements.unbind()
        self._lines: list[dict[str, Any]] = []

    def of(self, flat: Any, line: dict[str, Any]) -> None:
        self._places[len(self._lines)].copy_(flat)
        self._lines.append(line)
        if len(self._lines) == _SHORT_ROWS:
            self.collect()

    def collect(self) -> None:
        lines, self._lines = self._lines, []
        if not lines:
            return
        elements, count = self._elements[: len(lines)], self._count
        self._table.fill(elements, 0)
        rest = count % PROJECTIONS
        tails = elements[:, count - rest :].tolist() if rest else [_NONE] * len(lines)
        for at, (line, row) in enumerate(zip(lines, self._table.rows[: len(lines)].tolist())):
            bad = _NONE if math.isfinite(row[3]) else _bad(self._places[at])
            self._done(line, _finished(row, count, tails[at], bad))


_NONE: list[float] = []


def _bad(flat: Any) -> list[float]:
    """The number of NaN elements, and the number of infinite elements."""
    return [float(flat.isnan().sum().item()), float(flat.isinf().sum().item())]


def _together(rows: list[_Row]) -> _Row:
    """The row of a tensor, merged from the rows of its chunks."""
    columns = list(zip(*rows))
    low, high, norm = min(columns[0]), max(columns[1]), math.hypot(*columns[3])
    if any(map(math.isnan, columns[3])):
        low = high = norm = math.nan
    signs = [1 if _CHUNK_BYTES[at % _CHUNKS] == _CHUNK_BYTES[0] else -1 for at in range(len(rows))]
    signed = [sum(map(operator.mul, signs, column)) for column in columns[STATS:]]
    return [low, high, sum(columns[2]), norm, 0.0, 0.0, sum(columns[6]), *signed]


def _finished(row: _Row, count: int, tail: list[float], bad: list[float]) -> _Row:
    """The final row as `layout.STATISTICS` defines it, including the `tail` elements beyond eight equal parts."""
    row[2] /= count
    row[6] = count - row[6]
    if bad:
        row[4:6] = bad
    if tail:
        row[-1] += _signed(tail, count % CHUNK - len(tail), count // CHUNK)
    return row


class Fingerprints:
    """A fingerprint of a tensor's bits in their order: the same on every device, since integers do not round."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._weights: dict[str, tuple[Any, Any]] = {}

    def of(self, tensor: Any) -> str:
        """The tensor's fingerprint: sixteen hexadecimal digits."""
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
"""Seeds of the words that elements are mixed with, and of the words that they are multiplied by."""


def drawn_words(seed: int) -> bytes:
    """Random 32-bit words for the elements of a chunk."""
    import random

    return random.Random(seed).getrandbits(32 * CHUNK).to_bytes(4 * CHUNK, "little")


def state_print(data: bytes) -> str:
    """A fingerprint of the state of a random generator."""
    import hashlib

    return hashlib.blake2b(data, digest_size=8).hexdigest()
