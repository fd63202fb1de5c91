"""Checks rules for all code: imports between packages, length of modules, and words that no file may contain."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.each import each

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "hermes"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST = 400

EVERY = each(MODULES, lambda path: str(path.relative_to(SOURCE)))


def test_the_package_says_that_it_is_typed() -> None:
    assert (SOURCE / "py.typed").is_file()


def _imports(module: Path) -> Iterator[str]:
    """What a module imports of Hermes, wherever in it the import stands."""
    names = {name_of(other) for other in MODULES}
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{one.name}" for one in node.names]
            yield from (one if one in names else node.module for one in inner if one in names or node.module in names)


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = {name_of(module): set(_imports(module)) - {name_of(module)} for module in MODULES}
    # The package hands out names of its Python side, and loads it when they are asked for.
    known["hermes"] = set()
    try:
        list(TopologicalSorter(known).static_order())
    except CycleError as circle:
        pytest.fail(" > ".join(circle.args[1]))


@EVERY
def test_a_module_is_short_enough_to_read(module: Path) -> None:
    assert len(module.read_text("utf-8").splitlines()) <= LONGEST


@EVERY
def test_the_first_line_of_a_module_says_what_lives_there(module: Path) -> None:
    text = module.read_text("utf-8")
    assert text.startswith('"""')
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert docstring.splitlines()[0].endswith((".", ":"))


# Rooms that never ask who made a device: what differs is a trait that `knowledge` declares. To migrate is to go from
# one maker to another, so its commands name both.
_ROOMS = ("base", "store", "profiles", "report", "web", "cli")
_VENDORS = re.compile(
    r"(?<![a-z_])(ascend|nvidia|amd|hccl|nccl|rccl|npu|cuda|rocm|cann|h100|a100|mi300x?)(?![a-z_])", re.IGNORECASE
)
GENERAL = [
    module
    for module in MODULES
    if module.relative_to(SOURCE).parts[0] in _ROOMS
    and module.relative_to(SOURCE).parts[:2]
    not in (("profiles", "read"), ("cli", "migrate.py"), ("cli", "affinity.py"), ("cli", "precision.py"))
]


@each(GENERAL, lambda path: str(path.relative_to(SOURCE)))
def test_no_vendor_is_named_outside_of_knowledge_and_the_readers(module: Path) -> None:
    tree = ast.parse(module.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented)]
    docs = {id(one.value) for body in bodies for one in body if isinstance(one, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    assert [node.value for node in texts if id(node) not in docs and _VENDORS.search(node.value)] == []


def files() -> Iterator[Path]:
    """The files of the repository, without what is made beside them."""
    for place in ("src", "tests", "docs", "bench", "benchmarks", "deploy", "fuzz", "tools"):
        for path in (ROOT / place).rglob("*"):
            beside = any(part[0] == "." or part == "__pycache__" for part in path.relative_to(ROOT).parts)
            if path.is_file() and not beside:
                yield path
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name != ".git")


def test_no_file_names_a_path_of_one_machine() -> None:
    # Put together here, so that this file does not hold it either.
    mark = ("/wo" + "rk/").encode()
    assert [str(path.relative_to(ROOT)) for path in files() if mark in path.read_bytes()] == []


def test_a_database_is_opened_in_one_place_where_its_memory_is_bounded() -> None:
    opening = [path.relative_to(SOURCE).as_posix() for path in MODULES if "duckdb.connect(" in path.read_text("utf-8")]
    assert opening == ["store/database.py"]


def test_a_child_with_a_session_of_its_own_is_started_in_one_place_that_ends_it() -> None:
    inside = ("inside", "jobs/watcher_process.py", "migrate/standin")
    own = [
        path.relative_to(SOURCE).as_posix() for path in MODULES if "start_new_session=True" in path.read_text("utf-8")
    ]
    assert [one for one in own if not one.startswith(inside)] == ["base/processes.py"]


def test_a_text_of_an_input_becomes_a_number_in_one_way() -> None:
    # `isdigit` and `isdecimal` let through what `int` refuses, or what 64 bits do not hold:
    # `hermes.base.units.whole_number`.
    careful = {
        "read/captures_of_run.py", "read/ascend/csvs.py", "read/ascend/capture_folders.py", "read/ascend/db/comm.py",
        "read/ascend/raw/export.py",
    }  # fmt: skip
    texts = {path.relative_to(SOURCE / "profiles").as_posix(): path.read_text("utf-8")
             for path in MODULES if path.is_relative_to(SOURCE / "profiles")}  # fmt: skip
    unsure = re.compile(r"\.isdigit\(|\.isdecimal\(|\bint\(\w*match\w*(\.group\(|\[)")
    assert {name for name, text in texts.items() if unsure.search(text)} <= careful
