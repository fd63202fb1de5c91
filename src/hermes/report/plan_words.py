"""The sentences about the plan that the terminal and the page share."""

from __future__ import annotations

from hermes.base.say import say
from hermes.knowledge.kernel_names import plain_kernel_name
from hermes.model.finding import Loss
from hermes.model.plan import Advice, Plan
from hermes.report.format import between, confidence, counted, duration, fraction, ranks
from hermes.report.localized_texts import Tell


def noise_sentence(plan: Plan) -> str:
    """A sentence: the least gain that a loss must have to be shown, and how this noise floor was computed."""
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
    """A sentence: the step time without the profiler; empty if no capture tells the time."""
    one = plan.unprofiled
    if one is None:
        return ""
    calls = f"each of {one.calls:,.0f} calls, ten frames of Python counted as one"
    added = f": it adds {duration(round(one.each_ns))} to {calls}" if one.each_ns else ""
    return (
        f"Without the profiler a step takes {duration(one.step_ns)}, mean of {one.steps} before the capture; all "
        f"figures here are of the captured steps, {duration(one.captured_ns)} each{added}."
    )


def nothing_sentence(plan: Plan) -> str:
    """A sentence for an empty plan: no rule names a cure, or the host's time was not recorded."""
    if plan.unrecorded:
        how = f"run {plan.captures[0].command}" if plan.captures else "record the calls of the host"
        return f"What the host did in {fraction(plan.unrecorded)} of the time was not recorded: {how}."
    if not plan.floor.ns:
        return "No rule names a cure."
    small = f" Below it: {counted(len(plan.minor), 'finding')}." if plan.minor else ""
    return f"No rule names a cure. {noise_sentence(plan)}{small}"


def minor_words(one: Loss, tell: Tell = say) -> str:
    """A loss whose gain is below the noise floor, in one line; a loss may cost much and give little, or by chance."""
    title = tell(one.message)
    at = f" ({one.lines[0]})" if one.lines and one.lines[0] not in title else ""
    return f"{one.code} up to {duration(one.gain.high_ns)}  {title}{at}"


def gain_words(one: Advice) -> str:
    """An action's gain: `52.0 to 52.1 ms, 35.8%`, or `up to 26.4 ms, 20.4%` without a replay or if others hide it."""
    if one.gain.low_ns:
        return f"{between(one.gain.low_ns, one.gain.high_ns)}, {share_words(one)}"
    return f"up to {duration(one.gain.high_ns)}, {share_words(one)}"


def share_words(one: Advice) -> str:
    """An action's gain as per cent of the step."""
    low, high = fraction(one.share_low), fraction(one.share_high)
    if not one.gain.low_ns:
        return high
    return low if low == high else f"{low.rstrip('%')} to {high}"


def beyond_words(one: Advice) -> str:
    """What an action adds to the actions before it, if that differs from its own gain; empty otherwise."""
    if one.beyond_ns is None or one.beyond_ns == one.gain.low_ns:
        return ""
    return f"{duration(one.beyond_ns)} more after those above"


def who_words(one: Advice, everyone: tuple[int, ...]) -> str:
    """The ranks that the loss affects, and the ranks, links, operators or settings that it blames."""
    who = "all collected ranks" if len(everyone) > 1 and {*one.ranks} == {*everyone} else ranks(one.ranks)
    if not one.blames:
        return who
    # A rank that is at fault for its own loss is not named twice.
    blames = [blame for blame in one.blames if blame not in one.lines and blame != who]
    more = f" and {len(blames) - 2} more" if len(blames) > 2 else ""
    return f"{who}, by {', '.join(map(plain_kernel_name, blames[:2]))}{more}" if blames else who


def facts(one: Advice, everyone: tuple[int, ...]) -> list[str]:
    """The lines under the title of an action."""
    said = [
        ", ".join(one.codes),
        who_words(one, everyone),
        f"confidence {confidence(one.confidence)}",
        *([f"effort: {one.effort}"] if one.effort else []),
    ]
    return [*said, *([f"case {one.case}"] if one.case else []), *filter(None, [beyond_words(one)])]


def together_sentence(plan: Plan) -> str:
    """A sentence: the gain of the first actions replayed together; empty if nothing was replayed."""
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
