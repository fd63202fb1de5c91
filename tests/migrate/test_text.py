"""Scripts, configuration, containers, requirements and C++: what is changed in them, what is found."""

from __future__ import annotations

import pytest
from tests.migrate.conftest import Convert, Scan

from hermes.base.say import say
from hermes.migrate.scan_model import Style
from hermes.model.leaf import Risk

CHANGED = [
    ("an option", "run.sh", "python t.py --device cuda\n", "python t.py --device npu\n"),
    ("an option with a number", "run.sh", "python t.py --device=cuda:1\n", "python t.py --device=npu:1\n"),
    ("a quoted option", "run.sh", 'python t.py --device "cuda"\n', 'python t.py --device "npu"\n'),
    ("an option over two lines", "run.sh", "python t.py \\\n  --device cuda \\\n  --lr 1\n", "python t.py \\\n  --device npu \\\n  --lr 1\n"),
    ("an override", "run.sh", "python t.py device=cuda lr=1\n", "python t.py device=npu lr=1\n"),
    ("a dotted override", "run.sh", "python t.py trainer.device=cuda\n", "python t.py trainer.device=npu\n"),
    ("a backend", "run.sh", "python t.py --dist-backend nccl\n", "python t.py --dist-backend hccl\n"),
    ("a variable before a command", "run.sh", "CUDA_VISIBLE_DEVICES=0 python t.py\n", "CUDA_VISIBLE_DEVICES=0 ASCEND_RT_VISIBLE_DEVICES=0 python t.py\n"),
    ("an exported variable", "run.sh", "export CUDA_VISIBLE_DEVICES=0,1\n", "export CUDA_VISIBLE_DEVICES=0,1 ASCEND_RT_VISIBLE_DEVICES=0,1\n"),
    ("a quoted variable", "run.sh", 'export PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"\n', 'export PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True" PYTORCH_NPU_ALLOC_CONF="expandable_segments:True"\n'),
    ("a variable of a container", "run.sh", "docker run -e CUDA_VISIBLE_DEVICES=0 img\n", "docker run -e CUDA_VISIBLE_DEVICES=0 -e ASCEND_RT_VISIBLE_DEVICES=0 img\n"),
    ("an image's variable", "Dockerfile", "ENV CUDA_LAUNCH_BLOCKING=1\n", "ENV CUDA_LAUNCH_BLOCKING=1 ASCEND_LAUNCH_BLOCKING=1\n"),
    ("a file of variables", ".env", "CUDA_VISIBLE_DEVICES=0\n", "CUDA_VISIBLE_DEVICES=0\nASCEND_RT_VISIBLE_DEVICES=0\n"),
    ("YAML", "c.yaml", "device: cuda  # where\nname: cuda\n", "device: npu  # where\nname: cuda\n"),
    ("nested YAML", "c.yaml", "train:\n  device: 'cuda:0'\n", "train:\n  device: 'npu:0'\n"),
    ("YAML in a line", "c.yaml", "train: {device: cuda, lr: 1}\n", "train: {device: npu, lr: 1}\n"),
    ("a backend in YAML", "c.yaml", "dist_backend: nccl\n", "dist_backend: hccl\n"),
    ("TOML", "c.toml", '[run]\ndevice = "cuda"\n', '[run]\ndevice = "npu"\n'),
    ("JSON", "c.json", '{"device": "cuda", "tag": "cuda"}\n', '{"device": "npu", "tag": "cuda"}\n'),
]  # fmt: skip
KEPT = [
    ("a printed line", "run.sh", 'echo "python t.py --device cuda"\n'),
    ("a comment", "run.sh", "# python t.py --device cuda\npython t.py\n"),
    ("a path", "run.sh", "python t.py --data /data/cuda --name cuda\n"),
    ("another option", "run.sh", "python t.py --tag cuda\n"),
    ("a longer word", "run.sh", "python t.py --device cudax\n"),
    ("a flag", "run.sh", "python t.py --cuda\n"),
    ("an option of the cpu", "run.sh", "python t.py --device cpu\n"),
    ("a variable from a command", "run.sh", "export CUDA_VISIBLE_DEVICES=$(pick)\n"),
    ("both variables", "run.sh", "export CUDA_VISIBLE_DEVICES=0\nexport ASCEND_RT_VISIBLE_DEVICES=0\n"),
    ("a variable without counterpart", "run.sh", "export NCCL_P2P_DISABLE=1\n"),
    ("a variable with another unit", "run.sh", "export NCCL_BUFFSIZE=8388608\n"),
    ("a variable of make", "Makefile", "CUDA_VISIBLE_DEVICES=0\nrun:\n\tpython t.py\n"),
    ("another key", "c.yaml", "name: cuda\n"),
    ("a comment in YAML", "c.yaml", "# device: cuda\n"),
    ("a path in YAML", "c.yaml", "device_path: /dev/cuda\n"),
    ("a key that ends alike", "c.yaml", "mydevice: cuda\n"),
    ("a backend of a picture", "c.yaml", "backend: agg\n"),
    ("text in JSON", "c.json", '{"note": "device: cuda is used"}\n'),
    ("a table in TOML", "c.toml", "[cuda]\nx = 1\n"),
]


@pytest.mark.parametrize(("name", "file", "before", "after"), CHANGED, ids=[one[0] for one in CHANGED])
def test_a_file_is_converted_and_a_second_run_changes_nothing(
    name: str, file: str, before: str, after: str, convert: Convert
) -> None:
    change = convert(before, file)
    assert change.after == after
    assert convert(after, file).after == after


@pytest.mark.parametrize(("name", "file", "text"), KEPT, ids=[one[0] for one in KEPT])
def test_a_file_is_left_as_it_is(name: str, file: str, text: str, convert: Convert) -> None:
    assert convert(text, file).after == text


def test_the_shim_leaves_devices_in_scripts_and_sets_the_variables(convert: Convert) -> None:
    change = convert("export CUDA_VISIBLE_DEVICES=0\npython t.py --device cuda\n", "run.sh", Style.SHIM)
    assert change.after == "export CUDA_VISIBLE_DEVICES=0 ASCEND_RT_VISIBLE_DEVICES=0\npython t.py --device cuda\n"


@pytest.mark.parametrize(("file", "text", "rule", "what"), [
    ("run.sh", "nvidia-smi\n", "launcher", "nvidia-smi"),
    ("run.sh", "nsys profile python t.py\n", "launcher", "nsys"),
    ("job.sh", "#SBATCH --gres=gpu:8\n", "launcher", "--gres=gpu"),
    ("run.sh", "docker run --gpus all img\n", "launcher", "--gpus"),
    ("run.sh", "pip install flash-attn\n", "library", "library flash-attn"),
    ("Dockerfile", "FROM nvidia/cuda:12.4.0-devel\n", "image", "image nvidia/cuda:12.4.0-devel"),
    ("pod.yaml", "limits:\n  nvidia.com/gpu: 1\n", "launcher", "nvidia.com/gpu"),
    ("requirements.txt", "apex==0.1\n", "library", "library apex"),
    ("requirements.txt", "torch==2.7.1\n", "library", "library torch without torch_npu"),
    ("requirements.txt", "nvidia-cublas-cu12\n", "library", "nvidia-cublas-cu12"),
    ("k.cu", "__global__ void f(int n) {}\n", "custom-kernel", "CUDA kernel f"),
    ("x.cpp", '#include <cuda.h>\nTORCH_LIBRARY(ops, m) { m.def("g(Tensor x) -> Tensor"); }\n', "extension-operator", "operator ops.g of an extension"),
])  # fmt: skip
def test_it_is_found(file: str, text: str, rule: str, what: str, scan: Scan) -> None:
    assert (rule, what) in {(place.rule, say(place.what)) for place in scan(text, file).places}


LOCKED = """nvidia-cublas-cu12==12.1.3.1 ; platform_machine == 'x86_64'
    # via
    #   nvidia-cudnn-cu12
    #   torch
torch==2.4.1
    # via trainer
triton==3.0.0
    # via torch
networkx==3.1
    # via torch
xformers==0.0.28
    # via
    #   torch
    #   trainer
"""


def test_what_only_torch_asks_for_in_a_lock_file_stops_nothing(scan: Scan) -> None:
    stops = {say(one.what) for one in scan(LOCKED, "requirements.txt").places if one.effect is Risk.STOPS}
    assert stops == {"library torch without torch_npu", "library xformers"}
    assert not [one for one in scan(LOCKED, "requirements.txt").places if "networkx" in say(one.what)]
    plain = "\n".join(line for line in LOCKED.splitlines() if "#" not in line)
    stops = {say(one.what) for one in scan(plain, "requirements.txt").places if one.effect is Risk.STOPS}
    assert stops == {"library torch without torch_npu", "library xformers", "library triton", "nvidia-cublas-cu12"}


def test_the_name_of_a_project_is_no_library_that_it_needs(scan: Scan) -> None:
    text = '[project]\nname = "apex"\npackages = [{ include = "apex" }]\n{ include = "apex" },\ndependencies = ["triton"]\n'
    assert [say(one.what) for one in scan(text, "pyproject.toml").places] == ["library triton"]


@pytest.mark.parametrize("index", ["whl/cu126", "whl/nightly/cu126", "whl/test/cu128"])
def test_an_index_of_wheels_for_cuda_is_found(index: str, scan: Scan) -> None:
    line = f"RUN pip install --pre torch --index-url https://download.pytorch.org/{index} --upgrade\n"
    assert any("whl" in say(one.what) for one in scan(line, "Dockerfile").places)
