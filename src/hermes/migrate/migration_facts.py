"""Loads the facts of `hermes.knowledge.migration` that scan and convert look up, once in each process."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def npu_names() -> frozenset[str]:
    """The names in torch.npu, with names inside its parts, such as `amp.autocast`."""
    modules = surface()["modules"]
    names = set(modules["torch_npu.npu"])
    for module, found in modules.items():
        if module.startswith("torch_npu.npu."):
            part = module.removeprefix("torch_npu.npu.")
            names |= {part, *(f"{part}.{name}" for name in found)}
    return frozenset(names)


@cache
def npu_parameters(name: str) -> frozenset[str] | None:
    """The parameter names of a function of torch.npu; None if they are not known or it takes any name."""
    entry = surface()["modules"]["torch_npu.npu"].get(name)
    text = str(entry.get("signature", "")) if entry else ""
    if not text or "*" in text:
        return None
    return frozenset(re.findall(r"[(,]\s*(\w+)", text))


@cache
def surface() -> Mapping[str, dict[str, dict[str, dict[str, object]]]]:
    """The names and signatures in the wheel of torch_npu, as read by `tools/extract_npu_surface.py`."""
    file = resources.files("hermes.migrate").joinpath("standin", "surface.json")
    found: Mapping[str, dict[str, dict[str, dict[str, object]]]] = json.loads(file.read_text(encoding="utf-8"))
    return found
