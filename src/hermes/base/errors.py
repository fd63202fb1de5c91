"""Errors and diagnostics of Hermes: what happened, in which file, what the result lacks, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hermes.base.message import Text
from hermes.base.say import message_as_json, read_told, say


def _again(kind: type[HermesError], args: tuple[object, ...]) -> HermesError:
    return kind.__new__(kind, *args)


class HermesError(Exception):
    """A failure that a user can act on.

    `what` says what happened, `where` names the file and the place in it. `lost` says what the result lacks because of
    the error, `hint` what to do. All but `where` may be messages. Only `cli` prints an error.
    """

    def __init__(self, what: Text, *, where: str = "", lost: Text = "", hint: Text = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.lost = lost
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle sends an error of a worker process whole; only its class knows the arguments of its constructor.
        return _again, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        parts = [f"{self.where}: {say(self.what)}" if self.where else say(self.what)]
        if self.lost:
            parts.append(f"lost: {say(self.lost)}")
        if self.hint:
            parts.append(f"what to do: {say(self.hint)}")
        return "; ".join(parts)


class InputError(HermesError):
    """An input from which nothing can be computed (exit code 2)."""


class TraceFormatError(HermesError):
    """A file that cannot be read as the format it claims to be."""

    def __init__(self, path: Path, what: Text, *, place: str = "", lost: Text = "", hint: Text = "") -> None:
        super().__init__(what, where=f"{path}{', ' + place if place else ''}", lost=lost, hint=hint)
        self.path = path


class InputChangedError(HermesError):
    """A file that was written while Hermes read it."""


class QueryError(HermesError):
    """An SQL query or a table name of the user's that is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """A note about the input that a reader of the report must know, such as missing or doubtful data.

    `level`: `info` changes nothing, `degraded` means that data is missing or doubtful.
    """

    level: Literal["info", "degraded"]
    message: Text
    where: str = ""
    lost: Text = ""
    hint: Text = ""

    def document(self) -> dict[str, Any]:
        """The diagnostic as JSON values."""
        return {
            "level": self.level, "message": message_as_json(self.message), "where": self.where,
            "lost": message_as_json(self.lost),
            "hint": message_as_json(self.hint),
        }  # fmt: skip

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Diagnostic:
        """The diagnostic that `document` made these JSON values of; raises `ValueError` for other values."""
        try:
            return cls(
                level="info" if document["level"] == "info" else "degraded", message=read_told(document["message"]),
                where=str(document["where"]), lost=read_told(document["lost"]), hint=read_told(document["hint"]),
            )  # fmt: skip
        except (KeyError, TypeError) as error:
            raise ValueError(f"no note: {type(error).__name__}: {error}") from error
