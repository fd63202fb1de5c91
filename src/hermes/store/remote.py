"""Files at a URL that fsspec knows (`s3://`, `gs://`, `hdfs://`, …), fetched into the cache as far as they are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hermes.base.errors import HermesError, InputError
from hermes.base.write_atomic import write_atomic

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://.+")
FOLDER = "remote"


def is_url(text: str) -> bool:
    """Whether a path is a URL."""
    return bool(_URL.fullmatch(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A folder or file at a URL, and where its files lie here once they were fetched.

    `states` is by path below the URL what tells one content from another: size and the store's own tag.
    """

    url: str
    root: Path
    states: Mapping[str, str]

    def local(self, name: str) -> Path:
        """Where a file lies here."""
        return self.root / name if name else self.root

    def name_of(self, path: Path) -> str:
        """The file at the URL that lies here."""
        return "" if path == self.root else path.relative_to(self.root).as_posix()

    def told(self, text: str) -> str:
        """A text with the URL in place of the folder here."""
        return text.replace(str(self.root), self.url)

    def fetch(self, names: Iterable[str]) -> list[Path]:
        """The files, fetched unless they lie here in the same state; raises `InputError` where one cannot be had."""
        found = []
        for name in names:
            path = self.local(name)
            mark = path.with_name(f".{path.name}.state")
            if not path.exists() or not mark.exists() or mark.read_text("utf-8") != self.states[name]:
                self._fetch(name, path)
                with write_atomic(mark) as file:
                    file.write(self.states[name].encode())
            found.append(path)
        return found

    def _fetch(self, name: str, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            system, base = _system(self.url)
            with write_atomic(path) as file:
                # Stores open what they fetch into by themselves, by a path.
                system.get_file(f"{base}/{name}" if name else base, f"/dev/fd/{file.fileno()}")
        except HermesError:
            raise
        except Exception as refused:
            raise InputError(
                f"the file cannot be fetched ({_short(refused)})",
                where=f"{self.url}/{name}" if name else self.url,
                lost="the file",
                hint="check the address and the credentials, as fsspec takes them from the environment",
            ) from refused


def mirror(url: str, cache: Path) -> Mirror:
    """What lies at a URL, listed; raises `InputError` when nothing does, or it may not be read."""
    url = url.rstrip("/")
    try:
        system, base = _system(url)
        listed = system.find(base, detail=True)
    except HermesError:
        raise
    except Exception as refused:
        raise InputError(
            f"the folder cannot be listed ({_short(refused)})",
            where=url,
            hint="check the address and the credentials, as fsspec takes them from the environment",
        ) from refused
    states = {}
    for path, about in sorted(listed.items()):
        name = path[len(base) :].lstrip("/") if path != base else ""
        if about.get("type") != "directory" and _safe(name):
            tag = next((about[key] for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified") if key in about), "")
            states[name] = f"{about.get('size')} {tag}"
    if not states:
        raise InputError("there is no file at this address", where=url, hint="check the path")
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return Mirror(url=url, root=cache / FOLDER / digest / PurePosixPath(url).name, states=states)


def _safe(name: str) -> bool:
    """Whether a name stays below its folder: a store may hold keys that are no paths."""
    parts = PurePosixPath(name).parts
    return not name.startswith("/") and ".." not in parts and "\0" not in name


def _system(url: str):  # type: ignore[no-untyped-def]
    import fsspec

    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as missing:
        raise InputError(
            f"what reads {url.split('://')[0]}:// is not installed ({missing})",
            where=url,
            hint="pip install s3fs for s3://, gcsfs for gs://",
        ) from missing
    except ValueError as unknown:
        raise InputError(
            f"no such kind of address ({unknown})", where=url, hint="s3://bucket/folder, for one"
        ) from unknown


def _short(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
