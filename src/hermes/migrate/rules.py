"""The rules of a migration: kinds of places, their effect on an NPU, and the work for each kind."""

from __future__ import annotations

from hermes.base.message import Message, Word
from hermes.migrate.scan_model import Effort
from hermes.model.leaf import Risk


class Rule(Word):
    """A kind of place. Its messages are `rule.CODE` (title), `rule.CODE.why` and `rule.CODE.todo`.

    `later` is the rule of `hermes analyze` that measures the same fault in a profile.
    """

    effect: Risk
    effort: Effort
    later: str

    def __new__(cls, code: str, effect: Risk, effort: Effort, later: str = "") -> Rule:
        """A code, with the effect and effort that hold unless a place gives others."""
        made = str.__new__(cls, code)
        made._value_ = code
        made.effect, made.effort, made.later = effect, effort, later
        return made

    @property
    def why(self) -> Message:
        """The effect of such a place on an NPU."""
        return self.aspect("why")

    @property
    def todo(self) -> Message:
        """What to do about such a place."""
        return self.aspect("todo")

    @property
    def messages(self) -> tuple[Message, ...]:
        """The title, reason and advice of the rule."""
        return self.message, self.why, self.todo

    # Places that convert settles.
    CUDA_CALL = "cuda-call", Risk.STOPS, Effort.MINUTES
    CUDA_METHOD = "cuda-method", Risk.STOPS, Effort.MINUTES
    IS_CUDA = "is-cuda", Risk.DIFFERS, Effort.MINUTES
    DEVICE_STRING = "device-string", Risk.STOPS, Effort.MINUTES
    DEVICE_NUMBER = "device-number", Risk.DIFFERS, Effort.MINUTES
    DEVICE_TEST = "device-test", Risk.DIFFERS, Effort.MINUTES
    TENSOR_TYPE_STRING = "tensor-type-string", Risk.STOPS, Effort.MINUTES
    CUDA_AMP = "cuda-amp", Risk.STOPS, Effort.MINUTES
    BACKEND_STRING = "backend-string", Risk.STOPS, Effort.MINUTES
    ENVIRONMENT = "environment", Risk.DIFFERS, Effort.MINUTES
    DEVICE_OPTION = "device-option", Risk.STOPS, Effort.MINUTES
    SHIM_IMPORT = "shim-import", Risk.STOPS, Effort.MINUTES
    # Places that a person settles.
    CUDA_ONLY = "cuda-only", Risk.STOPS, Effort.HOURS
    CUDA_GRAPH = "cuda-graph", Risk.STOPS, Effort.HOURS
    NVTX = "nvtx", Risk.STOPS, Effort.MINUTES
    CUDA_VERSION = "cuda-version", Risk.STOPS, Effort.MINUTES
    CAPABILITY = "capability", Risk.DIFFERS, Effort.MINUTES
    MOVED_NAME = "moved-name", Risk.NOTE, Effort.NONE
    ARGUMENT_LIMIT = "argument-limit", Risk.STOPS, Effort.MINUTES
    IMPORT_KEPT = "import-kept", Risk.STOPS, Effort.MINUTES
    UNSURE_CUDA = "unsure-cuda", Risk.DIFFERS, Effort.MINUTES
    UNSURE_DEVICE = "unsure-device", Risk.DIFFERS, Effort.MINUTES
    DATA_PARALLEL = "data-parallel", Risk.STOPS, Effort.HOURS
    JIT_SCRIPT = "jit-script", Risk.DIFFERS, Effort.MINUTES
    CHANNELS_LAST = "channels-last", Risk.DIFFERS, Effort.MINUTES, "CMP004"
    CUDNN = "cudnn", Risk.NOTE, Effort.NONE
    TF32 = "tf32", Risk.NOTE, Effort.MINUTES
    SDP_KERNEL = "sdp-kernel", Risk.DIFFERS, Effort.MINUTES
    PROFILER = "profiler", Risk.DIFFERS, Effort.MINUTES
    COMPILE = "compile", Risk.DIFFERS, Effort.HOURS
    UNSUPPORTED_API = "unsupported-api", Risk.STOPS, Effort.HOURS
    CPU_FALLBACK = "cpu-fallback", Risk.SLOW, Effort.NONE, "CMP003"
    INFERENCE_ONLY = "inference-only", Risk.STOPS, Effort.HOURS
    DTYPE_LIMIT = "dtype-limit", Risk.STOPS, Effort.MINUTES
    FLOAT64 = "float64", Risk.SLOW, Effort.MINUTES, "CMP009"
    RPC = "rpc", Risk.STOPS, Effort.HOURS
    LIBRARY = "library", Risk.STOPS, Effort.HOURS
    CUSTOM_KERNEL = "custom-kernel", Risk.STOPS, Effort.DAYS
    EXTENSION = "extension", Risk.STOPS, Effort.DAYS
    EXTENSION_OPERATOR = "extension-operator", Risk.STOPS, Effort.DAYS
    TRITON_KERNEL = "triton-kernel", Risk.STOPS, Effort.DAYS
    IMAGE = "image", Risk.STOPS, Effort.HOURS
    LAUNCHER = "launcher", Risk.STOPS, Effort.MINUTES
    # Places that run but are slow.
    SYNC_ITEM = "sync-item", Risk.SLOW, Effort.NONE, "CPU003"
    DYNAMIC_SHAPE = "dynamic-shape", Risk.SLOW, Effort.NONE, "CPU002"
    INT64_INDEX = "int64-index", Risk.SLOW, Effort.NONE, "CMP003"
    SMALL_OPERATORS = "small-operators", Risk.SLOW, Effort.NONE, "CMP012"


RULES: dict[str, Rule] = {one.value: one for one in Rule}
"""The rules by code, as in SARIF and JSON."""
