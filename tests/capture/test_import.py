"""What importing and starting capture loads into the training process, and what that costs."""

from __future__ import annotations

import json

from tests.capture.conftest import Place

BUDGET_NS = 50_000_000
_LOADED = """
    import json, sys, time
    before, cpu = set(sys.modules), time.process_time_ns()
    import hermes.capture
    bare = set(sys.modules) - before
    hermes.capture.start()
    hermes.capture.step()
    spent = time.process_time_ns() - cpu
    hermes.capture.step()
    print(json.dumps([sorted(bare), sorted(set(sys.modules) - before), spent, sorted(sys.stdlib_module_names)]))
"""


def test_capture_loads_the_standard_library_and_two_rooms(place: Place) -> None:
    done = place.python(_LOADED)
    assert done.stderr == ""
    bare, loaded, _, library = json.loads(done.stdout)
    foreign = [name for name in loaded if name.partition(".")[0] not in {*library, "hermes"}]
    assert foreign == []
    rooms = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("hermes.")}
    assert rooms == {"hermes.capture", "hermes.live"}
    # Until something is asked of it, it is one module.
    assert [name for name in bare if name.startswith("hermes.")] == ["hermes.capture"]
    assert not {"asyncio", "logging", "multiprocessing", "subprocess", "socket", "importlib.abc"} & set(loaded)


def test_importing_starting_and_joining_is_cheap(place: Place) -> None:
    # The least of a few: other work on the machine only ever adds.
    spent = min(json.loads(place.python(_LOADED).stdout)[2] for _ in range(5))
    assert spent < 2 * BUDGET_NS


def test_capture_can_be_switched_off_from_outside(place: Place) -> None:
    done = place.python("import hermes.capture as c; c.start(); c.step(); c.step()", HERMES_CAPTURE="0")
    assert (done.returncode, done.stderr, place.jobs()) == (0, "", [])
