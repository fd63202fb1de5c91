"""Computes one recorded operator of torch again, in a separate process that can no longer open files.

The script needs a Python with torch, and runs without Hermes. It reads the request from standard input, and takes the
files of the inputs as arguments. For each result it writes the number of elements, then the elements as float64. A
recording is not trusted: an operator that it names must compute new tensors from tensors and plain words, by the schema
that torch declares. The process can open nothing, and its memory and time are bounded, so a flaw in such an operator
can do no harm.
"""

from __future__ import annotations

import importlib
import json
import resource
import site
import sys
from pathlib import Path
from typing import Any

MEMORY_BYTES = 2 << 30
"""The memory allowed beside what torch has taken, and 16 times the inputs and the recorded results, in bytes."""
SECONDS = 600
_TYPES = {
    "Tensor", "List[Tensor]", "Optional[Tensor]", "List[Optional[Tensor]]", "int", "float", "bool", "number",
    "Optional[int]", "Optional[float]", "Optional[bool]", "Optional[number]", "List[int]", "List[float]", "List[bool]",
    "List[number]", "Optional[List[int]]", "Optional[List[float]]", "Optional[Generator]",
}  # fmt: skip
_RESULTS = {"Tensor", "List[Tensor]"}
_WORDS = {
    "approximate", "driver", "equation", "indexing", "interpolation", "mode", "norm", "ord", "padding", "reduce",
    "rounding_mode", "side", "UPLO",
}  # fmt: skip
"""Names of arguments that are words: the only texts that an operator may take."""
_PLACES = ("device", "pin_memory", "layout")
"""Arguments that say where a result lies; without them the result lies in plain memory."""


def refusal(schema: Any, tags: Any) -> str:
    """The reason why an operator is refused, by its schema; empty if it is computed."""
    if schema.is_mutable or any(one.alias_info and one.alias_info.is_write for one in schema.arguments):
        return "it writes into what it is given"
    if any("nondeterministic" in str(tag) for tag in tags):
        return "it draws random numbers"
    for one in schema.arguments:
        if one.name in _PLACES:
            continue
        text = str(one.type) in ("str", "Optional[str]")
        if not (one.name in _WORDS if text else str(one.type) in _TYPES):
            return f"it takes {one.name}, which is {one.type}"
    if not schema.returns or any(str(one.type) not in _RESULTS for one in schema.returns):
        return "it returns something else than tensors"
    return ""


def find(torch: Any, asked: str) -> Any:
    """The operator with a name, or its form that returns new tensors (`add` for `add_`). Raises `ValueError`."""
    _, name, overload = asked.split(".")
    why = f"torch has no operator {asked}"
    for spelt in (name, name[:-1] if name.endswith("_") else ""):
        packet = getattr(torch.ops.aten, spelt, None) if spelt and not spelt.startswith("__") else None
        found = getattr(packet, overload, None) if overload in getattr(packet, "overloads", list)() else None
        if found is None:
            continue
        refused = refusal(found._schema, found.tags)
        if not refused:
            return found
        why = f"{asked} is not computed: {refused}"
    raise ValueError(why)


def _tensor(torch: Any, one: dict[str, Any], path: str) -> Any:
    kind = getattr(torch, one["dtype"], None)
    if not isinstance(kind, torch.dtype):
        raise ValueError(f"{one['dtype']} is no type of torch")
    raw = bytearray(Path(path).read_bytes())
    flat = torch.frombuffer(raw, dtype=torch.float64) if raw else torch.zeros(0, dtype=torch.float64)
    found = flat.reshape(one["shape"])
    return found if kind.is_floating_point else found.to(kind)


def _argument(torch: Any, one: Any, values: list[Any]) -> Any:
    if isinstance(one, list):
        return [_argument(torch, part, values) for part in one]
    if not isinstance(one, str):
        return one
    if one.startswith("@"):
        return values[int(one[1:])]
    if one.startswith("torch."):
        kind = getattr(torch, one[6:], None)
        if not isinstance(kind, (torch.dtype, torch.memory_format, torch.layout)):
            raise ValueError(f"{one[:60]} is no type of torch")
        return torch.float64 if isinstance(kind, torch.dtype) and kind.is_floating_point else kind
    return float(one) if one in ("inf", "-inf", "nan") else one


def close_in(size: int) -> None:
    """Forbid this process to open files, to grow files, and to start processes.

    Root may start a process, which can open nothing.

    Before the call, torch must have loaded all that it loads late.
    """
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_AS: taken + MEMORY_BYTES + 16 * size, resource.RLIMIT_CPU: SECONDS, resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0, resource.RLIMIT_NPROC: 0, resource.RLIMIT_NOFILE: 0,
    }  # fmt: skip
    for what, most in limits.items():
        resource.setrlimit(what, (most, most))


def _load(torch: Any) -> None:
    """Make torch load all that it loads at its first product, factorization, convolution and transform."""
    one = torch.eye(4, dtype=torch.float64)
    torch.linalg.inv(one @ one)
    torch.nn.functional.conv2d(one.reshape(1, 1, 4, 4), one[:2, :2].reshape(1, 1, 2, 2))
    torch.fft.fft(one)


def main(*paths: str) -> None:
    """Compute the operator that standard input asks for, and write the results to standard output."""
    asked = json.load(sys.stdin.buffer)
    sys.path.append(site.getusersitepackages())
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    operator = find(torch, asked["operator"])
    values = [_tensor(torch, one, path) for one, path in zip(asked["inputs"], paths, strict=True)]
    _load(torch)
    close_in(8 * (asked["elements"] + sum(one.numel() for one in values)))
    args, named = list(asked["args"]), {}
    if args and isinstance(args[-1], dict):
        named = {name: _argument(torch, one, values) for name, one in args.pop().items() if name not in _PLACES}
    found = operator(*[_argument(torch, one, values) for one in args], **named)
    found = [one for one in (found if isinstance(found, (list, tuple)) else [found]) if isinstance(one, torch.Tensor)]
    # Elements beyond the recorded ones are not compared, so they are not returned.
    counts = [one.numel() for one in found]
    if sum(counts) > 2 * asked["elements"] + 1024:
        raise ValueError(f"it gives {sum(counts)} elements, and {asked['elements']} were recorded")
    sys.stdout.buffer.write(json.dumps(counts).encode() + b"\n")
    for one in found:
        sys.stdout.buffer.write(one.to(torch.float64).contiguous().reshape(-1).numpy().tobytes())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
