"""Files behind a URL: what is one, what is fetched, and what is refused."""

from __future__ import annotations

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
    with pytest.raises(InputError, match="no such kind"):
        mirror("nosuch://x", tmp_path)


def test_a_job_at_a_url_is_analysed_as_one_here_and_named_by_its_url(tmp_path: Path) -> None:
    job = generate(tmp_path / "job", Job(ranks=2, steps=2, layers=1), formats=["ascend-text"])
    memory = fsspec.filesystem("memory")
    memory.put(str(job), "/runs/job", recursive=True)
    there = to_json(analyze(load(["memory://runs/job"], Cache(tmp_path / "there"))))
    here = to_json(analyze(load([job], Cache(tmp_path / "here"))))
    assert "memory://runs/job/" in there
    assert there.replace("memory://runs/job", str(job)) == here
