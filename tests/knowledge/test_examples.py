"""Code of known causes is marked as an example where it holds names or numbers of another job."""

from __future__ import annotations

import pytest

from hermes.knowledge.user_code import is_example


@pytest.mark.parametrize(
    "code",
    [
        "DataLoader(ds, batch_size=256, num_workers=12, persistent_workers=True)",
        "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 2",
        "--num-layers 128 --noop-layers 0,127",
        "micro-batch 4, accumulation 4",
        "export OMP_NUM_THREADS=8",
        "taskset -c 0-11 python train.py",
        "export NCCL_SOCKET_IFNAME=eth1",
        "model = wrap(model)",
    ],
)
def test_names_and_numbers_of_another_job_are_an_example(code: str) -> None:
    assert is_example(code)


@pytest.mark.parametrize(
    "code",
    [
        "torch.set_float32_matmul_precision('high')",
        "export TASK_QUEUE_ENABLE=2",
        "--use-distributed-optimizer --overlap-grad-reduce",
        "unset NCCL_P2P_DISABLE",
    ],
)
def test_a_setting_that_is_the_same_for_all_jobs_is_a_change(code: str) -> None:
    assert not is_example(code)
