"""A verification as text and as JSON: did it run, are the losses the same, what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hermes.migrate.verify import Run, Verdict


def text(verdict: Verdict) -> Iterator[str]:
    """The answer first."""
    yield _answer(verdict)
    yield from _run("converted", verdict.converted)
    if verdict.original is not None:
        yield from _run("original", verdict.original)
    for one in verdict.differences:
        yield f"  {one.what} of rank {one.rank}, step {one.step}: {one.original!r} before, {one.converted!r} after"
    if not verdict.on_npu:
        yield "The stand-in has the names and signatures of torch_npu's wheel and the CPU's arithmetic: it shows that"
        yield "each call exists and fits, and that conversion kept the program's meaning; not how an NPU rounds."
    if verdict.passed:
        yield "Next, on the machine with the NPU: the same command, then `hermes precision check` on both runs."


def _answer(verdict: Verdict) -> str:
    where = "on the NPU" if verdict.on_npu else "on the stand-in for torch_npu"
    if verdict.converted.failed:
        return f"FAILED: the converted program ended with an error {where}"
    if verdict.steps == 0:
        return f"NOT VERIFIED: the program ran {where}, but asked for no gradient: there is no loss to compare"
    if verdict.original is None:
        return f"RAN: {verdict.steps} steps {where}; no original was given to compare with"
    if verdict.original.failed:
        return "NOT COMPARED: the original does not run on the CPU by this command; name one with --original-command"
    if verdict.same:
        return f"PASSED: {verdict.steps} losses {where} and the weights after each step are the original's, bit by bit"
    if verdict.on_npu:
        return f"RAN: {verdict.steps} losses {where}; they differ from those of the CPU, as rounding does"
    return f"FAILED: losses {where} differ from those of the original"


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
        "on_npu": verdict.on_npu,
        "steps": verdict.steps,
        "converted": _document(verdict.converted),
        "original": _document(verdict.original) if verdict.original else None,
        "differences": [
            {
                "what": one.what,
                "rank": one.rank,
                "step": one.step,
                "original": repr(one.original),
                "converted": repr(one.converted),
            }
            for one in verdict.differences
        ],
    }


def _document(run: Run) -> dict[str, Any]:
    return {
        "command": list(run.command), "where": run.where, "exit_code": run.code, "seconds": round(run.seconds, 2),
        "losses": {rank: [one.hex() for one in losses] for rank, losses in run.losses.items()},
        "weights": {rank: [one.hex() for one in weights] for rank, weights in run.weights.items()},
        "output_tail": run.output_tail,
    }  # fmt: skip
