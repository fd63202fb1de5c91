"""Measures of the user's code: what of the step runs in which of its functions, and at which of its lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.model.declare import field, measure

MOST_LINES = 100


@measure(
    "code.lines",
    title="Where the time goes in your code",
    zh="时间花在代码的哪里",
    about=(
        "A moment of the stepping thread belongs to the innermost function of the user's that is open, and a backward "
        "operator to the function that ran its forward one: `own_ms = python_ms + framework_ms + operator_ms + "
        "launch_ms + wait_ms`, and over the rows `own_ms + backward_ms` adds up to the step. Means over the steps of "
        "the capture; the 100 with most time."
    ),
    most=MOST_LINES,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLine:
    """What a function of the user's takes of a step, itself and in what it calls that is not the user's.

    `place` is empty for time in no such function. `backward_ns` is what the stepping thread itself ran; where autograd
    has threads of its own, it waits for them, which is the framework's Python. `within` says what such calls are for,
    where the names of others around them tell. `growth` is the last step over the first. `lines` are lines inside the
    function at which the thread was seen, each with its share of what was seen of the function. `device_ns` adds up the
    tasks that were launched here. `made`: the first of its operators makes a tensor of constants, and none needs a
    gradient; `modules`: modules run in it.
    """

    rank: int = field("global rank", "Rank", "卡")
    place: str = field("file and line; empty: in no function of the user's", "Line", "行")
    function: str = field("its name", "Function", "函数")
    calls: float | None = field("calls a step; null: not recorded", "Calls", "次数", kind="number")
    total_ns: int | None = field("a step, with all that it calls", "Total", "总计")
    own_ns: int = field("a step, but what other functions of the user's take in it", "Own", "自身")
    python_ns: int = field("of it, Python that is not the framework's", "Python", "Python", of="own_ns")
    framework_ns: int = field("of it, Python of the framework", "Framework", "框架", of="own_ns")
    operator_ns: int = field("of it, operators", "Operators", "算子", of="own_ns")
    launch_ns: int = field("of it, runtime calls", "Launching", "下发", of="own_ns")
    wait_ns: int = field("of it, waiting for the device, or for other ranks", "Waiting", "等待", of="own_ns")
    backward_ns: int = field("backward operators of what it computed", "Backward", "反向")
    device_ns: int = field("device tasks that it launched, added up", "On the device", "设备时间")
    growth: float | None = field("last step over first; null: fewer than three steps", "Growth", "增长", kind="number")
    caller: str = field("the function of the user's that calls it most", "Called by", "调用者")
    loop: str = field("the outermost function of the user's that holds it", "Loop", "循环")
    names: tuple[tuple[str, int], ...] = field("what takes most of it, per step", "Mostly", "主要", keys=("name", "ns"))
    lines: tuple[tuple[str, float], ...] = field(
        "lines inside at which it was seen", "Seen at", "采样行", keys=("line", "share")
    )
    within: str = field("what calls around it are for, such as `data loading`", "Within", "所属")
    source: Literal["frames", "stacks", "samples"] = field("what tells", "Known from", "依据")
    made: bool = field("its operators begin with tensors made from constants", "Made anew", "重复构造", default=False)
    modules: bool = field("whether modules run in it", "Modules", "含模块", default=False)
    trains: bool = field("whether what it computes has a backward part", "Trains", "参与反向", default=False)

    @property
    def spent_ns(self) -> int:
        """What it takes of the stepping thread, the backward part of what it computed included."""
        return self.own_ns + self.backward_ns

    @property
    def worked_ns(self) -> int:
        """The same without waits for the device or for other ranks."""
        return self.spent_ns - self.wait_ns

    @property
    def said(self) -> str:
        """The line and the function, as a finding names them."""
        seen = [line for line, share in self.lines[:1] if share >= SEEN_MOSTLY]
        return f"{seen[0] if seen else self.place} `{self.function}`"


SEEN_MOSTLY = 0.5
"""A line at which a function was seen this often stands for it."""


@measure("code.names", title="Which line calls what", zh="哪一行调用什么", most=MOST_LINES)
@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLine:
    """From which of the user's functions most of the time of one name comes."""

    rank: int = field("global rank", "Rank", "卡")
    kind: Literal["operator", "kernel", "call", "event"] = field(
        "what the name is: an `event` is a kind of calls, as of `host.events`", "Kind", "类型"
    )
    name: str = field("as recorded", "Name", "名称")
    line: str = field("line and function of the user's", "Line", "行")
    ns: int = field("a step", "Time", "时间")
    share: float = field("of the time of the name", "Share", "占比")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledAgain:
    """A function of the user's that calls the same thing many times in a row, with nothing else of the user's between.

    `what` is a function of the user's, a class of modules, or an operator; `times` are the calls for one of `line`, and
    `ns` what they take of a step, without backward.
    """

    rank: int
    line: str
    what: str
    times: float
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlearned:
    """Forward passes of a trained module that no backward pass follows.

    `line` is the outermost function of the user's around them in which nothing is trained, or the one that makes them;
    `ns` what it takes of a step. `loads`: it gets batches of its own. `again`: a pass on inputs of the same shapes is
    trained, too; `calls` and `trained` count both a step. `steps_hit` of `steps` have some.
    """

    rank: int
    line: str
    module: str
    calls: float
    trained: float
    ns: int
    loads: bool
    again: bool
    steps: int
    steps_hit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedGradients:
    """Gradients that no optimizer uses, where the shapes of all that optimizers work on are known.

    Either none works on tensors of that shape, or they are set to zero before one does (`dropped`: most of them).
    `tail_ns` is the part of a step's backward passes behind the last gradient that an optimizer uses; `kept` and
    `unused` are tensors a step. `line` is the function of the user's that starts these passes, empty where not known.
    """

    rank: int
    kept: float
    unused: float
    tail_ns: int
    optimizer_steps: int
    dropped: bool = False
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongSteps:
    """Steps of a rank that take longer than the others at an even distance, as the log of steps has them.

    Each `period`th does, the last of them number `last`: `count` of `steps`, each by `extra_ns` beyond `usual_ns`,
    together `share` of all time. `line` is what of the user's code they spend it in, empty where no long step was
    looked into; `called` the line that calls it, `why` what calls below it are for, where most of them tell. `trains`:
    they run more backward passes or updates than others.
    """

    rank: int
    period: int
    last: int
    count: int
    steps: int
    usual_ns: int
    extra_ns: int
    share: float
    line: str = ""
    called: str = ""
    why: str = ""
    trains: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardAgain:
    """Nodes of one graph that run backward more than once, as several passes over what they share do.

    `times` is how often, weighted by time; `ns` what the runs beyond one take of a step; `line` the function of the
    user's that starts the passes, empty where it is not known.
    """

    rank: int
    times: float
    ns: int
    line: str
