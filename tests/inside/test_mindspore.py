"""Real MindSpore on the CPU, in an environment of its own: HERMES_MINDSPORE_PYTHON names its Python.

python3 -m venv ms && ms/bin/pip install mindspore "numpy<2"
"""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from tests.inside.conftest import Column, Place
from tests.patience import PATIENCE_S, until

from hermes.inside.wire.recovery import recover
from hermes.inside.wire.rundir import running
from hermes.jobs.request_capture import (
    CaptureWish,
    answers_of_ranks,
    is_finished,
    progress_of_ranks,
    request_capture_of_job,
)

pytestmark = pytest.mark.live

_TRAIN = """
import numpy as np
import mindspore as ms
import time
from mindspore import nn
from mindspore.dataset import NumpySlicesDataset
import hermes.inside
ms.set_context(device_target="CPU")
data = NumpySlicesDataset({"x": np.ones((4096, 8), np.float32), "y": np.ones((4096, 2), np.float32)}).batch(8)
net = nn.Dense(8, 2)
model = ms.train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01))
class Slow(ms.train.Callback):
    def on_train_step_end(self, run_context):
        time.sleep(0.02)
model.train(4, data, callbacks=[Slow(), hermes.inside.mindspore_callback()], dataset_sink_mode=False)
"""


@pytest.mark.slow
def test_a_model_is_watched_and_captured_through_its_callback(place: Place, column: Column) -> None:
    python = os.environ.get("HERMES_MINDSPORE_PYTHON")
    if not python:
        pytest.skip("HERMES_MINDSPORE_PYTHON names no Python with MindSpore")
    process = subprocess.Popen(
        [python, "-c", _TRAIN], env=place.environment, cwd=place.folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        (job,) = until(lambda: [job for job in place.jobs() if running(job) and progress_of_ranks(job)], PATIENCE_S)
        wish = CaptureWish(steps=2, level="standard", options={}, largest_bytes=50_000_000)
        asked = request_capture_of_job(job, wish, now_ns=time.time_ns())
        until(lambda: [1] if answers_of_ranks(asked) and is_finished(answers_of_ranks(asked)) else [], PATIENCE_S)
        assert answers_of_ranks(asked)[0].state == "finished", answers_of_ranks(asked)
        assert list(asked.folder.glob("rank0/*_ascend_ms/FRAMEWORK/cpu_op_type_info_0.csv"))
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
    # The log is written once a second: what it lacks is in the memory that the process left.
    recover(job)
    assert column(job.log_path(0), "step")[:3] == [1, 2, 3]
