"""Links lead somewhere, commands exist, decisions are numbered, and the JSON page names the fields that there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from tests.with_rows import with_rows

from hermes.cli.app import app
from hermes.model.advice_fit import Fit
from hermes.model.code_measures import CodeLine, NamedLine
from hermes.model.declare import declared
from hermes.model.plan import Unprofiled
from hermes.model.structure_measures import ExpertOperator
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.report.report_json import document
from hermes.store.cache import Cache
from hermes_testing import Fault, Job, generate

_MORE = (
    "hermes.profiles.measure.", "hermes.model.service_measures", "hermes.model.role_measures",
    "hermes.model.sum_measures",
)  # fmt: skip
"""Where rows are declared that a rank measures itself and that stand among `Report.measured`."""
_LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")


def test_every_relative_link_leads_to_a_file_and_a_heading(root: Path, pages: dict[str, str]) -> None:
    broken = []
    for name, text in pages.items():
        for target in (match[1] or match[2] for match in _LINK.finditer(_prose(text))):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            found = (root / name).parent / path if path else root / name
            if not found.exists() or (anchor and anchor not in _anchors(found.read_text("utf-8"))):
                broken.append(f"{name}: {target}")
    assert broken == []


def test_every_page_is_reached_from_the_readme(root: Path, pages: dict[str, str]) -> None:
    reached, ahead = set(), ["README.md"]
    while ahead:
        name = ahead.pop()
        if name in reached or name not in pages:
            continue
        reached.add(name)
        for match in _LINK.finditer(_prose(pages[name])):
            target = (match[1] or match[2]).partition("#")[0]
            if target and "://" not in target:
                path = ((root / name).parent / target).resolve()
                ahead.append(path.relative_to(root).as_posix())
    assert sorted(pages.keys() - reached) == []


def test_every_path_that_the_makefile_names_exists(root: Path) -> None:
    named = set(
        re.findall(r"(?:^|\s)((?:tests|docs|benchmarks|fuzz)/[\w./-]+)", (root / "Makefile").read_text("utf-8"))
    )
    assert {"tests/skips.py", "docs/generate.py"} <= named
    assert [path for path in sorted(named) if not (root / path.rstrip(".")).exists()] == []


def test_every_make_command_in_the_pages_is_a_target(root: Path, pages: dict[str, str]) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (root / "Makefile").read_text("utf-8"), re.M))
    named = {
        target
        for text in pages.values()
        for target in re.findall(r"(?:`|^)make (?:PYTHON=\S+ )?([a-z][a-z-]*)", text, re.M)
    }
    assert {"demo", "test", "check"} <= named
    assert named - targets == set()


def test_every_hermes_command_in_the_pages_exists(pages: dict[str, str]) -> None:
    known = {*app.commands, "COMMAND"}
    named = {word for text in pages.values() for word in re.findall(r"(?:`|^)hermes (\w+)\b(?! \|)", text, re.M)}
    assert "analyze" in named
    assert named - known == set()


def test_decisions_are_numbered_without_gaps_and_listed(root: Path, pages: dict[str, str]) -> None:
    names = sorted(path.name for path in (root / "docs" / "decisions").glob("[0-9]*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    for name in names:
        page = pages[f"docs/decisions/{name}"]
        assert page.startswith(f"# {name[:4]}: ")
        assert re.findall(r"^## (.+)$", page, re.M) == [
            "Context",
            "Choice",
            "Consequences",
            "What would change our mind",
        ]
        assert f"]({name})" in pages["docs/decisions/README.md"]


CODE = (
    CodeLine(
        rank=0, place="train.py:1", function="f", calls=1, total_ns=1, own_ns=1, python_ns=1, framework_ns=0,
        operator_ns=0, launch_ns=0, wait_ns=0, backward_ns=0, device_ns=0, growth=None, caller="", loop="",
        names=(("g", 1),), lines=(("train.py:2", 1.0),), within="", source="frames",
    ),
    NamedLine(rank=0, kind="call", name="g", line="train.py:2 `f`", ns=1, share=1.0),
)  # fmt: skip


@pytest.fixture(scope="module")
def fields(
    tmp_path_factory: pytest.TempPathFactory, host_rows: Callable[[str], tuple[object, ...]]
) -> dict[str, set[str]]:
    """Section to field names of a report that has something everywhere."""
    folder = tmp_path_factory.mktemp("documented")
    job = Job(ranks=2, steps=2, faults=(Fault(kind="recompilation", ranks=(1,)),))
    generate(folder / "job", job, formats=["ascend-text"])
    next((folder / "job").rglob("communication.json")).unlink()
    # A pipeline, operations of many sizes, stalled ones, and enough of all to compare.
    faults = (Fault(kind="small_packets"), Fault(kind="retransmission"))
    generate(folder / "wide", Job(ranks=8, tp=2, pp=2, hosts=2, steps=3, layers=4, faults=faults), formats=["kineto"])
    planted = (Fault(kind="unfused_conv_bn_relu"), Fault(kind="vector_on_cube"))
    generate(folder / "fused", Job(ranks=2, tp=2, steps=1, fused=True, faults=planted), formats=["ascend-text"])
    found: dict[str, set[str]] = {}
    for name in ("job", "wide", "fused"):
        report = analyze(load([folder / name], Cache(folder / "cache")))
        step = Unprofiled(rank=0, steps=9, step_ns=8, captured_ns=9, calls=2, each_ns=0.5)
        small = replace(report.plan, minor=report.findings[:1], unprofiled=step)
        action = replace(report.findings[0].actions[0], fit=Fit(chips=("ascend",)))
        first = replace(report.findings[0], actions=(action,))
        report = replace(report, measured=(*report.measured, *CODE), findings=(first, *report.findings[1:]))
        # Of a measure that none of these jobs has, a row made of its declaration.
        absent = (about.row for about in declared().values() if about.row.__module__.startswith(_MORE))
        made = (_row(kind) for kind in absent if not report.rows(kind))
        report = replace(report, measured=(*report.measured, *made))
        report = with_rows(report, [_row(ExpertOperator)])
        for one in (report, replace(with_rows(report, host_rows("x")), plan=small)):
            _merge(found, _sections("", document(one)))
    return found


def test_the_json_page_names_exactly_the_fields_of_a_report(fields: dict[str, set[str]], pages: dict[str, str]) -> None:
    described = {}
    for section in pages["docs/report-json.md"].split("\n## ")[1:]:
        title = section.splitlines()[0].strip("`").replace("Top level", "")
        described[title] = set(re.findall(r"^\| `(\w+)` \|", section, re.M))
    assert described == fields


def _row(kind: Any) -> Any:
    """A row of a declared kind: any values of the types of its fields."""
    hints = get_type_hints(kind)
    return kind(**{one.name: _any_value(hints[one.name]) for one in dataclass_fields(kind)})


def _any_value(hint: Any) -> Any:
    inner = [one for one in get_args(hint) if one not in (type(None), Ellipsis)]
    if get_origin(hint) is tuple:
        return tuple(_any_value(one) for one in inner)
    if inner:
        return inner[0] if get_origin(hint) is Literal else _any_value(inner[0])
    return _row(hint) if is_dataclass(hint) else hint("1")


def _sections(where: str, value: object) -> dict[str, set[str]]:
    """The keys of every object in the document, by where it stands."""
    found: dict[str, set[str]] = {}
    if isinstance(value, dict) and not set(value) <= {"id", "arguments", "text"}:  # a message is described once
        found[where] = set(value)
        for key, inner in value.items():
            _merge(found, _sections(f"{where}.{key}".lstrip("."), inner))
    elif isinstance(value, list):
        for item in value:
            _merge(found, _sections(f"{where}[]", item))
    return found


def _merge(into: dict[str, set[str]], more: dict[str, set[str]]) -> None:
    for where, keys in more.items():
        into.setdefault(where, set()).update(keys)


def _prose(text: str) -> str:
    """The text without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def _anchors(text: str) -> Iterator[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    for heading in re.findall(r"^#+ (.+)$", _prose(text), re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
