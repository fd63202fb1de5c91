"""Runs capture in one process: waits for the first step, joins the job, and turns capture off after an error."""

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

from hermes.inside.error_guard import Border, warnings_let_pass
from hermes.inside.monitor.at_step_end import LOOP, Monitor, Stepped
from hermes.inside.monitor.bandwidth import Bandwidth
from hermes.inside.monitor.device import device_clock, initialised
from hermes.inside.monitor.flight_recorder import FlightRecorderPipe
from hermes.inside.monitor.flops import FlopCount
from hermes.inside.monitor.hooks import Hooks, ignore
from hermes.inside.monitor.loaders import Loaders
from hermes.inside.monitor.numerics import Numerics
from hermes.inside.monitor.patches import Patches
from hermes.inside.monitor.stacks import StackSignal
from hermes.inside.monitor.step_meter import StepMeter
from hermes.inside.profile.captures import Captures
from hermes.inside.warn_once import say, say_off
from hermes.inside.wire import process
from hermes.inside.wire.background_calls import BackgroundCall
from hermes.inside.wire.control import NO_STEP, Control
from hermes.inside.wire.errors import LiveError, LogInUseError
from hermes.inside.wire.numerics import path_in
from hermes.inside.wire.recovery import clean, open_ring, save_and_remove
from hermes.inside.wire.ring import RingWriter
from hermes.inside.wire.rundir import Job, default_root, enter, memory_folders, moved, new_id, read
from hermes.inside.wire.step_record import FLAGS, NULL
from hermes.inside.wire.steplog import LogWriter

_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_JOIN_S = 2.0
"""Longest time in s that the first step waits for the disk of the run directory; on a slower disk, steps count from
then on."""
_FORK_S = 0.05
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


@dataclass(frozen=True)
class ProcessPlace:
    """The place of a process in its job: rank, world size, and whether a launcher started it."""

    rank: int
    world: int
    launched: bool


@dataclass(frozen=True)
class JoinedJob:
    """The job's files and shared memory that this process has opened."""

    job: Job
    control: Control
    number: int
    ring: RingWriter
    log: LogWriter
    stacks: StackSignal
    flight: FlightRecorderPipe


class Agent:
    """The state of capture in one process. An exception in a method turns capture off, with one line on stderr."""

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
        """Reset the agent to its state before the first step: at creation, and in a forked child."""
        self.off = False
        self._stepped: Stepped | None = None
        self._first_step: int | None = None
        self._meter: StepMeter | None = None
        self._patches: Patches | None = None
        self._monitor: Monitor | None = None
        self._captures: Captures | None = None
        self._joining: BackgroundCall[JoinedJob] | None = None
        self._control: Control | None = None
        self._joined: JoinedJob | None = None
        self._place = ProcessPlace(rank=0, world=1, launched=False)
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
        """Join the job after the first optimizer step; later steps of the same optimizer end a step of the job."""
        if self._stepped is None and not self.off:
            self._join(optimizer)

    def step(self, samples: int, tokens: int, transfer_ns: int) -> None:
        """End a step because the job's code says so; from the first such call on, optimizers no longer end steps."""
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
        """Set the number of the step that ends next."""
        self._first_step = step
        if self._monitor is not None:
            self._monitor.set_step(step)

    def mark(self, name: str) -> None:
        """Set a flag of the current step, such as checkpoint or evaluation."""
        if self._meter is not None:
            self._meter.flags |= FLAGS[name]

    def _join(self, optimizer: object) -> None:
        """Join the job after the first step, in a thread beside the training thread, and begin to count steps."""
        first = self._joining is None
        if self._joining is None:
            self._place = where(self._environment, sys.modules)
            self._about = self._facts(self._place, optimizer)
            self._joining = BackgroundCall(self._open)
        if self._joining.done(_JOIN_S if first else 0.0):
            with warnings_let_pass():
                self._begin(self._joining.result(), optimizer)

    def _facts(self, place: ProcessPlace, optimizer: object) -> dict[str, object]:
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

    def _open(self) -> JoinedJob:
        """Open all files of the job: every access to the disk while joining is here."""
        place = self._place
        if self._environment.get("LOCAL_RANK", "0") == "0" and "HERMES_JOB" not in self._environment:
            clean(*memory_folders(self._environment))
        job, control, number = self._enter(place)
        stacks = StackSignal(job.folder, place.rank)
        flight = FlightRecorderPipe(job.folder, place.rank, sys.modules, self._environment)
        about = {"job": job.id, **self._about, **stacks.told, **flight.told}
        ring = open_ring(job, place.rank, about)
        log = LogWriter(job.log_path(place.rank), about)
        joined = JoinedJob(job=job, control=control, number=number, ring=ring, log=log, stacks=stacks, flight=flight)
        self._note(job, place.rank, about)
        return joined

    def _begin(self, joined: JoinedJob, optimizer: object) -> None:
        """Begin to count steps and to answer capture requests."""
        self._joined = joined
        job, rank = joined.job, self._place.rank
        self._meter = StepMeter()
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
        self._captures = Captures(
            joined.control, joined.number, rank, say, self._monitor.last, loaders, self._patches.collections
        )
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
        BackgroundCall(lambda: self._note(job, rank, about))

    def _note(self, job: Job, rank: int, about: Mapping[str, object]) -> None:
        (job.folder / f"rank{rank}.json").write_text(json.dumps({**about, "pid": os.getpid()}), "utf-8")

    def _enter(self, place: ProcessPlace) -> tuple[Job, Control, int]:
        """The job that `hermes run` made; else the job that all processes of one launcher agree on; else a job for this
        process alone."""
        given = self._environment.get("HERMES_JOB")
        job = read(Path(given)) if given else self._own_job(place)
        control = self._control = Control.attach(job.segment, job=job.id)
        try:
            return job, control, control.claim(place.rank, str(self._about["step"]))
        except LiveError:
            # Another training of the same parent process has this rank: the two trainings are separate jobs.
            control.close()
            job = self._own_job(ProcessPlace(rank=place.rank, world=1, launched=False))
            control = self._control = Control.attach(job.segment, job=job.id)
            return job, control, control.claim(place.rank, str(self._about["step"]))

    def _own_job(self, place: ProcessPlace) -> Job:
        name = Path(sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c") else "python").stem
        owner = process.own_identity()
        if place.launched:
            owner = (os.getppid(), process.start_time(os.getppid()) or 0)
        job_id = new_id(name, pid=owner[0], started=owner[1])
        root = default_root(self._environment)
        job = enter(root, job_id, command=tuple(sys.argv), owner=owner, environment=self._environment)
        if elsewhere := moved(job, self._environment):
            say(elsewhere)
        return job

    def give_up(self, broken: Exception) -> None:
        """Print one line on what the monitor cannot do, and stop watching."""
        if self.off:
            return
        # Before the line is printed: no step is to be announced where steps are no longer counted.
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.count_no_more()
        say_off(f"{'' if isinstance(broken, LiveError) else type(broken).__name__ + ': '}{broken}")
        self.close(tell=False)

    def _ended(self) -> None:
        """Say at the end of the process that no step was found, if the process was to be watched."""
        asked = "HERMES_JOB" not in self._environment
        if asked and not self.off and self._stepped is None and self._joining is None and _is_main():
            say(NO_STEP)
        self.close()

    def close(self, *, tell: bool = True) -> None:
        """Write the remaining records, unwrap wrapped functions, and never act again; without `tell`, print no further
        line."""
        if self.off:
            return
        self.off = True
        if self._hooks is not None:
            self._hooks.use(ignore, ignore)

        def told(broken: Exception) -> None:
            if tell:
                say(f"capture could not end cleanly ({type(broken).__name__}: {broken})")

        # Close the other parts where one part fails to close.
        border = Border(told)
        for part in (self._unwrap, self._close_flight, self._close_captures, self._close_monitor):
            border.call(part)

    def _unwrap(self) -> None:
        if self._patches is not None:
            self._patches.remove()

    def _close_flight(self) -> None:
        if self._joined is not None:
            self._joined.flight.close()

    def _close_captures(self) -> None:
        if self._captures is not None:
            self._captures.close()
        elif self._control is not None:
            self._control.close()

    def _close_monitor(self) -> None:
        """Close the monitor. The last process of a job without a keeper removes the job's shared memory."""
        if self._monitor is None or self._joined is None:
            return
        whole, job = self._monitor.close(), self._joined.job
        if not whole or not job.segment.exists():
            # Records missing in the log are still in the ring: the next process of the rank tries again to save them.
            return
        self._joined.ring.path.unlink(missing_ok=True)
        if job.owner[0] == os.getpid() and "HERMES_JOB" not in self._environment:
            with contextlib.suppress(LogInUseError):
                save_and_remove(job)

    def _forking(self) -> None:
        """Before a fork, wait a moment for work in other threads of Hermes to end."""
        if self._monitor is not None and not self.off:
            self._monitor.settle(_FORK_S)

    def _forked(self) -> None:
        """Reset a forked child: the parent's step does not count there. If the child trains, capture begins anew."""
        if self._hooks is not None and not self.off:
            patches, self._patches = self._patches, None
            if patches is not None:
                patches.remove()
            self._hooks.use(ignore, self.optimizer_ended)
            control, joined = self._control, self._joined
            self._renew()
            # The child's copies of the files would hold the parent's locks long after the parent has ended.
            if control is not None:
                control.close()
            if joined is not None:
                joined.ring.close()


def step_is(optimizer: object) -> str:
    """The sentence that says what counts as a step of the job."""
    if optimizer is LOOP:
        return "each call of hermes.inside.step()"
    return f"each step() of the optimizer {type(optimizer).__name__}"[:200]


def _is_main() -> bool:
    """Whether this process is not a worker that multiprocessing has started."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is None or processes.parent_process() is None


def where(environment: Mapping[str, str], modules: Mapping[str, object]) -> ProcessPlace:
    """Rank and world size: from torch.distributed when it is set up, else from the launcher's environment."""
    distributed = getattr(modules.get("torch"), "distributed", None)
    # A batch script of Slurm also has a rank number, but is one process: only steps of srun set the number of
    # processes.
    ranks = (*_RANK, "SLURM_PROCID") if "SLURM_STEP_NUM_TASKS" in environment else _RANK
    launched = any(name in environment for name in (*ranks, "LOCAL_RANK"))
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        world = int(distributed.get_world_size())
        return ProcessPlace(rank=int(distributed.get_rank()), world=world, launched=launched or world > 1)
    rank = next((found for name in ranks if (found := _number(environment.get(name, ""))) is not None), 0)
    world = next((found for name in _WORLD if (found := _number(environment.get(name, "")))), 1)
    return ProcessPlace(rank=rank, world=world, launched=launched and world > 1)


def launch(environment: Mapping[str, str]) -> str:
    """The launcher's name for the job, the same on all hosts; empty where the launcher gives no name."""
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
    """The framework's name of the device that this process uses; None without a device. No device is initialised."""
    for device in initialised(modules):
        with contextlib.suppress(RuntimeError, AttributeError, TypeError, ValueError):
            return str(device.get_device_name())[:100]
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
