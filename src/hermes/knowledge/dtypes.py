"""Element types as PyTorch and CANN spell them: bytes of an element, and the precision by which chips quote rates."""

from __future__ import annotations

from typing import NamedTuple


class ElementType(NamedTuple):
    """An element type: its bytes, and `fp64`, `fp32`, `fp16`, `bf16`, `fp8` or `int8`; empty if no rate is quoted."""

    bytes: int
    precision: str


_SPELLED: tuple[tuple[ElementType, str], ...] = (
    (ElementType(8, "fp64"), "double float64 fp64"),
    (ElementType(4, "fp32"), "float float32 fp32"),
    (ElementType(2, "fp16"), "half float16 fp16"),
    (ElementType(2, "bf16"), "bfloat16 bf16 bfp16"),
    (
        ElementType(1, "fp8"),
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu fp8e4m3 fp8e5m2 fp8e8m0 hif8",
    ),
    (ElementType(1, "int8"), "int8 uint8 char byte qint8 quint8"),
    (ElementType(1, ""), "bool"),
    (ElementType(2, ""), "short int16 uint16"),
    (ElementType(4, ""), "int int32 uint32 complexhalf complex32"),
    (ElementType(8, ""), "long int64 uint64 complexfloat complex64"),
    (ElementType(16, ""), "complexdouble complex128 int128"),
)
_KNOWN = {name: kind for kind, names in _SPELLED for name in names.split()}
_PHRASES = {
    "longint": "long", "shortint": "short", "unsignedchar": "byte", "signedchar": "char", "unsignedint": "int",
    "unsignedlong": "long", "unsignedshort": "short", "complex<float>": "complexfloat",
    "complex<double>": "complexdouble", "complex<c10::half>": "complexhalf",
}  # fmt: skip


def element_type(name: str) -> ElementType | None:
    """The type of a spelling such as `c10::BFloat16`, `long int`, `DT_BF16`, `FLOAT16`; None if it names no type."""
    plain = name.strip().lower().removeprefix("c10::").removeprefix("dt_").replace(" ", "")
    return _KNOWN.get(_PHRASES.get(plain, plain))
