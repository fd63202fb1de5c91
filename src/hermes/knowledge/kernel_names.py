"""Shortens names of kernels for readers: C++ symbols without wrappers, template arguments and parameter lists."""

from __future__ import annotations

import re
from functools import lru_cache

# Templates that only launch the kernel named in their arguments: NVIDIA/cutlass, include/cutlass/device_kernel.h and
# gemm/kernel; pytorch/pytorch, aten/src/ATen/native/cuda/{Loops.cuh,CUDALoops.cuh,Reduce.cuh,MultiTensorApply.cuh}.
_WRAPPER = re.compile(r"^cutlass::(device_kernel|Kernel2?)$")
_LOOP = re.compile(r"(elementwise_kernel|reduce_kernel|multi_tensor_apply_kernel|index_elementwise_kernel)\w*$")
# The operation of a PyTorch loop kernel, by the functor's name.
_WORK = re.compile(
    r"\b(?:\w+Functor(?:_\w+)?|[a-z]\w*_kernel_cuda|[a-z]\w*_kernel_impl(?!_nocast)|(?!Reduce|Welford)\w+Ops?(?=<))"
)
_NOISE = re.compile(r"\(anonymous namespace\)::|\bat::native::|\bat::cuda::|^void ")
_PIECE = re.compile(r"(\d+)")
_FUNCTION = re.compile(r"(\w+)\([\w ,*&:]*\)")
_SYMBOL = re.compile(r"void |\(anonymous namespace\)::|\w+(::|<)")
_PLAIN = re.compile(r"[\w.:/ -]*")


@lru_cache(maxsize=4_096)
def plain_kernel_name(name: str) -> str:
    """The kernel's name without wrappers and arguments; names that are not C++, and heads of cut names, stay."""
    if name.startswith("_ZN"):
        return _demangled(name) or name
    if _PLAIN.fullmatch(name) and not name.startswith("void "):
        return name
    if found := _FUNCTION.fullmatch(name):
        return found[1]
    # `Memcpy DtoD (Device -> Device)` is no symbol, and neither is markup.
    if not _SYMBOL.match(name):
        return name
    text = _NOISE.sub("", name)
    base, inner = _split(text)
    if _WRAPPER.match(base) and inner:
        return plain_kernel_name(inner)
    if _LOOP.search(base) and inner and (work := _WORK.findall(inner)):
        return f"{work[-1]} ({base.rpartition('::')[2]})"
    return base or name


def _split(text: str) -> tuple[str, str]:
    """The text before the template arguments or parameters, and the text between the angle brackets."""
    begin = re.search(r"[<(]", text)
    if begin is None:
        return text.strip(), ""
    base = text[: begin.start()].strip()
    if begin.group() == "(":
        return base, ""
    depth = 0
    for at in range(begin.start(), len(text)):
        depth += {"<": 1, ">": -1}.get(text[at], 0)
        if not depth:
            return base, text[begin.end() : at]
    return base, text[begin.end() :]


def _demangled(name: str) -> str:
    """Demangle `_ZN5aiter3add…` into `aiter::add`: pieces by their lengths, up to the first that is no plain name."""
    pieces: list[str] = []
    at = 3
    while (length := _PIECE.match(name, at)) and len(pieces) < 16:
        begin = length.end()
        at = begin + int(length.group())
        pieces.append(name[begin:at])
    return "::".join(piece for piece in pieces if not piece.startswith("_GLOBAL__N"))
