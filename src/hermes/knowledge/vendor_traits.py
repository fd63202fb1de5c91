"""Differences between the devices of vendors, as traits: other code asks for a trait, never for the vendor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hermes.model.limit import Limit

OF_ITS_ROOF = Limit(
    value=0.80,
    unit="of its roof makes an operator bound by it",
    source="`msprof op`, and the advisor of msprof-analyze: below 80 % no pipe bounds a kernel",
)
REACHED_BY_LIBRARIES = Limit(
    value=0.54,
    unit="of the peak of MI300X takes the place of 80 % there",
    source="architecture file of TraceLens 0.1 for MI300X: 708 of 1307 TFLOP/s in bfloat16 were reached",
)


OF_ALL_VECTOR_CORES = Limit(
    value=0.50,
    unit="of the time of vector work on matrix cores is left where all vector cores share it",
    source="CANN, Ascend C programming guide: two vector cores beside each cube core",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """How profiles of a vendor's devices differ from those of other vendors.

    `device`: kernels run on a device, and not in operators of the host.
    `task_queue`: the framework may hand launches to a thread of its own. `counters`: kernels carry counters of pipes,
    names of compute units and samples of the clock. `event_tasks`: event records and waits are tasks of the device.
    `typed`: kernels are recognised by their operator's type, else by their symbol. `single_block`: a core takes one
    block at a time. `levels`: the profiler has levels. `aligned_sizes`: transfers are faster at aligned sizes.
    `step_file`: the profiler writes its own parts of steps. `fused`: the framework has fused operators of the vendor's.
    `aim` is the share of the roof that a good kernel reaches. `floats_in_names`: names of kernels tell the type of
    their products and the generation of the chip. `chip` is the chip's word in the case base, `libraries` are the
    libraries that run on it.
    """

    device: bool = True
    task_queue: bool = False
    counters: bool = False
    event_tasks: bool = False
    typed: bool = False
    single_block: bool = False
    levels: bool = False
    aligned_sizes: bool = False
    step_file: bool = False
    fused: bool = False
    aim: Limit = OF_ITS_ROOF
    floats_in_names: bool = False
    chip: str = ""
    libraries: tuple[str, ...] = ()


UNKNOWN = Traits()
"""The traits of an unknown vendor, or of ranks whose vendors differ."""
_TRAITS: Mapping[str, Traits] = {
    "ascend": Traits(
        task_queue=True, counters=True, event_tasks=True, typed=True, single_block=True, levels=True,
        aligned_sizes=True, step_file=True, fused=True, chip="ascend", libraries=("hccl", "cann", "ascend c"),
    ),
    "nvidia": Traits(floats_in_names=True, chip="cuda", libraries=("nccl", "cudnn", "triton")),
    "amd": Traits(aim=REACHED_BY_LIBRARIES, chip="rocm", libraries=("rccl", "triton")),
    "intel": Traits(chip="xpu", libraries=("oneccl", "triton")),
    "habana": Traits(chip="gaudi", libraries=("hccl",)),
    "meta": Traits(chip="mtia"),
    "cpu": Traits(device=False, chip="cpu", libraries=("gloo",)),
}  # fmt: skip
ADAPTERS: Mapping[tuple[str, str], str] = {("ascend", "pytorch"): "torch_npu"}
"""The adapter that joins a chip and a framework."""
TOLD_APART = frozenset({"pytorch", "torch_npu", "mindspore", "hccl", "cann", "nccl", "cudnn", "rccl"})
"""Frameworks and libraries that a profile can tell apart."""
NO_QUEUE = "only torch_npu has one"
ASKED_DIRECTLY = "calls of AscendCL, and none taken from a queue"
QUEUE_SETTING = "TASK_QUEUE_ENABLE"
STEP_FILE = "Ascend's definition"
"""The name in reports for the parts of steps that a profiler writes itself."""
MACHINE_TOOLS = ("npu-smi", "nvidia-smi", "hccn_tool")
"""Commands that show the state of devices and their network."""
CALL_KINDS = ("acl", "node", "hccl", "model", "runtime", "driver")
"""Kinds of host calls that belong to runtimes and libraries."""
HOST_ONLY = "cpu"
"""The vendor name of ranks that computed on the processor alone."""
SHOWN_AS_OPERATIONS = "hccl"
"""The library whose collectives appear as device operations in profiles, even without a recorded kernel."""
MARKED_ALONE = "marks"
"""The library name of collectives that marks name in a capture without any other device work."""
FRAMEWORK_FRAMES = r"(^|/)torch(_npu|inductor_[^/]*)?/"
"""A regular expression for files of Python frames that belong to a framework, or that its compiler wrote."""


_BY_WORD: tuple[tuple[str, str, str | None], ...] = (
    ("amd", "amd|instinct|radeon", None),
    ("nvidia", "nvidia|tesla|geforce|quadro|rtx", None),
    ("intel", r"intel|\bxpu\b|xpu_(runtime|driver|sync)|xpu:", None),
    ("habana", r"gaudi|habana|\bhpu\b|hpu_op|hpu:", "Gaudi"),
    ("meta", r"mtia", "MTIA"),
)


def vendor_of(words: str) -> tuple[str | None, str | None]:
    """The vendor of a device, and a name for it if nothing names the chip.

    The chip's name tells the vendor, or names of profiler events and of the framework's backend do.
    """
    low = words.lower()
    return next(((vendor, chip) for vendor, pattern, chip in _BY_WORD if re.search(pattern, low)), (None, None))


def traits(vendor: str) -> Traits:
    """The traits of a vendor's devices."""
    return _TRAITS.get(vendor, UNKNOWN)


def common_traits(vendors: Iterable[str]) -> Traits:
    """The traits of devices of one vendor; `UNKNOWN` where they differ."""
    known = {*vendors}
    return traits(known.pop()) if len(known) == 1 else UNKNOWN


def chips(vendors: Iterable[str]) -> tuple[str, ...]:
    """The chips of vendors, in order, as the case base names them."""
    return tuple(sorted({traits(vendor).chip for vendor in vendors} - {""}))


def libraries_of(chip: str) -> tuple[str, ...]:
    """The libraries that run on a chip; `chip` is its word in the case base."""
    return next((one.libraries for one in _TRAITS.values() if one.chip == chip), ())
