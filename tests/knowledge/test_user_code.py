"""The user's code is told from libraries by the names of frames alone, or by what a capture says of it."""

from __future__ import annotations

import pytest

from hermes.knowledge.user_code import frame_of, is_framework, is_own, own_line, works_for_hermes


@pytest.mark.parametrize(
    "text",
    [
        "train.py(24): mel_filterbank",
        "models/encoder.py(7): forward",
        "/home/me/project/train.py(3): main",
        "<ipython-input-3-ab>(2): step",
        "C:\\work\\train.py(9): main",
    ],
)
def test_files_of_a_program_are_its_own(text: str) -> None:
    assert is_own(text)


@pytest.mark.parametrize(
    "text",
    [
        "<built-in function log>",
        "nn.Module: Linear_0",
        "torch/nn/modules/linear.py(130): forward",
        "/workspace/pytorch/torch/nn/functional.py(5): linear",
        "torchinductor_me/v2/cv2ksrryayr45rw4j5.py(1010): call",
        "/tmp/torchinductor_me/v2/cv2ksrryayr45rw4j5.py(1010): call",
        "threading.py(1016): run",
        "numpy/lib/function_base.py(9): histogram",
        "/usr/lib/python3.10/json/encoder.py(5): encode",
        "/opt/conda/lib/python3.10/site-packages/mylib/x.py(1): f",
        "<frozen importlib._bootstrap>(1): _load",
        "aten::mm",
        "hermes/inside/error_guard.py(72): called",
        "/home/me/hermes/src/hermes/inside/monitor/at_step_end.py(103): after_step",
        "/home/me/hermes/src/hermes/inside/boot/hermes_waits_to_watch.py(9): begin",
        "hermes_waits_to_watch.py(9): begin",
        "sitecustomize.py(3): <module>",
    ],
)
def test_libraries_builtins_and_operators_are_not(text: str) -> None:
    assert not is_own(text)


def test_what_a_capture_says_of_its_code_counts_before_what_is_known_of_libraries() -> None:
    assert is_own("transformers/trainer.py(9): train", {"transformers"})
    assert not is_own("somebodys.py(9): f", {"train"})


def test_what_runs_of_hermes_is_never_the_users_whatever_a_capture_says() -> None:
    assert not is_own("/home/me/src/hermes/inside/error_guard.py(72): called", {"hermes", "train"})
    assert not is_own("hermes_waits_to_watch.py(9): begin", {"hermes_waits_to_watch"})


def test_a_package_of_the_users_may_be_called_hermes() -> None:
    assert is_own("hermes/train.py(3): step", {"hermes"})
    assert is_own("/home/me/hermes/train.py(3): step")


def test_a_frame_has_a_place_that_fits_a_line() -> None:
    frame = frame_of("/home/me/a/very/long/path/train.py(24): mel_filterbank")
    assert frame is not None
    assert frame.said == "long/path/train.py:24 `mel_filterbank`"


def test_python_of_the_framework_is_told() -> None:
    assert is_framework("torch/autograd/graph.py(966): _engine_run_backward")
    assert not is_framework("train.py(1): f")


def test_the_line_of_a_comprehension_is_that_of_the_function_it_is_written_in() -> None:
    stack = ["<built-in function float>", "rows.py(21): <listcomp>", "rows.py(18): read", "train.py(3): main"]
    assert own_line(stack) == "rows.py(18): read"
    assert own_line(["rows.py(21): <genexpr>", "train.py(3): main"]) == "rows.py(21): <genexpr>"
    assert own_line(["torch/x.py(1): f"]) == ""


def test_a_stack_in_which_hermes_works_says_nothing_of_the_line_that_called_hermes() -> None:
    optimizer, step = "torch/optim/optimizer.py(509): wrapper", "train.py(17): <module>"
    entered, called = (f"/me/src/hermes/inside/error_guard.py(44): {name}" for name in ("entered", "called"))
    assert works_for_hermes(["pathlib.py(1044): open", entered, optimizer, step])
    assert not works_for_hermes(["torch/_tensor.py(5): backward", called, step])
    assert not works_for_hermes(["torch/_tensor.py(5): backward", step, entered])
