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

from hermes.inside.agent import device_name
from hermes.inside.monitor.device import device_clock
from hermes.inside.monitor.system_counters import device_bytes
from hermes.inside.profile.backends import choose
from hermes.inside.profile.backends.npu import NpuBackend
from hermes.inside.wire.capture_levels import TORCH_NPU, CaptureError
from hermes.inside.wire.control import Request
from hermes.inside.wire.step_record import NULL

KNOWN = Path(__file__).with_name("torch_npu-2.13.0.json")
FILES = {"profiler/profiler.py": ("profile", "tensorboard_trace_handler"),
         "profiler/experimental_config.py": ("_ExperimentalConfig",), "profiler/scheduler.py": ("Schedule",),
         "profiler/_profiler_path_creator.py": ("ProfPathCreator",), "npu/streams.py": ("Event",),
         "npu/graphs.py": ("is_current_stream_capturing",), "npu/__init__.py": ("is_initialized", "get_device_name"),
         "npu/memory.py": ("memory_allocated",)}  # fmt: skip
ENUMS = ("ProfilerLevel", "AiCMetrics")
METHODS = ("__init__", "__new__", "start", "step", "stop", "add_metadata_json",
           "_set_step_num_offset_for_dynamic_prof", "record", "query", "elapsed_time")  # fmt: skip
DEVICE = ("Event", "is_current_stream_capturing", "is_initialized", "get_device_name", "memory_allocated")
"""What the capture calls of `torch.npu`, which is `torch_npu.npu`."""


def signatures(wheel: Path) -> dict[str, Any]:
    """Parameters of the calls that the capture makes, and the names of the enums, read from the source."""
    found: dict[str, Any] = {}
    with zipfile.ZipFile(wheel) as archive:
        for file, names in FILES.items():
            body = ast.parse(archive.read(f"torch_npu/{file}")).body
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
                    if name == "ProfPathCreator":
                        found[name]["attributes"] = _attributes(node)
                elif isinstance(node, ast.ClassDef) and name in ENUMS:
                    values = [part.targets[0] for part in node.body if isinstance(part, ast.Assign)]
                    found[name] = [value.id for value in values if isinstance(value, ast.Name)]
        # Names that the package itself gives out.
        names = ast.parse(archive.read("torch_npu/npu/__init__.py")).body
        (listed,) = [node.value for node in names if isinstance(node, ast.Assign) and _named(node) == "__all__"]
        found["torch_npu.npu"] = sorted(name for name in ast.literal_eval(listed) if name in DEVICE)
    return found


def _named(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""


def _attributes(node: ast.ClassDef) -> list[str]:
    """What its constructor sets."""
    (made,) = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    targets = [part.targets[0] for part in made.body if isinstance(part, ast.Assign)]
    return sorted(target.attr for target in targets if isinstance(target, ast.Attribute) and "inited" in target.attr)


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
    return [parameter for parameter in found if parameter[0] not in ("self", "cls")]


@pytest.mark.live
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
        self.running = False
        self.paths: Any = types.ModuleType("torch_npu.profiler._profiler_path_creator")
        assert known["ProfPathCreator"]["attributes"] == ["is_prof_inited"]
        self.paths.ProfPathCreator = lambda: types.SimpleNamespace(is_prof_inited=self.running)
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
    monkeypatch.setitem(sys.modules, "torch_npu.profiler._profiler_path_creator", made.paths)
    return made


def request(out: Path, level: str, **options: str) -> Request:
    return Request(
        action="profile", start_step=5, steps=2, level=level, reason="", out=str(out), options=options,
        largest_bytes=1000,
    )  # fmt: skip


@pytest.mark.parametrize("level", list(TORCH_NPU))
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
        "profile._set_step_num_offset_for_dynamic_prof", "profile.start", "profile.add_metadata_json",
        "profile.step", "profile.step", "profile.stop",
    ]  # fmt: skip
    assert stage.named("profile._set_step_num_offset_for_dynamic_prof") == {"step": 5}
    told = stage.named("profile.add_metadata_json")
    assert (told["key"], json.loads(told["value"])["before"]) == ("hermes", {"steps": 9, "step_ns": 8_000_000})
    assert stage.named("config")["profiler_level"] == TORCH_NPU[level]["profiler_level"]
    assert stage.named("handler") == {"dir_name": str(tmp_path / "rank3"), "analyse_flag": False}
    assert stage.named("schedule") == {"wait": 0, "active": 2, "warmup": 0, "repeat": 1}
    asked = stage.named("profile")
    assert (asked["with_stack"], asked["profile_memory"]) == (level != "light", level == "full")


def test_options_reach_torch_npu_and_a_metric_that_is_none_is_refused(stage: Stage, tmp_path: Path) -> None:
    NpuBackend(request(tmp_path, "light", mstx="yes", aic_metrics="L2Cache", stack="yes"), 0, {}).start()
    assert (stage.named("config")["mstx"], stage.named("config")["aic_metrics"]) == (True, "L2Cache")
    assert stage.named("profile")["with_stack"] is True
    # Numbers of steps would cost the ranges of mstx.
    assert not [name for name, _ in stage.calls if name == "profile._set_step_num_offset_for_dynamic_prof"]
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


def test_a_profile_of_the_job_itself_is_left_alone(stage: Stage, tmp_path: Path) -> None:
    stage.running = True
    with pytest.raises(CaptureError, match="another profiler is running"):
        NpuBackend(request(tmp_path, "light"), 0, {}).start()
    assert stage.calls == []


class _Npu:
    """`torch.npu` as the wheel describes it: calls with other arguments raise, and other names are not there."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known
        self.times = iter(range(0, 1000, 7))
        assert known["torch_npu.npu"] == sorted(DEVICE)

    def __getattr__(self, name: str) -> Any:
        if name not in DEVICE:
            raise AttributeError(name)
        parameters = self._known[name]
        answers = {"is_initialized": True, "get_device_name": "Ascend910B2", "memory_allocated": 7}
        return self._event if name == "Event" else lambda *args, **kwargs: self._call(
            parameters, answers.get(name, False), args, kwargs
        )  # fmt: skip

    @staticmethod
    def _call(parameters: list[list[Any]], answer: Any, args: Any, kwargs: Any) -> Any:
        _signature(parameters).bind(*args, **kwargs)
        return answer

    def _event(self, *args: Any, **kwargs: Any) -> Any:
        methods = self._known["Event"]
        _signature(methods["__new__"]).bind(*args, **kwargs)
        assert kwargs == {"enable_timing": True}
        made = types.SimpleNamespace(at=None)

        def record(*args: Any) -> None:
            _signature(methods["record"]).bind(*args)
            made.at = next(self.times)

        def elapsed(*args: Any) -> float:
            _signature(methods["elapsed_time"]).bind(*args)
            return float(args[0].at - made.at)

        made.record, made.elapsed_time = record, elapsed
        made.query = lambda *args: self._call(methods["query"], True, args, {})
        return made


def test_the_device_is_asked_as_the_wheel_defines() -> None:
    modules = {"torch": types.SimpleNamespace(npu=_Npu(json.loads(KNOWN.read_text())))}
    clock = device_clock(modules)
    assert clock is not None
    assert [clock.step_ended() for _ in range(4)] == [NULL, 7_000_000, 7_000_000, 7_000_000]
    assert device_bytes(modules) == 7
    assert device_name(modules) == "Ascend910B2"


def test_options_that_levels_leave_out_can_be_asked_for(stage: Stage, tmp_path: Path) -> None:
    asked = {
        "l2_cache": "yes", "op_attr": "yes", "sys_io": "no", "host_sys": "cpu,mem", "export_type": "text,db",
        "gc_detect_threshold": "0.5", "mstx_domain_include": "loss",
    }  # fmt: skip
    NpuBackend(request(tmp_path, "light", **asked), 0, {}).start()
    config = stage.named("config")
    assert {name: config[name] for name in asked} == {
        "l2_cache": True, "op_attr": True, "sys_io": False, "host_sys": ["cpu", "mem"], "export_type": ["text", "db"],
        "gc_detect_threshold": 0.5, "mstx_domain_include": ["loss"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [("l2_cache", "often"), ("host_sys", "cpu,gpu"), ("gc_detect_threshold", "long")]
)  # fmt: skip
def test_a_value_that_is_none_is_refused(stage: Stage, tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(CaptureError, match=name):
        NpuBackend(request(tmp_path, "light", **{name: value}), 0, {}).start()
