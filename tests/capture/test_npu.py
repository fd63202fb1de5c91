"""The calls of the torch_npu back end, held against the signatures in the wheel; torch_npu loads nowhere without CANN.

`torch_npu-2.13.0.json` was made from the published wheel by `signatures` below. With HERMES_TORCH_NPU_WHEEL set to a
wheel (`pip download --no-deps torch_npu`) the file is held against it.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hermes.capture.agent import device_name
from hermes.capture.backends import CaptureError, choose
from hermes.capture.backends.npu import LEVELS, NpuBackend
from hermes.live.control import Request

KNOWN = Path(__file__).with_name("torch_npu-2.13.0.json")
FILES = {"profiler.py": ("profile", "tensorboard_trace_handler"), "experimental_config.py": ("_ExperimentalConfig",),
         "scheduler.py": ("Schedule",)}  # fmt: skip
ENUMS = ("ProfilerLevel", "AiCMetrics")
METHODS = ("__init__", "start", "step", "stop", "add_metadata_json")


def signatures(wheel: Path) -> dict[str, Any]:
    """Parameters of the calls that the back end makes, and the names of the enums, read from the source."""
    found: dict[str, Any] = {}
    with zipfile.ZipFile(wheel) as archive:
        for file, names in FILES.items():
            body = ast.parse(archive.read(f"torch_npu/profiler/{file}")).body
            classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
            for node in body:
                name = getattr(node, "name", "")
                if isinstance(node, ast.FunctionDef) and name in names:
                    found[name] = _parameters(node)
                elif isinstance(node, ast.ClassDef) and name in names:
                    above = [
                        classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes
                    ]
                    methods = [part for one in (*above, node) for part in one.body if isinstance(part, ast.FunctionDef)]
                    found[name] = {part.name: _parameters(part) for part in methods if part.name in METHODS}
                elif isinstance(node, ast.ClassDef) and name in ENUMS:
                    values = [part.targets[0] for part in node.body if isinstance(part, ast.Assign)]
                    found[name] = [value.id for value in values if isinstance(value, ast.Name)]
    return found


def _parameters(function: ast.FunctionDef) -> list[list[Any]]:
    """Name, whether it is given by name only, and whether it has a default."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    with_default = len(plain) - len(arguments.defaults)
    found = [[one.arg, False, place >= with_default] for place, one in enumerate(plain)]
    found += [
        [one.arg, True, default is not None]
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return [parameter for parameter in found if parameter[0] != "self"]


def test_the_known_signatures_are_those_of_the_wheel() -> None:
    wheel = os.environ.get("HERMES_TORCH_NPU_WHEEL")
    if not wheel:
        pytest.skip("HERMES_TORCH_NPU_WHEEL names no wheel")
    assert signatures(Path(wheel)) == json.loads(KNOWN.read_text())


def _signature(parameters: list[list[Any]]) -> inspect.Signature:
    kinds = {True: inspect.Parameter.KEYWORD_ONLY, False: inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return inspect.Signature(
        [
            inspect.Parameter(name, kinds[by_name], default=None if default else inspect.Parameter.empty)
            for name, by_name, default in parameters
        ]
    )


class Stage:
    """torch_npu.profiler as its wheel describes it: what is called otherwise raises TypeError."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.folder: Path | None = None
        self.module = types.ModuleType("torch_npu.profiler")
        made: Any = self.module
        made.profile = self._class("profile", known["profile"])
        made.schedule = self._class("schedule", known["Schedule"])
        made._ExperimentalConfig = self._class("config", known["_ExperimentalConfig"])
        made.tensorboard_trace_handler = self._function("handler", known["tensorboard_trace_handler"])
        made.ProfilerLevel = types.SimpleNamespace(**{name: name for name in known["ProfilerLevel"]})
        made.AiCMetrics = types.SimpleNamespace(**{name: name for name in known["AiCMetrics"]})
        made.ProfilerActivity = types.SimpleNamespace(CPU="CPU", NPU="NPU")

    def _function(self, name: str, parameters: list[list[Any]]) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = _signature(parameters).bind(*args, **kwargs)
            self.calls.append((name, dict(bound.arguments)))
            if name == "handler":
                self.folder = Path(bound.arguments["dir_name"])
            return types.SimpleNamespace()

        return call

    def _class(self, name: str, methods: dict[str, list[list[Any]]]) -> Any:
        made = self._function(name, methods["__init__"])

        def construct(*args: Any, **kwargs: Any) -> Any:
            thing = made(*args, **kwargs)
            for method in METHODS[1:]:
                if method in methods:
                    setattr(thing, method, self._function(f"{name}.{method}", methods[method]))
            return thing

        return construct

    def named(self, name: str) -> dict[str, Any]:
        (arguments,) = [given for called, given in self.calls if called == name]
        return arguments


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(json.loads(KNOWN.read_text()))
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch_npu", types.ModuleType("torch_npu"))
    monkeypatch.setitem(sys.modules, "torch_npu.profiler", made.module)
    return made


def request(out: Path, level: str, **options: str) -> Request:
    return Request(
        action="profile", start_step=5, steps=2, level=level, reason="", out=str(out), options=options,
        largest_bytes=1000,
    )  # fmt: skip


@pytest.mark.parametrize("level", list(LEVELS))
def test_each_level_calls_torch_npu_as_its_wheel_defines(stage: Stage, tmp_path: Path, level: str) -> None:
    backend = choose(request(tmp_path, level), 3, sys.modules, {"steps": 9, "step_ns": 8_000_000})
    assert isinstance(backend, NpuBackend)
    backend.start()
    backend.mark(5)
    backend.mark(6)
    backend.stop()
    (tmp_path / "rank3").mkdir()
    (tmp_path / "rank3" / "profiler_info_3.json").write_text("{}")
    assert backend.save() == tmp_path / "rank3"
    assert [name for name, _ in stage.calls if name.startswith("profile.")] == [
        "profile.start", "profile.add_metadata_json", "profile.step", "profile.step", "profile.stop",
    ]  # fmt: skip
    told = stage.named("profile.add_metadata_json")
    assert (told["key"], json.loads(told["value"])) == ("hermes", {"before": {"steps": 9, "step_ns": 8_000_000}})
    assert stage.named("config")["profiler_level"] == LEVELS[level]["profiler_level"]
    assert stage.named("handler") == {"dir_name": str(tmp_path / "rank3"), "analyse_flag": False}
    assert stage.named("schedule") == {"wait": 0, "active": 2, "warmup": 0, "repeat": 1}
    asked = stage.named("profile")
    assert (asked["with_stack"], asked["profile_memory"]) == ((level == "full"),) * 2


def test_options_reach_torch_npu_and_a_metric_that_is_none_is_refused(stage: Stage, tmp_path: Path) -> None:
    NpuBackend(request(tmp_path, "light", mstx="yes", aic_metrics="L2Cache", stack="yes"), 0, {}).start()
    assert (stage.named("config")["mstx"], stage.named("config")["aic_metrics"]) == (True, "L2Cache")
    assert stage.named("profile")["with_stack"] is True
    with pytest.raises(CaptureError, match="no metrics 'Rumours'"):
        NpuBackend(request(tmp_path, "light", aic_metrics="Rumours"), 0, {}).start()


def test_a_capture_that_wrote_nothing_or_too_much_is_none(stage: Stage, tmp_path: Path) -> None:
    backend = NpuBackend(request(tmp_path, "light"), 0, {})
    backend.start()
    backend.stop()
    with pytest.raises(CaptureError, match="nothing"):
        backend.save()
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "large").write_bytes(bytes(1001))
    with pytest.raises(CaptureError, match="more than the 1000 allowed"):
        backend.save()


class _Device:
    """What torch.cuda and torch.npu have in common here, with their names."""

    def __init__(self, name: str, initialized: bool) -> None:
        self._name, self._initialized = name, initialized

    def is_initialized(self) -> bool:
        return self._initialized

    def get_device_name(self, device: Any = None) -> str:
        assert self._initialized, "naming it would initialise it"
        return self._name


def test_the_device_is_named_when_the_job_uses_it_and_is_left_alone_else() -> None:
    torch = types.SimpleNamespace(cuda=_Device("NVIDIA H100 80GB HBM3", False), npu=_Device("Ascend910B2", True))
    assert device_name({"torch": torch}) == "Ascend910B2"
    torch.npu = _Device("Ascend910B2", False)
    assert device_name({"torch": torch}) is None
    assert device_name({}) is None
