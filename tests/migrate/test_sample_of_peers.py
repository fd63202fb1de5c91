"""The nine things that the usual converter gets wrong or leaves out, on a project of our own that has them all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hermes.base.say import say
from hermes.migrate import api
from hermes.migrate.scan_model import FileChange, Style, Target, TreeChange, TreeScan
from hermes.migrate.scan_source_tree import convert_tree, scan_tree
from hermes.migrate.write import diff
from hermes.model.document import Table

TRAIN = '''"""Trains on cuda:0 by default; see /data/cuda_dataset."""
import argparse
import os

import torch
import torch.distributed as dist
import my_ext
from apex import amp
from apex.optimizers import FusedAdam
from flash_attn import flash_attn_func
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DATA = "/data/cuda_dataset/cuda:old"
CACHE = os.path.join("cuda", "x")
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"


def attend(q, k, v):
    return flash_attn_func(q, k, v)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    args = parser.parse_args()
    device = torch.device(args.device)
    print("label: cuda")
    model = nn.Linear(4, 4).to(device)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.nvtx.range_push("step")
    train = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=2, shuffle=True)
    valid = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=2)
    dist.init_process_group("nccl")
    model = nn.DataParallel(model)
    state = torch.load("x.pt", map_location=lambda storage, location: storage)
    for (x,) in train:
        y = my_ext.fused(x.to(args.device))
        y = my_ext.unknown(y)
    if x.is_cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
'''
EXTENSION = """#include <torch/extension.h>
#include <cuda_runtime.h>
PYBIND11_MODULE(my_ext, m) { m.def("fused", &fused); m.def("unknown", &unknown); }
"""
KERNEL = "__global__ void fused_kernel(float* x) { x[0] = 1; }\n"
SCRIPT = "#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0,1\necho 'runs on cuda'\npython train.py --device cuda\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "a+b project"
    root.mkdir()
    for name, text in (("train.py", TRAIN), ("ext.cpp", EXTENSION), ("k.cu", KERNEL), ("run.sh", SCRIPT)):
        (root / name).write_text(text)
    return root


@pytest.fixture
def change(project: Path) -> TreeChange:
    return convert_tree(project, Target(), Style.NATIVE)


@pytest.fixture
def found(project: Path) -> TreeScan:
    return scan_tree(project, Target())


def _file(change: TreeChange, name: str) -> FileChange:
    return next(one for one in change.files if one.path == name)


def _whats(found: TreeScan) -> str:
    return "\n".join(f"{place.rule}: {say(place.what)}" for _, place in found.places)


def test_1_paths_labels_and_docstrings_stay(change: TreeChange) -> None:
    after = _file(change, "train.py").after
    for kept in (
        '"/data/cuda_dataset/cuda:old"',
        'os.path.join("cuda", "x")',
        'print("label: cuda")',
        "Trains on cuda:0",
    ):
        assert kept in after


def test_2_the_script_and_the_choices_of_the_option_change_together(change: TreeChange) -> None:
    script, after = _file(change, "run.sh").after, _file(change, "train.py").after
    assert "--device npu" in script
    assert 'choices=[_ACCELERATOR, "cpu"]' in after
    assert "default=_ACCELERATOR" in after
    assert "export CUDA_VISIBLE_DEVICES=0,1 ASCEND_RT_VISIBLE_DEVICES=0,1" in script
    assert "echo 'runs on cuda'" in script
    assert 'os.environ["ASCEND_RT_VISIBLE_DEVICES"]' in after


def test_3_a_cuda_graph_is_reported_and_no_name_is_invented(change: TreeChange, found: TreeScan) -> None:
    assert "npu.CUDAGraph" not in _file(change, "train.py").after
    graph = next(place for _, place in found.places if place.rule == "cuda-graph")
    assert "inference only" in say(graph.why)


def test_4_nvtx_is_reported_with_its_counterpart(change: TreeChange, found: TreeScan) -> None:
    assert "npu.nvtx" not in _file(change, "train.py").after
    assert "record_function" in say(next(place for _, place in found.places if place.rule == "nvtx").todo)


def test_5_libraries_extensions_and_kernels_are_reported(found: TreeScan) -> None:
    whats = _whats(found)
    for wanted in ("library apex", "library flash_attn", "my_ext.unknown", "my_ext.fused", "fused_kernel"):
        assert wanted in whats


def test_6_a_device_in_a_variable_is_left_as_it_reads(change: TreeChange) -> None:
    after = _file(change, "train.py").after
    assert "nn.Linear(4, 4).to(device)" in after
    assert "x.to(args.device)" in after
    assert "isinstance" not in after


def test_7_every_row_of_a_table_has_its_columns(found: TreeScan) -> None:
    document = api.scan_document(found)
    for table in (one for one in document.parts if isinstance(one, Table)):
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_8_what_distributes_and_loads_is_not_rewritten(change: TreeChange, found: TreeScan) -> None:
    after = _file(change, "train.py").after
    assert "DistributedSampler" not in after
    assert "drop_last" not in after
    assert after.count("init_process_group") == 1
    assert "map_location=lambda storage, location: storage" in after
    assert any(place.rule == "data-parallel" for _, place in found.places)


def test_9_a_diff_is_given_and_nothing_is_written(project: Path, change: TreeChange) -> None:
    text = "".join(diff(change))
    assert text.startswith("--- a/run.sh\n+++ b/run.sh\n")
    assert (project / "train.py").read_text() == TRAIN


def test_the_result_parses_and_a_second_run_changes_nothing(change: TreeChange, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    for file in change.files:
        (again / file.path).write_text(file.after)
    ast.parse(_file(change, "train.py").after)
    assert not convert_tree(again, Target(), Style.NATIVE).changed


def test_the_shim_adds_two_lines_and_leaves_devices_alone(project: Path) -> None:
    after = _file(convert_tree(project, Target(), Style.SHIM), "train.py").after
    assert "import torch_npu  # noqa: F401\nfrom torch_npu.contrib import transfer_to_npu  # noqa: F401\n" in after
    assert 'choices=["cuda", "cpu"]' in after
    assert 'dist.init_process_group("nccl")' in after
