"""What names mean by the program's own classes, folders and functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.migrate.conftest import Convert

from hermes.migrate import api
from hermes.migrate.scan_model import Target

FLAG = "import torch\nclass Data:\n    def __init__(self, cuda):\n        self.cuda = cuda\n    def f(self, x):\n"


def test_a_flag_named_cuda_leaves_the_method_of_tensors(convert: Convert) -> None:
    after = convert(FLAG + "        if (self.cuda):\n            x = x.cuda()\n        return x\n").after
    assert "x = x.to(_ACCELERATOR)" in after
    assert "self.cuda = cuda" in after


@pytest.mark.parametrize("body", [
    "        return self.cuda(x) if self.cuda else x.cuda()\n", "        return x.cuda()\n",
])  # fmt: skip
def test_what_may_be_called_as_cuda_is_left(body: str, convert: Convert) -> None:
    assert convert(FLAG + body).after == FLAG + body


def test_a_folder_of_the_project_without_init_is_no_library(tmp_path: Path) -> None:
    for name, text in (
        ("train.py", "import torch\nfrom tasks import tsp\nimport h5py\nx = torch.ones(2)\n"), ("tasks/tsp.py", "x = 1\n"),
        ("lib/solve/core/model.py", "from core import other\nfrom solve.core import other\n"),
        ("lib/solve/core/other.py", "x = 1\n"),
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = api.scan(tmp_path, Target(), 1)
    assert {one for file in found.files for one in file.unknown} == {"h5py"}


def test_a_test_is_left_where_the_device_in_its_function_is(convert: Convert) -> None:
    left = (
        "def f(x):\n    import torch\n"
        '    d = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")\n    return x.to(d)\n'
    )
    changed = "def g():\n    import torch\n    return torch.cuda.device_count()\n"
    after = convert(left + changed).after
    assert after == left + changed.replace("torch.cuda.device_count", "torch.accelerator.device_count")
