"""Runs a program of the zoo as a script: `zoo_script.py FILE PROGRAM [--cured]`."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch

_ZOO = Path(__file__).parents[1] / "judgement" / "zoo" / "programs"


def main() -> None:
    """Step through the program until the process is ended."""
    file, program = sys.argv[1:3]
    sys.path.insert(0, str(_ZOO))
    spec = spec_from_file_location(file, _ZOO / f"{file}.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    # Workers of a loader find the classes of the program under this name.
    sys.modules[file] = module
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for _ in getattr(module, program)(slow="--cured" not in sys.argv):
        pass


if __name__ == "__main__":
    main()
