"""Parses the options of a recording: Hermes' own options, the tutorial's JSON or msProbe's config.json."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from typing import Any

from hermes.inside.record.layout import OPTIONS_VARIABLE, PHASES

LEVELS = ("operators", "modules", "both")
WHAT = ("statistics", "fingerprint", "tensors")
ARITHMETIC = ("own", "perturbed", "float32", "float64")
DEFAULTS: dict[str, Any] = {
    "out": "", "steps": "0-1", "level": "operators", "what": "statistics", "sample": 0, "limit_bytes": 50_000_000_000,
    "phases": list(PHASES), "scope": [], "operators": [], "ranks": "", "ring": 0, "compiled": "eager",
    "arithmetic": "own", "seed": 0,
}  # fmt: skip
_LONGEST = 100_000


class OptionsError(ValueError):
    """An option of a recording is invalid; the text says which."""


class Options:
    """The checked options of a recording. `asked` holds them as plain values, for the head of the recording."""

    def __init__(self, asked: dict[str, Any]) -> None:
        unknown = sorted(set(asked) - set(DEFAULTS))
        if unknown:
            raise OptionsError(f"unknown option: {unknown[0]}")
        self.asked = {**DEFAULTS, **asked}
        self.out = str(self.asked["out"])
        self.steps = steps(self.asked["steps"])
        self.level = _one_of("level", self.asked["level"], LEVELS)
        self.what = _one_of("what", self.asked["what"], WHAT)
        self.arithmetic = _one_of("arithmetic", self.asked["arithmetic"], ARITHMETIC)
        self.compiled = _one_of("compiled", self.asked["compiled"], ("eager", "keep"))
        self.sample = int(self.asked["sample"])
        self.limit_bytes = int(self.asked["limit_bytes"])
        self.phases = frozenset(_one_of("phase", one, PHASES) for one in self.asked["phases"])
        self.ranks = steps(self.asked["ranks"]) if self.asked["ranks"] != "" else None
        self.ring = int(self.asked["ring"])
        self.seed = int(self.asked["seed"])
        # The last recorded step; None where a ring goes on. Read at the end of every step.
        self.last_step = None if self.ring else max(self.steps, default=-1)
        self._scope = _patterns(self.asked["scope"])
        self._operators = _patterns(self.asked["operators"])
        if self.ring and self.what == "tensors":
            raise OptionsError("a ring keeps statistics or fingerprints, since whole tensors would fill the memory")
        self.operators = self.level != "modules"
        self.modules = self.level != "operators"

    def wants_step(self, step: int) -> bool:
        """Whether the options name this step for recording."""
        return bool(self.ring) or step in self.steps

    def wants(self, operator: str, path: str, phase: str) -> bool:
        """Whether a call is recorded, by its operator, module path and phase."""
        if phase not in self.phases:
            return False
        if self._operators is not None and not self._operators.search(operator):
            return False
        return self._scope is None or bool(self._scope.search(path))

    @property
    def narrow(self) -> bool:
        """Whether the options leave some calls out."""
        return self._scope is not None or self._operators is not None or len(self.phases) < len(PHASES)


def from_environment() -> Options | None:
    """The options that `hermes precision record` put into the environment; None without such options."""
    text = os.environ.get(OPTIONS_VARIABLE, "")
    return Options(json.loads(text)) if text else None


def steps(asked: Any) -> frozenset[int]:
    """Step numbers from `10|20`, `0-3`, `1,5` or a list of these."""
    if isinstance(asked, int):
        return frozenset([asked])
    if isinstance(asked, (list, tuple)):
        return frozenset(one for part in asked for one in steps(part))
    found: set[int] = set()
    for part in filter(None, re.split(r"[|,\s]+", str(asked))):
        match = re.fullmatch(r"(\d{1,12})(?:-(\d{1,12}))?", part)
        if not match:
            raise OptionsError(f"{part[:40]!r} is no step; write 10|20 or 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first > _LONGEST:
            raise OptionsError(f"{part[:40]!r} names more than {_LONGEST} steps")
        found.update(range(first, last + 1))
    return frozenset(found)


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise OptionsError(f"{name} is one of {', '.join(known)}, not {str(value)[:40]!r}")
    return str(value)


def _patterns(globs: Any) -> re.Pattern[str] | None:
    """One regular expression for all globs; a glob without a wildcard matches its name anywhere between dots."""
    if not globs:
        return None
    parts = []
    for glob in [globs] if isinstance(globs, str) else globs:
        if any(mark in glob for mark in "*?["):
            parts.append(rf"(?:^|^.*?\.)(?:{fnmatch.translate(glob)})")
        else:
            parts.append(rf"(?:^|[.:]){re.escape(glob)}(?:$|[.:])")
    return re.compile("|".join(parts))


def of_config(document: Any) -> dict[str, Any]:
    """Options from the tutorial's `msprobe.json` or msProbe's `config.json`. A setting without counterpart is left
    out."""
    if not isinstance(document, dict):
        raise OptionsError("the configuration is no JSON object")
    if isinstance(document.get("dump"), dict):
        return _of_tutorial(document["dump"])
    if "task" in document or "level" in document or "dump_path" in document:
        return _of_msprobe(document)
    return {key: value for key, value in document.items() if key in DEFAULTS}


def _of_tutorial(dump: dict[str, Any]) -> dict[str, Any]:
    common = dump.get("common_dump_settings") or {}
    found: dict[str, Any] = {"what": "tensors"}
    if "dump_iter" in common:
        found["steps"] = str(common["dump_iter"])
    if common.get("dump_path"):
        found["out"] = str(common["dump_path"])
    names = [one for one in dump.get("api_list") or [] if isinstance(one, dict)]
    operators, scope = [], []
    for one in names:
        name = str(one.get("name", ""))
        if name.startswith(("torch.", "mindspore.", "torch_npu.")):
            operators.append(f"*{operator_stem(name)}*")
        elif name:
            scope.append(name.split(".", 1)[1] if "." in name else name)
    kinds = {str(one.get("api_type", "forward")) for one in names} & {"forward", "backward"}
    if kinds:
        found["phases"] = sorted(kinds)
    if common.get("dump_mode") == "module" or (scope and not operators):
        found["level"] = "modules"
    elif scope and operators:
        # Some calls are asked for by operator and others by module: take all calls, not only those that match both.
        operators = scope = []
    return {**found, **({"operators": operators} if operators else {}), **({"scope": scope} if scope else {})}


def operator_stem(name: str) -> str:
    """The operator's name of a torch function: `torch.nn.functional.conv2d` runs `convolution`."""
    last = name.rsplit(".", 1)[-1]
    known = {"linear": "mm", "matmul": "mm", "cross_entropy": "log_softmax", "dropout": "dropout"}
    return "convolution" if last.startswith("conv") else known.get(last, last)


_MSPROBE_LEVELS = {"L0": "modules", "L1": "operators", "mix": "both"}


def _of_msprobe(config: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"level": _MSPROBE_LEVELS.get(str(config.get("level", "L1")), "operators")}
    task = str(config.get("task", "statistics"))
    details = config.get(task) if isinstance(config.get(task), dict) else {}
    assert isinstance(details, dict)
    found["what"] = "tensors" if task == "tensor" else "statistics"
    if details.get("summary_mode") in ("md5", "xor"):
        found["what"] = "fingerprint"
    if config.get("dump_path"):
        found["out"] = str(config["dump_path"])
    if config.get("step"):
        found["steps"] = config["step"]
    else:
        found["steps"] = "0-9"
    if config.get("rank"):
        found["ranks"] = config["rank"]
    mode = set(details.get("data_mode") or ["all"])
    if mode & {"forward", "backward"} and "all" not in mode:
        found["phases"] = sorted(mode & {"forward", "backward"})
    names = [str(one) for one in details.get("list") or []]
    if names:
        found["operators"] = [f"*{operator_stem(_api_name(one))}*" for one in names]
    return found


def _api_name(name: str) -> str:
    """The function's name in msProbe's API name: `linear` for `Functional.linear.0.forward`; other texts unchanged."""
    parts = name.split(".")
    return parts[1] if len(parts) >= 4 and parts[-1] in ("forward", "backward") else name
