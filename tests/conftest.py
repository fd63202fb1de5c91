"""Fixtures for all tests: the real profiles if they exist, and a cache that is never the user's."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.shared_jobs import Jobs
from tests.skips import Skips, profiles
from tests.tiers import Tiers

from hermes.model.host_measures import (
    AllocatorCalls,
    CoreLoad,
    Dispatch,
    HostEvents,
    HostPart,
    QueueDepth,
    SettingValues,
    Shapes,
    StepHost,
    SyncCall,
)
from hermes.model.input_measures import Fetches, InputCopies, InputQueue, InputRates
from hermes.model.memory_measures import Holder, MemoryGrowth, MemoryPeak, Recompute
from hermes.model.overlap_measures import OverlapPart, OverlapState, StepOverlap

# The duration of one example says nothing on a machine that does other work too. `make test-all` takes the profile
# `free`, which draws new examples in each run.
settings.register_profile("free", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")


CHROMIUM = "/usr/bin/chromium"

_LONGEST = (
    "fleet/hosts/test_faults", "test_pseudo_language", "web/test_browser", "profiles/pipeline/test_communication",
    "goldens", "profiles/pipeline/test_findings", "bad_input/test_broken_files", "profiles/read/test_kineto",
    "web/test_analysis_session",
    "report/test_html_browser", "bad_input", "profiles/pipeline/test_compute", "profiles/whatif/test_replay",
    "profiles/read/test_conformance", "profiles/pipeline/test_critical_paths", "web", "profiles/pipeline",
    "docs", "testing",
)  # fmt: skip
"""Files are distributed as a whole: the slowest files begin first, or a late one would keep the other workers
waiting."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--whole`, for the gate, and `--update-golden`, for `make goldens`."""
    parser.addoption("--whole", action="store_true", help="fail if a test is skipped that needs no real profiles")
    parser.addoption("--update-golden", action="store_true", help="write the texts below tests/goldens anew")


def pytest_configure(config: pytest.Config) -> None:
    """Hold tests to their tiers, and count skipped tests in the process that the others report to."""
    config.pluginmanager.register(Tiers())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(whole=config.getoption("whole")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the slowest files first, and all others as they come."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(here).as_posix()
        return next((at for at, start in enumerate(_LONGEST) if path.startswith(start)), len(_LONGEST))

    items.sort(key=place)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real profiles beside the repository; skips where it does not exist."""
    return profiles()


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Jobs:
    """Modelled jobs and real profiles, each written, read and analysed once in a run."""
    own = tmp_path_factory.getbasetemp()
    return Jobs((own if worker_id == "master" else own.parent) / "jobs")


_TOKEN = secrets.token_hex(32)

AXE_SHA256 = "84494fec757e4710dc751c8d7a636e457f4532f08f85c86dc9070133fbff53bc"


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, from a wheel of the developers' tools; the very file that was reviewed."""
    spec = find_spec("axe_playwright_python")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("axe-playwright-python is not installed")
    text = (Path(spec.submodule_search_locations[0]) / "axe.min.js").read_bytes()
    assert hashlib.sha256(text).hexdigest() == AXE_SHA256
    return text.decode()


@pytest.fixture(autouse=True)
def _nothing_of_the_user(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "hermes-cache"))
    # Otherwise Ray would write a token into the user's home, or read one there.
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", _TOKEN)


@pytest.fixture(scope="session")
def host_rows() -> Callable[[str], tuple[object, ...]]:
    """Makes rows of overlap, input, host and memory, with a given text wherever text of a profile appears."""
    return _host_rows


def vars_of(row: object) -> dict[str, Any]:
    """The fields of a row."""
    return {name: getattr(row, name) for name in row.__dataclass_fields__}  # type: ignore[attr-defined]


def _host_rows(text: str) -> tuple[object, ...]:
    bad = float("nan")
    part = OverlapPart(component="communication", group=text, events=4, busy_ns=99, exposed_ns=95, alone_ns=82)
    state = OverlapState(components=(part.label, text), ns=130)
    fetch = Fetches(
        rank=0, kind="workers", steps=1, fetches=2, wait_ns=7_000_000, median_ns=3_500_000, longest_ns=3_562_460,
        longest_step=50, long=2, device_free_ns=None, queue_wait_ns=3_301_970, early=0, epochs=1, epoch_ns=12,
        reading_ns=None, processing_ns=None,
    )  # fmt: skip
    queue = InputQueue(
        rank=0, queue="data", name=text, workers=4, capacity=None, average=bad, usage=0.3, empty=None, full=0.0,
        samples=9, source=text,
    )  # fmt: skip
    call = SyncCall(
        rank=0, step=50, names=(text, "aclrtMemcpy"), operator=text, source=f"{text}/main.py(485): f{text}", calls=8,
        wait_ns=86_770_000, compute_ns=2_800_000, comm_ns=82_000_000, copy_ns=0, idle_ns=1_970_000, refill_ns=626_000,
        longest_ns=85_525_760, longest_at_ns=1_000,
    )  # fmt: skip
    event = HostEvents(
        rank=0, what="compilation", steps=1, steps_hit=1, calls=19, ns=14_231_860, longest_ns=1_890_690,
        device_free_ns=5_170_021, names=((text, 19, 14_231_860),), source=text,
    )  # fmt: skip
    unknown = HostEvents(
        rank=0, what="garbage collection", steps=1, steps_hit=None, calls=None, ns=None, longest_ns=None,
        device_free_ns=None, names=(), source=text,
    )  # fmt: skip
    return (
        StepOverlap(rank=0, step=50, window_ns=130, parts=(part,), states=(state,), absent=("copy",)),
        fetch,
        InputRates(rank=0, demand=6.9, supply=bad, fetching=None, workers_needed=None, cores_free=3.0, cores=4),
        queue,
        InputCopies(rank=0, copies=14, bytes=None, time_ns=5, exposed_ns=4, pageable_bytes=1_000),
        StepHost(
            rank=0, step=50, start_ns=1_736_412_474_712_651_500, host_ns=148_786_100, threads=2, queue_ns=None,
            parts=(HostPart(reason="operators", ns=148_786_100, device_free_ns=None),),
        ),
        Dispatch(
            rank=0, step=50, tasks=215, linked=215, interval_ns=61_765, kernel_ns=None, ratio=bad, small=50,
            late=32, late_free_ns=20_720_093, delay_ns=2_031_794, task_queue="on", task_queue_source=text,
        ),
        QueueDepth(
            rank=0, step=50, device_id=None, tasks=215, mean=19.9, median=23, most=81, empty=0.11, full=0.0,
            curve=(0.5, bad),
        ),
        call,
        event,
        AllocatorCalls(**{**vars_of(event), "what": "allocation"}),
        unknown,
        Shapes(rank=0, known=187, dynamic=187, kernels=174, distinct=125, new=None),
        CoreLoad(rank=0, cores=4, usage=0.25, busiest=1.0),
        SettingValues(source="environment", name=text, values=((text, (0,)), (None, (1,))), absent=(2,)),
        MemoryPeak(
            rank=0, component=text, device_id=0, samples=381, allocated_bytes=None, allocated_at_ns=None,
            allocated_step=None, reserved_bytes=2_216_407_040, active_bytes=None, fragmentation=None,
        ),
        MemoryGrowth(rank=0, component=text, device_id=0, steps=4, bytes_per_step=bad, r2=1.0),
        Recompute(rank=0, step=50, ops=3, host_ns=7, device_ns=None, compute_ns=None),
        Holder(rank=0, module=text, operator=text, blocks=1, bytes=150_995_456, share=0.26),
    )  # fmt: skip


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests of a process, which cannot have two; each visit has a window of its own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()
