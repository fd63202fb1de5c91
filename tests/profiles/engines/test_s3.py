"""Input from an S3 server that is run for the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.hosts.ray_nodes import needs

from hermes_testing import Job, generate

pytestmark = [pytest.mark.live, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[3]
SERVER = "from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
SERIAL = "import sys, hermes; print(hermes.analyze(sys.argv[1], engine='serial').to_json(), end='')"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Job(ranks=8, steps=2, layers=2, tp=2, hosts=2)
    return generate(tmp_path_factory.mktemp("s3") / "job", made, formats=["ascend-text"])


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"} | more


def serially(path: str, cache: Path, **more: str) -> str:
    made = subprocess.run(
        [sys.executable, "-c", SERIAL, path], check=True, capture_output=True, text=True,
        env=environment(HERMES_CACHE_DIR=str(cache), **more),
    )  # fmt: skip
    return made.stdout


@pytest.fixture(scope="module")
def bucket(job: Path) -> Iterator[dict[str, str]]:
    """The job in a bucket of a server on this machine; what clients need of the environment to reach it."""
    needs("s3fs", "moto", "flask", "boto3")
    import socket
    import time

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }  # fmt: skip
    server = subprocess.Popen([sys.executable, "-c", SERVER.format(port=port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        upload = (
            "import sys, boto3, pathlib; client = boto3.client('s3'); client.create_bucket(Bucket='profiles');"
            "root = pathlib.Path(sys.argv[1]);"
            "[client.upload_file(str(one), 'profiles', f'runs/job/{one.relative_to(root)}')"
            " for one in root.rglob('*') if one.is_file()]"
        )
        subprocess.run([sys.executable, "-c", upload, str(job)], check=True, env=environment(**told))
        yield told
    finally:
        server.kill()
        server.wait()


def test_input_from_s3_gives_the_report_of_the_same_files_here(
    job: Path, bucket: dict[str, str], tmp_path: Path
) -> None:
    there = serially("s3://profiles/runs/job", tmp_path / "there", **bucket)
    assert '"s3://profiles/runs/job/' in there
    assert there.replace("s3://profiles/runs/job", str(job)) == serially(str(job), tmp_path / "here")
