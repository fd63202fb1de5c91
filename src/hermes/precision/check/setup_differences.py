"""Finds the differences between two setup snapshots, and how much each difference matters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hermes.base.message import Message
from hermes.precision.check import messages as say
from hermes.precision.check.messages import SetupPart, SetupSeverity
from hermes.precision.messages import Side

_ERROR, _WARNING, _NOTE = SetupSeverity.ERROR, SetupSeverity.WARNING, SetupSeverity.NOTE
_ENVIRONMENT = {
    _ERROR: (
        "HCCL_DETERMINISTIC", "NCCL_DETERMINISTIC", "HCCL_ALGO", "NCCL_ALGO", "CUBLAS_WORKSPACE_CONFIG",
        "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "HCCL_INTRA_ROCE_ENABLE", "HCCL_INTRA_PCIE_ENABLE",
        "LCCL_DETERMINISTIC", "ATB_MATMUL_SHUFFLE_K_ENABLE", "PYTHONHASHSEED", "WORLD_SIZE",
    ),
    _WARNING: (
        "ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING", "ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TASK_QUEUE_ENABLE", "NCCL_PROTO", "LD_LIBRARY_PATH", "MKL_CBWR",
    ),
}  # fmt: skip
_TWINS = (
    ("HCCL_DETERMINISTIC", "NCCL_DETERMINISTIC"), ("HCCL_ALGO", "NCCL_ALGO"),
    ("ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"), ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
)  # fmt: skip
_FRAMEWORKS = frozenset(
    [
        "torch",
        "transformers",
        "deepspeed",
        "accelerate",
        "peft",
        "megatron-core",
        "megatron",
        "datasets",
        "tokenizers",
        "sentencepiece",
        "lightning",
        "pytorch-lightning",
        "trl",
        "timm",
        "torchvision",
        "torchaudio",
        "mindspore",
        "flash-attn",
        "apex",
    ]
)
_NUMBERS = frozenset(
    [
        "numpy",
        "pillow",
        "opencv-python",
        "opencv-python-headless",
        "scipy",
        "librosa",
        "pandas",
        "albumentations",
        "webdataset",
    ]
)
_CHIP = frozenset(
    ["torch-npu", "triton", "triton-ascend", "nvidia-cudnn-cu12", "nvidia-cublas-cu12", "nvidia-nccl-cu12"]
)
_PLACES = (
    "-o",
    "--out",
    "--output",
    "--output_dir",
    "--save",
    "--save_dir",
    "--log_dir",
    "--logdir",
    "--device",
    "--local_rank",
)


PARTS = {
    "random": SetupPart.RANDOM, "batches": SetupPart.DATA, "parameters": SetupPart.PARAMETERS,
    "optimizers": SetupPart.OPTIMIZER, "policy": SetupPart.ARITHMETIC, "command": SetupPart.CONFIGURATION,
    "packages": SetupPart.PACKAGES, "environment": SetupPart.ENVIRONMENT,
}  # fmt: skip
"""The parts of a snapshot: a part that one side has must also be in the other side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference of two setups, and what to do about it; None if no action is needed."""

    severity: SetupSeverity
    part: SetupPart
    what: Message
    cure: Message | None = None


def differences_of_snapshots(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    """All differences of two snapshots, in the parts that both have."""
    both = {name for name in PARTS if one.get(name) and two.get(name)}
    for name, compare in (
        ("random", _random), ("batches", _batches), ("parameters", _parameters), ("optimizers", _optimizers),
        ("policy", _policy), ("command", _command), ("packages", _packages), ("environment", _environment),
    ):  # fmt: skip
        if name in both:
            yield from compare(one, two)
    yield from _draws(one.get("draws") or {}, two.get("draws") or {})
    yield from _hyperparameters(one.get("hyperparameters") or {}, two.get("hyperparameters") or {})
    yield from _loaders(one, two)


def _say(severity: SetupSeverity, part: SetupPart, what: Message, cure: Message | None = None) -> Difference:
    return Difference(severity=severity, part=part, what=what, cure=cure)


def _random(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one.get("random") or {}, two.get("random") or {}
    framework = "mindspore" if "mindspore seed" in first or "mindspore" in first else "torch"
    cure = say.seed_all(seed="mindspore.set_seed" if framework == "mindspore" else "torch.manual_seed")
    seeds = {name for name in set(first) & set(second) if name.endswith("seed")}
    other = sorted(name for name in seeds if first[name] != second[name])
    for name in other:
        yield _say(_ERROR, SetupPart.RANDOM, _value(name, first[name], second[name]), cure)
    for name in (framework, "numpy", "python"):
        if name in first and name in second and first[name] != second[name]:
            if name == framework and f"{framework} seed" in other:
                continue
            what = say.drew_more(generator=name) if name == framework else say.other_state(generator=name)
            yield _say(_WARNING if name == "python" else _ERROR, SetupPart.RANDOM, what, cure)
    for at, (a, b) in enumerate(zip(one["batches"], two["batches"], strict=False)):
        if at and first.get(framework) == second.get(framework) and a.get("random") != b.get("random"):
            what = say.drew_more_from(generator=framework, batch=str(at))
            yield _say(_ERROR, SetupPart.RANDOM, what, say.LOOK_FOR_RANDOM)
            break


def _draws(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    if one != two and one and two:
        names = sorted(name for name in set(one) | set(two) if one.get(name) != two.get(name))
        what = say.other_calls(which=[name[:80] for name in names[:4]])
        yield _say(_ERROR, SetupPart.RANDOM, what, say.LOOK_FOR_RANDOM)


def _batches(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    for at, (a, b) in enumerate(zip(one["batches"], two["batches"], strict=False)):
        if len(a["tensors"]) != len(b["tensors"]):
            yield _say(_ERROR, SetupPart.DATA, say.other_tensors(batch=str(at)))
        for place, (x, y) in enumerate(zip(a["tensors"], b["tensors"], strict=False)):
            if x != y:
                yield _say(_ERROR, SetupPart.DATA, _of_batch(str(at), str(place), x, y), say.SAME_DATA)


def _of_batch(batch: str, tensor: str, x: dict[str, Any], y: dict[str, Any]) -> Message:
    if x.get("shape") != y.get("shape"):
        return say.batch_shape(batch=batch, tensor=tensor, golden=str(x.get("shape")), target=str(y.get("shape")))
    if x.get("dtype") != y.get("dtype"):
        return say.batch_dtype(batch=batch, tensor=tensor, golden=str(x.get("dtype")), target=str(y.get("dtype")))
    if "statistics" not in x and x.get("unordered") == y.get("unordered"):
        return say.other_order(batch=batch, tensor=tensor)
    return say.other_elements(batch=batch, tensor=tensor)


def _parameters(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one["parameters"], two["parameters"]
    for side, only in ((Side.GOLDEN, set(first) - set(second)), (Side.TARGET, set(second) - set(first))):
        if only:
            what = say.only_parameters(side=side.message, n=len(only), which=sorted(only)[:4])
            yield _say(_ERROR, SetupPart.PARAMETERS, what, say.SAME_MODEL)
    both = [(name, first[name], second[name]) for name in sorted(set(first) & set(second))]
    found: dict[str, list[str]] = {"shape": [], "dtype": [], "trained": [], "print": [], "statistics": []}
    for name, a, b in both:
        other = next((key for key in found if a.get(key) != b.get(key)), None)
        if other is not None:
            found[other].append(name)
    yield from _of_parameters(found, first, second)


def _of_parameters(
    found: dict[str, list[str]], first: dict[str, Any], second: dict[str, Any]
) -> Iterator[Difference]:  # fmt: skip
    part = SetupPart.PARAMETERS
    for names, tell, cure in (
        (found["print"] + found["statistics"], say.other_values, say.SAME_CHECKPOINT),
        (found["shape"], say.other_shapes, say.SAME_MODEL), (found["trained"], say.other_training, say.SAME_FROZEN),
    ):  # fmt: skip
        if names:
            yield _say(_ERROR, part, tell(n=len(names), which=names[:4]), cure)
    if types := found["dtype"]:
        which = [
            say.other_type(name=one, golden=str(first[one].get("dtype")), target=str(second[one].get("dtype")))
            for one in types[:4]
        ]
        yield _say(_ERROR, part, say.other_types(n=len(types), which=which), say.SAME_DTYPE)


def _optimizers(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    part = SetupPart.OPTIMIZER
    first, second = one["optimizers"], two["optimizers"]
    if len(first) != len(second):
        yield _say(_ERROR, part, say.another_number(what=say.OPTIMIZERS, golden=len(first), target=len(second)))
    for a, b in zip(first, second, strict=False):
        if a.get("type") != b.get("type"):
            yield _say(_ERROR, part, _value("optimizer", a.get("type"), b.get("type")), say.SAME_OPTIMIZER)
        many = len(a["groups"]), len(b["groups"])
        if many[0] != many[1]:
            yield _say(_ERROR, part, say.another_number(what=say.GROUPS, golden=many[0], target=many[1]))
        for at, (x, y) in enumerate(zip(a["groups"], b["groups"], strict=False)):
            for name in sorted(set(x) | set(y)):
                if x.get(name) != y.get(name):
                    speed = name in ("foreach", "fused", "capturable", "differentiable")
                    what = _value_in(say.group(number=str(at)), name, x.get(name), y.get(name))
                    yield _say(_NOTE if speed else _ERROR, part, what, None if speed else say.SAME_VALUE)


def _policy(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one.get("policy") or {}, two.get("policy") or {}
    for name in sorted(set(first) & set(second)):
        if first[name] != second[name]:
            severity = _WARNING if name == "threads" or "cudnn.b" in name else _ERROR
            yield _say(severity, SetupPart.ARITHMETIC, _value(name, first[name], second[name]), say.SAME_POLICY)
    on = [f"autocast on {device}" for device in ("cpu", "cuda", "npu")]
    casts = [{side[name] for name in on if side.get(name, "off") != "off"} for side in (first, second)]
    if first and second and casts[0] != casts[1] and not any(first.get(name) != second.get(name) for name in on):
        kinds = [", ".join(sorted(map(str, one))) or "off" for one in casts]
        yield _say(_ERROR, SetupPart.ARITHMETIC, _value("autocast", *kinds))


def _loaders(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    minor = ("workers", "dataset", "worker_init_fn")
    first, second = one["loaders"], two["loaders"]
    for at, (a, b) in enumerate(zip(first, second, strict=False)):
        for name in sorted(set(a) | set(b)):
            if a.get(name) != b.get(name):
                what = _value_in(say.loader(number=str(at)), name, a.get(name), b.get(name))
                yield _say(_WARNING if name in minor else _ERROR, SetupPart.DATA, what, say.SAME_LOADING)
    if len(first) != len(second):
        what = say.another_number(what=say.LOADERS, golden=len(first), target=len(second))
        yield _say(_WARNING, SetupPart.DATA, what)


def _command(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one.get("command") or {}, two.get("command") or {}
    yield from _words(_arguments(first.get("arguments", [])), _arguments(second.get("arguments", [])))
    configs = first.get("configurations", {}), second.get("configurations", {})
    for name in sorted(set(configs[0]) & set(configs[1])):
        yield from _configuration(name, configs[0][name], configs[1][name])


def _hyperparameters(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    if one and two:
        yield from _words(_flatten(one), _flatten(two))


def _words(one: dict[str, str], two: dict[str, str]) -> Iterator[Difference]:
    for name in sorted(set(one) | set(two)):
        if one.get(name) != two.get(name):
            place = name.startswith(_PLACES)
            what = _value(name, one.get(name), two.get(name))
            yield _say(
                _NOTE if place else _ERROR, SetupPart.CONFIGURATION, what, None if place else say.SAME_VALUE
            )  # fmt: skip


def _configuration(name: str, one: str, two: str) -> Iterator[Difference]:
    a, b = ({line.strip() for line in text.splitlines() if line.strip()} for text in (one, two))
    if a != b:
        changed = [*(f"-{line[:80]}" for line in sorted(a - b)[:3]), *(f"+{line[:80]}" for line in sorted(b - a)[:3])]
        yield _say(_ERROR, SetupPart.CONFIGURATION, say.other_file(name=name, lines=changed), say.SAME_FILE)


def _value(name: str, golden: object, target: object) -> Message:
    """The message that a setting has another value; None stands for a side without the setting."""
    return say.value(name=name, golden=_shown(golden), target=_shown(target))


def _value_in(where: Message, name: str, golden: object, target: object) -> Message:
    return say.value_in(where=where, name=name, golden=_shown(golden), target=_shown(target))


def _shown(value: object) -> Message:
    return say.NOT_SET if value is None else say.given(value=str(value)[:200])


def _flatten(found: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in found.items()}


def _arguments(words: list[str]) -> dict[str, str]:
    """Command-line arguments by name: `--name value`, `--name=value` and flags; other words by their position."""
    found: dict[str, str] = {}
    at = 1
    while at < len(words):
        word = str(words[at])
        if word.startswith("-") and "=" in word:
            name, _, value = word.partition("=")
            found[name] = value
        elif word.startswith("-"):
            following = str(words[at + 1]) if at + 1 < len(words) else "-"
            if following.startswith("-") and not _is_number(following):
                found[word] = "given"
            else:
                found[word] = following
                at += 1
        else:
            found[f"argument {at}"] = word
        at += 1
    return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _packages(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one["packages"], two["packages"]
    for name in sorted(set(first) | set(second)):
        a, b = first.get(name), second.get(name)
        if a == b or name in _CHIP or name.startswith("nvidia-"):
            continue
        if a is not None and b is not None and name == "torch" and _release(a) == _release(b):
            continue
        important = name in _FRAMEWORKS or name in _NUMBERS or name == "python"
        severity = _ERROR if name in _FRAMEWORKS and a and b else _WARNING if important else _NOTE
        cure = say.install(package=name, version=str(a)) if a and severity is not _NOTE else None
        yield _say(severity, SetupPart.PACKAGES, _value(name, a, b), cure)


def _release(version: str) -> str:
    return version.partition("+")[0].partition(".post")[0]


def _environment(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = _twinned(one["environment"]), _twinned(two["environment"])
    for severity, names in _ENVIRONMENT.items():
        for name in names:
            a, b = first.get(name), second.get(name)
            if a != b:
                level = severity if a is not None and b is not None else _WARNING
                yield _say(level, SetupPart.ENVIRONMENT, _value(name, a, b), say.set_variable(name=name))


def _twinned(found: dict[str, str]) -> dict[str, str]:
    """Environment variables with one name for those of Ascend and of CUDA that mean the same."""
    named = dict(found)
    for ascend, cuda in _TWINS:
        if ascend not in named and cuda in named:
            named[ascend] = named[cuda]
        named.pop(cuda, None)
    return named
