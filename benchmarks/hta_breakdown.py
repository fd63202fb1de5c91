"""Loads one trace with HTA and computes HTA's temporal breakdown; runs in the environment of HTA, not of Hermes."""

from __future__ import annotations

import json
import sys
import time


def main(path: str) -> int:
    """Print the times; 1 when the breakdown fails, which must not look like an answer."""
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

    start = time.perf_counter()
    analysis = TraceAnalysis(trace_files={0: path})
    loaded = time.perf_counter()
    failed = ""
    try:
        print(analysis.get_temporal_breakdown(visualize=False).to_string())
    except (AssertionError, ValueError, TypeError, KeyError) as wrong:
        failed = type(wrong).__name__
    told = {"load_s": loaded - start, "breakdown_s": time.perf_counter() - loaded, "failed": failed}
    sys.stdout.flush()
    sys.stderr.flush()
    print("RESULT " + json.dumps(told))
    return 1 if failed else 0


# HTA may start processes that import this file again.
if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
