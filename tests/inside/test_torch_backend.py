"""The capture with torch's profiler, with a torch that only notes what it is asked."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest

from hermes.inside.profile.backends import torch as backend
from hermes.inside.wire.control import Request


class Recorder:
    """Stands for `torch.profiler.profile`: while it records, it notes the modules whose code runs, as Kineto does."""

    def __init__(self) -> None:
        self.imported: list[str] = []

    def start(self) -> None:
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name == "<module>":
            self.imported.append(frame.f_code.co_filename)

    def stop(self) -> None:
        sys.setprofile(None)

    def add_metadata_json(self, name: str, value: str) -> None:
        pass


class Mark:
    """Stands for `torch.autograd.profiler.record_function`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    profiler = SimpleNamespace(profile=lambda **_: made, ProfilerActivity=SimpleNamespace(CPU=0))
    torch = SimpleNamespace(
        _C=SimpleNamespace(_autograd=SimpleNamespace(_profiler_enabled=lambda: False)),
        cuda=SimpleNamespace(is_available=lambda: False),
        autograd=SimpleNamespace(profiler=SimpleNamespace(record_function=Mark)),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.profiler", profiler)
    return made


def test_nothing_is_imported_while_the_profiler_records(recorder: Recorder, tmp_path: Path) -> None:
    getattr(backend, "_resource", SimpleNamespace(cache_clear=lambda: None)).cache_clear()
    request = Request(
        action="start", start_step=3, steps=2, level="standard", reason="test", out=str(tmp_path), options={}
    )
    capture = backend.TorchBackend(request, 0, {})
    capture.start()
    capture.mark(3)
    capture.mark(4)
    capture.stop()
    assert recorder.imported == []
