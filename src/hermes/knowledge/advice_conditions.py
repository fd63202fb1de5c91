"""Decides whether advice fits a job: by chip, framework, library, and whether the job trains.

An action states its conditions in `fit`. For cases, words in the text tell the conditions: only the table `WORDS` says
what a word needs. A case is shown with the parts that fit a job: clauses of prose, lines of a snippet, variables of a
setting. If nothing useful is left, the case is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from hermes.knowledge.cases import Case
from hermes.model.advice_fit import Fit, Phase
from hermes.model.finding import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalWord:
    """Words, matched by a pattern, and the jobs to which they apply."""

    pattern: re.Pattern[str]
    fit: Fit


def _word(
    pattern: str,
    *,
    chips: tuple[str, ...] = (),
    libraries: tuple[str, ...] = (),
    frameworks: tuple[str, ...] = (),
    phase: Phase | None = None,
    unless: tuple[str, ...] = (),
    transports: tuple[str, ...] = (),
    types: tuple[str, ...] = (),
) -> ConditionalWord:
    fit = Fit(
        chips=chips, libraries=libraries, frameworks=frameworks, phase=phase, unless=unless, transports=transports,
        types=types,
    )  # fmt: skip
    return ConditionalWord(pattern=re.compile(pattern), fit=fit)


_TOOLS = (
    "numa-binding|membind|preferred|cpunodebind|gres|device|runtime|only|nproc-per-node|workers|ulimit|threads|shm-size"
    "|gpus|job_type|optimization-level|steps|ranks|stack|repeats|enforce-eager|disable-cuda-graph|async-scheduling|showclocks|showpower"
)

WORDS: tuple[ConditionalWord, ...] = (
    _word(
        r"torch_npu|\bnpu[_:.]|'npu|\.npu\(|torch\.npu|\bNPUs?\b|Npu[A-Z]|_NPU|NPU_|npugraph|\bHCCL|_HCCL|\bhccl"
        r"|hccn_tool|npu-smi|\bASCEND_|\bAscend\b|\bCANN\b|\baclnn|\baclop|TASK_QUEUE|\bAOE\b|\baoe\b|CPU_AFFINITY_CONF"
        r"|\bAI CPU\b"
        r"|AI_CPU|AI Core|MULTI_STREAM_MEMORY_REUSE|kernel_details|Level[012]\b|\bDVPP\b|msprof|[Hh][Ff]32|INF_NAN_MODE"
        r"|FRACTAL_NZ|TransData|FORCE_OVERFLOW_CHECK|Atlas",
        chips=("ascend",),
    ),
    # MindSpore has neither torch_npu nor torch_npu's task queue.
    _word(r"torch_npu|torch\.npu|\.npu\(|TASK_QUEUE|npu_fusion|NpuFused", chips=("ascend",), frameworks=("pytorch",)),
    # A job that is compiled needs no advice to compile.
    _word(
        r"torch\.compile\b(?!\([^)]*\b(mode|dynamic|fullgraph)=)|\b[Cc]ompile the (model|layer)",
        unless=("torch.compile",),
    ),
    # PyTorch for ROCm also uses `torch.cuda`, and RCCL reads the variables of NCCL.
    _word(
        r"torch\.cuda|\bCUDA\b(?!_)|CUDA ?[Gg]raph|cudagraph|reduce-overhead|_CUDA_|cudnn|cuDNN|\.cuda\(|'cuda",
        chips=("cuda", "rocm"),
    ),
    _word(r"\bNCCL|_NCCL|\bnccl", chips=("cuda", "rocm"), transports=("nccl", "rccl", "ncclx")),
    # A chip without these types computes with them slower than with float32, or not at all.
    _word(r"bfloat16|\b[Bb][Ff]16", types=("bf16",)),
    _word(r"allow_tf32|[Tt][Ff]32", types=("tf32",)),
    _word(r"[Hh][Ff]32", types=("hf32",)),
    _word(r"set_float32_matmul_precision", types=("tf32", "bf16")),
    _word(r"\bdeep_ep\b|\bDeepEP\b", libraries=("deepep",)),
    _word(
        r"nvidia-smi|(?<!\w)CUDA_(?!DEVICE_MAX)[A-Z]|allow_tf32|[Tt][Ff]32|\bNVLink\b|\bnvlink\b|Nsight|\bnsys\b"
        r"|\bapex\b|dcgm|\bDALI\b|\bNVIDIA\b",
        chips=("cuda",),
    ),
    _word(
        r"\bRCCL|rocm-smi|amd-smi|\bHIP_[A-Z]|\bROCR_|MIOPEN|_HIP_|\bROCm\b|hipBLASLt|TUNABLEOP|rocprof",
        chips=("rocm",),
    ),
    _word(
        r"DistributedDataParallel|\bDDP\b|bucket_cap_mb|find_unused_parameters|no_sync\(|static_graph=",
        libraries=("ddp",), phase="training",
    ),
    _word(r"\bFSDP2?\b|fully_shard|reshard_after_forward|FullySharded", libraries=("fsdp",), phase="training"),
    _word(
        r"[Dd]eep[Ss]peed|\bZeRO\b|\bstage: \d|overlap_comm\b|offload_optimizer",
        libraries=("deepspeed",), phase="training",
    ),
    _word(r"MindSpeed", libraries=("mindspeed",), chips=("ascend",)),
    _word(rf"Megatron|(?<![\w-])--(?!(?:{_TOOLS})\b)[a-z][a-z0-9]+", libraries=("megatron", "mindspeed")),
    _word(r"\bLightning\b|accumulate_grad_batches", libraries=("lightning",), phase="training"),
    _word(r"\bAccelerate\b", libraries=("accelerate",), phase="training"),
    _word(r"TrainingArguments|\bTrainer\b|dataloader_num_workers", libraries=("trainer",), phase="training"),
    _word(r"attn_implementation|from_pretrained", libraries=("transformers",)),
    _word(r"[Tt]orch[Rr]ec", libraries=("torchrec",)),
    _word(r"\bvLLM\b|--enforce-eager|cudagraph_mode|--async-scheduling", libraries=("vllm",)),
    _word(r"\bSGLang\b|--disable-cuda-graph", libraries=("sglang",)),
    # Inference engines capture their own graphs, by their own settings.
    _word(
        r"torch\.cuda\.(CUDAGraph|graph)\b|make_graphed_callables|mode='reduce-overhead'",
        unless=("vllm", "sglang", "tensorrt-llm"),
    ),
    _word(r"[Mm]ind[Ss]pore|enable_expert_placement|amp_level|MindRecord", frameworks=("mindspore",)),
    _word(r"\btorch\.|\bPyTorch\b|nn\.Module|DataLoader", frameworks=("pytorch",)),
    _word(
        r"[Mm]icro-?batch|[Aa]ccumulat|\b[Bb]ackward|GradScaler|\b[Oo]ptimizer|\boptim\.|zero_grad|\b[Gg]radient"
        r"|[Cc]onvergence|learning rate|distributed-optimizer|\b[Rr]ecomput",
        phase="training",
    ),
)  # fmt: skip
"""The table of words with their conditions; a text must meet the conditions of all its words."""


OF_TORCH = Fit(frameworks=("pytorch",))
OF_MINDSPORE = Fit(frameworks=("mindspore",), chips=("ascend",))
"""MindSpore's conditions: a capture without a known framework may be of MindSpore only on an Ascend chip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """The kind of a job: chips in the words of cases, frameworks and libraries in lower case, whether it trains.

    If `chips` is empty, the chip is unknown: then advice for one vendor is not shown. If `frameworks` is empty, the
    capture does not tell the framework: then advice for one framework is not shown. `types` are those that the matrix
    units of all the job's chips have, empty if a chip is not known. `trains` is None if the capture does not tell.
    """

    chips: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    transports: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    trains: bool | None = None

    def needs_met(self, fit: Fit) -> bool:
        """Whether advice with these conditions applies to this job."""
        if fit.phase and self.trains is not None and (fit.phase == "training") != self.trains:
            return False
        if {*fit.unless} & {*self.libraries}:
            return False
        if fit.transports and self.transports and not {*fit.transports} & {*self.transports}:
            return False
        if fit.types and self.types and not {*fit.types} & {*self.types}:
            return False
        return all(not needed or {*needed} & {*own} for needed, own in (
            (fit.chips, self.chips), (fit.frameworks, self.frameworks),
            (fit.libraries, (*self.libraries, *self.transports)),
        ))  # fmt: skip


def fits(text: str, job: JobKind) -> bool:
    """Whether every word of a text applies to the job."""
    return not any(word.pattern.search(text) for word in WORDS if not job.needs_met(word.fit))


@lru_cache(maxsize=4_096)
def fitted_prose(text: str, job: JobKind) -> str:
    """The clauses of a text that fit the job; empty if none does."""
    if fits(text, job):
        return text
    kept = [part for clause in _CLAUSE.split(text) if (part := _clause(clause, job))]
    if not kept:
        return ""
    whole = re.sub(r"[;,:]$", ".", " ".join(kept))
    first = whole.split()[0].rstrip(",")
    return whole[0].upper() + whole[1:] if first.isalpha() and first not in _VERBATIM else whole


_CLAUSE = re.compile(r"(?<=[;.]) +")
_SETTINGS = ("export", "unset")
_VERBATIM = (*_SETTINGS, "with", "contiguous")
"""Words that begin code: such a clause stays unchanged."""
_ASIDE = re.compile(r" \([^()]*\)")


def _clause(clause: str, job: JobKind) -> str:
    if fits(clause, job):
        return clause
    verb, *names = clause.rstrip(";.").split()
    if verb in _SETTINGS and (own := [name for name in names if fits(name, job)]):
        return f"{' '.join([verb, *own])}{clause[-1] if clause[-1] in ';.' else ''}"
    plain = _ASIDE.sub(lambda found: found.group() if fits(found.group(), job) else "", clause)
    return plain if fits(plain, job) else ""


@lru_cache(maxsize=4_096)
def fitted_snippet(text: str, job: JobKind) -> str:
    """The lines of code or settings that fit the job; empty if the remaining lines could not be run."""
    lines = text.splitlines()
    kept = [_snippet_line(line, job) for line in lines]
    for line, own, following in zip(lines, kept, [*lines[1:], ""], strict=True):
        opens = line.rstrip().endswith(":") or following[:1] == " "
        if own is None and (opens or line[:1] == " ") and not line.lstrip().startswith("#"):
            return ""
    whole = [one for one in kept if one is not None]
    return "\n".join(whole) if any(one.strip() and not one.lstrip().startswith("#") for one in whole) else ""


def _snippet_line(line: str, job: JobKind) -> str | None:
    if fits(line, job):
        return line
    code, mark, comment = line.partition("  # ")
    if mark and fits(code, job):
        said = fitted_prose(comment, job)
        return f"{code}{mark}{said}" if said else code
    verb, *names = code.split()
    if verb in _SETTINGS and (own := [name for name in names if fits(name, job)]):
        return " ".join([verb, *own])
    return None


def fitted_actions(actions: Iterable[Action], job: JobKind) -> tuple[Action, ...]:
    """The actions that fit a job, in their order.

    Actions with one title are ways to do the same: those of the job's libraries are shown, or else the first.

    The sentences of an action are never searched for words: its `fit` states all its conditions.
    """
    fitting = [action for action in actions if job.needs_met(action.fit)]
    first = {action.title: action for action in reversed(fitting)}
    return tuple(one for one in fitting if one is first[one.title] or one.fit.libraries)


def fitted_case(case: Case, job: JobKind) -> Case | None:
    """A case with its change as shown for a job; None if the change does not fit."""
    own = case.on(job.chips)
    after = fitted_snippet(own.after, job)
    if not after or not fits(own.cause, job):
        return None
    return replace(
        own,
        after=after,
        before=own.before if fits(own.before, job) else "",
        cure=fitted_prose(own.cure, job),
        confirm=fitted_prose(own.confirm, job),
        risk=fitted_prose(own.risk, job) or "none",
        versions=fitted_prose(own.versions, job),
    )
