"""What a scan says of APIs, types, libraries and slow places, by version and chip."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.migrate.conftest import Convert, Scan

from hermes.base.say import say
from hermes.knowledge import migration
from hermes.migrate import api, messages
from hermes.migrate.scan_model import Effort, Sure, Target
from hermes.model.leaf import Risk


def _rules(scan: Scan, text: str, **more: object) -> dict[str, str]:
    return {place.rule: say(place.what) for place in scan(text, **more).places}


def test_an_api_that_the_chip_lacks_is_named_by_its_full_name_through_aliases(scan: Scan) -> None:
    found = scan("from torch import nn as layers\nm = layers.RNN(2, 2)\n")
    place = next(one for one in found.places if one.rule == "unsupported-api")
    assert say(place.what) == "torch.nn.RNN"
    assert (place.line, place.column) == (2, 5)


def test_an_api_that_one_chip_has_and_another_lacks_depends_on_the_chip(scan: Scan) -> None:
    text = "import torch\nx = torch.ones(2).cumsum_(0)\n"
    assert "unsupported-api" not in _rules(scan, text, target=Target(chip="A2"))
    assert "unsupported-api" in _rules(scan, text, target=Target(chip="950"))


def test_a_type_that_the_call_refuses_depends_on_the_version(scan: Scan) -> None:
    text = "import torch\nx = torch.ones(2, dtype=torch.bfloat16)\ny = torch.cumsum(x, 0)\n"
    assert "dtype-limit" in _rules(scan, text, target=Target(torch="2.13.0"))
    assert "dtype-limit" not in _rules(scan, text, target=Target(torch="2.7.1"))


def test_a_type_that_is_not_known_is_no_finding(scan: Scan) -> None:
    assert "dtype-limit" not in _rules(scan, "import torch\ndef f(x):\n    return torch.cumsum(x, 0)\n")


def test_a_cast_changes_the_type_that_is_held_against_the_table(scan: Scan) -> None:
    text = "import torch\nx = torch.ones(2, dtype=torch.bfloat16).float()\ny = x.cumsum(0)\n"
    assert "dtype-limit" not in _rules(scan, text)


def test_a_call_that_runs_on_the_host_is_slow(scan: Scan) -> None:
    place = next(
        one
        for one in scan("import torch\nx = torch.ones(2, device=d).scatter_(0, i, 1)\n").places
        if one.rule == "cpu-fallback"
    )
    assert place.effect is Risk.SLOW
    assert place.later == "CMP003"


def test_inference_only_is_said(scan: Scan) -> None:
    assert "cuda-graph" in _rules(scan, "import torch\ng = torch.cuda.CUDAGraph()\n")


@pytest.mark.parametrize(("text", "rule"), [
    ("for x in d:\n    l = f(x)\n    l.backward()\n    s += l.item()\n", "sync-item"),
    ("import torch\ni = torch.nonzero(x)\n", "dynamic-shape"),
    ("import torch\nx = torch.ones(2, device=d)\ny = x[x > 0]\n", "dynamic-shape"),
    ("for p in m.parameters():\n    p.data.add_(p.grad)\n", "small-operators"),
    ("import torch\nx = torch.ones(2).double()\n", "float64"),
])  # fmt: skip
def test_a_slow_place_names_the_rule_that_measures_it(text: str, rule: str, scan: Scan) -> None:
    place = next(one for one in scan(text).places if one.rule == rule)
    assert place.effect is Risk.SLOW
    assert place.later


@pytest.mark.parametrize("text", [
    "l.backward()\nprint(l.item())\n",
    "for x in d:\n    print(x.item())\n",
    "for i, x in e:\n    l.backward()\n    if i % 10 == 0:\n        print(l.item())\n",
])  # fmt: skip
def test_a_value_that_is_read_rarely_is_no_finding(text: str, scan: Scan) -> None:
    assert "sync-item" not in _rules(scan, text)


def test_a_library_behind_a_guard_is_a_note(scan: Scan) -> None:
    guarded = "try:\n    import apex\nexcept ImportError:\n    apex = None\n"
    assert scan(guarded).places[0].effect is Risk.NOTE
    assert scan("import apex\n").places[0].effect is Risk.STOPS


def test_a_module_of_the_project_is_no_library(scan: Scan, tmp_path: object) -> None:
    (tmp_path / "triton.py").write_text("x = 1\n")  # type: ignore[attr-defined]
    assert "library" not in _rules(scan, "import triton\n")


def test_a_test_before_a_triton_kernel_of_the_project_is_left(convert: Convert, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(
        "try:\n    import triton\nexcept ImportError:\n    triton = None\ndef f(x): ...\n"
    )
    program = (
        "import torch\ndef g(x):\n    if x.is_cuda:\n        from kernels import f\n        return f(x)\n    return x\n"
    )
    assert convert(program).after == program


@pytest.mark.parametrize("program", [
    "x = torch.ones(2, dtype=torch.float16)\ny = x.detach()\n", "x = torch.ones(2, dtype=torch.int64)\ny = x.tolist()\n",
    "x = torch.ones(2, 2, dtype=torch.bfloat16)\ny = torch.mm(x, x)\n",
])  # fmt: skip
def test_a_call_that_computes_nothing_and_the_matrix_unit_have_no_limit_of_types(program: str, scan: Scan) -> None:
    assert "dtype-limit" not in _rules(scan, f"import torch\n{program}")


def test_a_library_that_a_function_imports_does_not_stop_the_program(scan: Scan) -> None:
    place = scan("def f():\n    import jax\n").places[0]
    assert (place.effect, place.effort) == (Risk.DIFFERS, Effort.HOURS)


def test_a_library_that_works_is_no_place_for_convert(scan: Scan) -> None:
    assert not scan("import transformers\n").places[0].converts


def test_what_the_properties_of_an_npu_lack_is_found_through_a_name(scan: Scan) -> None:
    found = scan("import torch\np = torch.cuda.get_device_properties(0)\nprint(p.major, p.name)\n")
    assert [say(place.what) for place in found.places if place.rule == "capability"] == ["p.major"]


def test_the_handle_of_a_stream_is_found(scan: Scan) -> None:
    assert "cuda-only" in _rules(scan, "import torch\nh = torch.cuda.current_stream().cuda_stream\n")


def test_calls_of_an_extension_of_the_project_are_found(scan: Scan) -> None:
    assert "extension-operator" in _rules(scan, "import my_ext\nmy_ext.f(x)\n", extensions=("my_ext",))


def test_a_guess_is_called_a_guess(scan: Scan) -> None:
    place = next(one for one in scan('import torch\nrun(args=("cuda:0",))\n').places if one.rule == "unsure-device")
    assert place.sure is Sure.GUESS


def test_a_table_by_device_that_has_no_npu_is_a_guess(scan: Scan) -> None:
    assert "unsure-device" in _rules(scan, 'import torch\nd = {"cuda": "nccl", "cpu": "gloo"}\n')
    assert "unsure-device" not in _rules(scan, 'import torch\nd = {"cuda": "nccl", "npu": "hccl"}\n')


def test_the_tables_are_large_and_every_fact_has_a_source() -> None:
    assert len(migration.libraries()) >= 40
    assert len(migration.settings()) >= 60
    for fact in [*migration.libraries().values(), *migration.settings().values()]:
        assert fact.source.startswith("https://")


def test_every_source_is_used() -> None:
    used = {one.source for one in migration.libraries().values()} | {
        one.source for one in migration.settings().values()
    }
    assert set(migration.sources().values()) - used <= {
        migration.sources()[key] for key in ("torch-npu-apis", "cpu-affinity", "hccl-ports", "nsight")
    }


@pytest.mark.parametrize("version", migration.VERSIONS)
def test_each_version_has_its_table_with_chips_and_types(version: str) -> None:
    table = migration.support(version)
    assert len(table) > 3000
    assert sum(bool(one.types) for one in table.values()) > 1000
    assert sum("950" in one.chips for one in table.values()) < sum("A2" in one.chips for one in table.values())


def test_the_table_has_facts_and_no_sentences() -> None:
    assert all(
        ord(character) < 128
        for one in migration.support("2.13.0").values()
        for character in f"{one.api}{one.argument}{one.marks}"
    )


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there are 2\.7\.1"):
        migration.support("1.0")


@pytest.mark.parametrize("text", [
    'torch.device(f"cuda")', 'torch.ones(2, device=f"cuda")', 'm.to(f"cuda")', 'torch.device(f"cuda:0")',
    'torch.device("cuda" + suffix)', 'torch.device("%s:0" % "cuda")', 'torch.device(f"{name or \'cuda\'}:0")',
    'torch.device("".join(["cuda", ":0"]))', 'dist.init_process_group("cuda:nccl,cpu:gloo")',
    'dist.init_process_group(f"nccl")', 'dist.init_process_group(backend="cpu:gloo,cuda:nccl")', "import tutel",
])  # fmt: skip
def test_a_device_or_a_library_of_cuda_is_never_passed_over(text: str, scan: Scan) -> None:
    found = scan(f"import torch\nimport torch.distributed as dist\nm = torch.nn.Linear(2, 2)\n{text}\n")
    assert {place.line for place in found.places} == {4}


@pytest.mark.parametrize("name", ["mini_f", "mini_dp"])
def test_the_minis_are_no_yes_before_they_are_converted(name: str, projects: Path) -> None:
    folder = projects.parent / "hunt" / "m_minis" / name
    if not folder.is_dir():
        pytest.skip(f"no mini at {folder}")
    answer = api.scan_document(api.scan(folder, Target()))
    lines = {line for one in answer.findings if one.about is Risk.STOPS for line in one.lines}
    assert {"mini_f": "main.py:6", "mini_dp": "main.py:7"}[name] in lines
    assert answer.facts["verdict"] == {"mini_f": "yes", "mini_dp": "with_work"}[name]


def test_a_collective_refuses_the_types_that_the_table_does_not_list(scan: Scan) -> None:
    text = "import torch\nimport torch.distributed as dist\nx = torch.ones(2, dtype=torch.float64)\n"
    place = next(one for one in scan(f"{text}dist.all_reduce(x)\n").places if one.rule == "dtype-limit")
    assert place.effect is Risk.STOPS
    assert "dtype-limit" not in _rules(scan, f"{text}dist.broadcast(x, 0)\n")


def test_a_function_and_its_method_take_the_same_types(scan: Scan) -> None:
    text = "import torch\nx = torch.ones(2, dtype=torch.float64)\ny = x.add(x)\n"
    assert "dtype-limit" not in _rules(scan, text)


@pytest.mark.parametrize(("call", "stops"), [
    ("F.interpolate(x, scale_factor=2)", True), ("F.interpolate(x, None, 2.0)", True),
    ("F.interpolate(x, size=(4, 4))", False), ("F.interpolate(x, (4, 4), None)", False),
    ("F.scaled_dot_product_attention(x, x, x, attn_mask=torch.zeros(2, 2, dtype=torch.float16))", True),
    ("F.scaled_dot_product_attention(x, x, x, torch.ones(2, 2, dtype=torch.bool))", False),
])  # fmt: skip
def test_an_argument_that_the_table_excludes_stops(call: str, stops: bool, scan: Scan) -> None:
    found = scan(f"import torch\nimport torch.nn.functional as F\nx = torch.ones(1, 2, 3, 4)\ny = {call}\n").places
    assert any(one.rule == "argument-limit" and one.effect is Risk.STOPS for one in found) is stops


def test_an_error_of_torch_by_its_name_in_torch_cuda_is_no_fault(scan: Scan, convert: Convert) -> None:
    text = "import torch\ntry:\n    f()\nexcept torch.cuda.OutOfMemoryError:\n    pass\n"
    (place,) = scan(text).places
    assert (place.rule, place.effect) == ("moved-name", Risk.NOTE)
    assert "except torch.OutOfMemoryError:" in convert(text).after


@pytest.mark.parametrize(("call", "effect"), [
    ("is_available()", Risk.DIFFERS), ("device_count()", Risk.DIFFERS), ("manual_seed(0)", Risk.DIFFERS),
    ("synchronize()", Risk.STOPS), ("set_device(0)", Risk.STOPS), ("current_device()", Risk.STOPS),
])  # fmt: skip
def test_only_what_raises_without_cuda_is_said_to_stop(call: str, effect: Risk, scan: Scan) -> None:
    (place,) = scan(f"import torch\ntorch.cuda.{call}\n").places
    assert place.effect is effect


@pytest.mark.parametrize("call", ["scatter_(0, i, 1)", "bernoulli_(0.5)"])
def test_what_the_table_says_may_happen_is_not_proven(call: str, scan: Scan) -> None:
    place = next(
        one for one in scan(f"import torch\nx = torch.ones(2, device=d).{call}\n").places if one.rule == "cpu-fallback"
    )
    assert place.sure is Sure.LIKELY
    assert "may" in say(place.why)


def test_libraries_that_no_table_knows_are_named(scan: Scan) -> None:
    assert scan("import os\nimport torch\nimport einops\nimport apex\n").unknown == {"einops"}


GLOO = "import torch\nimport torch.distributed as dist\nnet = torch.nn.Linear(2, 2).cuda()\n"


@pytest.mark.parametrize(("text", "stops"), [
    ('dist.init_process_group("gloo")', True), ('dist.init_process_group(backend="gloo", rank=0)', True),
    ('class A:\n    backend: Literal["gloo", "nccl"] = "gloo"', True),
    ('dist.init_process_group("nccl" if on_gpu else "gloo")', False),
    ('if os.name == "nt":\n    dist.init_process_group("gloo")\nelse:\n    dist.init_process_group("nccl")', False),
    ('group = dist.new_group(backend="gloo")', False), ('dist.init_process_group("cpu:gloo,cuda:nccl")', False),
    ('if dist.get_backend() == "gloo":\n    pass', False),
])  # fmt: skip
def test_a_group_of_gloo_for_tensors_of_the_device_stops(text: str, stops: bool, scan: Scan) -> None:
    found = [one for one in scan(f"{GLOO}{text}\n").places if "gloo" in say(one.what) and one.rule == "backend-string"]
    assert any(one.effect is Risk.STOPS and not one.converts for one in found) is stops
    assert not [
        one for one in scan(f"{GLOO.replace('.cuda()', '')}{text}\n").places if one.why == messages.GLOO_ON_HOST
    ]


@pytest.mark.parametrize(("call", "stops"), [
    ("torchvision.ops.nms(x, x, 0.5)", True), ("torchvision.ops.boxes.batched_nms(x, x, x, 0.5)", True),
    ("torchvision.ops.RoIAlign(2, 1.0, 2)", True), ("torchvision.ops.box_iou(x, x)", False),
    ("torchvision.models.resnet18()", False), ("torchvision.models.detection.fasterrcnn_resnet50_fpn()", True),
])  # fmt: skip
def test_an_operator_of_torchvision_needs_its_companion(call: str, stops: bool, scan: Scan) -> None:
    text = f"import torch\nimport torchvision\nx = torch.ones(1, 4)\ny = {call}\n"
    assert any(one.rule == "library" and one.effect is Risk.STOPS for one in scan(text).places) is stops
    there = scan(f"import torchvision_npu\n{text}").places
    assert not any(one.rule == "library" and one.effect is Risk.STOPS for one in there)


@pytest.mark.parametrize("text", [
    "from torch.nn.parallel._functions import Broadcast\ny = Broadcast.apply([0], x)",
    "from torch.nn.parallel import replicate\ny = replicate(m, [0, 1])",
    "from torch.nn.parallel.scatter_gather import scatter_kwargs\ny = scatter_kwargs(x, {}, [0])",
    "y = torch.nn.parallel.parallel_apply(m, x)",
])  # fmt: skip
def test_the_parts_of_data_parallel_stop_as_the_whole_does(text: str, scan: Scan) -> None:
    assert "data-parallel" in _rules(scan, f"import torch\n{text}\n")


@pytest.mark.parametrize(("dtype", "effect"), [
    ("float8_e4m3fn", Risk.STOPS), ("float8_e5m2", Risk.STOPS), ("bfloat16", None), ("bool", None), ("int64", None),
])  # fmt: skip
def test_a_type_that_no_call_takes_stops(dtype: str, effect: Risk | None, scan: Scan) -> None:
    found = [one for one in scan(f"import torch\nx = y.to(torch.{dtype})\n").places if one.rule == "dtype-limit"]
    assert [one.effect for one in found] == ([effect] if effect else [])
    assert not any(one.sure is Sure.PROVEN for one in found)


@pytest.mark.parametrize("name", ["isaacgym", "isaacgymenvs", "kernels"])
def test_a_library_of_cuda_alone_stops(name: str, scan: Scan) -> None:
    places = scan(f"import torch\nimport {name}\n").places
    assert any(one.rule == "library" and one.effect is Risk.STOPS for one in places)


@pytest.mark.parametrize(("text", "effect"), [
    ('print(f"CUDA {torch.version.cuda}")', Risk.DIFFERS), ("print(torch.version.cuda)", Risk.DIFFERS),
    ("if torch.version.cuda is None:\n    pass", Risk.DIFFERS), ("if torch.version.cuda:\n    pass", Risk.DIFFERS),
    ("info = {'cuda': torch.version.cuda}", Risk.DIFFERS), ("v = torch.version.cuda.split('.')", Risk.STOPS),
    ("v = float(torch.version.cuda)", Risk.STOPS), ("v = torch.version.cuda[:4]", Risk.STOPS),
    ("v = 'cuda ' + torch.version.cuda", Risk.STOPS), ("v = torch.version.cuda < '12'", Risk.STOPS),
])  # fmt: skip
def test_a_version_that_is_none_stops_only_what_computes_with_it(text: str, effect: Risk, scan: Scan) -> None:
    (place,) = [one for one in scan(f"import torch\n{text}\n").places if one.rule == "cuda-version"]
    assert place.effect is effect


def test_a_copy_to_the_host_is_counted_once(scan: Scan) -> None:
    text = "import torch\nfor i in range(3):\n    x = torch.ones(2)\n    y = x.cpu().numpy()\n    x.sum().backward()\n"
    found = [say(one.what) for one in scan(text).places if one.rule == "sync-item"]
    assert len(found) == 1, found


EXTENDED = """import torch
import plugins

_plugin = None


def _init():
    global _plugin
    _plugin = plugins.get("act")
    return _plugin is not None


def _act_cuda(x):
    return _plugin.act(x)


def act(x, impl="cuda"):
    if impl == "cuda" and x.device.type == "cuda" and _init():
        return _act_cuda(x)
    return x
"""


def test_a_test_before_a_function_that_builds_an_extension_is_left(convert: Convert, tmp_path: Path) -> None:
    (tmp_path / "plugins.py").write_text(
        "import torch.utils.cpp_extension\ndef get(n):\n    return torch.utils.cpp_extension.load(name=n, sources=[])\n"
    )
    assert convert(EXTENDED).after == EXTENDED


def test_a_test_before_a_function_that_is_converted_is_converted(convert: Convert) -> None:
    program = (
        "import torch\nfrom flash_attn import flash_attn_func\ndef go(x):\n    return flash_attn_func(x.cuda())\n"
        "def f(x):\n    if torch.cuda.is_available():\n        return go(x)\n    return x\n"
    )
    assert "if torch.accelerator.is_available():" in convert(program).after


@pytest.mark.parametrize(("call", "sure"), [("x.max()", Sure.LIKELY), ("dist.all_reduce(x)", Sure.PROVEN)])
def test_a_type_is_no_proof_where_the_tensor_may_be_on_the_host(call: str, sure: Sure, scan: Scan) -> None:
    text = f"import torch\nimport torch.distributed as dist\nx = torch.ones(2, dtype=torch.float64)\n{call}\n"
    (place,) = [one for one in scan(text).places if one.rule == "dtype-limit"]
    assert (place.effect, place.sure) == (Risk.STOPS, sure)


@pytest.mark.parametrize(
    ("text", "rule", "what"),
    [
        ('import importlib, torch\nx = importlib.import_module("triton.language")\n', "library", "triton"),
        ('import torch\nx = __import__("flash_attn")\n', "library", "flash_attn"),
        ('import ctypes, torch\nx = ctypes.CDLL("libcudart.so")\n', "library", "libcudart.so"),
        ('from ctypes import CDLL\nimport torch\nx = CDLL("/usr/lib/libnccl.so.2")\n', "library", "/usr/lib/libnccl.so.2"),
        ('import subprocess, torch\nsubprocess.run(["nvidia-smi", "-L"])\n', "launcher", "nvidia-smi"),
        ('import os, torch\nos.system("/usr/bin/nvidia-smi -q")\n', "launcher", "nvidia-smi"),
        ("from torch.cuda import *\nsynchronize()\n", "cuda-only", "from torch.cuda import *"),
        ('import torch\nmatch torch.ones(1).device.type:\n    case "cuda":\n        pass\n', "device-test", '"cuda"'),
    ],
)  # fmt: skip
def test_what_is_reached_by_its_name_alone_is_found(scan: Scan, text: str, rule: str, what: str) -> None:
    assert what in _rules(scan, text)[rule]


@pytest.mark.parametrize("text", [
    'import ctypes, torch\nx = ctypes.CDLL("libc.so.6")\n', 'import ctypes, torch\nx = ctypes.CDLL("libcudax.so")\n',
    'import importlib, torch\nx = importlib.import_module("json")\n', 'import torch\nprint("nvidia-smi")\n',
    'import subprocess, torch\nsubprocess.run(["ls", "nvidia-smi"])\n', "from torch import *\nx = ones(1)\n",
])  # fmt: skip
def test_what_only_looks_like_cuda_is_no_finding(scan: Scan, text: str) -> None:
    assert not {"library", "launcher", "cuda-only", "device-test"} & set(_rules(scan, text))
