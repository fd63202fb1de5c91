"""Tokens of single grouped multiplications, from the files of a job to its report."""

from __future__ import annotations

import csv
from pathlib import Path

from hermes.model.structure_measures import ExpertOperator
from hermes.profiles.api import analyze, load
from hermes.report.report_json import document
from hermes.store.cache import Cache
from hermes_testing import Job, generate


def _route(job: Path, tokens: list[list[int]]) -> None:
    """Turn the first products of each step into grouped ones with so many tokens, by rank and operator."""
    for rank, path in enumerate(sorted(job.rglob("kernel_details.csv"))):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        seen: dict[str, int] = {}
        for row in rows:
            at = seen.get(row["Step Id"], 0)
            if row["Type"] == "MatMulV2" and at < len(tokens[rank]):
                row.update({"Type": "GroupedMatmul", "Input Shapes": f'"{tokens[rank][at]},2048;8,2048,512"'})
                seen[row["Step Id"]] = at + 1
        with path.open("w", newline="") as file:
            out = csv.DictWriter(file, rows[0])
            out.writeheader()
            out.writerows(rows)


def test_the_report_names_the_operator_that_the_router_fills_most_unevenly(tmp_path: Path) -> None:
    job = generate(tmp_path / "job", Job(ranks=2, steps=2, layers=2, ep=2), formats=["ascend-text"])
    _route(job, [[1_000, 1_000, 1_000], [1_000, 1_000, 3_000]])
    report = analyze(load([job], Cache(tmp_path / "cache")))
    first, second, _ = report.rows(ExpertOperator)
    assert (first.place, first.most_rank, first.least_rank, first.imbalance, first.steps) == (2, 1, 0, 0.5, 2)
    assert second.imbalance == 0.0
    assert [row["place"] for row in document(report)["balance_operators"]] == [2, 0, 1]
