"""Fetches files from a URL that fsspec knows (`s3://`, `gs://`, `hdfs://`, …) into the cache, when first needed."""

from __future__ import annotations

import hashlib
import html
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urldefrag, urljoin

from hermes.base.errors import HermesError, InputError
from hermes.base.limits import FETCH_SECONDS, FETCHED_BYTES, FETCHED_FILES, LIST_SECONDS, PAGE_BYTES
from hermes.base.units import whole_number
from hermes.base.write_atomic import write_atomic
from hermes.store import messages
from hermes.store.private_folders import private_folder

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://.+")
FOLDER = "remote"
_LINK = re.compile(rb"""<a\s[^>]{0,400}?href\s*=\s*["']([^"'>]{1,2000})["']""", re.I)
_DEEPEST = 12
_PATIENCE_S = 60
_MIN_FREE_DISK = 1 << 30


def is_url(text: str) -> bool:
    """Whether a path is a URL."""
    return bool(_URL.fullmatch(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMirror:
    """A folder or file at a URL, and the local folder that its fetched files go to.

    `states` maps each path below the URL to its size and the store's own tag, which change with the content.
    """

    url: str
    root: Path
    states: Mapping[str, str]

    def local(self, name: str) -> Path:
        """The local path of a file."""
        return self.root / name if name else self.root

    def name_of(self, path: Path) -> str:
        """The path below the URL of a local file."""
        return "" if path == self.root else path.relative_to(self.root).as_posix()

    def told(self, text: str) -> str:
        """The text with the URL in place of the local folder."""
        return text.replace(str(self.root), self.url)

    def fetch(self, names: Iterable[str]) -> list[Path]:
        """Fetch the files that are not local in the same state; raises `InputError` if one cannot be fetched."""
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
        from fsspec.exceptions import FSTimeoutError

        where = f"{self.url}/{name}" if name else self.url
        try:
            private_folder(path.parent)
            system, base = _system(self.url)
            bounded = _bounded(where, path.parent, _size_of(self.states[name]))
            with write_atomic(path) as file:
                # Object stores open a local path by themselves to fetch into.
                there = f"/dev/fd/{file.fileno()}"
                system.get_file(f"{base}/{name}" if name else base, there, callback=bounded)
        except HermesError:
            raise
        except FSTimeoutError as late:
            raise FETCH_SECONDS.exceeded("the file comes too slowly", where=where, lost="the file") from late
        except Exception as refused:
            raise InputError(
                messages.not_fetched(why=_short(refused)),
                where=where,
                lost=messages.LOST_FILE,
                hint=messages.DO_CHECK_ADDRESS,
            ) from refused


def _size_of(state: str) -> int | None:
    """The length of a file in bytes as its store gives it; None if unknown."""
    return whole_number(state.split(" ")[0])


def _bounded(where: str, folder: Path, said_bytes: int | None) -> Any:
    """A callback for each fetched block; raises `InputError` when there are too many bytes, or they take too long."""
    from fsspec.callbacks import Callback

    limit, until = FETCHED_BYTES.now(), time.monotonic() + FETCH_SECONDS.now()
    if said_bytes is not None and said_bytes > limit:
        raise FETCHED_BYTES.exceeded(f"the file is {said_bytes:,} bytes long", where=where, lost="the file")

    class Bounded(Callback):  # type: ignore[misc]
        """Counts the fetched bytes of one file."""

        def relative_update(self, inc: int = 1) -> None:
            """Count `inc` more bytes."""
            super().relative_update(inc)
            if said_bytes is not None and self.value > said_bytes:
                raise InputError(
                    messages.more_than_listed(listed=said_bytes), where=where, lost=messages.LOST_FILE,
                    hint=messages.DO_AFTER_JOB,
                )  # fmt: skip
            if self.value > limit:
                raise FETCHED_BYTES.exceeded("the file has no end", where=where, lost="the file")
            if time.monotonic() > until:
                raise FETCH_SECONDS.exceeded("the file comes too slowly", where=where, lost="the file")
            if shutil.disk_usage(folder).free < _MIN_FREE_DISK:
                raise InputError(
                    messages.FETCH_FILLS_DISK, where=where, lost=messages.LOST_FILE,
                    hint=messages.DO_FREE_SPACE,
                )  # fmt: skip

    return Bounded()


def mirror(url: str, cache: Path) -> RemoteMirror:
    """List the files at a URL; raises `InputError` if there is nothing at the URL, or it cannot be read."""
    from fsspec.exceptions import FSTimeoutError

    url = url.rstrip("/")
    try:
        system, base = _system(url)
        listed = _of_pages(system, base) if url.startswith(("http://", "https://")) else _found(system, base)
    except HermesError:
        raise
    except FSTimeoutError as late:
        raise LIST_SECONDS.exceeded("the folder has no end", where=url) from late
    except Exception as refused:
        raise InputError(
            messages.not_listed(why=_short(refused)),
            where=url,
            hint=messages.DO_CHECK_ADDRESS,
        ) from refused
    if len(listed) > FETCHED_FILES.now():
        raise FETCHED_FILES.exceeded(f"{len(listed):,} files lie there", where=url)
    states = {}
    for path, about in sorted(listed.items()):
        name = path[len(base) :].lstrip("/") if path != base else ""
        if about.get("type") != "directory" and _safe(name):
            tag = next((about[key] for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified") if key in about), "")
            states[name] = f"{about.get('size')} {tag}"
    if not states:
        raise InputError(messages.NO_FILE_AT_ADDRESS, where=url, hint=messages.DO_CHECK_PATH)
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return RemoteMirror(url=url, root=cache / FOLDER / digest / PurePosixPath(url).name, states=states)


_Listed = dict[str, dict[str, Any]]


def _found(system: Any, base: str) -> _Listed:
    """All files below a path; raises `FSTimeoutError` when listing takes too long."""
    from fsspec.asyn import sync

    if not system.async_impl:
        found: _Listed = system.find(base, detail=True)
        return found
    made: _Listed = sync(system.loop, system._find, base, detail=True, timeout=LIST_SECONDS.now())
    return made


def _of_pages(system: Any, base: str) -> _Listed:
    """The files that HTML pages link to, each page read up to a bound; if the address is no page, the file itself.

    fsspec itself would read a whole trace as text, to look for links.
    """
    found: _Listed = {}
    until = time.monotonic() + LIST_SECONDS.now()
    waiting, seen = [(base, 0)], {base}
    while waiting:
        page, depth = waiting.pop()
        about = system.info(page)
        if not _is_page(about):
            found[page] = about
        elif depth <= _DEEPEST:
            below = [link for link in _links(system, page, until) if link.startswith(f"{base}/") and link not in seen]
            seen.update(below)
            waiting += [(link, depth + 1) for link in below]
        if len(seen) > FETCHED_FILES.now():
            raise FETCHED_FILES.exceeded("the pages name too much", where=base)
        if time.monotonic() > until:
            raise LIST_SECONDS.exceeded("the pages have no end", where=base)
    return found


def _is_page(about: Mapping[str, Any]) -> bool:
    return str(about.get("mimetype", "")).startswith("text/html")


def _links(system: Any, page: str, until: float) -> list[str]:
    """The addresses that a page links to, without the parts behind `?` and `#`."""
    most = PAGE_BYTES.now()
    with system.open(page, "rb", block_size=0) as answer:
        text = b""
        while block := answer.read(min(1 << 16, most + 1 - len(text))):
            text += block
            if len(text) > most:
                raise PAGE_BYTES.exceeded("the page has no end", where=page)
            if time.monotonic() > until:
                raise LIST_SECONDS.exceeded("the page has no end", where=page)
    named = (match.group(1).decode("utf-8", "replace") for match in _LINK.finditer(text))
    whole = {urldefrag(urljoin(f"{page.rstrip('/')}/", html.unescape(link))).url for link in named}
    return sorted(link.rstrip("/") for link in whole if "?" not in link)


def _safe(name: str) -> bool:
    """Whether a name stays below its folder: keys of an object store need not be safe paths."""
    parts = PurePosixPath(name).parts
    return not name.startswith("/") and ".." not in parts and "\0" not in name


def _system(url: str):  # type: ignore[no-untyped-def]
    import fsspec

    # aiohttp ends any transfer after five minutes; a dead server is recognised by a pause instead.
    options = {"client_kwargs": {"timeout": _timeout()}} if url.startswith(("http://", "https://")) else {}
    try:
        return fsspec.core.url_to_fs(url, **options)
    except ImportError as missing:
        raise InputError(
            messages.not_installed(scheme=url.split("://")[0], missing=str(missing)),
            where=url,
            hint=messages.DO_INSTALL_READER,
        ) from missing
    except ValueError as unknown:
        raise InputError(
            messages.unknown_address(why=str(unknown)), where=url, hint=messages.DO_GIVE_ADDRESS
        ) from unknown


def _timeout() -> Any:
    import aiohttp

    return aiohttp.ClientTimeout(total=FETCH_SECONDS.now(), sock_connect=_PATIENCE_S, sock_read=_PATIENCE_S)


def _short(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
