"""What runs on an NPU but costs time there, and what is made once or on the host and costs none."""

from __future__ import annotations

import pytest
from tests.migrate.conftest import Scan

from hermes.migrate.scan_model import Sure


def _rules(scan: Scan, text: str) -> set[str]:
    return {place.rule for place in scan(text).places}


@pytest.mark.parametrize("text", [
    "for p in m.parameters():\n    torch.nn.init.xavier_uniform_(p)\n",
    "for p in m.parameters():\n    p.data.uniform_(-a, a)\n", "for p in m.parameters():\n    p.requires_grad_(False)\n",
    "class N(torch.nn.Module):\n    def __init__(self):\n        for p in self.parameters():\n            p.data.mul_(0.5)\n",
    "def init_weights(m):\n    for p in m.parameters():\n        p.data.fill_(0)\n",
    "def reset_parameters(m):\n    for p in m.parameters():\n        p.data.zero_()\n",
])  # fmt: skip
def test_parameters_that_are_set_once_are_no_slow_loop(text: str, scan: Scan) -> None:
    assert "small-operators" not in _rules(scan, f"import torch\n{text}")


@pytest.mark.parametrize("text", [
    "def update(m):\n    for p in m.parameters():\n        p.grad.data.zero_()\n",
    "for p, q in zip(a, b):\n    pass\nfor p in m.parameters():\n    p.data.copy_(p * 2)\n",
])  # fmt: skip
def test_parameters_that_are_changed_in_each_step_are_a_slow_loop(text: str, scan: Scan) -> None:
    assert "small-operators" in _rules(scan, f"import torch\n{text}")


@pytest.mark.parametrize("text", [
    "i = (torch.ones(n, n).triu() - torch.eye(n)).nonzero()\n", "a = torch.ones(2)\nb = torch.eye(2)\ni = (a - b).nonzero()\n",
    "i = torch.nonzero(torch.arange(3))\n", "def f(n, j):\n    x = torch.zeros(n)\n    x = x[j]\n    return x.nonzero()\n", "x = torch.ones(2).cpu()\ny = x[x > 0]\n",
])  # fmt: skip
def test_a_shape_that_depends_on_data_of_the_host_is_not_slow(text: str, scan: Scan) -> None:
    assert "dynamic-shape" not in _rules(scan, f"import torch\n{text}")


@pytest.mark.parametrize("text", [
    "a = torch.ones(2).cuda()\ni = a.nonzero()\n", "a = torch.ones(2, device=d)\ni = a.nonzero()\n",
    "def f(x):\n    a = torch.ones(2)\n    a = a.to(x)\n    return a.nonzero()\n",
    "def f(x):\n    return (torch.ones(2) * x).nonzero()\n", "torch.set_default_device(d)\ni = torch.ones(2).nonzero()\n",
    "with torch.device(d):\n    i = torch.ones(2).nonzero()\n", "i = torch.ones_like(x).nonzero()\n",
])  # fmt: skip
def test_a_shape_that_depends_on_data_of_the_device_is_slow(text: str, scan: Scan) -> None:
    assert "dynamic-shape" in _rules(scan, f"import torch\n{text}")


@pytest.mark.parametrize("text", [
    "def f(seen):\n    return seen.ne(0).nonzero().squeeze()\n", "def f(seen, m):\n    m[seen.nonzero(), 0] = 1.\n",
    "def f(x, m):\n    return x.masked_select(m)\n",
])  # fmt: skip
def test_a_shape_that_depends_on_data_of_an_unknown_value_is_likely_slow(text: str, scan: Scan) -> None:
    place = next(one for one in scan(f"import torch\n{text}").places if one.rule == "dynamic-shape")
    assert place.sure is Sure.LIKELY


MASKED = "import torch\ndef f(x: torch.Tensor, k: torch.Tensor):\n"


@pytest.mark.parametrize("index", ["x > 0", "k.bool()", "k.bool().t()", "~(x > 0)", "(x > 0) & (x < 9)", "over"])
def test_an_index_that_is_a_mask_is_slow(index: str, scan: Scan) -> None:
    assert "dynamic-shape" in _rules(scan, f"{MASKED}    over = x > 0\n    return x[{index}]\n")


@pytest.mark.parametrize("line", ["x[k]", "x[0]", "x[k is None]", "x[k.long()]", "table[a > b]"])
def test_an_index_that_is_no_mask_of_a_tensor_is_not_slow(line: str, scan: Scan) -> None:
    assert "dynamic-shape" not in _rules(scan, f"{MASKED}    return {line}\n")


@pytest.mark.parametrize(("line", "slow"), [
    ("y = torch.Tensor(n, 2).normal_().to(d)", False), ("y = torch.ones(2, device=d).normal_()", True),
    ("y = torch.slogdet(torch.eye(3))", False), ("y = torch.slogdet(x)", True),
])  # fmt: skip
def test_a_call_that_runs_on_the_host_costs_nothing_there(line: str, slow: bool, scan: Scan) -> None:
    assert ("cpu-fallback" in _rules(scan, f"import torch\n{line}\n")) is slow


def test_a_loss_that_is_copied_for_numpy_in_each_step_is_slow(scan: Scan) -> None:
    loop = "for x in d:\n    loss = f(x)\n    loss.backward()\n    show({})\n"
    assert "sync-item" in _rules(scan, loop.format("loss.data.cpu().numpy()"))
    assert "sync-item" not in _rules(scan, loop.format("machine.cpu()"))


@pytest.mark.parametrize("text", [
    "import torch\ndef f(x):\n    return x.nonzero()[0]\n", "import torch\nimport numpy as np\ni = np.ones(2).nonzero()\n",
    "def f(x):\n    return x.nonzero()\n", "import torch\ndef f(x):\n    (i,) = x.nonzero()\n",
    "import torch\ndef f(x):\n    a, b = x.nonzero()\n",
])  # fmt: skip
def test_what_numpy_may_give_is_no_shape_that_depends_on_data(text: str, scan: Scan) -> None:
    assert "dynamic-shape" not in _rules(scan, text)
