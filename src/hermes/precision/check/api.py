"""Compares two snapshots: each difference is an error, a warning or a note, worst first, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.precision.check.snapshot import read
from hermes.precision.model import Json

_ORDER = ("error", "warning", "note")
_ENVIRONMENT = {
    "error": (
        "HCCL_DETERMINISTIC", "NCCL_DETERMINISTIC", "HCCL_ALGO", "NCCL_ALGO", "CUBLAS_WORKSPACE_CONFIG",
        "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "HCCL_INTRA_ROCE_ENABLE", "HCCL_INTRA_PCIE_ENABLE",
        "LCCL_DETERMINISTIC", "ATB_MATMUL_SHUFFLE_K_ENABLE", "PYTHONHASHSEED", "WORLD_SIZE",
    ),
    "warning": (
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference of the setups."""

    severity: str
    part: str
    what: str
    cure: str


def check(golden: Path, target: Path) -> list[Difference]:
    """All differences of two snapshots or packs, worst first; none where they are set up alike."""
    one, two = read(golden), read(target)
    found = [*_random(one, two), *_batches(one, two), *_parameters(one, two), *_optimizers(one, two)]
    found += [
        *_policy(one, two),
        *_loaders(one, two),
        *_command(one, two),
        *_packages(one, two),
        *_environment(one, two),
    ]
    for side, snapshot in (("golden run", one), ("target", two)):
        if snapshot.get("failed"):
            text = f"the snapshot of the {side} is not whole: {snapshot['failed'][0]}"
            found.append(
                Difference(severity="warning", part="snapshot", what=text, cure="compare what it holds with care")
            )
    return sorted(found, key=lambda each: _ORDER.index(each.severity))


def check_document(found: list[Difference]) -> dict[str, Json]:
    """The differences as JSON."""
    rows: list[Json] = [
        {"severity": one.severity, "part": one.part, "what": one.what, "cure": one.cure} for one in found
    ]
    errors = any(one.severity == "error" for one in found)
    return {"format": "hermes.check/1", "verdict": "differ" if errors else "agree", "differences": rows}


def check_text(found: list[Difference]) -> str:
    """The differences as text, worst first."""
    if not found:
        return "The runs are set up alike."
    errors = sum(one.severity == "error" for one in found)
    head = (
        f"{errors} {'error' if errors == 1 else 'errors'}" if errors else "No error: differences that need not matter"
    )
    lines = [f"{head}, {len(found)} {'difference' if len(found) == 1 else 'differences'} in all."]
    for one in found[:200]:
        lines += [f"{one.severity:8} {one.part}: {one.what}", *([f"         {one.cure}"] if one.cure else [])]
    if len(found) > 200:
        lines.append(f"… and {len(found) - 200} more")
    return "\n".join(lines)


def _say(severity: str, part: str, what: str, cure: str = "") -> Difference:
    return Difference(severity=severity, part=part, what=what, cure=cure)


def _random(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one.get("random") or {}, two.get("random") or {}
    framework = "mindspore" if "mindspore seed" in first or "mindspore" in first else "torch"
    seeded = "mindspore.set_seed" if framework == "mindspore" else "torch.manual_seed"
    cure = f"set random.seed, numpy.random.seed and {seeded} to the same numbers on both sides"
    seeds = {name for name in set(first) & set(second) if name.endswith("seed")}
    other = sorted(name for name in seeds if first[name] != second[name])
    for name in other:
        yield _say("error", "random", f"{name}: {second[name]} instead of {first[name]}", cure)
    for name in (framework, "numpy", "python"):
        if name in first and name in second and first[name] != second[name]:
            if name == framework and f"{framework} seed" in other:
                continue
            same = " though the seeds are equal: one run drew more, or in another order" if name == framework else ""
            severity = "warning" if name == "python" else "error"
            yield _say(
                severity, "random", f"the generator of {name} is in another state at the first batch{same}", cure
            )
    for at, (a, b) in enumerate(zip(one["batches"], two["batches"], strict=False)):
        if at and first.get(framework) == second.get(framework) and a.get("random") != b.get("random"):
            text = f"from batch {at} on {framework}'s generator is in another state: one run drew more random numbers"
            yield _say(
                "error", "random", text, "look for a call such as randperm, dropout or shuffle that only one run has"
            )
            break
    yield from _draws(one.get("draws") or {}, two.get("draws") or {})


def _draws(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    if one != two and one and two:
        names = sorted(name for name in set(one) | set(two) if one.get(name) != two.get(name))
        text = f"random calls differ: {', '.join(names[:4])}"
        yield _say("error", "random", text[:300], "look for a random call that only one run has")


def _batches(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    if bool(one["batches"]) != bool(two["batches"]):
        yield _say("warning", "data", "only one side saw a batch", "let both run to their second batch")
    for at, (a, b) in enumerate(zip(one["batches"], two["batches"], strict=False)):
        pairs = list(zip(a["tensors"], b["tensors"], strict=False))
        if len(a["tensors"]) != len(b["tensors"]):
            yield _say("error", "data", f"batch {at} has another number of tensors", "")
        for place, (x, y) in enumerate(pairs):
            if x == y:
                continue
            yield _batch(at, place, x, y)


def _batch(at: int, place: int, x: dict[str, Any], y: dict[str, Any]) -> Difference:
    name = f"batch {at}, tensor {place}"
    cure = "use the same data set and order; seed the sampler and the workers"
    if x.get("shape") != y.get("shape"):
        return _say("error", "data", f"{name} has shape {y.get('shape')} instead of {x.get('shape')}", cure)
    if x.get("dtype") != y.get("dtype"):
        return _say("error", "data", f"{name} is {y.get('dtype')} instead of {x.get('dtype')}", cure)
    if "statistics" in x:
        return _say("error", "data", f"{name} has other statistics", cure)
    if x.get("unordered") == y.get("unordered"):
        return _say("error", "data", f"{name} holds the same elements in another order", cure)
    return _say("error", "data", f"{name} holds other elements", cure)


def _parameters(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one["parameters"], two["parameters"]
    for side, missing in (("golden run", set(first) - set(second)), ("target", set(second) - set(first))):
        if missing and first and second:
            text = f"{len(missing)} only in the {side}: {', '.join(sorted(missing)[:4])}"
            yield _say("error", "parameters", text, "build the same model on both sides")
    differ: dict[str, list[str]] = {"values": [], "shapes": [], "types": [], "training": []}
    for name in sorted(set(first) & set(second)):
        a, b = first[name], second[name]
        if a.get("shape") != b.get("shape"):
            differ["shapes"].append(name)
        elif a.get("dtype") != b.get("dtype"):
            differ["types"].append(f"{name} is {b.get('dtype')} instead of {a.get('dtype')}")
        elif a.get("trained") != b.get("trained"):
            differ["training"].append(name)
        elif a.get("print") != b.get("print") or a.get("statistics") != b.get("statistics"):
            differ["values"].append(name)
    cures = {
        "values": "start both from one checkpoint", "shapes": "build the same model on both sides",
        "types": "use the same dtype on both sides", "training": "freeze the same parameters",
    }  # fmt: skip
    for what, names in differ.items():
        if names:
            yield _say("error", "parameters", f"other {what} of {len(names)}: {', '.join(names[:4])}", cures[what])


def _optimizers(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one["optimizers"], two["optimizers"]
    if len(first) != len(second) and first and second:
        yield _say("error", "optimizer", f"{len(second)} optimizers instead of {len(first)}", "")
    for a, b in zip(first, second, strict=False):
        if a.get("type") != b.get("type"):
            yield _say("error", "optimizer", f"{b.get('type')} instead of {a.get('type')}", "use the same optimizer")
        if len(a["groups"]) != len(b["groups"]):
            yield _say(
                "error", "optimizer", f"{len(b['groups'])} groups of parameters instead of {len(a['groups'])}", ""
            )
        for at, (x, y) in enumerate(zip(a["groups"], b["groups"], strict=False)):
            for name in sorted(set(x) | set(y)):
                if x.get(name) != y.get(name):
                    speed = name in ("foreach", "fused", "capturable", "differentiable")
                    text = f"group {at}: {name} is {y.get(name)} instead of {x.get(name)}"
                    yield _say("note" if speed else "error", "optimizer", text, "" if speed else "set the same value")


def _policy(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one.get("policy") or {}, two.get("policy") or {}
    for name in sorted(set(first) & set(second)):
        if first[name] != second[name]:
            severity = "warning" if name == "threads" or "cudnn.b" in name else "error"
            text = f"{name} is {second[name]} instead of {first[name]}"
            yield _say(severity, "arithmetic", text, "use the same policy for dtypes and determinism on both sides")
    on = [f"autocast on {device}" for device in ("cpu", "cuda", "npu")]
    casts = [{side[name] for name in on if side.get(name, "off") != "off"} for side in (first, second)]
    if first and second and casts[0] != casts[1] and not any(first.get(name) != second.get(name) for name in on):
        yield _say("error", "arithmetic", f"autocast is {casts[1] or 'off'} instead of {casts[0] or 'off'}", "")


def _loaders(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    severities = {"workers": "warning", "dataset": "warning", "worker_init_fn": "warning"}
    for at, (a, b) in enumerate(zip(one["loaders"], two["loaders"], strict=False)):
        for name in sorted(set(a) | set(b)):
            if a.get(name) != b.get(name):
                text = f"DataLoader {at}: {name} is {b.get(name)} instead of {a.get(name)}"
                yield _say(severities.get(name, "error"), "data", text, "load data in the same way on both sides")
    if len(one["loaders"]) != len(two["loaders"]):
        yield _say("warning", "data", f"{len(two['loaders'])} DataLoaders instead of {len(one['loaders'])}", "")


def _command(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = one.get("command") or {}, two.get("command") or {}
    a, b = _arguments(first.get("arguments", [])), _arguments(second.get("arguments", []))
    a.update(_flatten(one.get("hyperparameters") or {}))
    b.update(_flatten(two.get("hyperparameters") or {}))
    for name in sorted(set(a) | set(b)):
        if a.get(name) != b.get(name):
            note = name.startswith(_PLACES)
            text = f"{name} is {b.get(name, 'not given')} instead of {a.get(name, 'not given')}"
            yield _say("note" if note else "error", "configuration", text, "" if note else "give the same value")
    configs = first.get("configurations", {}), second.get("configurations", {})
    for name in sorted(set(configs[0]) & set(configs[1])):
        yield from _configuration(name, configs[0][name], configs[1][name])


def _configuration(name: str, one: str, two: str) -> Iterator[Difference]:
    a, b = ({line.strip() for line in text.splitlines() if line.strip()} for text in (one, two))
    if a != b:
        changed = [*(f"-{line}" for line in sorted(a - b)[:3]), *(f"+{line}" for line in sorted(b - a)[:3])]
        yield _say("error", "configuration", f"{name} differs: {'; '.join(changed)}"[:400], "use the same file")


def _flatten(found: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in found.items()}


def _arguments(words: list[str]) -> dict[str, str]:
    """`--name value`, `--name=value` and flags; the script itself and other words by their place."""
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
        severity = "error" if name in _FRAMEWORKS and a and b else "warning" if important else "note"
        text = f"{name} {b or 'is missing'} instead of {a or 'none'}"
        yield _say(severity, "packages", text, f"install {name} {a} on both sides" if a and severity != "note" else "")


def _release(version: str) -> str:
    return version.partition("+")[0].partition(".post")[0]


def _environment(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Difference]:
    first, second = _twinned(one["environment"]), _twinned(two["environment"])
    for severity, names in _ENVIRONMENT.items():
        for name in names:
            a, b = first.get(name), second.get(name)
            if a != b:
                level = severity if a is not None and b is not None else "warning"
                text = f"{name} is {b or 'not set'} instead of {a or 'not set'}"
                yield _say(level, "environment", text, f"set {name} on both sides")


def _twinned(found: dict[str, str]) -> dict[str, str]:
    """Variables of Ascend and of CUDA that mean the same, under the first one's name."""
    named = dict(found)
    for ascend, cuda in _TWINS:
        if ascend not in named and cuda in named:
            named[ascend] = named[cuda]
        named.pop(cuda, None)
    return named
