"""The report in a terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.shared_jobs import TWO, Jobs
from tests.with_rows import with_rows

from hermes.base.errors import Diagnostic
from hermes.base.fold_code import fold_code
from hermes.base.say import say
from hermes.knowledge.cases import cases
from hermes.model.report import Report
from hermes.model.step_measures import AscendSplit, CommunicationTop
from hermes.profiles.read.capture_messages import LOST_REQUESTS
from hermes.report.localized_texts import teller
from hermes.report.text import render_text
from hermes_testing import Fault, FaultKind


class _Ascii(io.StringIO):
    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "ascii"


def _draw(
    report: Report, width: int = 100, *, ascii_only: bool = False, written: Sequence[str] = (), language: str = "en"
) -> str:
    file = _Ascii() if ascii_only else io.StringIO()
    render_text(report, Console(file=file, width=width, color_system=None), written=written, tell=teller(language))
    return file.getvalue()


def test_missing_ranks_are_the_very_first_line(real: Report) -> None:
    assert _draw(real).splitlines()[0] == "Coverage: only ranks 0 and 1 of 8 were collected"


def test_the_verdict_follows_what_is_missing(real: Report) -> None:
    assert say(real.verdict.message).startswith("1 step of 130 ms on 2 of 8 ranks. The device is busy")
    assert " ".join(_draw(real).splitlines()[2:4]).startswith(say(real.verdict.message)[:150])


def test_a_complete_job_begins_with_the_verdict(many: Report) -> None:
    assert _draw(many).startswith("8 steps of")


def test_the_split_of_a_rank_gives_time_and_share(real: Report) -> None:
    text = _draw(real)
    for part in ("compute 8.87 ms 6.8%", "comm 96.0 ms 73.9%", "copy 12.0 us <0.1%", "free 25.0 ms 19.3%"):
        assert part in text


def test_a_bar_is_divided_as_the_step_is(real: Report) -> None:
    (bar,) = [line for line in _draw(real).splitlines() if line.startswith("  rank 0 ")]
    length = sum(bar.count(glyph) for glyph in "█▓▒░")
    assert abs(bar.count("▓") - length * 0.739) <= 1
    assert abs(bar.count("█") - length * 0.068) <= 1
    assert abs(bar.count("░") - length * 0.193) <= 1


def test_ascends_definition_is_given_to_the_nanosecond(real: Report) -> None:
    text = " ".join(_draw(real).split())
    assert "step_trace_time (Ascend's definition, us), rank 0, step 50, computed by Hermes:" in text
    assert "compute 8868.240 exposed comm 95962.016 overlapped 4011.262 free 25032.619 stage 129862.875" in text


def test_a_difference_to_the_profilers_own_file_is_named(real: Report) -> None:
    assert "differs in stage by -0.125 us, preparing by +0.038 us" in _draw(real)


def test_agreement_with_the_profilers_own_file_is_said(real: Report) -> None:
    same = tuple(replace(row, stage_ns=1, preparing_ns=2) for row in real.rows(AscendSplit))
    assert "the profiler's own file says the same" in _draw(with_rows(real, same))


def test_a_loss_gives_cost_gain_confidence_and_cure(real: Report) -> None:
    text = " ".join(_draw(real).split())
    assert "1. 86.5 ms 66.6% All collected ranks wait" in text
    assert "gain 60.0 to 84.0 ms confidence medium (0.72) COM004" in text
    assert "do: Profile rank 5 over the same step" in text


def test_what_was_not_measured_is_said_and_not_zero(unmeasured: Report) -> None:
    text = _draw(unmeasured)
    assert not re.search(r"(?<!\d)0\.0%", text)
    assert "No device task was recorded" in " ".join(text.split())


def test_a_job_on_the_processor_hears_nothing_of_what_no_device_recorded(unmeasured: Report) -> None:
    text = _draw(unmeasured)
    assert "not measured" not in text
    assert "Top operators" in text


def test_an_empty_report_is_drawn(empty: Report) -> None:
    text = _draw(empty)
    assert "Step split: not measured" in text
    assert "the folder holds no profile" in text


def test_many_ranks_become_the_slowest_the_median_and_the_fastest(many: Report) -> None:
    text = _draw(many)
    assert all(word in text for word in ("slowest: rank", "median: rank", "fastest: rank"))
    assert "rank 40" not in text


def test_eight_ranks_stand_one_to_a_line(many: Report) -> None:
    eight = tuple(step for step in many.steps if step.rank < 8)
    lines = [line for line in _draw(replace(many, steps=eight)).splitlines() if line.startswith("  rank ")]
    assert len(lines) == 8
    assert all("ms" in line and "%" in line for line in lines)


def test_the_screen_is_short(real: Report, many: Report) -> None:
    assert max(_draw(real).count("\n"), _draw(many).count("\n")) <= 65


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("name", ["real", "hostile", "many", "unmeasured", "empty"])
def test_no_line_is_wider_than_the_terminal(
    request: pytest.FixtureRequest, name: str, width: int, language: str
) -> None:
    text = _draw(request.getfixturevalue(name), width, language=language)
    assert max(map(cell_len, text.splitlines())) <= width


@pytest.mark.parametrize("kind", ["gc_pause", "recompilation", "data_wait", "synchronisation_calls", "small_packets"])
def test_no_line_of_a_job_is_wider_than_the_terminal_in_both_languages(kind: FaultKind, jobs: Jobs) -> None:
    report = jobs.report(replace(TWO, faults=(Fault(kind=kind),)), "ascend-text")
    wide = [
        (language, width, line)
        for language in ("en", "zh")
        for width in (80, 100, 140)
        for line in _draw(report, width, language=language).splitlines()
        if cell_len(line) > width
    ]
    assert wide == []


def test_a_change_of_a_known_cause_is_wider_than_the_terminal_only_where_one_word_is() -> None:
    wide = [
        line for case in cases() for line in fold_code(case.after, 73) if cell_len(line) > 73 and " " in line.strip()
    ]
    assert wide == []


def test_names_of_the_trace_are_text_and_never_markup(hostile: Report) -> None:
    assert "[bold red]markup[/bold red]" in _draw(hostile, 200)


def test_no_control_character_reaches_the_terminal(hostile: Report) -> None:
    text = _draw(hostile).replace("\n", "")
    assert all(character.isprintable() for character in text)
    assert "\u202e" not in text


def test_an_ascii_terminal_gets_ascii(hostile: Report, real: Report) -> None:
    assert _draw(hostile, ascii_only=True).isascii()
    assert "====" in _draw(real, ascii_only=True)


def test_long_text_of_a_trace_cannot_push_the_rest_off_the_screen(hostile: Report) -> None:
    flood = replace(hostile, verdict=replace(hostile.verdict, message="word " * 10_000))
    assert _draw(flood).count("\n") < 90


def test_a_long_name_keeps_both_its_ends(real: Report) -> None:
    line = next(line for line in _draw(real, 80).splitlines() if "x6  aclnnForeach" in line)
    assert "…" in line


def test_a_group_is_named_by_the_end_of_its_number_and_moments_and_paths_stay(real: Report) -> None:
    row = replace(real.rows(CommunicationTop)[0], detail="11022204950826225271")
    note = Diagnostic(level="degraded", message="from 1736412474757072620 ns on", where="/a/20250101123456789")
    text = _draw(replace(with_rows(real, [row]), diagnostics=(note,)))
    assert "…225271" in text
    assert "11022204950826225271" not in text
    assert "/a/20250101123456789: from 1736412474757072620 ns on" in text


def test_notes_on_a_damaged_input_are_sentences(real: Report) -> None:
    notes = [
        Diagnostic(level="degraded", message=LOST_REQUESTS, where="a.json", lost=LOST_REQUESTS, hint=LOST_REQUESTS)
        for _ in range(5)
    ]
    text = " ".join(_draw(replace(real, diagnostics=tuple(notes)), 200).split())
    told = say(LOST_REQUESTS)
    assert f"Degraded: 5 notes on the input a.json: {told}; lost: {told}; what to do: {told} a.json" in text
    assert "and 2 more notes in the report" in text


def test_the_files_that_hold_everything_are_named_last(real: Report) -> None:
    assert _draw(real, written=("out/report.html",)).rstrip().endswith("All of it: out/report.html")
