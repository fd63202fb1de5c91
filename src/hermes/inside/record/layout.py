"""The layout of a recording, which the process that writes it and the one that reads it share.

A recording is a folder with a folder for each rank, `rank0`, `rank1`, …. In it lies `index.jsonl`, one strict JSON
object a
line, only ever appended to, and, where whole tensors are kept, parts such as `step10.000.safetensors`. A part is filled
from byte `DATA_START` on; the header of safetensors goes in front of it when the part is full or the step ends. The
index
knows where each tensor lies, so that a part without its header can be read too.

Lines of the index, told apart by their first key:

- `format`: the head: what was recorded, by which versions, on which rank;
- `step`: a step begins; `rng` is a fingerprint of the state of the random generator;
- `module`, `stack`: a module's path, and frames of the user's code, innermost first; both are numbered;
- `value`: a tensor that was seen, numbered: dtype, shape, `stats`, `print`, `data` (part, begin, end), `by` (number of
  the
  operator that made it), `view` (of which value, with strides and offset in elements), `name` (of a parameter or
  buffer);
- `op`: an operator or a module's call, numbered within the step: its values `in` and `out`, its other arguments
  `args`, its
  `phase`, `module`, `stack`, `for` (backward: the operator of the forward pass), `random` (fingerprint before it drew);
- `end`: the step is complete; `dropped` counts what a limit cut off.
"""

from __future__ import annotations

import random

FORMAT = "hermes.recording/1"
INDEX = "index.jsonl"
SNAPSHOT = "hermes.snapshot/1"
OPTIONS_VARIABLE = "HERMES_RECORD"
"""Environment variable that holds the options of a recording, as JSON."""
SNAPSHOT_VARIABLE = "HERMES_SNAPSHOT"
"""Environment variable that names the file of a snapshot."""

DATA_START = 1 << 20
"""Bytes that a part keeps for its header."""
LARGEST_HEADER = DATA_START - 8

PROJECTIONS = 8
"""Signed sums of a tensor, of which differences tell how far two tensors are apart: the square of a difference of
signed
sums is, on average over the signs, the sum of the squares of the elements' differences."""
STATISTICS = ("min", "max", "mean", "norm", "nan", "inf", "zeros", *(f"p{number}" for number in range(PROJECTIONS)))
"""What `stats` of a value holds, in this order; a number that JSON cannot hold is the text nan, inf or -inf."""
CHUNK = 1 << 16
"""A tensor is taken in chunks of so many elements. Of each chunk, the last of which may be shorter, an eighth goes into
each signed sum and what is left over into the last. Signs are drawn for the elements of a chunk, and for each chunk."""
_SEED = 20261123


def sign_bytes(count: int, of_chunks: bool = False) -> bytes:
    """Bytes of 0 or 1: the signs of elements, or of chunks."""
    bits = random.Random(_SEED + of_chunks).getrandbits(count)
    return f"{bits:0{count}b}".encode().translate(_TO_NUMBERS)


_TO_NUMBERS = bytes((one - 48) % 256 for one in range(256))

DTYPES = {
    "float64": ("F64", 8), "float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2),
    "float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1), "int64": ("I64", 8), "int32": ("I32", 4),
    "int16": ("I16", 2), "int8": ("I8", 1), "uint8": ("U8", 1), "bool": ("BOOL", 1), "complex64": ("C64", 8),
    "uint16": ("U16", 2), "uint32": ("U32", 4), "uint64": ("U64", 8), "complex128": ("C128", 16),
}  # fmt: skip
"""Element types: their name in a part's header, and their bytes."""

PHASES = ("forward", "backward", "gradient", "optimizer", "update")
