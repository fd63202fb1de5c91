"""Finds places in files that are not Python: shell, containers, configuration, requirements, C++ and CUDA."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hermes.base.message import Message
from hermes.knowledge import migration
from hermes.migrate import messages as say
from hermes.migrate.messages import code
from hermes.migrate.python.find_libraries import _EFFECTS, _EFFORTS
from hermes.migrate.python.scanned_file import FoundPlace, TextChange
from hermes.migrate.rules import RULES
from hermes.migrate.scan_model import Effort, SourcePlace, Sure
from hermes.model.leaf import Risk

_DEVICE_KEY = r"(?:[\w.]*[-_.])?(?:device|device[-_]?type|map_location|dev)"
_BACKEND_KEY = r"(?:[\w.]*[-_.])?(?:dist|distributed|ddp|comm|process_group)?[-_]?backend"
_OPTION = re.compile(rf"(?i)(?<![\w$-])--?{_DEVICE_KEY}(?:\s*=\s*|\s+)([\"']?)(cuda)(:\d+)?\1(?=$|[\s;|&)\\,\"'`])")
_ASSIGNED = re.compile(rf"(?i)(?<![\w$.-]){_DEVICE_KEY}=([\"']?)(cuda)(:\d+)?\1(?=$|[\s;|&)\\,])")
_OPTION_BACKEND = re.compile(rf"(?i)(?<![\w$-])--?{_BACKEND_KEY}(?:\s*=\s*|\s+)([\"']?)(nccl)\1(?=$|[\s;|&)\\,\"'`])")
_ASSIGNED_BACKEND = re.compile(rf"(?i)(?<![\w$.-]){_BACKEND_KEY}=([\"']?)(nccl)\1(?=$|[\s;|&)\\,])")
_CONFIG = re.compile(rf"(?i)(?<![\w.-])([\"']?){_DEVICE_KEY}\1\s*[:=]\s*([\"']?)(cuda)(:\d+)?\2(?=\s*(?:$|[,}}\]#;]))")
_CONFIG_BACKEND = re.compile(
    rf"(?i)(?<![\w.-])([\"']?){_BACKEND_KEY}\1\s*[:=]\s*([\"']?)(nccl)\2(?=\s*(?:$|[,}}\]#;]))"
)
_SET = re.compile(r"(?<![\w$])([A-Z][A-Z0-9_]{3,})=(\"[^\"`$()\n]*\"|'[^'\n]*'|[\w,.:/$\{\}+-]*)(?=$|[\s;&|)\"'\\])")
_NAMED = re.compile(r"(?<![\w])((?:TORCH_)?(?:CUDA|NCCL|CUBLAS|NVIDIA|PYTORCH_CUDA|TORCH_CUDNN)_[A-Z0-9_]+)\b")
_COMMAND = re.compile(
    r"(?:^|[\s;|&($`@\"'])(nvidia-smi|nvcc|nsys|ncu|nvprof|dcgmi|nvidia-docker|nvidia-cuda-mps-control|compute-sanitizer)(?=$|[\s;|&)`\"'])"
)
_FLAG = re.compile(r"(--gpus(?=[\s=])|--runtime=nvidia|--gres=gpu|--gpus-per-node|--gpus-per-task|nvidia\.com/gpu)")
_IMAGE = re.compile(
    r"(?i)(?:^\s*FROM\s+(?:--platform=\S+\s+)?|\bimage:\s*[\"']?)((?:docker\.io/)?nvidia/cuda\S*|nvcr\.io/\S+|pytorch/pytorch:\S*cuda\S*)"
)
_INSTALL = re.compile(r"\b(?:pip3?|conda|mamba|uv pip)\s+install\s+([^;&|\n]*)")
_WHEELS = re.compile(
    r"(download\.pytorch\.org/whl/(?:nightly/|test/)?cu\d+|pytorch-cuda(?:=+[\d.]+)?|cudatoolkit(?:=+[\d.]+)?|\bnvidia-[a-z0-9-]+-cu1\d\b|torch==[\d.]+\+cu\d+)"
)
_REQUIREMENT = re.compile(r"^\s*-?\s*([A-Za-z0-9][\w.-]*)\s*(\[[^\]]*\])?\s*([=<>!~;@ ].*)?$")
_KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\([^)]*\)\s*)?(?:static\s+)?void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)"
)
_BINDING = re.compile(r"\bm\.def\(\s*\"(\w+)")
_MODULE = re.compile(r"\b(PYBIND11_MODULE|TORCH_LIBRARY(?:_FRAGMENT)?)\(\s*(\w+)")
_CUDA_CODE = re.compile(r"(?i)cuda|cublas|cudnn|__global__")
_COMMENT = {"shell": "#", "docker": "#", "yaml": "#", "toml": "#", "requirements": "#", "cpp": "//", "cuda": "//"}


@dataclass(slots=True)
class TextFile:
    """A text file under scan, with the places found in it."""

    text: str
    kind: str
    relative: str
    found: list[FoundPlace] = field(default_factory=list)

    def lines(self) -> Iterator[tuple[int, int, str]]:
        """The number, position and text of each line without its comment."""
        position = 0
        for number, line in enumerate(self.text.splitlines(keepends=True), start=1):
            yield number, position, _code(line, _COMMENT.get(self.kind, ""))
            position += len(line)

    def add(
        self, rule: str, line: int, column: int, length: int, what: Message, *, changes: tuple[TextChange, ...] | None = None,
        shim: tuple[TextChange, ...] | None = None, why: Message | None = None, todo: Message | None = None,
        effect: Risk | None = None,
        effort: Effort | None = None, sure: Sure = Sure.PROVEN,
    ) -> None:  # fmt: skip
        """Note a place; `column` counts from 0."""
        one = RULES[rule]
        place = SourcePlace(
            rule=rule, line=line, column=column + 1, end_line=line, end_column=column + 1 + length, what=what,
            why=why or one.why, todo=todo or one.todo, effect=effect or one.effect, sure=sure,
            effort=effort or one.effort, converts=changes is not None, later=one.later,
        )  # fmt: skip
        self.found.append(FoundPlace(place=place, native=changes, shim=shim))


def scan(text: str, kind: str, relative: str) -> list[FoundPlace]:
    """The places found in one file."""
    file = TextFile(text, kind, relative)
    steps: dict[str, tuple[Callable[[TextFile], None], ...]] = {
        "shell": (_devices, _settings, _tools, _installs),
        "docker": (_devices, _settings, _tools, _installs, _images),
        "yaml": (_devices, _configuration, _tools, _names_of_variables, _images, _installs),
        "toml": (_devices, _configuration, _names_of_variables, _dependencies),
        "json": (_configuration, _names_of_variables),
        "requirements": (_requirements,),
        "cuda": (_kernels,),
        "cpp": (_bindings,),
    }
    for step in steps.get(kind, ()):
        step(file)
    return file.found


def extensions(text: str, kind: str) -> set[str]:
    """Names of compiled modules that a C++, CUDA or setup file defines for CUDA."""
    if kind in ("cpp", "cuda"):
        return {name for _, name in _MODULE.findall(text) if name != "TORCH_EXTENSION_NAME"}
    return set(re.findall(r"CUDAExtension\(\s*(?:name\s*=\s*)?[\"']([\w.]+)[\"']", text))


def _code(line: str, mark: str) -> str:
    """A line up to its comment; comment marks inside quotes do not count."""
    if not mark or mark not in line:
        return line.rstrip("\r\n")
    quote = ""
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote and line[index - 1] != "\\" else quote
        elif character in "\"'":
            quote = character
        elif line.startswith(mark, index) and (index == 0 or mark == "//" or line[index - 1].isspace()):
            return line[:index]
    return line.rstrip("\r\n")


def _spoken(line: str) -> bool:
    """Whether a line only prints text."""
    return re.match(r"\s*@?(echo|printf|log|info|print)\b", line) is not None


def _devices(file: TextFile) -> None:
    for number, start, line in file.lines():
        if _spoken(line) or line.lstrip().startswith("#SBATCH"):
            continue
        for pattern in (_OPTION, *((_ASSIGNED,) if file.kind == "shell" else ())):
            for match in pattern.finditer(line):
                _name(file, number, start, match.start(2), match.end(2), "npu", "device-option", match[0])
        for pattern in (_OPTION_BACKEND, *((_ASSIGNED_BACKEND,) if file.kind == "shell" else ())):
            for match in pattern.finditer(line):
                _name(file, number, start, match.start(2), match.end(2), "hccl", "backend-string", match[0])


def _configuration(file: TextFile) -> None:
    for number, start, line in file.lines():
        for match in _CONFIG.finditer(line):
            _name(file, number, start, match.start(3), match.end(3), "npu", "device-option", match[0])
        for match in _CONFIG_BACKEND.finditer(line):
            _name(file, number, start, match.start(3), match.end(3), "hccl", "backend-string", match[0])


def _name(file: TextFile, number: int, start: int, begin: int, end: int, text: str, rule: str, what: str) -> None:
    change = TextChange(start=start + begin, end=start + end, text=text)
    sure = Sure.PROVEN if file.kind == "shell" else Sure.LIKELY
    file.add(rule, number, begin, end - begin, code(text=what.strip()), changes=(change,), shim=(), sure=sure)


def _settings(file: TextFile) -> None:
    known = migration.settings()
    seen: set[int] = set()
    make = "makefile" in file.relative.lower()
    for number, start, line in file.lines():
        if _spoken(line):
            continue
        for match in _SET.finditer(line):
            setting = known.get(match[1])
            if setting is not None:
                seen.add(start + match.start(1))
                plain = not make or line.startswith("\t")
                _setting(file, number, start, line, match, setting if plain else None, setting)
        for match in _NAMED.finditer(line):
            if start + match.start(1) not in seen and match[1] in known:
                _variable(file, number, match.start(1), match[1])


def _setting(
    file: TextFile, number: int, start: int, line: str, match: re.Match[str],
    usable: migration.Setting | None, setting: migration.Setting,
) -> None:  # fmt: skip
    changes: tuple[TextChange, ...] | None = None
    if usable is not None and usable.same_value and match[2]:
        if re.search(rf"\b{usable.counterpart}\b", file.text):
            return
        before = line[: match.start(1)]
        option = re.search(r"(-e|--env)[ =]$", before)
        glue = f" {option[1]} " if option else "\n" if _is_env_file(file) else " "
        quote = re.search(r"[\"']$", before)
        end = start + match.end(2)
        if quote is None:
            changes = (TextChange(start=end, end=end, text=f"{glue}{usable.counterpart}={match[2]}"),)
    file.add(
        "environment", number, match.start(1), len(match[1]), say.variable(name=setting.name), changes=changes, shim=changes,
        why=say.counterpart(name=setting.counterpart) if setting.counterpart else say.NOT_READ,
        todo=setting.todo.message, effect=Risk.DIFFERS if setting.counterpart else Risk.NOTE,
        effort=Effort.MINUTES if setting.counterpart else Effort.NONE,
    )  # fmt: skip


def _is_env_file(file: TextFile) -> bool:
    return file.relative.rpartition("/")[2].startswith(".env")


def _names_of_variables(file: TextFile) -> None:
    for number, _, line in file.lines():
        for match in _NAMED.finditer(line):
            if match[1] in migration.settings():
                _variable(file, number, match.start(1), match[1])


def _variable(file: TextFile, number: int, column: int, name: str) -> None:
    setting = migration.settings()[name]
    if setting.counterpart and re.search(rf"\b{re.escape(setting.counterpart)}\b", file.text):
        return
    file.add(
        "environment", number, column, len(name), say.variable(name=name),
        why=say.counterpart(name=setting.counterpart) if setting.counterpart else say.NOT_READ,
        todo=setting.todo.message, effect=Risk.DIFFERS if setting.counterpart else Risk.NOTE,
        effort=Effort.MINUTES if setting.counterpart else Effort.NONE,
    )  # fmt: skip


def _tools(file: TextFile) -> None:
    for number, _, line in file.lines():
        if _spoken(line):
            continue
        for pattern in (_COMMAND, _FLAG):
            for match in pattern.finditer(line):
                setting = migration.settings()[match[1]]
                file.add("launcher", number, match.start(1), len(match[1]), code(text=match[1]), todo=setting.todo.message,
                         why=say.counterpart(name=setting.counterpart) if setting.counterpart else say.NO_TOOL)  # fmt: skip
    _batch_lines(file)


def _batch_lines(file: TextFile) -> None:
    # `#SBATCH --gres=gpu:8` is a comment to the shell, but an option to Slurm.
    for number, line in enumerate(file.text.splitlines(), start=1):
        match = _FLAG.search(line) if line.startswith("#SBATCH") else None
        if match is not None:
            setting = migration.settings()[match[1]]
            file.add("launcher", number, match.start(1), len(match[1]), code(text=match[1]), todo=setting.todo.message)


def _images(file: TextFile) -> None:
    for number, _, line in file.lines():
        match = _IMAGE.search(line)
        if match is not None:
            file.add("image", number, match.start(1), len(match[1]), say.image(name=match[1]))


def _installs(file: TextFile) -> None:
    for number, _, line in file.lines():
        for match in _INSTALL.finditer(line):
            for word in re.finditer(r"[A-Za-z][\w.-]*", match[1]):
                _package(file, number, match.start(1) + word.start(), word[0])
        _wheels(file, number, line)


def _requirements(file: TextFile) -> None:
    brought = _brought_by_torch(file.text)
    for number, _, line in file.lines():
        match = _REQUIREMENT.match(line)
        if number in brought and match is not None and _of_cuda(line, match[1]):
            file.add("library", number, match.start(1), len(match[1]), say.library(name=match[1]), effect=Risk.NOTE,
                     effort=Effort.NONE, why=say.BROUGHT_BY_TORCH, todo=say.LOCK_ANEW)  # fmt: skip
            continue
        _wheels(file, number, line)
        if match is not None:
            _package(file, number, match.start(1), match[1])
            if match[1].lower() == "torch" and not re.search(r"(?im)^\s*-?\s*torch[-_]npu\b", file.text):
                file.add("library", number, match.start(1), 5, say.TORCH_ALONE, effort=Effort.MINUTES,
                         why=say.TORCH_WITHOUT_NPU, todo=say.ADD_TORCH_NPU)  # fmt: skip


_VIA = re.compile(r"\s+#\s*(via\b)?\s*(\S.*)?$")
_BRINGS = re.compile(r"torch|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+")


def _brought_by_torch(text: str) -> set[int]:
    """Numbers of the lines of a lock file that only torch and CUDA's packages need, by its comments `# via`."""
    asked: dict[int, list[str]] = {}
    package = 0
    for number, line in enumerate(text.splitlines(), start=1):
        via = _VIA.match(line)
        if via is None:
            package = number
        elif package and (via[1] or package in asked):
            asked.setdefault(package, []).extend((via[2] or "").split())
    return {number for number, names in asked.items() if names and all(map(_BRINGS.fullmatch, names))}


def _of_cuda(line: str, name: str) -> bool:
    library = migration.packages().get(name.lower().replace("_", "-"))
    return _WHEELS.search(line) is not None or (library is not None and library.status != "works")


_OF_ITSELF = re.compile(r"(?:^|[\s{,])(?:name|description|readme|include|packages|keywords|authors)\s*=")
"""A line of pyproject.toml that describes the project, and names no requirement."""


def _dependencies(file: TextFile) -> None:
    if not file.relative.endswith("pyproject.toml"):
        return
    for number, _, line in file.lines():
        if _OF_ITSELF.search(line):
            continue
        for match in re.finditer(r"[\"']([A-Za-z][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?:[=<>!~;@][^\"']*)?[\"']", line):
            _package(file, number, match.start(1), match[1])


def _wheels(file: TextFile, number: int, line: str) -> None:
    for match in _WHEELS.finditer(line):
        file.add("library", number, match.start(1), len(match[1]), code(text=match[1]), effort=Effort.MINUTES,
                 why=say.BRINGS_CUDA, todo=say.INSTALL_TORCH_NPU)  # fmt: skip


def _package(file: TextFile, number: int, column: int, name: str) -> None:
    library = migration.packages().get(name.lower().replace("_", "-"))
    if library is None or library.status == "works":
        return
    file.add(
        "library", number, column, len(name), say.library(name=name), effect=_EFFECTS[library.status],
        effort=_EFFORTS[library.status], todo=library.todo.message,
        why=say.on_ascend(name=library.counterpart) if library.counterpart else say.NO_LIBRARY,
    )  # fmt: skip


def _kernels(file: TextFile) -> None:
    found = False
    for number, _, line in file.lines():
        for match in _KERNEL.finditer(line):
            found = True
            file.add("custom-kernel", number, match.start(1), len(match[1]), say.cuda_kernel(name=match[1]))
    if not found:
        file.add("custom-kernel", 1, 0, 1, say.CUDA_SOURCE)
    _bindings(file)


def _bindings(file: TextFile) -> None:
    if not _CUDA_CODE.search(file.text):
        return
    module = _MODULE.search(file.text)
    for number, _, line in file.lines():
        for match in _BINDING.finditer(line):
            name = f"{module[2]}.{match[1]}" if module and module[2] != "TORCH_EXTENSION_NAME" else match[1]
            file.add("extension-operator", number, match.start(1), len(match[1]), say.extension_operator(name=name))
