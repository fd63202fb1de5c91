"""Measures how a probe grows with hosts: pairs, calls a host, pairs across a host's link, and planning time.

Run `python -m benchmarks.probe_plan`: switches have 32 hosts; the planning time is the best of five, in CPU time.
"""

from __future__ import annotations

import time
from collections import Counter

from hermes.fleet.probe.host_pairs import Host, pairs_of

HOSTS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
BEHIND_A_SWITCH = 32


def main() -> None:
    """Print a table."""
    print("| hosts | pairs | calls a host | pairs across a host's link | between switches | plan |")
    print("|--:|--:|--:|--:|--:|--:|")
    for count in HOSTS:
        hosts = [Host(name=f"n{at:05}", address=f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}",
                      switch=f"s{at // BEHIND_A_SWITCH:03}") for at in range(count)]  # fmt: skip
        times = []
        for _ in range(5):
            begin = time.process_time_ns()
            pairs = pairs_of(hosts)
            times.append(time.process_time_ns() - begin)
        switch = {host.name: host.switch for host in hosts}
        crossing = Counter(name for pair in pairs for name in pair)
        between = sum(switch[one] != switch[other] for one, other in pairs)
        calls = Counter(one for one, _ in pairs)
        print(f"| {count:,} | {len(pairs):,} | {max(calls.values())} | {min(crossing.values())} to "
              f"{max(crossing.values())} | {between / len(pairs):.0%} | {min(times) / 1e6:.2f} ms |")  # fmt: skip


if __name__ == "__main__":
    main()
