"""Defines the file layout of a recording, for the process that writes the recording and the process that reads it.

A recording is a folder with a folder for each rank, `rank0`, `rank1`, …. A rank's folder holds `index.jsonl`, one
strict JSON object a line, only ever appended to, and, where whole tensors are kept, parts such as
`step10.000.safetensors`. A part is filled from byte `DATA_START` on; the header of safetensors goes in front when the
part is full or the step ends. The index knows the place of each tensor; a part without a header can therefore be read
too.

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
"""Bytes at the begin of a part that are kept for its header."""
LARGEST_HEADER = DATA_START - 8

PROJECTIONS = 8
"""Number of signed sums of a tensor. Differences of the sums tell how far two tensors are apart. On average over the
signs, the square of such a difference is the sum of the squared differences of the elements."""
STATISTICS = ("min", "max", "mean", "norm", "nan", "inf", "zeros", *(f"p{number}" for number in range(PROJECTIONS)))
"""The columns of a value's `stats`, in this order; a number that JSON cannot hold is the text nan, inf or -inf."""
CHUNK = 1 << 16
"""Number of elements in a chunk of a tensor. An eighth of each chunk goes into each signed sum, and the remainder into
the last sum. The last chunk may be shorter. Signs are drawn for the elements of a chunk, and for each chunk."""
_SEED = 20261123


def sign_bytes(count: int, of_chunks: bool = False) -> bytes:
    """Bytes of 0 or 1: the signs of a chunk's elements, or of the chunks."""
    bits = random.Random(_SEED + of_chunks).getrandbits(count)
    return f"{bits:0{count}b}".encode().translate(_TO_NUMBERS)


_TO_NUMBERS = bytes((one - 48) % 256 for one in range(256))

DTYPES = {
    "float64": ("F64", 8), "float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2),
    "float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1), "int64": ("I64", 8), "int32": ("I32", 4),
    "int16": ("I16", 2), "int8": ("I8", 1), "uint8": ("U8", 1), "bool": ("BOOL", 1), "complex64": ("C64", 8),
    "uint16": ("U16", 2), "uint32": ("U32", 4), "uint64": ("U64", 8), "complex128": ("C128", 16),
}  # fmt: skip
"""Element types by torch's name: the type's name in a part's header, and the bytes of an element."""

PHASES = ("forward", "backward", "gradient", "optimizer", "update")
