"""Finds the tools of this host that can export a raw capture, their calls, and the command to run if there are none.

Signatures by the wheels: `torch_npu.profiler.profiler.analyse(profiler_path, max_process_number, export_type)` of
2.13.0 and `mindspore.profiler.profiler.analyse(profiler_path, max_process_number, ...)` of 2.10. Both call CANN's
`msprof`, which alone exports what the device wrote: `msprof --export=on --output=PROF_*`.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.base.isolated_python import for_tools
from hermes.base.message import Message
from hermes.profiles.read import messages
from hermes.profiles.read.ascend.capture_folders import Capture, prof_folders

_ANALYSE = "import sys; from {module}.profiler.profiler import analyse; analyse(sys.argv[1], max_process_number=1)"
_HAS = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
_LOOK_S = 20
_HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH/..")
_PLACES = ("bin/msprof", "tools/profiler/bin/msprof")
_USUAL = ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann", "/usr/local/Ascend/latest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One way to export a capture: `calls` are run one after the other, with `path` before PATH."""

    name: str
    calls: tuple[tuple[str, ...], ...]
    path: str = ""


def tool_for(capture: Capture, root: Path, environment: Mapping[str, str]) -> Tool | None:
    """The tool that exports the copy of the capture in `root` on this host; None if the host lacks what is needed."""
    msprof = _msprof(environment)
    beside = str(Path(msprof).parent) if msprof else ""
    # Without CANN's tool the framework's tool would wait for its output for ever. MindSpore's tool reads its parameters
    # from `profiler_info`, which MindSpore writes only on an NPU.
    if capture.records and (msprof or not capture.raw) and (capture.info or not capture.mindspore):
        module = _module(capture)
        python = _python(module, environment)
        if python:
            call = (python, "-c", _ANALYSE.format(module=module), str(root))
            return Tool(name=module, calls=(call,), path=beside)
    if msprof and capture.raw:
        folders = [root / folder.relative_to(capture.root) for folder in prof_folders(capture.raw)]
        calls = tuple((msprof, "--export=on", f"--output={folder}") for folder in folders)
        return Tool(name="msprof", calls=calls, path=beside)
    return None


def what_to_run(capture: Capture) -> Message:
    """The command that exports the capture, and where it can be run."""
    if capture.records:
        module = _module(capture)
        # The command also takes the folder that holds the captures of several ranks.
        folder = json.dumps(str(capture.root.parent), ensure_ascii=False)
        code = f"from {module}.profiler.profiler import analyse; analyse({folder})"
        said = messages.do_export_with_cann if capture.raw else messages.do_export_by_framework
        return said(needs=module, command=f"python -c {shlex.quote(code)}")
    folders = prof_folders(capture.raw)
    prof = folders[0] if folders else capture.root
    return messages.do_export(command=f"msprof --export=on --output={shlex.quote(str(prof))}")


def _module(capture: Capture) -> str:
    return "mindspore" if capture.mindspore else "torch_npu"


def _msprof(environment: Mapping[str, str]) -> str:
    """CANN's exporter: from PATH, else from the folders of CANN's variables or its usual folders."""
    if found := shutil.which("msprof", path=environment.get("PATH")):
        return found
    homes = [environment[name.partition("/")[0]] + name[name.find("/") :] if "/" in name else environment[name]
             for name in _HOMES if name.partition("/")[0] in environment]  # fmt: skip
    places = (Path(home) / place for home in (*homes, *_USUAL) for place in _PLACES)
    return next((str(place) for place in places if shutil.which(str(place))), "")


def _python(module: str, environment: Mapping[str, str]) -> str:
    """A Python with the framework: HERMES_ASCEND_PYTHON, this one, the active environment's, the one on PATH."""
    active = environment.get("VIRTUAL_ENV") or environment.get("CONDA_PREFIX")
    candidates = [
        environment.get("HERMES_ASCEND_PYTHON"),
        sys.executable,
        str(Path(active) / "bin" / "python") if active else None,
        *(shutil.which(name, path=environment.get("PATH")) for name in ("python3", "python")),
    ]
    return next((python for python in dict.fromkeys(filter(None, candidates)) if _has(python, module, environment)), "")


def _has(python: str, module: str, environment: Mapping[str, str]) -> bool:
    """Whether a Python finds the module, without importing it."""
    try:
        done = subprocess.run(
            [python, "-c", _HAS, module], env=for_tools(environment), cwd="/", stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_LOOK_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
