"""A message as a value: an identifier with typed arguments. `hermes.base.say` makes sentences of messages.

Declare a message as a function whose signature names its arguments and their types:

    @message("straggler.waits")
    def straggler_waits(*, rank: Rank, wait: Ns) -> None:
        '''The other ranks wait for one that is slower.'''

`straggler_waits(rank=5, wait=41_000_000)` is then a `Message`, and mypy checks each use. A message without arguments is
a constant: `NOTHING_READ = sentence("read.nothing")`. The sentences stand in `hermes/base/catalogue`, one file a
language.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import wraps
from typing import Annotated, Any, Literal, ParamSpec, get_args

Kind = Literal[
    "ns", "bytes", "count", "number", "share", "rank", "ranks", "step", "steps", "name", "names", "message", "messages"
]  # fmt: skip
"""Kinds of message arguments: durations, sizes, counts, plain numbers, shares, and numbers of ranks and steps. Other
kinds are text from outside, code that no language changes, and messages."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Ns = Annotated[int, "ns"]
Bytes = Annotated[int, "bytes"]
Count = Annotated[int, "count"]
Number = Annotated[float, "number"]
Share = Annotated[float, "share"]
Rank = Annotated[int, "rank"]
Ranks = Annotated[Iterable[int], "ranks"]
Step = Annotated[int, "step"]
Steps = Annotated[Iterable[int], "steps"]
Name = Annotated[str, "name"]
Names = Annotated[Iterable[str], "names"]

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a message: its name, its kind, and its value."""

    name: str
    kind: Kind
    value: Any


@dataclass(frozen=True, slots=True)
class Message:
    """What Hermes says before a language is chosen: the identifier of a sentence, and the values that fill its gaps."""

    identifier: str
    arguments: tuple[Argument, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """The value of an argument; raises `KeyError` if the message has no argument of that name."""
        for argument in self.arguments:
            if argument.name == name:
                return argument.value
        raise KeyError(name)

    def __str__(self) -> str:
        """Raises `TypeError`: only `say` makes the sentence that a user reads. `repr` shows a message to developers."""
        raise TypeError(f"{self!r} is a message: give it to say(), or as an argument of another message")

    def __format__(self, spec: str) -> str:
        """Raises `TypeError`, as `str` does."""
        return str(self)


Text = Message | str
"""A message, or a sentence that is not converted into a message yet. `tools/sentences_left.py` lists such sentences."""
Messages = Annotated[Iterable[Text], "messages"]


def with_texts_turned(text: Text, turn: Callable[[str], str]) -> Text:
    """The same text with `turn` applied to every text from outside, such as paths that are shown in another way."""
    if isinstance(text, str):
        return turn(text)
    return Message(text.identifier, tuple(replace(one, value=_turned(one, turn)) for one in text.arguments))


def _turned(argument: Argument, turn: Callable[[str], str]) -> Any:
    kind, value = argument.kind, argument.value
    if value is None or kind not in ("name", "names", "message", "messages"):
        return value
    if kind in ("names", "messages"):
        return tuple(with_texts_turned(one, turn) for one in value)
    return with_texts_turned(value, turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A declared message: the kinds of its arguments by name, which arguments may be absent, and when it is said."""

    identifier: str
    kinds: Mapping[str, Kind]
    optional: frozenset[str]
    about: str
    module: str


_DECLARED: dict[str, Declared] = {}


def declared() -> Mapping[str, Declared]:
    """Every message that the modules imported so far declare, by identifier."""
    return dict(_DECLARED)


def message(identifier: str) -> Callable[[Callable[P, None]], Callable[P, Message]]:
    """Declare a message: its arguments are the keyword arguments of the decorated function.

    Raises `TypeError` for an argument whose type is not one of this module's kinds, and `ValueError` for an identifier
    that is declared twice.
    """

    def made(function: Callable[P, None]) -> Callable[P, Message]:
        kinds = {name: _kind(identifier, name, hint) for name, hint in function.__annotations__.items()}
        kinds.pop("return")
        order = tuple((name, kind) for name, kind in kinds.items() if kind is not None)
        absent: Mapping[str, object] = getattr(function, "__kwdefaults__", None) or {}
        _declare(
            Declared(
                identifier=identifier, kinds=dict(order), optional=frozenset(absent), about=function.__doc__ or "",
                module=function.__module__,
            )
        )  # fmt: skip

        @wraps(function)
        def said(*_: P.args, **given: P.kwargs) -> Message:
            values = {**absent, **given}
            return Message(
                identifier, tuple(Argument(name, kind, _value(kind, values[name])) for name, kind in order)
            )  # fmt: skip

        return said

    return made


def sentence(identifier: str) -> Message:
    """Declare a message without arguments and return it: `EVENTS = sentence("read.lost.events")`."""
    module = sys._getframe(1).f_globals["__name__"]
    _declare(Declared(identifier=identifier, kinds={}, optional=frozenset(), about="", module=module))
    return Message(identifier)


def _declare(one: Declared) -> None:
    known = _DECLARED.get(one.identifier)
    if known is not None and known.module != one.module:
        raise ValueError(f"{one.identifier} is declared in {known.module} and in {one.module}")
    _DECLARED[one.identifier] = one


_BY_HINT: Mapping[str, Kind] = {
    "Ns": "ns", "Bytes": "bytes", "Count": "count", "Number": "number", "Share": "share", "Rank": "rank",
    "Ranks": "ranks", "Step": "step", "Steps": "steps", "Name": "name", "Names": "names", "Message": "message",
    "Text": "message", "Messages": "messages",
}  # fmt: skip


def _kind(identifier: str, name: str, hint: object) -> Kind | None:
    if name == "return":
        return None
    kind = _BY_HINT.get(str(hint).removesuffix(" | None"))
    if kind is None:
        raise TypeError(f"{identifier}: {name} is a {hint}, and no type of a message's argument")
    return kind


def _value(kind: Kind, value: Any) -> Any:
    """The value as a message keeps it: whole numbers as `int`, several values as a tuple."""
    if value is None:
        return None
    if kind in ("ranks", "steps"):
        return tuple(sorted({int(one) for one in value}))
    if kind in ("names", "messages"):
        return tuple(value)
    if kind in ("ns", "bytes", "count", "rank", "step"):
        return int(value)
    return float(value) if kind in ("number", "share") else value


class Word(str, Enum):
    """A closed list of words that have sentences of their own in the catalogue, such as the leaves of the time tree.

    A member is said as the message `family.value`, where `family` is the name of its class in small letters.
    """

    @property
    def message(self) -> Message:
        """The word as a message."""
        return Message(f"{type(self).__name__.lower()}.{self.value}")

    def aspect(self, name: str) -> Message:
        """A further message about this word; a family with aspects lists their messages in `messages` too."""
        return Message(f"{self.message.identifier}.{name}")

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages about this word; a subclass may add messages to the word's own."""
        return (self.message,)

    def __str__(self) -> str:
        return str(self.value)


def words() -> Iterable[str]:
    """The identifiers of every closed list of words that was imported so far."""
    for family in Word.__subclasses__():
        for member in family:
            yield from (one.identifier for one in member.messages)
