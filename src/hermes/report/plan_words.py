"""The plan in words that the terminal and the page share."""

from __future__ import annotations

from hermes.base.say import say
from hermes.knowledge.kernel_names import plain
from hermes.model.finding import Loss
from hermes.model.plan import Advice, Plan
from hermes.report.format import between, confidence, counted, duration, fraction, ranks
from hermes.report.told import Tell


def noise_sentence(plan: Plan) -> str:
    """What a loss must be able to give to be shown, and what that is taken from."""
    floor = plan.floor
    if not floor.ns:
        return "The noise floor was not measured: no step was."
    reasons = [f"at least {fraction(floor.least_ns / floor.step_ns)} of the step"] if floor.step_ns else []
    if floor.spread_ns is not None:
        reasons.append(f"{floor.of} spread by {duration(floor.spread_ns)}")
    doubt = ""
    if floor.unexplained_ns and floor.unexplained_ns > floor.ns:
        doubt = f" Nothing explains {duration(floor.unexplained_ns)} of the critical path, and no replay counts it."
    return f"Noise floor {duration(floor.ns)} a step: {', '.join(reasons)}.{doubt}"


def unprofiled_sentence(plan: Plan) -> str:
    """How long a step takes without the profiler, which gains are meant for; empty where no capture tells it."""
    one = plan.unprofiled
    if one is None:
        return ""
    calls = f"each of {one.calls:,.0f} calls, ten frames of Python counted as one"
    added = f": it adds {duration(round(one.each_ns))} to {calls}" if one.each_ns else ""
    return (
        f"Gains are of the step without the profiler: {duration(one.step_ns)}, mean of {one.steps} before the capture; "
        f"in it {duration(one.captured_ns)}{added}."
    )


def nothing_sentence(plan: Plan) -> str:
    """That nothing is to be done, or that it was not recorded, and what was too small to tell from chance."""
    if plan.unrecorded_ns and plan.floor.step_ns:
        share = fraction(plan.unrecorded_ns / plan.floor.step_ns)
        how = f"run {plan.captures[0].command}" if plan.captures else "record Python stacks"
        return f"{share} of the step ({duration(plan.unrecorded_ns)}) is Python that was not recorded: {how}."
    if not plan.floor.ns:
        return "No rule names a cure."
    small = f" Below it: {counted(len(plan.minor), 'finding')}." if plan.minor else ""
    return f"No rule names a cure. {noise_sentence(plan)}{small}"


def minor_words(one: Loss, tell: Tell = say) -> str:
    """A loss below the noise floor, in a line."""
    title = tell(one.message)
    at = f" ({one.lines[0]})" if one.lines and one.lines[0] not in title else ""
    return f"{one.code} {duration(one.cost_ns)}  {title}{at}"


def gain_words(one: Advice) -> str:
    """`52.0 to 52.1 ms, 35.8%`, or `up to 26.4 ms, 20.4%` where nothing was replayed or others hide it."""
    if one.gain.low_ns:
        return f"{between(one.gain.low_ns, one.gain.high_ns)}, {share_words(one)}"
    return f"up to {duration(one.gain.high_ns)}, {share_words(one)}"


def share_words(one: Advice) -> str:
    """The gain as per cent of the step."""
    low, high = fraction(one.share_low), fraction(one.share_high)
    if not one.gain.low_ns:
        return high
    return low if low == high else f"{low.rstrip('%')} to {high}"


def beyond_words(one: Advice) -> str:
    """What an action adds to those before it, where that is another number; empty else."""
    if one.beyond_ns is None or one.beyond_ns == one.gain.low_ns:
        return ""
    return f"{duration(one.beyond_ns)} more after those above"


def who_words(one: Advice, everyone: tuple[int, ...]) -> str:
    """Whom the loss strikes, and whom or what it is laid at."""
    who = "all collected ranks" if len(everyone) > 1 and {*one.ranks} == {*everyone} else ranks(one.ranks)
    if not one.blames:
        return who
    blames = [blame for blame in one.blames if blame not in one.lines]
    more = f" and {len(blames) - 2} more" if len(blames) > 2 else ""
    return f"{who}, by {', '.join(map(plain, blames[:2]))}{more}" if blames else who


def facts(one: Advice, everyone: tuple[int, ...]) -> list[str]:
    """What stands under the title of an action."""
    said = [
        ", ".join(one.codes),
        who_words(one, everyone),
        f"confidence {confidence(one.confidence)}",
        *([f"effort: {one.effort}"] if one.effort else []),
    ]
    return [*said, *([f"case {one.case}"] if one.case else []), *filter(None, [beyond_words(one)])]


def together_sentence(plan: Plan) -> str:
    """What the first actions give when they are replayed together; empty where nothing was replayed."""
    one = plan.combined
    if one is None:
        return ""
    many = f"The first {one.actions} together" if one.actions > 1 else "It"
    over = (
        f"; {duration(one.over_steps_ns)} over the {one.steps} steps seen"
        if one.over_steps_ns and one.steps > 1
        else ""
    )
    of = f"{fraction(one.share)} of it or more"
    return f"{many}: {between(one.low_ns, one.high_ns)} a step ({of}), replayed together{over}."
