"""Stand-ins for torch_npu's `analyse` and CANN's `msprof`: they have the signatures of the wheels, and write files.

The stand-ins write the export of the same modelled job, found in STANDIN_EXPORT. STANDIN_FATE makes them slow, fail,
crash, or write nothing.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

ANALYSE = """
import os, pathlib, shutil, subprocess, sys, time

def analyse(profiler_path: str, max_process_number: int = 4, export_type=None):
    assert os.nice(0) == 19, "at the lowest priority"
    root = pathlib.Path(profiler_path)
    roots = [root] if (root / "FRAMEWORK").is_dir() else [one for one in root.iterdir() if (one / "FRAMEWORK").is_dir()]
    assert roots, "no profiling data"
    for one in roots:
        out = one / "ASCEND_PROFILER_OUTPUT"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        fate = os.environ.get("STANDIN_FATE", "")
        if fate == "slow":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            time.sleep(600)
        if fate == "killed":
            os.kill(os.getpid(), 9)
        if fate == "fails":
            print("[ERROR] [1] profiler.py: Failed to export CANN Profiling data. Error msg: no device", flush=True)
            (out / "analyse.done").touch()
            return
        for prof in one.glob("PROF_*"):
            subprocess.run(["msprof", "--export=on", f"--output={prof}"], check=True, capture_output=True)
            (prof / "sqlite").mkdir()
        made = pathlib.Path(os.environ["STANDIN_EXPORT"]) / one.name / "ASCEND_PROFILER_OUTPUT"
        shutil.copytree(made, out, dirs_exist_ok=True)
        (out / "analyse.done").touch()
"""
MSPROF = """#!{python}
import os, pathlib, shutil, sys
options = dict(part.removeprefix("--").partition("=")[::2] for part in sys.argv[1:])
assert options["export"] == "on", sys.argv
prof = pathlib.Path(options["output"])
if os.environ.get("STANDIN_FATE") == "msprof fails":
    print("[ERROR] The project path is invalid", flush=True)
    sys.exit(1)
out = prof / "mindstudio_profiler_output"
out.mkdir()
made = pathlib.Path(os.environ["STANDIN_EXPORT"]) / prof.parent.name / "ASCEND_PROFILER_OUTPUT"
shutil.copy(made / "trace_view.json", out / "msprof_20251104120001.json")
shutil.copy(made / "kernel_details.csv", out / "op_summary_20251104120001.csv")
"""


def tools(folder: Path, export: Path, *, framework: bool = True, cann: bool = True, fate: str = "") -> dict[str, str]:
    """The environment of a host that has these tools."""
    binaries, packages = folder / "bin", folder / "packages"
    for made in (binaries, packages):
        made.mkdir(parents=True, exist_ok=True)
    if framework:
        profiler = packages / "torch_npu" / "profiler"
        profiler.mkdir(parents=True, exist_ok=True)
        (packages / "torch_npu" / "__init__.py").touch()
        (profiler / "__init__.py").touch()
        (profiler / "profiler.py").write_text(ANALYSE, "utf-8")
    if cann:
        msprof = binaries / "msprof"
        msprof.write_text(MSPROF.format(python=sys.executable), "utf-8")
        msprof.chmod(msprof.stat().st_mode | stat.S_IXUSR)
    return {
        "PATH": os.pathsep.join((str(binaries), "/usr/bin", "/bin")),
        "PYTHONPATH": str(packages),
        "STANDIN_EXPORT": str(export),
        "STANDIN_FATE": fate,
        "HOME": str(folder),
    }
