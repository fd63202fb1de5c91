"""What importing and starting capture loads into the training process, and what that costs."""

from __future__ import annotations

import json

import pytest
from tests.inside.conftest import Place

pytestmark = pytest.mark.live

MOST_CALLS = 65_000
"""Of functions, from the import to the end of the first step; a busy or a slow machine counts the same. The budget is
time, 50 ms of CPU, and is measured by `benchmarks/capture.py`: 46 000 calls took 29 ms there (docs/benchmarks.md)."""
_LOADED = """
    import json, sys
    calls = 0
    def count(frame, event, argument):
        global calls
        calls += event in ("call", "c_call")
    before = set(sys.modules)
    sys.setprofile(count)
    import hermes.inside
    bare = set(sys.modules) - before
    hermes.inside.start()
    hermes.inside.step()
    sys.setprofile(None)
    hermes.inside.step()
    print(json.dumps([sorted(bare), sorted(set(sys.modules) - before), calls, sorted(sys.stdlib_module_names)]))
"""


def test_capture_loads_the_standard_library_and_its_own_room(place: Place) -> None:
    done = place.python(_LOADED)
    assert done.stderr == ""
    bare, loaded, _, library = json.loads(done.stdout)
    foreign = [name for name in loaded if name.partition(".")[0] not in {*library, "hermes"}]
    assert foreign == []
    rooms = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("hermes.")}
    assert rooms == {"hermes.inside"}
    # Until something is asked of it, it is no more than its border.
    assert [name for name in bare if name.startswith("hermes.")] == ["hermes.inside", "hermes.inside.error_guard"]
    assert not {"asyncio", "logging", "multiprocessing", "subprocess", "socket", "importlib.abc"} & set(loaded)


def test_importing_starting_and_joining_is_cheap(place: Place) -> None:
    assert 10_000 < json.loads(place.python(_LOADED).stdout)[2] < MOST_CALLS


def test_capture_can_be_switched_off_from_outside(place: Place) -> None:
    done = place.python("import hermes.inside as c; c.start(); c.step(); c.step()", HERMES_CAPTURE="0")
    assert (done.returncode, done.stderr, place.jobs()) == (0, "", [])
