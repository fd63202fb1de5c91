"""The clocks and open calls of the host threads, and the way of a launch through the queue."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_testing.job import Level
from hermes_testing.noise import Noise
from hermes_testing.profile import HostCall, HostKind, Launch, Profile

_FRAMES = ("train.py(31): main", "train.py(140): <module>")
_RUNTIME = {
    "aclrtMemcpyAsync": "MemcpyAsync",
    "aclrtRecordEvent": "EventRecord",
    "aclrtStreamWaitEvent": "StreamWaitEvent",
}


@dataclass(slots=True, kw_only=True)
class Open:
    """A call that has begun."""

    kind: HostKind
    name: str
    tid: int
    start_ns: int
    shapes: str | None
    dtypes: str | None
    sequence: int
    forward_tid: int
    number: int
    parent: int
    connections: list[int]


class Launcher:
    """Time on the host of one rank. `clock` is the dispatching thread's; `percent` scales all costs."""

    COMPILE_NS = 6_000_000

    def __init__(self, profile: Profile, level: Level, *, task_queue: bool, noise: Noise) -> None:
        self._profile, self._level, self._queued = profile, level, task_queue
        self.noise = noise
        self.clock = 0
        self.percent = 100
        self.slow_ns = 0
        self._tid = profile.main_tid
        self._queue_ns = 0
        self._correlation = 8_000
        self._connection = 900
        self._python = 0
        self._stack: list[Open] = []
        self._ranges: list[Open | None] = []
        self._frames: list[str] = list(reversed(_FRAMES))

    def use(self, phase: str) -> None:
        """Go on with the thread of this phase; autograd has its own."""
        self._tid = self._profile.backward_tid if phase == "backward" else self._profile.main_tid

    def cost(self, ns: int) -> int:
        """What a call that usually takes `ns` takes here."""
        taken = ns * self.percent // 100
        self.slow_ns += taken - ns
        return taken

    def spend(self, ns: int) -> None:
        """Let the dispatching thread work for what usually takes `ns`."""
        self.clock += self.cost(self.noise.host_ns(ns))

    def open(
        self,
        name: str,
        kind: HostKind,
        *,
        shapes: str | None = None,
        dtypes: str | None = None,
        sequence: int = -1,
        forward_tid: int = 0,
    ) -> Open:
        """Begin a call on the dispatching thread."""
        self.clock += 300  # no two calls of a thread begin at once
        call = Open(
            kind=kind,
            name=name,
            tid=self._tid,
            start_ns=self.clock,
            shapes=shapes,
            dtypes=dtypes,
            sequence=sequence,
            forward_tid=forward_tid,
            number=0,
            parent=-1,
            connections=[],
        )
        self._stack.append(call)
        return call

    def close(self, call: Open) -> None:
        """End the call that was opened last."""
        self.clock += 200
        self._stack.remove(call)
        self._profile.calls.append(
            HostCall(
                kind=call.kind,
                name=call.name,
                tid=call.tid,
                start_ns=call.start_ns,
                end_ns=self.clock,
                number=call.number,
                shapes=call.shapes,
                dtypes=call.dtypes,
                sequence=call.sequence,
                forward_tid=call.forward_tid,
                stack=self._call_stack(call),
                parent=call.parent,
                connections=tuple(call.connections),
            )
        )

    def enter(self, name: str, kind: HostKind | str) -> None:
        """Begin a range that encloses other calls; an unrecorded one when `kind` is empty."""
        self.use("forward")
        if not kind:
            self._ranges.append(None)
            return
        call = self.open(name, "python" if kind == "python" else "op")
        if kind == "python":
            self._python += 1
            call.number = self._python
            inside = [outer.number for outer in self._ranges if outer is not None and outer.kind == "python"]
            call.parent = inside[-1] if inside else 0
            self._frames.append(name)
        self._ranges.append(call)

    def leave(self) -> None:
        """End the innermost range."""
        self.use("forward")
        call = self._ranges.pop()
        if call is not None:
            if call.kind == "python":
                self._frames.pop()
            self.close(call)

    def wait_until(self, moment: int) -> None:
        """Block in a stream synchronisation until `moment`, at least a microsecond."""
        start = self.clock
        self.clock = max(start + 1_000, moment)
        self._cann("acl", "aclrtSynchronizeStreamWithTimeout", self._tid, start, self.clock, "ACL_RTS")
        if self._level == "Level2":
            self._cann("runtime", "StreamSynchronize", self._tid, start + 200, self.clock - 200, "StreamSynchronize")

    def launch(self, name: str, api: str, mode: str, *, step: int, node: str = "") -> Launch:
        """Enqueue a call, and carry it out on the queue thread; the dispatching thread goes on at once.

        Without a task queue it carries the call out itself.
        """
        self._correlation += 1
        begun, tid = self.clock, self._tid
        if self._queued:
            tid = self._profile.queue_tid
            self.spend(6_000)
            self._call("enqueue", "Enqueue", self._tid, begun, self.clock)
            begun = max(self.clock + 5_000, self._queue_ns + 800)
        end = begun + self.cost(11_000 if not node else 19_000)
        compiles = api == "aclopCompileAndExecute"
        if compiles:
            end += self.COMPILE_NS
        operator = self._stack[-1]
        connection, node_ns, ready = self._calls(api, mode, node, begun + 1_000, end - 1_000, tid)
        if self._queued:
            self._call("dequeue", f"Dequeue@{name}", tid, begun, end)
            self._queue_ns = end
        else:
            self.clock = end
        operator.connections.append(connection)
        return Launch(
            connection=connection,
            api_ns=begun + 1_000,
            node_ns=node_ns,
            ready_ns=ready + 3_000,
            tid=tid,
            op_ns=operator.start_ns,
            op_tid=operator.tid,
            step=step,
        )

    def _calls(self, api: str, mode: str, node: str, start: int, end: int, tid: int) -> tuple[int, int, int]:
        """The CANN calls of a launch: its connection, where its arrow leaves, when the device may begin."""
        item = node if mode == "HOST_HCCL" else "0"
        outer = self._cann("acl", api, tid, start, end, mode, item)
        detail = self._level == "Level2"
        if not node:
            if detail:
                self._cann("runtime", _RUNTIME[api], tid, start + 400, end - 400, _RUNTIME[api])
            return outer, start, end
        if api == "aclopCompileAndExecute":
            self._cann("acl", "opCompile", tid, start + 800, end - 15_000, mode)
        if mode == "HOST_HCCL":
            connection = self._cann("node", "launch", tid, start, end, "launch", node)
            self._cann("hccl", "Launch_Ffts", tid, end - 6_000, end - 400, "master", "Launch_Ffts")
            if detail:
                self._cann("runtime", "FftsPlusTaskLaunch", tid, end - 5_500, end - 900, "FftsPlusTaskLaunch")
            return connection, start, end
        begun = max(start, end - 9_000)
        connection = self._cann("node", "launch", tid, begun, end - 1_000, "launch", node)
        if detail:
            self._cann("runtime", "KernelLaunchWithHandle", tid, begun + 500, end - 1_500, "KernelLaunchWithHandle")
        return connection, begun + 2_000, end - 1_000

    def _cann(self, kind: HostKind, name: str, tid: int, start: int, end: int, mode: str, item: str = "0") -> int:
        self._connection += 1
        self._profile.calls.append(
            HostCall(
                kind=kind,
                name=name,
                tid=tid,
                start_ns=start,
                end_ns=end,
                number=self._connection,
                item=item,
                dtypes=mode,
            )
        )
        return self._connection

    def _call(self, kind: HostKind, name: str, tid: int, start: int, end: int) -> None:
        self._profile.calls.append(
            HostCall(kind=kind, name=name, tid=tid, start_ns=start, end_ns=end, number=self._correlation)
        )

    def _call_stack(self, call: Open) -> tuple[str, ...]:
        if len(self._frames) == len(_FRAMES) or call.kind != "op" or call.tid != self._profile.main_tid:
            return ()
        return tuple(reversed(self._frames))
