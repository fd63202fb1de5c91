"""Files behind a URL: what is one, what is fetched, and what is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest

from hermes.base.errors import InputError
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.report.report_json import to_json
from hermes.store.cache import Cache
from hermes.store.remote import is_url, mirror
from hermes_testing import Job, generate

pytestmark = pytest.mark.live


@pytest.mark.parametrize("text", ["s3://bucket/a", "memory://x", "gs://b", "file:///tmp/x"])
def test_a_url_is_one(text: str) -> None:
    assert is_url(text)


@pytest.mark.parametrize("text", ["/tmp/x", "a/b", "s3:/b", "C:/x", "://x", ".", ""])
def test_a_path_is_no_url(text: str) -> None:
    assert not is_url(text)


def test_a_file_is_fetched_once_for_each_state(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/one/a/b.json", b"first")
    memory.pipe("/one/../out.json", b"never")
    there = mirror("memory://one", tmp_path)
    assert [path.read_bytes() for path in there.fetch(["a/b.json"])] == [b"first"]
    assert there.told(str(there.local("a/b.json"))) == "memory://one/a/b.json"
    there.local("a/b.json").write_bytes(b"kept")
    assert [path.read_bytes() for path in there.fetch(["a/b.json"])] == [b"kept"]
    memory.pipe("/one/a/b.json", b"second one")
    assert [path.read_bytes() for path in mirror("memory://one", tmp_path).fetch(["a/b.json"])] == [b"second one"]


def test_an_address_without_files_or_of_no_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        mirror("memory://nothing/there", tmp_path)
    with pytest.raises(InputError, match="the kind of address is not known"):
        mirror("nosuch://x", tmp_path)


def test_a_job_at_a_url_is_analysed_as_one_here_and_named_by_its_url(tmp_path: Path) -> None:
    job = generate(tmp_path / "job", Job(ranks=2, steps=2, layers=1), formats=["ascend-text"])
    memory = fsspec.filesystem("memory")
    memory.put(str(job), "/runs/job", recursive=True)
    there = to_json(analyze(load(["memory://runs/job"], Cache(tmp_path / "there"))))
    here = to_json(analyze(load([job], Cache(tmp_path / "here"))))
    assert "memory://runs/job/" in there
    assert there.replace("memory://runs/job", str(job)) == here


# Servers that have no end ------------------------------------------------------------------------------------------


class _Endless(BaseHTTPRequestHandler):
    """Answers without an end: a page of links, a trace, each as a stream or slowly; `/few/` is a folder of one file."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.send_response(200)
        page = self.path.rstrip("/").endswith(("endless", "few", "deep", "page"))
        self.send_header("Content-Type", "text/html" if page else "application/json")
        if self.path.endswith("long.json"):
            self.send_header("Content-Length", str(1 << 45))
        elif self.path.endswith("small.json"):
            self.send_header("Content-Length", "2")
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        if self.path.endswith("small.json"):
            self.wfile.write(b"[]")
            return
        links = {"few": b'<a href="small.json">', "deep": b'<a href="deep/">' * 3}
        name = self.path.rstrip("/").rpartition("/")[2]
        self._send(links[name]) if name in links else self._send_without_end()

    def _send_without_end(self) -> None:
        slow = "slow" in self.path
        with suppress(OSError):
            while True:
                self._chunk(b" " if slow else bytes(1 << 16))
                time.sleep(0.05 if slow else 0)

    def _send(self, whole: bytes) -> None:
        self._chunk(whole)
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def log_message(self, *_: object) -> None:
        """Nothing is told."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Endless) as made:
        made.daemon_threads = True
        made.block_on_close = False
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()


def test_a_page_of_links_is_a_folder(server: str, tmp_path: Path) -> None:
    there = mirror(f"{server}/few/", tmp_path)
    assert list(there.states) == ["small.json"]
    assert [path.read_bytes() for path in there.fetch(["small.json"])] == [b"[]"]


@pytest.mark.parametrize(
    ("path", "limit", "value", "why"),
    [
        ("trace.json", "FETCHED_BYTES", "1000000", "the file has no end"),
        ("slow.json", "FETCH_SECONDS", "1", "the file comes too slowly"),
        ("long.json", "FETCHED_BYTES", "", "35,184,372,088,832 bytes long"),
        ("endless/", "PAGE_BYTES", "1000000", "the page has no end"),
        ("deep/", "FETCHED_FILES", "5", "the pages name too much"),
        ("slow/page/", "LIST_SECONDS", "1", "the page has no end"),
    ],
)
def test_an_answer_without_an_end_is_ended(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, limit: str, value: str, why: str
) -> None:
    monkeypatch.setenv(f"HERMES_LIMIT_{limit}", value)
    with pytest.raises(InputError, match=why) as refused:
        mirror(f"{server}/{path}", tmp_path).fetch([""])
    assert f"HERMES_LIMIT_{limit}" in refused.value.hint
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_an_address_of_which_nothing_could_be_fetched_says_why(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_LIMIT_FETCHED_BYTES", "1000000")
    with pytest.raises(InputError, match="the file has no end") as refused:
        load([f"{server}/trace.json"], Cache(tmp_path))
    assert "HERMES_LIMIT_FETCHED_BYTES" in refused.value.hint


def test_a_store_that_sends_more_than_it_listed_is_not_believed(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/grows/a.json", b"first")
    there = mirror("memory://grows", tmp_path)
    memory.pipe("/grows/a.json", bytes(1 << 20))
    with pytest.raises(InputError, match="the file is longer than the 5 bytes"):
        there.fetch(["a.json"])
