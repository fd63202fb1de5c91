"""Checks that declarations, uses and both catalogues of messages agree: none is missing, unknown or unused."""

from __future__ import annotations

import ast
import builtins
import importlib
import io
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base import say as saying
from hermes.base.defect_reports import WorkerFailedError
from hermes.base.errors import HermesError, InputError
from hermes.base.failure_message import CutShortError, MessageError, reason
from hermes.base.message import (
    KINDS,
    Argument,
    Count,
    Message,
    Name,
    Ns,
    Ranks,
    declared,
    message,
    with_texts_turned,
    words,
)
from hermes.base.say import LANGUAGES, gaps, message_as_json, pieces, read_told, say

SOURCE = Path(__file__).parent.parent / "src" / "hermes"
CHINESE = re.compile("[\u4e00-\u9fff]")
# Sentences of these stand in the program that trains, or are no sentences of ours.
_APART = ("inside", "standin")


@cache
def trees() -> dict[Path, ast.Module]:
    found = sorted(path for path in SOURCE.rglob("*.py") if not {*path.parts} & {*_APART})
    return {path: ast.parse(path.read_text("utf-8")) for path in found}


@cache
def known() -> frozenset[str]:
    """Every identifier that a module declares, and every word of a closed list."""
    for path, tree in trees().items():
        if any(map(_declares, ast.walk(tree))) or "Word)" in path.read_text("utf-8"):
            importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
    return frozenset({*declared(), *words()})


def _identifier(node: ast.AST) -> str:
    """The identifier of a declaration; empty for all else."""
    if isinstance(node, ast.FunctionDef):
        for one in node.decorator_list:
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "message":
                assert isinstance(one.args[0], ast.Constant)
                return str(one.args[0].value)
    return ""


def _declares(node: ast.AST) -> str:
    """The name that a declaration gives a message; empty for all else."""
    if isinstance(node, ast.FunctionDef):
        return node.name if _identifier(node) else ""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
        function = node.value.func
        return node.targets[0].id if isinstance(function, ast.Name) and function.id == "sentence" else ""
    return ""


def entries(language: str) -> dict[str, tuple[str, ...]]:
    """Identifier to its sentences: one, or one for each plural."""
    return {
        str(one.id if isinstance(one.id, str) else one.id[0]): (
            (one.string,) if isinstance(one.string, str) else tuple(one.string)
        )
        for one in saying.catalogue(language)
        if one.id
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_has_a_sentence_for_each_message_and_no_other(language: str) -> None:
    own = entries(language)
    assert sorted(known() - own.keys()) == [], "declared, and not in the catalogue"
    assert sorted(own.keys() - known()) == [], "in the catalogue, and declared nowhere"
    assert [key for key, sentences in own.items() if not all(sentences)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sentence_has_gaps_for_the_arguments_that_are_declared_and_no_others(language: str) -> None:
    known()
    wrong = []
    sentences = entries(language)
    for key, about in declared().items():
        for sentence in sentences[key]:
            parts = saying._parsed(sentence)
            bare = {part.name for part in parts if isinstance(part, saying._Gap)}
            # A count may be left to a word, such as "one rank".
            missing = about.kinds.keys() - gaps(sentence) - {"n"}
            if missing or gaps(sentence) - about.kinds.keys() or bare & about.optional:
                wrong.append((key, sorted(missing), sorted(gaps(sentence) - about.kinds.keys()), bare & about.optional))
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_message_with_a_count_has_as_many_plurals_as_the_language(language: str) -> None:
    known()
    plurals = {"en": 2, "zh": 1}[language]
    own = saying.catalogue(language)
    wrong = [
        str(one.id)
        for one in own
        if one.id
        and not isinstance(one.id, str)
        and (len(one.string) != plurals or "n" not in declared()[one.id[0]].kinds)
    ]
    counted = [key for key, about in declared().items() if "n" in about.kinds]
    single = [str(one.id) for one in own if isinstance(one.id, str) and one.id in counted]
    assert (wrong, single) == ([], [])


def test_chinese_sentences_are_chinese() -> None:
    own = entries("zh")
    bare = [key for key, sentences in own.items() if not any(map(CHINESE.search, sentences))]
    # What is only a name, a number, a sign or "rank" in English is so in Chinese too.
    assert [key for key in bare if re.search("[a-z]{3}", re.sub(r"\{\w+\}|ranks?", "", entries("en")[key][0]))] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_is_sorted_inside_its_sections(language: str) -> None:
    text = (saying.CATALOGUE / f"{language}.po").read_text("utf-8")
    sections = [re.findall(r'^msgid "(.+)"$', part, re.MULTILINE) for part in re.split(r"(?m)^# == .*$", text)]
    assert [keys for keys in sections if keys != sorted(keys)] == []


def test_every_declared_message_is_said_somewhere() -> None:
    used = {name for tree in trees().values() for name in _names(tree)}
    unused = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if (name := _declares(node)) and name not in used
    ]
    assert unused == []


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def test_messages_are_made_by_their_declarations_alone() -> None:
    """Whoever writes `Message(...)` by hand could name what nobody declares."""
    by_hand = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, tree in trees().items()
        if path.parent.name != "base"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Message"
    ]
    assert by_hand == []


# What a message is -------------------------------------------------------------------------------------------------


@message("test.waits")
def waits(*, ranks: Ranks, wait: Ns, where: Name | None = None, why: Message | None = None) -> None:
    """Only for the tests of this file."""


@message("test.rows")
def rows(*, n: Count) -> None:
    """Only for the tests of this file."""


def _forget() -> None:
    from hermes.base import message as module

    for key in [key for key in module._DECLARED if key.startswith("test.")]:
        del module._DECLARED[key]


_forget()
SENTENCES = {"test.waits": "{ranks} wait {wait}[[ in {where}]][[: {why}]]", "test.rows": "{n} rows {{as they are}}"}


@pytest.fixture
def sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    original = saying.template
    monkeypatch.setattr(
        saying, "template", lambda text, language: SENTENCES.get(text.identifier) or original(text, language)
    )


@pytest.mark.usefixtures("sentences")
def test_a_part_of_a_sentence_is_left_out_where_its_argument_is_absent() -> None:
    assert say(waits(ranks=(0, 1, 2, 5), wait=41_000_000)) == "ranks 0 to 2 and 5 wait 41.0 ms"
    assert say(waits(ranks=[3], wait=5, where="step")) == "rank 3 wait 5 ns in step"
    assert say(waits(ranks=[3], wait=5, why=rows(n=1_200))) == "rank 3 wait 5 ns: 1,200 rows {as they are}"


@pytest.mark.usefixtures("sentences")
def test_names_are_told_apart_from_words_and_made_harmless() -> None:
    said = pieces(waits(ranks=(0,), wait=1, where="a\x1b[31m\nb{wait}"))
    assert [one.text for one in said if one.foreign] == ["a�[31m b{wait}"]


@pytest.mark.parametrize(
    "shown",
    [str, format, "{}".format, "{!s}".format, "%s".__mod__, lambda one: print(one, file=io.StringIO())],
    ids=["str", "format", "f-string", "f-string with !s", "%s", "print"],
)
def test_a_message_that_is_formatted_raises_and_is_never_shown_by_its_identifier(
    shown: Callable[[Message], object],
) -> None:
    with pytest.raises(TypeError, match=r"'test\.rows'.* is a message: give it to say\(\)"):
        shown(rows(n=2))


def test_developers_see_the_identifier_and_the_arguments() -> None:
    told = repr(waits(ranks=(1, 0), wait=7, why=rows(n=2)))
    assert all(part in told for part in ("'test.waits'", "value=(0, 1)", "value=7", "'test.rows'"))


@pytest.mark.usefixtures("sentences")
@pytest.mark.parametrize("kind", [HermesError, InputError, MessageError, CutShortError])
def test_an_exception_with_a_message_is_shown_as_its_sentence(kind: type[HermesError]) -> None:
    failed = pickle.loads(pickle.dumps(kind(rows(n=2))))
    assert (str(failed), say(reason(failed))) == ("2 rows {as they are}",) * 2
    assert traceback.format_exception_only(failed)[-1].endswith(": 2 rows {as they are}\n")


@pytest.mark.usefixtures("sentences")
def test_all_parts_of_an_error_may_be_messages() -> None:
    failed = HermesError(rows(n=2), where="here", lost=rows(n=3), hint=rows(n=4))
    assert f"{failed}".replace(" {as they are}", "") == "here: 2 rows; lost: 3 rows; what to do: 4 rows"


def test_messages_are_raised_in_exceptions_that_say_them() -> None:
    """`str` of another exception would raise, where a handler only means to show what went wrong."""
    raised = [
        (path, node.lineno, _value(path, node.exc.func))
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and any(_messages(path, node.exc))
    ]
    assert len(raised) > 100
    says = (HermesError, MessageError, WorkerFailedError)
    wrong = [(path, line) for path, line, kind in raised if isinstance(kind, type) and not issubclass(kind, says)]
    assert wrong == []


def _messages(path: Path, call: ast.Call) -> Iterator[bool]:
    """For each argument of a call in a file: whether it is a message."""
    for part in (*call.args, *(one.value for one in call.keywords)):
        value = _value(path, part.func if isinstance(part, ast.Call) else part)
        yield isinstance(value, Message) or _declared(value)


def _declared(value: object) -> bool:
    """Whether a value is the declaration of a message with arguments."""
    name = getattr(getattr(value, "__wrapped__", None), "__name__", "")
    return bool(name) and getattr(value, "__module__", "") in _modules()


@cache
def _modules() -> frozenset[str]:
    known()
    return frozenset(about.module for about in declared().values())


def _value(path: Path, node: ast.expr) -> object:
    """The value of a name in a file, such as `messages.NO_FILE`; None for any other expression and local names."""
    if isinstance(node, ast.Attribute):
        return getattr(_value(path, node.value), node.attr, None)
    if not isinstance(node, ast.Name):
        return None
    module = importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
    return getattr(module, node.id, None) or getattr(builtins, node.id, None)


def test_what_is_not_in_a_catalogue_is_said_by_its_identifier() -> None:
    assert say(rows(n=2)) == "test.rows n=2"


def test_names_can_be_renamed_throughout() -> None:
    inner = waits(ranks=(0,), wait=1, where="/tmp/cache/x")
    turned = with_texts_turned(waits(ranks=(0,), wait=1, why=inner), lambda text: text.replace("/tmp/cache", "job"))
    assert isinstance(turned, Message)
    assert turned["why"]["where"] == "job/x"


_VALUES = {
    "ns": st.integers(), "bytes": st.integers(0), "count": st.integers(), "rank": st.integers(), "step": st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False), "share": st.floats(0, 1), "name": st.text(),
    "ranks": st.lists(st.integers(0), unique=True).map(lambda found: tuple(sorted(found))),
    "steps": st.lists(st.integers(0), unique=True).map(lambda found: tuple(sorted(found))),
    "names": st.lists(st.text()).map(tuple),
}  # fmt: skip


def _argument(kind: str) -> st.SearchStrategy[Argument]:
    return st.builds(Argument, st.just("of"), st.just(kind), st.none() | _VALUES[kind])


_MESSAGES = st.recursive(
    st.builds(
        Message, st.just("test.any"), st.sampled_from(sorted(_VALUES)).flatmap(_argument).map(lambda one: (one,))
    ),
    lambda inner: st.builds(
        Message,
        st.just("test.any"),
        st.builds(Argument, st.just("of"), st.just("message"), inner | st.text()).map(lambda one: (one,))
        | st.builds(Argument, st.just("of"), st.just("messages"), st.lists(inner | st.text()).map(tuple)).map(
            lambda one: (one,)
        ),
    ),
    max_leaves=4,
)


@given(_MESSAGES)
def test_a_message_comes_back_from_its_json_and_can_be_said(text: Message) -> None:
    assert read_told(message_as_json(text)) == text
    assert all(isinstance(say(text, language), str) for language in LANGUAGES)


def test_there_is_a_strategy_for_every_kind() -> None:
    assert {*_VALUES, "message", "messages"} == {*KINDS}


def test_brackets_of_code_stay_as_they_are_written() -> None:
    assert saying._parsed("take x[order[i]] of {x}[[ on {on}]]")[:4] == (
        "take x[order[i",
        "]]",
        " of ",
        saying._Gap("x"),
    )
    why = Argument("why", "name", "")
    assert "x[order[i : i + n]]," in say(Message("io001.slices_do", (why,)))
