"""Capture of one process: waits for the first step, joins the job, and turns itself off when anything is wrong."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.inside.border import Border, warnings_let_pass
from hermes.inside.monitor.at_step_end import LOOP, Monitor, Stepped
from hermes.inside.monitor.bandwidth import Bandwidth
from hermes.inside.monitor.device import device_clock, initialised
from hermes.inside.monitor.flops import FlopCount
from hermes.inside.monitor.hooks import Hooks, ignore
from hermes.inside.monitor.loaders import Loaders
from hermes.inside.monitor.meter import Meter
from hermes.inside.monitor.numerics import Numerics
from hermes.inside.monitor.patches import Patches
from hermes.inside.monitor.stacks import Offer
from hermes.inside.profile.captures import Captures
from hermes.inside.say import say, say_off
from hermes.inside.wire import process
from hermes.inside.wire.beside import Beside
from hermes.inside.wire.control import NO_STEP, Control
from hermes.inside.wire.errors import LiveError, LogInUseError
from hermes.inside.wire.numerics import path_in
from hermes.inside.wire.record import FLAGS, NULL
from hermes.inside.wire.recovery import clean, open_ring, save_and_remove
from hermes.inside.wire.ring import RingWriter
from hermes.inside.wire.rundir import Job, default_root, enter, memory_folders, moved, new_id, read
from hermes.inside.wire.steplog import LogWriter

_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_JOIN_S = 2.0
"""So long the first step waits for the disk of the run directory; where that takes longer, steps count from then on."""
_FORK_S = 0.05
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


@dataclass(frozen=True)
class Place:
    """Where this process stands in its job."""

    rank: int
    world: int
    launched: bool


@dataclass(frozen=True)
class Joined:
    """What was opened of a job for this process."""

    job: Job
    control: Control
    number: int
    ring: RingWriter
    log: LogWriter
    stacks: Offer


class Agent:
    """All that capture keeps in a process. What its methods raise turns it off, with one line."""

    def __init__(
        self, environment: Mapping[str, str], *, collectives: bool = False, flops: int | None = None,
        count_flops: bool = False, device_events: bool = False, transfers: bool = False,
    ) -> None:  # fmt: skip
        self._environment = environment
        self._count_flops = count_flops or environment.get("HERMES_COUNT_FLOPS") == "1"
        self._device_events = device_events or environment.get("HERMES_DEVICE_EVENTS") == "1"
        self._collectives = collectives or environment.get("HERMES_COLLECTIVES") == "1"
        self._numerics = environment.get("HERMES_NUMERICS") != "0"
        self._transfers = transfers or environment.get("HERMES_TRANSFERS") == "1"
        self._flops = flops or _number(environment.get("HERMES_FLOPS_PER_STEP", ""))
        self._hooks: Hooks | None = None
        self._border = Border(self.give_up)
        self._renew()

    def _renew(self) -> None:
        """As if nothing had happened yet: at first, and in a forked child."""
        self.off = False
        self._stepped: Stepped | None = None
        self._first_step: int | None = None
        self._meter: Meter | None = None
        self._patches: Patches | None = None
        self._monitor: Monitor | None = None
        self._captures: Captures | None = None
        self._joining: Beside[Joined] | None = None
        self._control: Control | None = None
        self._joined: Joined | None = None
        self._place = Place(rank=0, world=1, launched=False)
        self._about: dict[str, object] = {}

    def start(self) -> None:
        """Wait for the first optimizer step, now or once torch is loaded."""
        if self._hooks is None:
            entry = self._border.entry
            self._hooks = Hooks(ignore, self.optimizer_ended, self._border)
            self._hooks.arm()
            os.register_at_fork(before=entry(self._forking), after_in_child=entry(self._forked))
            atexit.register(entry(self._ended))

    def optimizer_ended(self, optimizer: object, _args: object = None, _kwargs: object = None) -> None:
        """Hook after the first optimizer step; those of the same optimizer end a step of the job from then on."""
        if self._stepped is None and not self.off:
            self._join(optimizer)

    def step(self, samples: int, tokens: int, transfer_ns: int) -> None:
        """The job says that a step ended; from the first such call on optimizers say it no more."""
        meter = self._meter
        if self.off:
            return
        if meter is None or self._stepped is None:
            self._join(LOOP)
            return
        if not meter.explicit:
            meter.follow(LOOP)
            meter.explicit = True
        if samples != NULL:
            meter.samples = samples
        if tokens != NULL:
            meter.tokens = tokens
        if transfer_ns != NULL:
            meter.transfer_ns, meter.rare, meter.due_ns = transfer_ns, True, 0
        self._stepped(LOOP)

    def set_step(self, step: int) -> None:
        """The step that ends next has that number."""
        self._first_step = step
        if self._monitor is not None:
            self._monitor.set_step(step)

    def mark(self, name: str) -> None:
        """Flag the current step."""
        if self._meter is not None:
            self._meter.flags |= FLAGS[name]

    def _join(self, optimizer: object) -> None:
        """The first step has ended: take a place in the job, beside this thread, and begin to count."""
        first = self._joining is None
        if self._joining is None:
            self._place = where(self._environment, sys.modules)
            self._about = self._facts(self._place, optimizer)
            self._joining = Beside(self._open)
        if self._joining.done(_JOIN_S if first else 0.0):
            with warnings_let_pass():
                self._begin(self._joining.result(), optimizer)

    def _facts(self, place: Place, optimizer: object) -> dict[str, object]:
        return {
            "rank": place.rank,
            "world": place.world,
            "host": platform.node(),
            "python": sys.executable,
            "flops": self._flops,
            "launch": launch(self._environment),
            "step": step_is(optimizer),
            "frameworks": frameworks(sys.modules),
            "device": device_name(sys.modules),
        }

    def _open(self) -> Joined:
        """All that asks the disk."""
        place = self._place
        if self._environment.get("LOCAL_RANK", "0") == "0" and "HERMES_JOB" not in self._environment:
            clean(*memory_folders(self._environment))
        job, control, number = self._enter(place)
        stacks = Offer(job.folder, place.rank)
        about = {"job": job.id, **self._about, **stacks.told}
        ring = open_ring(job, place.rank, about)
        log = LogWriter(job.log_path(place.rank), about)
        joined = Joined(job=job, control=control, number=number, ring=ring, log=log, stacks=stacks)
        self._note(job, place.rank, about)
        return joined

    def _begin(self, joined: Joined, optimizer: object) -> None:
        """Count from here on."""
        self._joined = joined
        job, rank = joined.job, self._place.rank
        self._meter = Meter()
        self._monitor = Monitor(joined.ring, joined.log, self._meter, say, joined.stacks.look)
        self._patches = Patches(self._meter, self._border)
        bandwidth = Bandwidth(job.folder / f"comm-rank{rank}.json") if self._collectives else None
        if bandwidth is not None:
            bandwidth.wrap_ddp()
        self._monitor.bandwidth = bandwidth
        if self._numerics:
            self._monitor.numerics = Numerics(self._meter, path_in(job.folder, rank), say)
        self._patches.install(collectives=self._collectives, transfers=self._transfers, bandwidth=bandwidth)
        loaders = Loaders(self._meter)
        self._captures = Captures(joined.control, joined.number, rank, say, self._monitor.last, loaders)
        self._monitor.device = device_clock(sys.modules) if self._device_events else None
        if self._count_flops and self._flops is None:
            about = {"job": job.id, **self._about}
            self._monitor.count_flops = FlopCount(
                lambda flops: self._note_beside(job, rank, {**about, "flops": flops}), say
            )
        self._meter.follow(optimizer)
        self._meter.explicit = optimizer is LOOP
        self._monitor.begin(0 if self._first_step is None else self._first_step)
        self._stepped = self._monitor.stepped(self._captures)
        if "multiprocessing.util" in sys.modules:
            # A process of multiprocessing may end without `atexit`.
            sys.modules["multiprocessing.util"].Finalize(None, self._border.entry(self.close), exitpriority=-100)
        if self._hooks is not None:
            self._hooks.use(self._monitor.before_step(), self._stepped)

    def _note_beside(self, job: Job, rank: int, about: Mapping[str, object]) -> None:
        Beside(lambda: self._note(job, rank, about))

    def _note(self, job: Job, rank: int, about: Mapping[str, object]) -> None:
        (job.folder / f"rank{rank}.json").write_text(json.dumps({**about, "pid": os.getpid()}), "utf-8")

    def _enter(self, place: Place) -> tuple[Job, Control, int]:
        """The job that `hermes run` made, else one that all processes of one launcher agree on, else one alone."""
        given = self._environment.get("HERMES_JOB")
        job = read(Path(given)) if given else self._own_job(place)
        control = self._control = Control.attach(job.segment, job=job.id)
        try:
            return job, control, control.claim(place.rank, str(self._about["step"]))
        except LiveError:
            # Another training of the same parent has this rank: the two have nothing to do with each other.
            control.close()
            job = self._own_job(Place(rank=place.rank, world=1, launched=False))
            control = self._control = Control.attach(job.segment, job=job.id)
            return job, control, control.claim(place.rank, str(self._about["step"]))

    def _own_job(self, place: Place) -> Job:
        name = Path(sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c") else "python").stem
        owner = process.me()
        if place.launched:
            owner = (os.getppid(), process.start_time(os.getppid()) or 0)
        job_id = new_id(name, pid=owner[0], started=owner[1])
        root = default_root(self._environment)
        job = enter(root, job_id, command=tuple(sys.argv), owner=owner, environment=self._environment)
        if elsewhere := moved(job, self._environment):
            say(elsewhere)
        return job

    def give_up(self, broken: Exception) -> None:
        """What the monitor cannot do is told in one line, and it watches no more."""
        if self.off:
            return
        # Before it is told: nobody is to say what a step is where none is counted any more.
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.count_no_more()
        say_off(f"{'' if isinstance(broken, LiveError) else type(broken).__name__ + ': '}{broken}")
        self.close(tell=False)

    def _ended(self) -> None:
        """The process ends: say so where it was asked to watch and nothing was there to be watched."""
        asked = "HERMES_JOB" not in self._environment
        if asked and not self.off and self._stepped is None and self._joining is None and _is_main():
            say(NO_STEP)
        self.close()

    def close(self, *, tell: bool = True) -> None:
        """Write what is left, unwrap what was wrapped, and never act again; one line was enough unless `tell`."""
        if self.off:
            return
        self.off = True
        if self._hooks is not None:
            self._hooks.use(ignore, ignore)

        def told(broken: Exception) -> None:
            if tell:
                say(f"capture could not end cleanly ({type(broken).__name__}: {broken})")

        # Where one part fails the next must still close.
        border = Border(told)
        for part in (self._unwrap, self._close_captures, self._close_monitor):
            border.call(part)

    def _unwrap(self) -> None:
        if self._patches is not None:
            self._patches.remove()

    def _close_captures(self) -> None:
        if self._captures is not None:
            self._captures.close()
        elif self._control is not None:
            self._control.close()

    def _close_monitor(self) -> None:
        """The last process of a job that nobody else looks after removes its shared memory."""
        if self._monitor is None or self._joined is None:
            return
        whole, job = self._monitor.close(), self._joined.job
        if not whole or not job.segment.exists():
            # What the log lacks is still in the ring: whoever comes next tries again.
            return
        self._joined.ring.path.unlink(missing_ok=True)
        if job.owner[0] == os.getpid() and "HERMES_JOB" not in self._environment:
            with contextlib.suppress(LogInUseError):
                save_and_remove(job)

    def _forking(self) -> None:
        """Before a fork: nothing is to be under way in another thread, as far as a moment suffices."""
        if self._monitor is not None and not self.off:
            self._monitor.settle(_FORK_S)

    def _forked(self) -> None:
        """In a forked child the parent's step is not ours; should the child train, it begins anew."""
        if self._hooks is not None and not self.off:
            patches, self._patches = self._patches, None
            if patches is not None:
                patches.remove()
            self._hooks.use(ignore, self.optimizer_ended)
            control, joined = self._control, self._joined
            self._renew()
            # Its copies of the files would hold the parent's locks when that is long gone.
            if control is not None:
                control.close()
            if joined is not None:
                joined.ring.close()


def step_is(optimizer: object) -> str:
    """What counts as a step of the job, in words."""
    if optimizer is LOOP:
        return "each call of hermes.inside.step()"
    return f"each step() of the optimizer {type(optimizer).__name__}"[:200]


def _is_main() -> bool:
    """Whether this is no worker that multiprocessing has started."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is None or processes.parent_process() is None


def where(environment: Mapping[str, str], modules: Mapping[str, object]) -> Place:
    """Rank and world size: from torch.distributed when it is set up, else from the launcher's environment."""
    distributed = getattr(modules.get("torch"), "distributed", None)
    launched = any(name in environment for name in (*_RANK, "LOCAL_RANK"))
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        world = int(distributed.get_world_size())
        return Place(rank=int(distributed.get_rank()), world=world, launched=launched or world > 1)
    rank = next((found for name in _RANK if (found := _number(environment.get(name, ""))) is not None), 0)
    world = next((found for name in _WORLD if (found := _number(environment.get(name, "")))), 1)
    return Place(rank=rank, world=world, launched=launched and world > 1)


def launch(environment: Mapping[str, str]) -> str:
    """What the launcher calls the job on all of its hosts; empty where it says nothing."""
    if environment.get("SLURM_JOB_ID"):
        return f"slurm-{environment['SLURM_JOB_ID']}"[:100]
    run = environment.get("TORCHELASTIC_RUN_ID", "none")
    if run != "none":
        return run[:100]
    address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    return f"{address}:{port}"[:100] if address and port else ""


def frameworks(modules: Mapping[str, object]) -> dict[str, str]:
    """Versions of the frameworks that the job has loaded."""
    names = ("torch", "torch_npu", "mindspore")
    return {name: str(getattr(modules[name], "__version__", "")) for name in names if name in modules}


def device_name(modules: Mapping[str, object]) -> str | None:
    """What the framework calls the device that this process uses; None where it uses none, and initialises none."""
    for device in initialised(modules):
        with contextlib.suppress(RuntimeError, AttributeError, TypeError, ValueError):
            return str(device.get_device_name())[:100]
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
