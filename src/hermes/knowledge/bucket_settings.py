"""Settings for the size of gradient collectives, by framework and library, each with its source."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

MB = 1024 * 1024
HCCL_BUFFER_MB = 200
"""The default of HCCL_BUFFSIZE in MB.

Collectives of more data may be slower; each communicator takes twice this size.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSetting:
    """A line for the user to copy: the setting, its framework or library, and where it is documented."""

    where: str
    line: str
    source: str


def settings(
    *, framework: str | None, libraries: Collection[str], cap_mb: int, largest_bytes: int
) -> Iterator[BucketSetting]:
    """How to set the bucket size: of the framework, and of the library if its buffer is smaller than the buckets.

    PyTorch fills a bucket until it holds `cap_mb`; the last gradient may make the bucket larger.
    """
    if framework == "mindspore":
        yield BucketSetting(
            where="MindSpore",
            line=f'parallel_net.comm_fusion({{"allreduce": {{"mode": "size", "config": {cap_mb}}}}})',
            source="MindSpore 2.10, parallel/auto_parallel.py: AutoParallel.comm_fusion, sizes in MB",
        )  # fmt: skip
    else:
        yield BucketSetting(
            where="PyTorch",
            line=f"DistributedDataParallel(model, bucket_cap_mb={cap_mb}, gradient_as_bucket_view=True)",
            source="torch 2.13, nn/parallel/distributed.py; a size that is given holds for the first bucket too",
        )
    if "hccl" in libraries and largest_bytes > HCCL_BUFFER_MB * MB:
        yield BucketSetting(
            where="HCCL", line=f"export HCCL_BUFFSIZE={-(-largest_bytes // MB)}",
            source="CANN 8.0 documentation of HCCL_BUFFSIZE: larger than the data of a collective; 200 MB as it comes",
        )  # fmt: skip
