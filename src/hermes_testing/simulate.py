"""Runs a modelled job: hosts dispatch, devices execute, collectives join ranks, until all programs end."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_testing.collective import Network
from hermes_testing.device import Devices
from hermes_testing.effects import Effects
from hermes_testing.host import Blocked, Host
from hermes_testing.job import Group, Job, groups_of
from hermes_testing.noise import Noise
from hermes_testing.profile import Profile
from hermes_testing.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What every rank's profiler saw, and the time that each fault added directly.

    `injected` maps (number of the fault, rank, step) to nanoseconds.
    """

    job: Job
    groups: tuple[Group, ...]
    profiles: tuple[Profile, ...]
    injected: dict[tuple[int, int, int], int]


def simulate(job: Job) -> Result:
    """Run the job; the same job gives the same events, to the nanosecond."""
    effects = Effects(job)
    groups = groups_of(job)
    profiles = [_profile(job, effects, rank, groups) for rank in range(job.ranks)]
    devices = Devices(Network(job=job, effects=effects), profiles)
    hosts = [Host(job, effects, profile, devices, Program(job, effects, profile.rank, groups)) for profile in profiles]
    _run(devices, [host.main() for host in hosts])
    for profile, host in zip(profiles, hosts, strict=True):
        _finish(profile, host, Noise(job.seed, profile.rank, job.noise))
    return Result(job=job, groups=groups, profiles=tuple(profiles), injected=dict(effects.injected))


def _run(devices: Devices, programs: list[Blocked]) -> None:
    """Let every host go on until it waits for its device, then the devices as far as they can; repeat."""
    waiting: dict[int, int] = {}
    for rank, program in enumerate(programs):
        _advance(rank, program, None, waiting)
    while waiting:
        devices.run()
        ready = {
            rank: moment for rank, stream in waiting.items() if (moment := devices.drained(rank, stream)) is not None
        }
        if not ready:
            raise RuntimeError(f"the modelled job is stuck: ranks {sorted(waiting)} wait for their devices")
        for rank, moment in ready.items():
            del waiting[rank]
            _advance(rank, programs[rank], moment, waiting)
    devices.run()


def _advance(rank: int, program: Blocked, moment: int | None, waiting: dict[int, int]) -> None:
    try:
        waiting[rank] = next(program) if moment is None else program.send(moment)
    except StopIteration:
        waiting.pop(rank, None)


def _profile(job: Job, effects: Effects, rank: int, groups: tuple[Group, ...]) -> Profile:
    pid = 3_100_000 + 1_311 * rank
    return Profile(
        rank=rank,
        place=job.place(rank),
        host=job.host_of(rank),
        device=rank % job.per_host,
        pid=pid,
        main_tid=pid,
        backward_tid=pid + 801,
        queue_tid=pid + 402,
        clock_ns=effects.clock_ns(rank) + Noise(job.seed, rank, job.noise).clock_ns,
        groups=tuple(group for group in groups if rank in group.members),
    )


def _finish(profile: Profile, host: Host, noise: Noise) -> None:
    profile.tasks[:] = [task for task in profile.tasks if task.kind != "compute" or not noise.lost()]
    profile.blocks.extend(host.held())
    profile.blocks.sort(key=lambda block: block.alloc_ns)
    profile.tasks.sort(key=lambda task: task.start_ns)
    profile.comms.sort(key=lambda comm: comm.start_ns)
    profile.calls.sort(key=lambda call: (call.start_ns, -call.end_ns))
    last = max((task.end_ns for task in profile.tasks), default=0)
    profile.end_ns = max(profile.end_ns, last + 5_000_000)
