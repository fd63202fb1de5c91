"""Runs operators of a profile by themselves, with their shapes and types, on the device that PyTorch finds.

    python run_operators.py [--only NUMBER] [--repeats 20] [--device cpu]

The script prints a line of JSON for each operator: its median time in microseconds, or why it cannot run alone. Inputs
are random numbers. Arguments missing from the profile are the operator's own defaults, or a guess that the line names.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import statistics
import sys
import time
from typing import Any

CASES: list[dict[str, Any]] = []

TYPES = {
    "float": "float32", "float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "half": "float16",
    "c10::bfloat16": "bfloat16", "c10::half": "float16", "double": "float64", "int": "int32", "int32": "int32",
    "long int": "int64", "long": "int64", "int64": "int64", "bool": "bool", "unsigned char": "uint8", "uint8": "uint8",
    "signed char": "int8", "int8": "int8", "dt_bf16": "bfloat16",
}  # fmt: skip
NAMES = {
    "matmulv2": "mm", "matmulv3": "mm", "batchmatmul": "bmm", "batchmatmulv2": "bmm", "batchmatmulv3": "bmm",
    "realdiv": "div", "reducesum": "sum", "softmaxv2": "_softmax", "tensormove": "clone", "transpose": "t",
    "layernorm": "native_layer_norm",
}  # fmt: skip
"""PyTorch's names for operators that a device's library names differently, in lower case."""
GUESSES: dict[str, Any] = {
    "dim": -1, "keepdim": False, "half_to_float": False, "eps": 1e-5, "dropout_p": 0.0, "p": 0.0, "train": False,
    "is_causal": False, "return_debug_mask": False, "alpha": 1, "beta": 1, "value": 1.0, "exponent": 2, "other": 2,
    "scalar": 2, "approximate": "none", "upscale_factor": 2, "sparse": False, "padding_idx": -1, "index": 0,
    "epsilon": 1e-5, "training": True, "momentum": 0.1, "exponential_average_factor": 0.1,
}  # fmt: skip


OWN_GUESSES: dict[str, dict[str, Any]] = {"index_select": {"dim": 0}, "gather": {"dim": 0}}
"""Guesses for single operators that are used differently from most: rows are picked from tables."""


class NotAloneError(Exception):
    """Raised with the reason why an operator cannot run by itself."""


def main() -> None:
    """Run the operators, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", type=int, action="append", metavar="NUMBER", help="this case; again for another")
    parser.add_argument("--repeats", type=int, default=20, help="timed calls of each (20)")
    parser.add_argument("--device", default="", help="cpu, cuda or npu; else the first accelerator that is found")
    given = parser.parse_args()
    torch = importlib.import_module("torch")
    device = given.device or found_device(torch)
    for number, case in enumerate(CASES, 1):
        if given.only and number not in given.only:
            continue
        said = {"number": number, "operator": case["operator"], "shapes": case["shapes"], "dtypes": case["dtypes"]}
        try:
            median_us, guessed = timed(torch, device, case, given.repeats)
            said |= {"device": device, "median_us": median_us, "in_the_step_us": case["median_us"], "guessed": guessed}
        except NotAloneError as why:
            said["not_run"] = str(why)
        except RuntimeError as wrong:
            said["not_run"] = str(wrong).splitlines()[0].split(". ")[0][:300]
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


def found_device(torch: Any) -> str:
    """The first accelerator that responds, else the CPU."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch_npu")
    for name in ("npu", "cuda"):
        module = getattr(torch, name, None)
        if module is not None and module.is_available():
            return name
    return "cpu"


def timed(torch: Any, device: str, case: dict[str, Any], repeats: int) -> tuple[float, list[str]]:
    """The median time of `repeats` calls in microseconds after two warm-up calls, and the guessed arguments."""
    call, values, guessed = prepared(torch, device, case)
    wait = getattr(getattr(torch, device, None), "synchronize", lambda: None)
    times = []
    with torch.no_grad():
        for turn in range(repeats + 2):
            wait()
            begin = time.perf_counter()
            call(*values)
            wait()
            if turn >= 2:
                times.append(time.perf_counter() - begin)
    return round(statistics.median(times) * 1e6, 2), guessed


def prepared(torch: Any, device: str, case: dict[str, Any]) -> tuple[Any, list[Any], list[str]]:
    """The overload that accepts the recorded inputs, its arguments, and the names of guessed arguments."""
    shapes, types = case["shapes"].split(";"), case["dtypes"].split(";")
    name = case["operator"].removeprefix("aten::").split(".")[0]
    name = NAMES.get(name.lower(), name if case["operator"].startswith("aten::") else name.lower())
    if name in ("mm", "bmm") and not case["operator"].startswith("aten::"):
        return product, [tensor(torch, device, one, kind) for one, kind in zip(shapes, types, strict=False)], []
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        raise NotAloneError("PyTorch has no operator of this name here")
    problems: list[str] = []
    for overload in [getattr(packet, one) for one in packet.overloads() if "out" not in one]:
        try:
            return (overload, *arguments(torch, device, overload, shapes, types))
        except NotAloneError as why:
            problems.append(str(why))
    raise NotAloneError(problems[0] if problems else "no overload takes what was recorded")


def product(first: Any, second: Any, bias: Any = None) -> Any:
    """A product as a device's library records it: the axes that fit tell which operand is transposed."""
    turned = second if first.shape[-1] == second.shape[-2] else second.mT
    left = first if first.shape[-1] == turned.shape[-2] else first.mT
    if left.shape[-1] != turned.shape[-2]:
        left, turned = first.mT, second.mT
    made = left @ turned
    return made if bias is None else made + bias


def arguments(
    torch: Any, device: str, overload: Any, shapes: list[str], types: list[str]
) -> tuple[list[Any], list[str]]:
    """A value for each argument of an overload; raises `NotAloneError` if the recorded values do not fit."""
    wanted = [one for one in overload._schema.arguments if not one.kwarg_only]
    tensors = [(shape, kind) for shape, kind in zip(spread(shapes, types), types, strict=False)]
    values: list[Any] = []
    guessed: list[str] = []
    own = [one for one in wanted if "Tensor" in str(one.type)]
    given = [one for one in tensors if one[0]]
    if len([one for one in own if "Optional" not in str(one.type)]) > len(given) or len(given) > len(own):
        raise NotAloneError(f"{len(given)} tensors were recorded, {overload} takes {len(own)}")
    for argument in wanted:
        kind = str(argument.type)
        if "Tensor" in kind and given:
            shape, dtype = given.pop(0)
            made = [tensor(torch, device, one, dtype) for one in (shape if isinstance(shape, list) else [shape])]
            values.append(made if "List" in kind else made[0])
        elif argument.has_default_value():
            values.append(argument.default_value)
        elif "Optional" in kind:
            values.append(None)
        else:
            values.append(guess(overload._schema.name, argument.name, kind, values))
            guessed.append(f"{argument.name}={values[-1]}")
    return values, guessed


def spread(shapes: list[str], types: list[str]) -> list[Any]:
    """The recorded shapes by argument: the shapes of a list of tensors belong to one argument."""
    lists = [at for at, kind in enumerate(types) if "TensorList" in kind]
    if not lists:
        return shapes
    (at, *_) = lists
    more = len(shapes) - len(types) + 1
    return [*shapes[:at], shapes[at : at + more], *shapes[at + more :]]


def guess(operator: str, name: str, kind: str, before: list[Any]) -> Any:
    """A guessed value for an argument that is missing from the profile, by the argument's name and type."""
    own = OWN_GUESSES.get(operator.removeprefix("aten::"), {})
    if name in own:
        return own[name]
    first = next((one for one in before if hasattr(one, "shape")), None)
    if name in ("normalized_shape",) and first is not None:
        return list(first.shape[-1:])
    if name in ("size", "sizes", "input_sizes") and first is not None:
        return list(first.shape)
    if name in ("max_q", "max_k", "num_weights") and first is not None:
        return int(first.shape[1 if name != "num_weights" else 0])
    if name in GUESSES:
        return GUESSES[name]
    raise NotAloneError(f"the argument {name} ({kind}) was not recorded")


def tensor(torch: Any, device: str, shape: str, dtype: str) -> Any:
    """A random tensor of a shape such as `64,1024`, with a type name as in a profile."""
    kind = getattr(torch, TYPES.get(dtype.strip().lower(), "float32"))
    size = [int(one) for one in shape.split(",") if one]
    if kind.is_floating_point:
        return torch.randn(size, device=device).to(kind)
    return torch.randint(0, 2, size, device=device).to(kind)


if __name__ == "__main__":
    main()
