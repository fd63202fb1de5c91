"""Parses the output of npu-smi, nvidia-smi and rocm-smi. A value of an unexpected form counts as not measured."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from hermes.base.units import whole_number
from hermes.fleet.exporter.device import Device

Make = Callable[[str], Device]
_MB = float(1 << 20)
_MEGA = 1e6
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?")
_PAIR = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")
_LINK_OF = re.compile(r"GPU (\d{1,4}):")
_LINK_ERRORS = re.compile(r"Link \d+: (\w+) Errors: (\d{1,18})")
_COLON = re.compile(r"^\s*([^:]{1,80}?)\s*:\s*(.*?)\s*$", re.MULTILINE)


def decimal(text: object) -> float | None:
    """The number at the begin of a text, such as `93.6` of `93.6 W`; None for `[N/A]` and similar texts."""
    found = _NUMBER.match(str(text).strip())
    return float(found[0]) if found else None


def _scaled(text: object, factor: float) -> float | None:
    number = decimal(text)
    return None if number is None else number * factor


def npu_table(make: Make, text: str) -> list[Device]:
    """The devices in the table of `npu-smi info`: two lines a chip. A device is `NPU`, or `NPU.CHIP` if an NPU has
    several."""
    found: list[tuple[str, Device]] = []
    head: list[str] | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3 or not line.lstrip().startswith("|"):
            head = None
            continue
        first = cells[0].split()
        if not first or whole_number(first[0]) is None:
            head = None
        elif len(first) == 2 and not re.match(r"[0-9A-Fa-f]{4}:", cells[1]) and len(cells[2].split()) >= 2:
            head = [*first, cells[1], cells[2]]
        elif head is not None:
            one = make(head[0])
            _npu(one, head, cells[2])
            found.append((head[0], one))
            # For an NPU with several chips, the upper line may appear once for all chips.
    numbers = [npu for npu, _ in found]
    for place, (npu, one) in enumerate(found):
        if numbers.count(npu) > 1:
            one.index = f"{npu}.{numbers[:place].count(npu)}"
    return [one for _, one in found]


def _npu(one: Device, head: Sequence[str], numbers: str) -> None:
    one.model, one.healthy = head[1], head[2] == "OK"
    rates = head[3].split()
    one.watts, one.celsius = decimal(rates[0]), decimal(rates[1])
    one.busy = _scaled(numbers.split()[0] if numbers.split() else "", 0.01)
    pairs = _PAIR.findall(numbers)
    # The last pair is the memory of the device; where the last pair is 0 / 0, the chip only has the memory in the pair
    # before.
    sizes = next(((used, total) for used, total in reversed(pairs) if int(total)), None)
    if sizes:
        one.used_bytes, one.total_bytes = int(sizes[0]) * _MB, int(sizes[1]) * _MB


def npu_details(one: Device, ecc: str, common: str) -> None:
    """Add the values of `npu-smi info -t ecc` and `-t common` to an NPU."""
    counts = {"corrected": 0, "uncorrected": 0}
    said = False
    for name, value in _COLON.findall(ecc):
        number = whole_number(value)
        if number is not None and name.endswith("Error Count") and "Isolated" not in name:
            kind = "corrected" if "Single" in name else "uncorrected" if "Double" in name else ""
            if kind:
                counts[kind] += number
                said = True
    if said:
        one.ecc = counts
    for name, value in _COLON.findall(common):
        if name.lower().startswith("aicore curfreq"):
            one.hertz = _scaled(value, _MEGA)


def nvidia_table(make: Make, text: str) -> list[Device]:
    """The devices in the output of `nvidia-smi --query-gpu`; the name of a device holds no comma."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 10 or whole_number(cells[0]) is None:
            continue
        one = make(cells[0])
        one.model = cells[1]
        one.busy = _scaled(cells[2], 0.01)
        one.used_bytes, one.total_bytes = _scaled(cells[3], _MB), _scaled(cells[4], _MB)
        one.watts, one.celsius, one.hertz = decimal(cells[5]), decimal(cells[6]), _scaled(cells[7], _MEGA)
        counts = {"corrected": whole_number(cells[8]), "uncorrected": whole_number(cells[9])}
        one.ecc = {kind: count for kind, count in counts.items() if count is not None}
        found.append(one)
    return found


def nvidia_links(found: Sequence[Device], text: str) -> None:
    """Add the errors of `nvidia-smi nvlink -e` to the devices, summed over the links of each device."""
    by_index = {one.index: one for one in found}
    sums: dict[str, dict[str, int]] = {}
    index = ""
    for line in text.splitlines():
        if begins := _LINK_OF.match(line.strip()):
            index = begins[1]
        elif index in by_index and (errors := _LINK_ERRORS.match(line.strip())):
            kinds = sums.setdefault(index, {})
            kind = errors[1].lower()
            if kind in ("replay", "recovery", "crc"):
                kinds[kind] = kinds.get(kind, 0) + int(errors[2])
    for index, kinds in sums.items():
        by_index[index].links = kinds


def rocm(make: Make, text: str) -> list[Device]:
    """The devices in the output of `rocm-smi --json`: an object a card. Field names differ from release to release."""
    try:
        document = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return []
    found = []
    for name, said in sorted(document.items()) if isinstance(document, dict) else ():
        index = whole_number(name.removeprefix("card")) if name.startswith("card") else None
        if index is None or not isinstance(said, dict):
            continue
        one = make(str(index))
        one.model = str(_first(said, r"Card series") or "")
        one.busy = _scaled(_first(said, r"GPU use \(%\)"), 0.01)
        one.used_bytes = decimal(_first(said, r"VRAM Total Used Memory \(B\)"))
        one.total_bytes = decimal(_first(said, r"VRAM Total Memory \(B\)"))
        one.watts = decimal(_first(said, r"(Average|Current Socket) Graphics Package Power \(W\)"))
        one.celsius = decimal(_first(said, r"Temperature \(Sensor (junction|edge)\) \(C\)"))
        clock = re.search(r"(\d{1,6})\s*Mhz", str(_first(said, r"sclk clock speed:?")), re.IGNORECASE)
        one.hertz = float(clock[1]) * _MEGA if clock else None
        found.append(one)
    return found


def _first(said: Mapping[str, object], pattern: str) -> object:
    return next((value for name, value in said.items() if re.fullmatch(pattern, name, re.IGNORECASE)), None)
