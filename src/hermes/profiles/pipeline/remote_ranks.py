"""Asks untrusted other machines about their ranks: questions and answers are JSON text.

There are five questions: one about the outline, one about the measures, and three about stretches of a rank's time. The
answering machine has the tables. The asking machine has none of the tables, and checks each answer down to its last
field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from hermes.base.errors import Diagnostic, HermesError
from hermes.model.files_seen import FilesSeen
from hermes.profiles import messages
from hermes.profiles.engines.engine import Engine, Given, LostRank, Made
from hermes.profiles.load import Loaded
from hermes.profiles.measure.path.step_path import RankRows
from hermes.profiles.measure.structure.micro_batch_passes import PassRows
from hermes.profiles.pipeline.analyze import measured_of, outline_of
from hermes.profiles.pipeline.critical_paths import prepared_rows, rows_in
from hermes.profiles.pipeline.rank_exchange import RankExchange
from hermes.profiles.pipeline.rank_measures import RankMeasures
from hermes.profiles.pipeline.rank_outline import RankOutline
from hermes.profiles.pipeline.stage_boxes import stage_rows
from hermes.profiles.read.files_seen import together
from hermes.store.rank_data import RankData
from hermes.store.untrusted_rows import value_as_json, value_from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A question to another machine: the function that answers it, and the type of its answer."""

    function: Callable[[Any], object]
    answer: Any


_OUTLINE = "outline"
_QUESTIONS = {
    _OUTLINE: _Question(function=outline_of, answer=RankOutline),
    "measure": _Question(function=measured_of, answer=tuple[RankMeasures, RankExchange]),
    "stretch": _Question(function=rows_in, answer=RankRows),
    "prepared stretch": _Question(function=prepared_rows, answer=RankRows),
    "passes": _Question(function=stage_rows, answer=PassRows),
}
QUESTIONS = tuple(_QUESTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSaid:
    """What a folder on another machine holds: ranks with the places of their captures, notes, and files."""

    path: Path
    ranks: tuple[RankSaid, ...]
    notes: tuple[Diagnostic, ...]
    files: tuple[FilesSeen, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSaid:
    """A capture of one rank on another machine, and its outline."""

    rank: int
    root: Path
    format: str
    place: str
    notes: tuple[Diagnostic, ...]
    outline: RankOutline


def folder_text(loaded: Loaded) -> str:
    """The JSON text that describes the folder here: its ranks, notes and files."""
    ranks = tuple(
        RankSaid(rank=one.rank, root=one.root, format=one.format, place=one.place, notes=one.notes,
                 outline=outline_of(one))
        for one in loaded.ranks
    )  # fmt: skip
    said = FolderSaid(path=loaded.paths[0], ranks=ranks, notes=loaded.notes, files=loaded.files)
    return value_as_json(said)


def answer_text(loaded: Loaded, question: str, given: Mapping[int, str], engine: Engine) -> dict[int, str]:
    """The answers of this machine about its ranks, as text; a rank that is not here, or cannot be read, has no answer.

    Raises `ValueError` for an unknown question.
    """
    if question not in _QUESTIONS or question == _OUTLINE:
        raise ValueError(question)
    tables = {one.rank: one for one in loaded.ranks}
    # The asking side runs under the same account as this process.
    asked = {
        rank: replace(value_from_json(text, None), data=tables[rank]) for rank, text in given.items() if rank in tables
    }
    found = engine.map(_QUESTIONS[question].function, asked)
    return {rank: value_as_json(one) for rank, one in found.items() if not isinstance(one, LostRank)}


class RankQuestions(Protocol):
    """A function that asks the machines that hold these ranks; a rank without an answer is left out."""

    def __call__(self, question: str, given: Mapping[int, str]) -> Mapping[int, str]:
        """Return the text of the answer by rank."""


class RemoteRanks(Engine):
    """An engine that calls functions on the machines that have the tables; questions and answers are text."""

    remote: ClassVar[bool] = True

    def __init__(self, ask: RankQuestions, outlines: Mapping[int, RankOutline]) -> None:
        self._ask, self._outlines = ask, outlines

    @property
    def threads(self) -> int:
        """One thread: each machine decides how many threads it uses."""
        return 1

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | LostRank]:
        """Ask for the function's result of each rank; a rank without a valid answer is lost."""
        name = next(name for name, one in _QUESTIONS.items() if one.function is function)
        if name == _OUTLINE:
            return {rank: self._outlines[rank] for rank in given}  # type: ignore[misc]
        texts = self._ask(name, {rank: _question(one) for rank, one in given.items()})
        return {rank: _answer(rank, texts.get(rank), _QUESTIONS[name].answer) for rank in given}

    def close(self) -> None:
        """Do nothing: the engine holds no resources."""


def _question(given: Any) -> str:
    return value_as_json(replace(given, data=None))


def _answer(rank: int, text: str | None, kind: Any) -> Any:
    try:
        found = value_from_json(text or "", kind)
        parts = found if isinstance(found, tuple) else (found,)
        if all(getattr(one, "rank", rank) == rank for one in parts):
            return found
    except ValueError:
        pass
    return LostRank(rank=rank, error=HermesError(messages.no_answer_of_rank(rank=rank), where=f"rank {rank}"))


def loaded_elsewhere(
    folders: Mapping[str, str], wanted: Mapping[str, frozenset[int]]
) -> tuple[Loaded, dict[int, RankOutline], dict[str, str]]:
    """Combine the machines' descriptions of their folders: one input, the outlines, and invalid answers by machine.

    `wanted` are the ranks that each machine may describe: its answers about other ranks are not believed.
    """
    said: dict[str, FolderSaid] = {}
    false: dict[str, str] = {}
    for name, text in folders.items():
        try:
            said[name] = value_from_json(text, FolderSaid)
        except ValueError as wrong:
            false[name] = str(wrong)[:200]
    ranks = {
        one.rank: one for name, folder in said.items() for one in folder.ranks
        if one.rank in wanted[name] and one.outline.rank == one.rank
    }  # fmt: skip
    data = tuple(
        RankData(rank=one.rank, root=one.root, format=one.format, folder=Path("/nonexistent"), notes=one.notes,
                 url=one.place)
        for _, one in sorted(ranks.items())
    )  # fmt: skip
    notes = dict.fromkeys(note for folder in said.values() for note in folder.notes)
    loaded = Loaded(
        paths=tuple(folder.path for folder in said.values()), ranks=data, notes=tuple(notes),
        files=together(folder.files for folder in said.values()),
    )  # fmt: skip
    return loaded, {rank: one.outline for rank, one in ranks.items()}, false
