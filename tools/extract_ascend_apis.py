"""Reads facts out of the tables of torch APIs in the documentation of Ascend/pytorch, into one file of our own.

    python tools/extract_ascend_apis.py FOLDER src/hermes/knowledge/migration/ascend_api_support.csv

FOLDER holds one `VERSION.csv` for each torch version with the columns `module, api, A2, A3, 950DT, note_zh`, made from
the pages https://gitcode.com/Ascend/pytorch/tree/master/docs/zh/api/native_api (CC-BY-4.0). Only facts are taken from
the notes: types of data that are allowed, on which chip they are not, whether the call may run on the host's processor,
whether it serves inference only. No sentence is kept.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

_TYPES = {
    "bool": "bool", "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "fp16": "float16", "float16": "float16", "half": "float16", "bf16": "bfloat16", "bfloat16": "bfloat16",
    "fp32": "float32", "float32": "float32", "fp64": "float64", "float64": "float64", "double": "float64",
    "complex32": "complex32", "complex64": "complex64", "complex128": "complex128", "uint16": "uint16",
    "uint32": "uint32", "uint64": "uint64", "float": "float32", "int": "int32", "long": "int64", "short": "int16",
}  # fmt: skip
_TYPE = "|".join(sorted(_TYPES, key=len, reverse=True))
_LIST = rf"(?:{_TYPE})(?:\s*[，,、和]\s*(?:{_TYPE}))*(?![A-Za-z0-9])"
_ONLY = re.compile(rf"`(\w+)`仅支持({_LIST})")
_NOT_950 = re.compile(rf"950DT：不支持({_LIST})")
_ALSO_A3 = re.compile(rf"A3 训练系列产品额外支持({_LIST})")
_MARKS = (
    ("cpu-only", re.compile("仅CPU支持")),
    ("cpu", re.compile("回退至CPU")),
    ("inference", re.compile("仅支持推理场景")),
    ("no-double", re.compile("不支持double数据类型")),
    ("other-rounding-950", re.compile("精度可能和Atlas A2")),
    ("other-order", re.compile("索引结果与GPU/CPU不一致")),
    ("contiguous-only", re.compile(r"`?memory_format`?(?:参数)?仅支持(?:传入|设置为)?torch\.contiguous_format")),
    ("foreach-slow", re.compile("`foreach=None`或`foreach=True`")),
    ("nested-create-only", re.compile("嵌套张量只支持创建")),
    ("no-scale-factor", re.compile("不支持`scale_factor`")),
    ("bool-mask", re.compile("`attn_mask`输入有效数据，输入数据类型必须是bool类型")),
)
_CHIPS = (("A2", "A2"), ("A3", "A3"), ("950DT", "950"))
_FIELDS = ("api", "versions", "chips", "argument", "types", "types_not_on_950", "types_also_on_a3", "marks")


def _name(text: str) -> str:
    name = text.replace("\\_", "_").removesuffix("()")
    return f"torch.{name}" if name.startswith(("Tensor.", "Optimizer.")) else name


def _types(text: str) -> str:
    found = {_TYPES[name] for name in re.findall(_TYPE, text)}
    return " ".join(name for name in dict.fromkeys(_TYPES.values()) if name in found)


def _facts(row: dict[str, str]) -> tuple[str, ...]:
    note = row["note_zh"]
    only, not_950, also = _ONLY.search(note), _NOT_950.search(note), _ALSO_A3.search(note)
    return (
        " ".join(name for column, name in _CHIPS if row[column] == "yes"),
        only[1] if only else "",
        _types(only[2]) if only else "",
        _types(not_950[1]) if not_950 else "",
        _types(also[1]) if also else "",
        " ".join(mark for mark, pattern in _MARKS if pattern.search(note)),
    )


def extract(folder: Path) -> list[tuple[str, ...]]:
    """One row an API and set of facts: which versions it holds for, and the facts."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(folder.glob("*.csv"), key=lambda path: [int(part) for part in path.stem.split(".")]):
        with path.open(encoding="utf-8", newline="") as stream:
            seen: set[str] = set()
            for row in csv.DictReader(stream):
                name = _name(row["api"])
                if row["A2"] in ("yes", "no") and name not in seen:
                    seen.add(name)
                    rows.setdefault((name, *_facts(row)), []).append(path.stem)
    return sorted((key[0], " ".join(versions), *key[1:]) for key, versions in rows.items())


def main() -> None:
    """Write the file."""
    rows = extract(Path(sys.argv[1]))
    with Path(sys.argv[2]).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(_FIELDS)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
