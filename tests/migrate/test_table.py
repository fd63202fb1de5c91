"""The table of cases: each program is converted as it says, or left as it is, and a second run changes nothing."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from tests.migrate.cases import CHANGED, A, C, M
from tests.migrate.conftest import Convert
from tests.migrate.kept import KEPT

_LINES = {"A": A, "M": M, "C": C}


def _expected(imports: str, after: str, constants: str) -> str:
    block = "".join(_LINES[one] for one in constants if one in _LINES)
    return f"{imports}\n{block}{after}" if block else f"{imports}{after}"


@pytest.mark.parametrize(
    ("name", "rule", "imports", "before", "after", "constants"), CHANGED, ids=[one[0] for one in CHANGED]
)
def test_a_program_is_converted_as_the_table_says(
    name: str, rule: str, imports: str, before: str, after: str, constants: str, convert: Convert
) -> None:
    change = convert(imports + before)
    assert change.after == _expected(imports, after, constants)
    if constants != "-":
        assert rule in {edit.rule for edit in change.edits}
    again = convert(change.after)
    assert again.after == change.after, "a second run changes nothing"


@pytest.mark.parametrize(("name", "rule", "program"), KEPT, ids=[one[0] for one in KEPT])
def test_a_program_is_left_as_it_is(name: str, rule: str, program: str, convert: Convert) -> None:
    ast.parse(program)
    change = convert(program)
    assert change.after == program
    assert not change.edits


def test_where_torch_is_not_always_imported_the_constants_stand_in_its_block(convert: Convert) -> None:
    before = 'if there():\n    import torch\n\ndef f(x, device="cuda"):\n    return x.to("cuda")\n'
    after = f'if there():\n    import torch\n    {A}\ndef f(x, device="cuda"):\n    return x.to(_ACCELERATOR)\n'
    assert convert(before).after == after
    assert convert(after).after == after


def test_what_a_later_run_adds_follows_what_an_earlier_one_wrote(convert: Convert) -> None:
    once = convert('import torch\ndevice = "cuda"\n').after
    again = convert(f"{once}torch.cuda.manual_seed(0)\n").after
    assert again.startswith(f"import torch\n\n{A}{M}")
    assert again.endswith("_DEVICE_MODULE.manual_seed(0)\n")


def test_the_table_is_large_and_each_rule_has_both_sorts() -> None:
    assert len(CHANGED) >= 120
    assert len(KEPT) >= 120
    changed, kept = Counter(one[1] for one in CHANGED), Counter(one[1] for one in KEPT)
    assert {"cuda-call", "cuda-amp", "cuda-method", "is-cuda", "device-string", "device-number", "device-test",
            "backend-string", "environment", "tensor-type-string"} <= set(changed)  # fmt: skip
    assert set(changed) <= set(kept)
