"""Classes that a program only asks for, as in `isinstance`, are not used."""

from __future__ import annotations

import pytest
from tests.migrate.conftest import Scan

NN = "import torch\nfrom torch import nn\nfrom torch.nn import DataParallel\n"


def _rules(scan: Scan, text: str) -> set[str]:
    return {place.rule for place in scan(text).places}


@pytest.mark.parametrize("text", [
    "m = m.module if isinstance(m, DataParallel) else m\n", "ok = isinstance(m, (nn.Linear, nn.DataParallel))\n",
    "ok = issubclass(kind, nn.DataParallel)\n", "ok = type(m) is nn.DataParallel\n", "ok = m.__class__ == DataParallel\n",
    "def f(m: nn.DataParallel) -> nn.DataParallel:\n    return m\n", "m: DataParallel | None = None\n",
    "ok = isinstance(m, nn.MaxPool1d)\n",
])  # fmt: skip
def test_a_class_that_is_only_asked_for_is_not_used(text: str, scan: Scan) -> None:
    assert not {"data-parallel", "unsupported-api"} & _rules(scan, NN + text)


@pytest.mark.parametrize("text", [
    "m = DataParallel(m)\n", "class P(nn.DataParallel):\n    pass\n", "wrap = nn.DataParallel\n",
    "m = f(nn.DataParallel, m)\n", "ok = isinstance(nn.DataParallel(m), nn.Module)\n",
])  # fmt: skip
def test_a_class_that_is_made_derived_from_or_handed_on_is_used(text: str, scan: Scan) -> None:
    assert "data-parallel" in _rules(scan, NN + text)
