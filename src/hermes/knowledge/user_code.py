"""Tells lines of the user's code from library code, by the names of Python frames: `file(line): function`."""

from __future__ import annotations

import ast
import builtins
import itertools
import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from hermes.knowledge.vendor_traits import FRAMEWORK_FRAMES

FRAMEWORKS = frozenset({"torch", "torch_npu", "mindspore", "functorch"})
"""Packages whose Python carries an operator to the device."""
HERMES_FILES = r"(^|/)hermes/inside/|(^|/)hermes_waits_to_(watch|record)\.py\b"
"""The files of Hermes that run in a job, wherever Hermes is installed; a job may have its own package `hermes`."""

_STANDS_BEFORE = re.compile(r"(^|/)hermes/inside/(error_guard|border)\.py\(\d+\): called$")

_LIBRARIES = FRAMEWORKS | {
    "PIL", "_distutils_hack", "accelerate", "aiohttp", "aiter", "albumentations", "apex", "bitsandbytes", "boto3",
    "botocore", "click", "cv2", "dask", "datasets", "deepspeed", "dgl", "diffusers", "einops", "einx", "evaluate",
    "fire", "flash_attn", "flashinfer", "fsspec", "gym", "gymnasium", "h5py", "horovod", "huggingface_hub", "hydra",
    "ignite", "imageio", "jax", "joblib", "kornia", "librosa", "lightning", "lightning_fabric",
    "lightning_utilities", "lmdb", "loguru", "matplotlib", "mlflow", "mmcv", "mmengine", "numba", "numpy",
    "omegaconf", "onnx", "optimum", "packaging", "pandas", "peft", "pkg_resources", "polars", "psutil", "pyarrow",
    "pytorch_lightning", "ray", "regex", "requests", "rich", "safetensors", "scipy", "seaborn", "sentencepiece",
    "setuptools", "sgl_kernel", "sglang", "six", "skimage", "sklearn", "soundfile", "spacy", "stable_baselines3",
    "swanlab", "sympy", "tensorboard", "tensorboardX", "tensordict", "tensorflow", "tiktoken", "timm", "tokenizers",
    "torch_geometric", "torch_scatter", "torch_sparse", "torchao", "torchaudio", "torchdata", "torchmetrics",
    "torchrl", "torchtext", "torchvision", "tqdm", "transformers", "triton", "trl", "typer", "urllib3", "vllm",
    "wandb", "webdataset", "xformers", "xgboost", "yaml", "zmq",
}  # fmt: skip
"""Packages that programs install and do not write, for captures that do not tell which files are the user's."""

_FRAME = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)$")
_INSTALLED = re.compile(
    r"(^|/)(site|dist)-packages/|(^|/)lib(64)?/python\d[^/]*/|^<(?!ipython)|(^|/)torchrun$|(^|/)(site|user)customize\.py$",
    re.I,
)
_OF_HERMES = re.compile(HERMES_FILES)
_FRAMEWORK_FILE = re.compile(f"{FRAMEWORK_FRAMES}|{HERMES_FILES}", re.I)
_PACKAGE_IN = re.compile(r"(?:site|dist)-packages/([^/]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A Python function as profiler frames name it: its file, a line of the file, and its name."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """The place of the frame as `train.py:24`, with at most two folders before the file."""
        return f"{'/'.join(self.file.rsplit('/', 3)[-3:])}:{self.line}"

    @property
    def package(self) -> str:
        """The first part of the frame's path: a package, or a module without its ending."""
        found = _PACKAGE_IN.search(self.file)
        return (found.group(1) if found else self.file.split("/", 1)[0]).removesuffix(".py")

    @property
    def said(self) -> str:
        """The place and function of the frame: ``train.py:24 `mel_filterbank` ``."""
        return f"{self.place} `{self.function}`"


def frame_of(text: str) -> Frame | None:
    """The frame that a text names; None for builtins, modules, and texts that name no frame."""
    found = _FRAME.match(text.strip().replace("\\", "/"))
    if found is None:
        return None
    return Frame(file=found["file"], line=int(found["line"]), function=found["function"])


@lru_cache(maxsize=65_536)
def stands_before(name: str) -> bool:
    """Whether a frame is a function of Hermes that calls a function of the job: only its own time is Hermes'."""
    return bool(_STANDS_BEFORE.search(name))


def is_framework(text: str) -> bool:
    """Whether a frame is Python code of the framework, or of Hermes."""
    frame = frame_of(text)
    return frame is not None and (frame.package in FRAMEWORKS or bool(_FRAMEWORK_FILE.search(frame.file)))


def is_own(text: str, told: Collection[str] = ()) -> bool:
    """Whether a frame is the user's code; `told` are the user's packages and modules that the capture names, if any."""
    frame = frame_of(text)
    if frame is None or _INSTALLED.search(frame.file) or is_framework(text):
        return False
    if frame.file.startswith("/"):
        return True
    if told:
        return frame.package in told
    return frame.package not in _LIBRARIES and frame.package not in sys.stdlib_module_names


_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


def is_comprehension(frame: Frame) -> bool:
    """Whether a frame is a comprehension or a generator expression: a part of the function that it is written in."""
    return frame.function in _COMPREHENSIONS


def works_for_hermes(stack: Iterable[str], told: Collection[str] = ()) -> bool:
    """Whether a stack, innermost frame first, works for Hermes: some function of Hermes was called by the user's code.

    Functions of Hermes that call a function of the job do not count.
    """
    below = itertools.takewhile(lambda text: not is_own(text, told), stack)
    return any(_OF_HERMES.search(text) and not stands_before(text.strip()) for text in below)


def own_line(stack: Iterable[str], told: Collection[str] = ()) -> str:
    """The innermost line of the user's code in a stack, whose innermost frame comes first; empty if there is none.

    The line of a comprehension is that of the function that it is written in.
    """
    own = [(text.strip(), frame) for text in stack if is_own(text, told) and (frame := frame_of(text))]
    if not own:
        return ""
    first, inner = own[0]
    around = next((one for one in own if not is_comprehension(one[1])), own[0])
    return around[0] if around[1].file == inner.file else first


_MODULES = frozenset({"torch", "torch_npu", "numpy", "np", "os", "gc", "dist", "mindspore", *dir(builtins)})
"""Names with the same meaning in every Python program."""


_OF_A_JOB = re.compile(
    r"[\w-]*(size|num|layers|threads|workers|proc|bind|stage|batch)[\w-]*[=: ] ?[\d\[]"
    r"|\d[\w-]* (stages|micro-batch|heads)|\btaskset\b|npu\d:|\b(eth|mlx)\d",
    re.IGNORECASE,
)
"""Values that fit one model or machine: sizes, counts of layers, threads or workers, cores, and network interfaces."""


def is_example(code: str) -> bool:
    """Whether code of a known cause cannot be pasted unchanged.

    Such code holds values of a model or machine that is not the user's, or is Python with names that the code neither
    defines nor imports.
    """
    if _OF_A_JOB.search(code):
        return True
    if code.lstrip().startswith("-"):
        # Options of a command are sums and negations, read as Python.
        return False
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except (SyntaxError, ValueError):
        return False
    imported = {
        (one.asname or one.name).split(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for one in node.names
    }
    named = [(node.id, type(node.ctx)) for node in nodes if isinstance(node, ast.Name)]
    made = {name for name, how in named if how is ast.Store}
    given = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return any(how is ast.Load and name not in _MODULES | imported | made | given for name, how in named)
