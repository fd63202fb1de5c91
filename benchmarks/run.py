"""Measures Hermes against its budgets and its peers, and writes the results into the page of benchmarks.

    python benchmarks/run.py                        all suites, with the peers
    python benchmarks/run.py ascend --repeats 5     one suite
    python benchmarks/run.py --no-peers             Hermes alone

Inputs, the peers' environments, the logs and the raw figures lie in the work folder, which is not in the repository.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A script has only its own folder on the path: the package that it is part of lies above.
sys.path.insert(0, str(ROOT))

from benchmarks.contest import HERMES, Bench, missed  # noqa: E402
from benchmarks.inputs import Inputs, MissingError  # noqa: E402
from benchmarks.machine import about, sentence  # noqa: E402
from benchmarks.page import replace_block  # noqa: E402
from benchmarks.suites import SUITES  # noqa: E402

PAGE = ROOT / "docs/benchmarks.md"
LACKING = "Not measured: "


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested suites; 1 when one broke, 2 when Hermes is not installed. A missed budget is only printed."""
    given = _parser().parse_args(arguments)
    if not HERMES.exists():
        print(f"{HERMES} is not there: install the project into this Python first", file=sys.stderr)
        return 2
    wanted = given.suites or list(SUITES)
    # Without the peers, half of the figures would vanish from the public page.
    page = given.out or (PAGE if given.peers else None)
    if page:
        _write(page, dict.fromkeys(wanted, ""), dry=True)
    bench = _bench(given)
    texts: dict[str, str] = {}
    for name in wanted:
        facts = about()
        texts[name] = _suite(bench, name)
        # Written after each suite, so that a suite that breaks does not lose the others' results.
        _keep(bench.work, facts, texts, bench.samples)
        if page and not texts[name].startswith(LACKING):
            _write(page, {name: f"{sentence(facts)}\n\n{texts[name]}"})
    count = sum(map(missed, texts.values()))
    print(f"\n{count} budgets missed; page: {page}; raw figures: {given.work / 'results.json'}")
    return 1 if any(sample["exit_code"] and _ours(sample) for sample in bench.samples) else 0


def _parser() -> argparse.ArgumentParser:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="benchmarks/run.py"
    )
    parser.add_argument("suites", nargs="*", type=_suite_name, metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="run the peers too (yes)")
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="runs of Hermes, each with an empty cache (3)"
    )
    parser.add_argument("--peer-repeats", type=int, default=1, metavar="N", help="runs of each peer (1)")
    parser.add_argument(
        "--work", type=Path, default=cache / "hermes-bench", metavar="DIR", help="work folder (%(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="page to write into (docs/benchmarks.md, with the peers only)"
    )
    parser.add_argument("--ascend", type=Path, metavar="DIR", help="a rank folder instead of the made Ascend input")
    parser.add_argument("--kineto", type=Path, metavar="FILE", help="a trace instead of the made one in nanoseconds")
    parser.add_argument(
        "--kineto-us", type=Path, metavar="FILE", help="a trace instead of the made one in microseconds"
    )
    return parser


def _suite_name(text: str) -> str:
    if text not in SUITES:
        raise argparse.ArgumentTypeError(f"there is no suite {text!r}: {', '.join(SUITES)}")
    return text


def _bench(given: argparse.Namespace) -> Bench:
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    names = {"ascend": given.ascend, "kineto": given.kineto, "kineto-us": given.kineto_us}
    inputs = Inputs(folder=work / "inputs", given={name: path for name, path in names.items() if path}, say=_say)
    return Bench(
        work=work,
        inputs=inputs,
        repeats=given.repeats,
        peer_repeats=given.peer_repeats,
        peers=given.peers,
        say=_say,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _suite(bench: Bench, name: str) -> str:
    try:
        text = SUITES[name](bench)
    except MissingError as missing:
        text = f"{LACKING}{missing}."
    print(f"\n## {name}\n\n{text}", flush=True)
    return text


def _ours(sample: dict[str, object]) -> bool:
    return str(HERMES) in str(sample["command"])


def _keep(work: Path, facts: dict[str, str], texts: dict[str, str], samples: list[dict[str, object]]) -> None:
    frozen = {path.parent.name: path.read_text("utf-8").splitlines() for path in work.glob("peers/*/frozen.txt")}
    document = {"machine": facts, "peers": frozen, "suites": texts, "samples": samples}
    (work / "results.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def _write(page: Path, texts: dict[str, str], *, dry: bool = False) -> None:
    """Put the texts into their blocks; `dry` only checks that all blocks exist, before hours of work."""
    text = page.read_text("utf-8")
    for name, result in texts.items():
        text = replace_block(text, name, result)
    if not dry:
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
