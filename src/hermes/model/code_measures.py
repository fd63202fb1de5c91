"""Measures of the user's code: which functions and lines take the step, and which calls are repeated or useless."""

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
    """A function of the user's code and its time in a step: its own time and that of the library code it calls.

    `place` is empty for time outside the user's functions. `backward_ns` is the backward work on the stepping thread.
    Where autograd has threads of its own, the stepping thread waits for these threads; the wait counts as Python of the
    framework. `within` says what the calls are for, if the names of surrounding calls tell. `growth` is the time in the
    last step over that in the first. `lines` are the lines of the function at which samples saw the thread, each with
    its share of the function's samples. `device_ns` adds up the device tasks that the function launched. `made`: the
    first of the function's operators makes a tensor of constants, and no operator needs a gradient. `modules`: modules
    run in the function.
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
        """Nanoseconds of the stepping thread in a step, with the backward work of what the function computed."""
        return self.own_ns + self.backward_ns

    @property
    def worked_ns(self) -> int:
        """Nanoseconds of the stepping thread in a step, with backward work, without waits for the device or ranks."""
        return self.spent_ns - self.wait_ns

    @property
    def said(self) -> str:
        """The line and the function of the user's code, as a finding names them."""
        seen = [line for line, share in self.lines[:1] if share >= SEEN_MOSTLY]
        return f"{seen[0] if seen else self.place} `{self.function}`"


SEEN_MOSTLY = 0.5
"""If samples saw a function at a line at least this often, the line stands for the function."""


@measure("code.names", title="Which line calls what", zh="哪一行调用什么", most=MOST_LINES)
@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLine:
    """The user's function that most of the time of one operator, kernel or call name comes from."""

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
    """A function of the user's that makes the same call many times in a row, with no other call of the user's between.

    `what` is a function of the user's code, a class of modules, or an operator. `times` counts the calls of `what` for
    one call of `line`. `ns` is the time of these calls in a step, without backward work.
    """

    rank: int
    line: str
    what: str
    times: float
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlearned:
    """Forward passes of a trained module without a backward pass.

    `line` is the outermost function of the user's around these passes in which nothing is trained, or else the function
    that starts the passes. `ns` is the time of the passes in a step. `loads`: the function fetches its own batches.
    `again`: a forward pass on inputs of the same shapes is trained, too. `calls` and `trained` count both kinds of
    passes a step. `steps_hit` of `steps` have such passes.
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
    """Gradients that no optimizer uses, where the shapes of all tensors that optimizers update are known.

    Either no optimizer updates a tensor of that shape, or the gradients are set to zero before an update (`dropped`:
    most of them are). `tail_ns` is the part of a step's backward passes behind the last gradient that an optimizer
    uses. `kept` and `unused` are tensors a step. `line` is the user's function that starts the backward passes, empty
    if not known.
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
    """Steps of a rank that are regularly longer than the others, by the monitor's log of steps.

    Each `period`th step is longer, the last such step is number `last`: `count` of `steps`, each by `extra_ns` beyond
    `usual_ns`, together `share` of all time. `line` is the line of the user's code that takes the extra time; it is
    empty if no long step was sampled. `called` is the line that calls it. `why` is the purpose of most calls below
    `line`, if known. `trains`: the long steps run more backward passes or updates than others.
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
    """Nodes of one autograd graph that run backward more than once, because several backward passes share the nodes.

    `times` is how often the nodes run, weighted by time. `ns` is the time in a step of all runs but one. `line` is the
    user's function that starts the backward passes; it is empty if the function is not known.
    """

    rank: int
    times: float
    ns: int
    line: str
