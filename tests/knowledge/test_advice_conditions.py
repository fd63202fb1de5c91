"""No change is shown that means nothing to a job: another vendor's word, a framework not in use, training advice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import product

import pytest
from tests.each import each

from hermes.base.message import Message
from hermes.base.say import LANGUAGES, say
from hermes.knowledge import cases, vendor_cures
from hermes.knowledge.advice_conditions import JobKind, fits, fitted_actions, fitted_case, fitted_prose, fitted_snippet
from hermes.knowledge.cases import Case
from hermes.knowledge.costly_forms import CostlyForm
from hermes.knowledge.vendor_traits import traits
from hermes.model.finding import Action
from hermes.profiles.rules import ALL, MODULES, modules_of
from hermes.profiles.rules.compute.cmp004_layout._layout import Layout

CHIPS = ("ascend", "cuda", "rocm", "cpu", "mtia", "xpu", "gaudi", "")
# Not taken from what is tested: what somebody who knows one chip alone would stumble over.
ONLY_OF: Mapping[str, str] = {
    "cuda": r"torch\.cuda\.|\bcudnn\b|\bNCCL_|nvidia-smi|\bCUDA_LAUNCH|allow_tf32|PYTORCH_CUDA",
    "rocm": r"\bRCCL_|\bHIP_[A-Z]|rocm-smi|\bROCR_|MIOPEN_|PYTORCH_HIP",
    "ascend": r"torch_npu|torch\.npu\.|\bHCCL_|TORCH_HCCL|\bASCEND_|npu-smi|\baclnn|TASK_QUEUE_ENABLE|PYTORCH_NPU|CANN",
}
OF_TRAINING = r"micro-?batch|accumulat|backward\(|GradScaler|optimizer|DistributedDataParallel|no_sync"
OF_LIBRARIES = r"DistributedDataParallel|Megatron|MindSpeed|DeepSpeed|FSDP|Lightning|--use-distributed"
EVERY = ("ddp", "fsdp", "deepspeed", "megatron", "mindspeed", "lightning", "accelerate", "trainer", "transformers",
         "torchrec")  # fmt: skip


def job(chip: str, *libraries: str, trains: bool | None = True) -> JobKind:
    chips = (chip,) if chip else ()
    return JobKind(chips=chips, frameworks=("pytorch",), libraries=libraries, trains=trains)


def foreign(text: str, chip: str) -> list[str]:
    """Words of other chips; PyTorch for ROCm and RCCL take those of CUDA, but for tools and the driver's variables."""
    own = {chip, "cuda"} if chip == "rocm" else {chip}
    return [found.group() for name, words in ONLY_OF.items() if name not in own and (found := re.search(words, text))]


# Every action that a rule hands out as it is, and every case --------------------------------------------------------


def shown(one: Case) -> str:
    return "\n".join((one.cure, one.after, one.before, one.confirm, one.risk))


def _said(value: object) -> Iterator[Action]:
    """The actions in a value of a module: in tables and tuples, too."""
    if isinstance(value, Action):
        yield value
    elif isinstance(value, (Layout, CostlyForm)):
        yield from _said(tuple(getattr(value, field.name) for field in fields(value)))
    elif isinstance(value, (tuple, Mapping)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _said(one)


SAID = {
    f"{rule.code}-{one.do!r}": one
    for rule in ALL
    for module in modules_of(next(one for one in MODULES if one.__doc__ == rule.page))
    for value in vars(module).values()
    for one in _said(value)
}


def test_all_actions_were_found() -> None:
    assert len(SAID) > 130


@each(SAID.items(), lambda one: one[0])
def test_an_action_is_said_in_two_languages(one: tuple[str, Action]) -> None:
    for text in (one[1].title, one[1].do, one[1].verify, one[1].risk):
        assert isinstance(text, Message)
        assert all(say(text, language) != text.identifier for language in LANGUAGES)


@each(SAID.items(), lambda one: one[0])
def test_a_message_fits_the_jobs_that_its_action_is_for(one: tuple[str, Action]) -> None:
    action = one[1]
    for chip, trains in product(CHIPS, (True, False)):
        kind = job(chip, *action.fit.libraries, trains=trains)
        # An action of a library may name it and what it does; all else must hold for any job that it fits.
        text = " ".join(map(say, (action.title, action.do, action.verify, action.risk)))
        if kind.needs_met(action.fit):
            assert foreign(text, chip) == []
            assert action.fit.libraries or re.findall(OF_LIBRARIES, text) == []
            assert trains or re.findall(OF_TRAINING, text, re.IGNORECASE) == []


@each(cases.cases(), lambda one: str(one.id))
def test_a_case_names_nothing_that_another_chip_or_library_or_training_alone_knows(one: Case) -> None:
    for chip, trains in product(CHIPS, (True, False)):
        said = fitted_case(one, job(chip, trains=trains))
        text = "" if said is None else shown(said)
        assert foreign(text, chip) == []
        assert re.findall(OF_LIBRARIES, text) == []
        assert trains or re.findall(OF_TRAINING, text, re.IGNORECASE) == []


@each(cases.cases(), lambda one: str(one.id))
def test_each_chip_of_a_case_has_a_change_that_fits(one: Case) -> None:
    kind = JobKind(frameworks=("mindspore", "pytorch"), libraries=EVERY, trains=True)
    every = {chip: fitted_case(one, replace(kind, chips=(chip,))) for chip in one.chips}
    assert [chip for chip, said in every.items() if said is None or not said.cure] == []


@pytest.mark.parametrize(
    ("said", "fits"),
    [
        (("pytorch",), {"torch"}),
        (("mindspore",), {"mindspore"}),
        ((), set()),
        (("mindspore", "pytorch"), {"torch", "mindspore"}),
    ],
)
def test_an_unknown_framework_gets_no_advice_of_a_framework(said: tuple[str, ...], fits: set[str]) -> None:
    kind = JobKind(chips=("ascend",), frameworks=said, trains=True)
    texts = {"torch": "torch_npu.npu_rms_norm in place of its parts", "mindspore": "mindspore.jit over the cell"}
    assert {name for name, text in texts.items() if fitted_prose(text, kind)} == fits
    assert fitted_prose("Enlarge the batch.", kind)


# What is left of a text -------------------------------------------------------------------------------------------


def test_a_clause_of_another_chip_goes_and_the_rest_stays_a_sentence() -> None:
    text = "Look at npu-smi info; look at nvidia-smi -q; swap the two devices."
    assert fitted_prose(text, job("cuda")) == "Look at nvidia-smi -q; swap the two devices."
    assert fitted_prose(text, job("")) == "Swap the two devices."


def test_a_setting_keeps_the_variables_that_mean_something() -> None:
    text = "unset HCCL_ALGO NCCL_ALGO NCCL_PROTO"
    assert fitted_snippet(text, job("ascend")) == "unset HCCL_ALGO"
    assert fitted_snippet(text, job("rocm")) == "unset NCCL_ALGO NCCL_PROTO"
    assert fitted_snippet(text, job("cpu")) == ""


def test_a_comment_about_another_chip_goes_and_its_code_stays() -> None:
    text = "flat.to(device)  # on Ascend torch_npu copies it"
    assert fitted_snippet(text, job("cuda")) == "flat.to(device)"


def test_code_that_would_lose_a_part_is_not_shown() -> None:
    text = "with torch.npu.stream(side):\n    batch.to(device)"
    assert fitted_snippet(text, job("cuda")) == ""
    assert fitted_snippet(text, job("ascend")) == text


@pytest.mark.parametrize(("library", "left"), [("ddp", "DistributedDataParallel(bucket_cap_mb=100)."), ("", "")])
def test_a_change_of_a_library_needs_its_name_in_the_capture(library: str, left: str) -> None:
    text = "DistributedDataParallel(bucket_cap_mb=100); --overlap-grad-reduce in Megatron."
    assert fitted_prose(text, job("cuda", *filter(None, [library]))) == left


@pytest.mark.parametrize(
    ("transports", "left"),
    [
        (("nccl",), "export NCCL_MAX_CTAS=8"),
        (("deepep",), "deep_ep.Buffer.set_num_sms(16)"),
        ((), "export NCCL_MAX_CTAS=8"),
        (("custom",), ""),
    ],
)
def test_a_setting_of_what_moves_the_data_needs_it_to_move_some(transports: tuple[str, ...], left: str) -> None:
    kind = JobKind(chips=("cuda",), frameworks=("pytorch",), transports=transports, trains=True)
    assert fitted_snippet("export NCCL_MAX_CTAS=8\ndeep_ep.Buffer.set_num_sms(16)", kind) == left


WORK = re.compile(r"micro-batch (\d+), accumulation (\d+)")


def test_a_change_of_micro_batch_and_accumulation_keeps_the_samples_of_a_step() -> None:
    told = [(WORK.search(one.before), WORK.search(one.after)) for one in cases.cases() if WORK.search(one.after)]
    counts = [[int(side[1]) * int(side[2]) for side in pair if side] for pair in told]
    assert counts
    assert all(len(pair) == 2 and pair[0] == pair[1] for pair in counts)


@pytest.mark.parametrize(
    ("types", "left"),
    [
        (("bf16", "fp16", "tf32"), "Train in bfloat16; allow_tf32; else float16."),
        (("fp16", "fp32"), "Else float16."),
        ((), "Train in bfloat16; allow_tf32; else float16."),
    ],
)
def test_a_type_of_numbers_needs_matrix_units_that_have_it(types: tuple[str, ...], left: str) -> None:
    kind = JobKind(chips=("cuda",), frameworks=("pytorch",), types=types, trains=True)
    assert fitted_prose("Train in bfloat16; allow_tf32; else float16.", kind) == left


def test_an_engine_is_told_its_own_setting_and_not_to_capture_by_hand() -> None:
    (said,) = fitted_actions(vendor_cures.LAUNCH_AS_GRAPH, job("cuda", "vllm", trains=False))
    assert said.do == Message("cure.graph_do_vllm")


def test_ways_to_do_the_same_are_one_action() -> None:
    ways = (*vendor_cures.RELEASE_TENSORS, vendor_cures.COPY_AHEAD)
    for chip, ending in (("cuda", "_cuda"), ("ascend", "_npu"), ("", "")):
        first, second = fitted_actions(ways, job(chip))
        assert first.do == Message(f"cure.release_do{ending}")
        assert second is vendor_cures.COPY_AHEAD


def test_training_is_advised_unless_the_capture_is_known_to_have_none() -> None:
    text = "Raise the micro-batch."
    assert [fits(text, job("cuda", trains=one)) for one in (True, None, False)] == [True, True, False]


@pytest.mark.parametrize("vendor", ["ascend", "nvidia", "amd", "cpu"])
def test_the_chips_of_cases_are_those_of_vendors(vendor: str) -> None:
    assert traits(vendor).chip in cases.CHIPS


def test_mindspore_is_told_nothing_of_torch_npu() -> None:
    mindspore = JobKind(chips=("ascend",), frameworks=("mindspore",), trains=True)
    assert fitted_actions((vendor_cures.FUSED_OPERATORS,), mindspore) == ()
    assert fitted_actions((vendor_cures.FUSED_OPERATORS,), job("ascend"))
    assert not fits("torch_npu.optim.NpuFusedAdamW(model.parameters())", mindspore)


def test_a_compiled_model_is_not_told_to_compile() -> None:
    compiled = job("cuda", "torch.compile")
    assert fitted_prose("Compile the layer; write results where they are needed.", compiled) == (
        "Write results where they are needed."
    )
    assert not fits("model = torch.compile(model)", compiled)
    assert fits("model = torch.compile(model, mode='max-autotune')", compiled)
    assert fits("model = torch.compile(model)", job("cuda"))
