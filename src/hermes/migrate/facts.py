"""The facts of `hermes.knowledge.migration` that scan and convert look up, loaded once a process."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def npu_names() -> frozenset[str]:
    """The names of torch.npu, with those of its parts, as `amp.autocast`."""
    modules = surface()["modules"]
    names = set(modules["torch_npu.npu"])
    for module, found in modules.items():
        if module.startswith("torch_npu.npu."):
            part = module.removeprefix("torch_npu.npu.")
            names |= {part, *(f"{part}.{name}" for name in found)}
    return frozenset(names)


@cache
def npu_parameters(name: str) -> frozenset[str] | None:
    """The names of the parameters of a function of torch.npu; None where they are not known or any is taken."""
    entry = surface()["modules"]["torch_npu.npu"].get(name)
    text = str(entry.get("signature", "")) if entry else ""
    if not text or "*" in text:
        return None
    return frozenset(re.findall(r"[(,]\s*(\w+)", text))


@cache
def surface() -> Mapping[str, dict[str, dict[str, dict[str, object]]]]:
    """What the wheel of torch_npu defines, as `tools/extract_npu_surface.py` read it."""
    file = resources.files("hermes.migrate").joinpath("standin", "surface.json")
    found: Mapping[str, dict[str, dict[str, dict[str, object]]]] = json.loads(file.read_text(encoding="utf-8"))
    return found
