"""A verification as text and as JSON: did it run, are the losses the same, what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hermes.migrate.verify import Again, Difference, Run, Verdict


def text(verdict: Verdict) -> Iterator[str]:
    """The answer first."""
    yield _answer(verdict)
    yield from _run("converted", verdict.converted)
    if verdict.original is not None:
        yield from _run("original", verdict.original)
    for one in verdict.differences:
        yield _difference(one, "original", "converted")
    yield from _again(verdict.again)
    if verdict.on_stand_in:
        yield "The stand-in has the names and signatures of torch_npu's wheel and the CPU's arithmetic: it shows that"
        yield "each call exists and fits, and that conversion kept the program's meaning; not how an NPU rounds, nor"
        yield "what torch.compile makes of it, which is left out in both runs."
    if verdict.passed and (verdict.on_npu or verdict.on_stand_in):
        yield "Next, on the machine with the NPU: the same command, then `hermes precision check` on both runs."


def _answer(verdict: Verdict) -> str:
    where = "on the NPU" if verdict.on_npu else "on the stand-in for torch_npu" if verdict.on_stand_in else "as it is"
    if verdict.converted.failed:
        return f"FAILED: the converted program ended with an error {where}"
    if verdict.steps == 0:
        return f"NOT VERIFIED: the program ran {where}, but asked for no gradient: there is no loss to compare"
    if verdict.original is None:
        return f"RAN: {verdict.steps} steps {where}; no original was given to compare with"
    if verdict.original.failed:
        return "NOT COMPARED: the original does not run on the CPU by this command; name one with --original-command"
    if verdict.same and verdict.again and verdict.again.same:
        why = "it reads memory that nobody wrote" if verdict.again.memory else "two runs of the original differ"
        return (
            f"PASSED, with fresh memory filled alike: {verdict.again.steps} losses {where} and the weights after each "
            f"step are the original's, bit by bit; without, {why}"
        )
    if verdict.same:
        return f"PASSED: {verdict.steps} losses {where} and the weights after each step are the original's, bit by bit"
    if verdict.on_npu:
        return f"RAN: {verdict.steps} losses {where}; they differ from those of the CPU, as rounding does"
    if not verdict.repeats:
        which = "original" if verdict.again and verdict.again.original else "converted program"
        return f"NOT COMPARED: the {which} itself does not repeat; two runs of it differ, whatever the conversion"
    what = "losses" if any(one.what == "loss" for one in verdict.differences) else "weights"
    return f"FAILED: {what} {where} differ from those of the original, which repeats its own"


def _difference(one: Difference, first: str, second: str) -> str:
    return f"  {one.what} of rank {one.rank}, step {one.step}: {first} {one.original!r}, {second} {one.converted!r}"


def _again(again: Again | None) -> Iterator[str]:
    if again is None:
        return
    for name, differences in (("original", again.original), ("converted", again.converted)):
        if differences:
            yield f"Two runs of the {name} program differ, as racing threads or ranks and unwritten memory make them:"
        for one in differences:
            yield _difference(one, "first run", "second run")
    if again.memory and not again.same:
        yield "The original reads memory that nobody wrote: with fresh memory filled it computes something else."
        for one in again.filled:
            yield _difference(one, "original, filled", "converted, filled")


def _run(name: str, run: Run) -> Iterator[str]:
    ended = "" if run.code == 0 else f", exit code {run.code}"
    yield f"  {name:<10} {run.where}: {' '.join(run.command)} ({run.seconds:.1f} s{ended})"
    for rank, losses in sorted(run.losses.items()):
        shown = ", ".join(f"{one:.6g}" for one in losses[:8]) + (", …" if len(losses) > 8 else "")
        yield f"             losses of rank {rank}: {shown}"
    if run.failed:
        for line in run.output_tail.splitlines():
            yield f"             | {line}"


def document(verdict: Verdict) -> dict[str, Any]:
    """The document of a verification."""
    return {
        "format": "hermes.migrate/1",
        "kind": "verify",
        "passed": verdict.passed,
        "same_losses": verdict.same,
        "repeats": verdict.repeats,
        "on_npu": verdict.on_npu,
        "steps": verdict.steps,
        "converted": _document(verdict.converted),
        "original": _document(verdict.original) if verdict.original else None,
        "differences": _differences(verdict.differences),
        "again": None if verdict.again is None else {
            "original": _differences(verdict.again.original),
            "converted": _differences(verdict.again.converted),
            "reads_unwritten_memory": verdict.again.memory,
            "filled": _differences(verdict.again.filled),
            "filled_steps": verdict.again.steps,
        },
    }  # fmt: skip


def _differences(found: Sequence[Difference]) -> list[dict[str, Any]]:
    return [
        {"what": one.what, "rank": one.rank, "step": one.step, "original": repr(one.original),
         "converted": repr(one.converted)}
        for one in found
    ]  # fmt: skip


def _document(run: Run) -> dict[str, Any]:
    return {
        "command": list(run.command), "where": run.where, "exit_code": run.code, "seconds": round(run.seconds, 2),
        "losses": {rank: [one.hex() for one in losses] for rank, losses in run.losses.items()},
        "weights": {rank: [one.hex() for one in weights] for rank, weights in run.weights.items()},
        "output_tail": run.output_tail,
    }  # fmt: skip
