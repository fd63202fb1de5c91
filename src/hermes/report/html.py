"""Writes the report as one HTML file that needs no network and is complete without its script.

The script consists of the web app's own modules; it redraws tables and charts from data in the page.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from hermes.base.message import Message, Text
from hermes.knowledge.user_code import is_example
from hermes.model.comm_measures import CommunicationNote
from hermes.model.finding import Finding, Key
from hermes.model.plan import Advice
from hermes.model.report import Report
from hermes.report import (
    charts,
    chinese_sentences,
    comm_text,
    format,
    palette,
    plan_words,
    report_rows,
    shared_assets,
    table_cells,
    table_columns,
    tree_messages,
    value_labels,
)
from hermes.report.advice_in_chinese import advice_in_chinese
from hermes.report.findings_sheet import subject
from hermes.report.inline_json import inlined
from hermes.report.localized_texts import teller
from hermes.report.tree import time_tree

_TEMPLATE = "report.html.j2"
_BOUNDS = {
    "compute": "compute",
    "communication": "comm",
    "copy": "copy",
    "host": "host",
}
_PARTS = {"idle": "host", "compute": "compute", "communication": "comm", "copy": "copy", "outside": "free"}
_TREE_WORDS = {
    "title": tree_messages.TITLE, "exclusive": tree_messages.EXCLUSIVE, "chosen": tree_messages.CHOSEN,
    "not_known": tree_messages.NOT_KNOWN, "at": tree_messages.at,
    "curable": tree_messages.curable,
}  # fmt: skip
_LAYERS = {
    "compute": "compute",
    "communication": "comm",
    "cpu": "host",
    "io": "host",
    "memory": "copy",
    "parallelism": "wait",
    "environment": "host",
}
_STRUCTURE = ("pipeline", "pipeline_passes", "pipeline_boxes", "balance", "rank_matrix")
_GAPS_FIRST = 6
_ACTIONS_FIRST = 12
_NOTES_FIRST = 5
_LINES = 40
_NAMED = re.compile(r"\S*\w[._*]\w")
"""Matches a sentence that begins with the name of a file, which keeps its small letter."""
_BLAMES = 8


def render_html(report: Report, language: str = "en") -> str:
    """The HTML page of a report, in English (`en`) or Chinese (`zh`).

    Every text of the report is escaped; the page's policy forbids everything but its own script.
    """
    css = Markup(palette.style() + shared_assets.style() + asset("report.css"))
    script = Markup(shared_assets.script())
    degraded = report_rows.notes_beyond_gaps(report)
    every = table_columns.tables(report)
    communication = [table for table in every if table.rows and _part(table.key) == "communication"]
    structure = [table for table in every if table.rows and _part(table.key) == "structure"]
    shown = [table for table in every if table.rows and not _part(table.key)]
    ascend, inputs = table_columns.ascend_table(report), table_columns.inputs_table(report)
    split, path = charts.step_chart(report), charts.path_chart(report)
    held = [table for table in (ascend, *communication, *structure, *shown, inputs) if table.rows]
    page = template().render(
        tell=teller(language),
        report=report,
        advice=advice_in_chinese if language == "zh" else _as_is,
        css=css,
        script=script,
        policy=policy(css, script),
        gaps=report.coverage.missing,
        degraded=degraded,
        gaps_first=_GAPS_FIRST,
        actions_first=_ACTIONS_FIRST,
        notes_first=_NOTES_FIRST,
        bound=_BOUNDS.get(report.verdict.bound, "free"),
        anchors=_anchors(report),
        anchor=_anchor,
        place=report_rows.place_of_row(report.verdict.rank, report.verdict.step),
        data=Markup(inlined(report, held, split, path, language)),
        split=split,
        tree=time_tree(report),
        components=report_rows.COMPONENTS,
        path=path,
        multiples=charts.rank_charts(report),
        width=charts.WIDTH,
        height=charts.HEIGHT,
        tables=shown,
        absent=[_absent(table.title, language) for table in every if not table.rows and not _part(table.key)],
        communication=communication,
        communication_notes=[note.text for note in report.rows(CommunicationNote)],
        structure=structure,
        pipeline=comm_text.pipeline_sentence(report),
        ascend=ascend,
        inputs=inputs,
        differences=[
            (pair.place, sentence)
            for pair in report_rows.ascend_pairs(report)[: table_cells.LIMIT]
            if (sentence := report_rows.difference_sentence(pair))
        ],
    )
    return chinese_sentences.page(page) if language == "zh" else page


def _as_is(one: Advice) -> Advice:
    return one


def _absent(title: str, language: str) -> str:
    return chinese_sentences.labelled(title) if language == "zh" else title.lower()


def _part(key: str) -> str:
    """The section of the page that a table belongs to; empty: the list of all tables."""
    first = key.partition("-")[0]
    return "structure" if first in _STRUCTURE else first if first == "communication" else ""


def _anchors(report: Report) -> list[str]:
    """For each finding, its anchor on the page if it is the first of its fault, else empty; actions link to it."""
    places = [_anchor(finding.key) for finding in report.findings]
    return [place if places.index(place) == at else "" for at, place in enumerate(places)]


def _anchor(key: Key) -> str:
    """The anchor on the page of the finding with this key."""
    code, fault = key
    return f"{code}-{fault}" if fault else code


def policy(css: str, script: str) -> str:
    """The Content-Security-Policy: it allows only this style and this script, and no network at all."""
    return (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def asset(name: str) -> str:
    """The text of a file of the report's page assets."""
    return (files("hermes.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def template() -> Template:
    """The compiled Jinja2 template; a caller with time to spare before the report is ready may call this first."""
    return environment().get_template(_TEMPLATE)


@cache
def environment() -> Environment:
    """The Jinja2 environment of the templates: it escapes all output, and says messages in the page's language."""
    made = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters.update(
        duration=format.duration,
        fraction=format.fraction,
        number=format.number,
        ranks=format.ranks,
        confidence=format.confidence,
        listing=format.listing,
        whole=format.numbers,
        clip=_clip,
        said=_said,
    )
    made.globals.update(
        between=format.between,
        label=value_labels.label,
        gain_range=value_labels.gain_range,
        sure=value_labels.sure,
        on_ranks=value_labels.on_ranks,
        on_steps=value_labels.on_steps,
        blames=_blames,
        explained_by=value_labels.explained_by,
        more=value_labels.more,
        foot=value_labels.this_page,
        input_note=value_labels.note,
        newline=Markup("\n"),
        subject=subject,
        layers=_LAYERS,
        parts=_PARTS,
        tree_words=_TREE_WORDS,
        share=format.share,
        text_limit=table_cells.NAME_LIMIT,
        counted=format.counted,
        lines=_lines,
        is_example=is_example,
        is_named=_NAMED.match,
        unprofiled_sentence=plan_words.unprofiled_sentence,
        beyond_words=plan_words.beyond_words,
        noise_sentence=plan_words.noise_sentence,
        nothing_sentence=plan_words.nothing_sentence,
        share_words=plan_words.share_words,
        together_sentence=plan_words.together_sentence,
        who_words=plan_words.who_words,
    )
    return made


def _blames(finding: Finding) -> Message:
    left = len(finding.blames) - _BLAMES
    more = value_labels.also_blames(n=left) if left > 0 else None
    return value_labels.blames(names=[format.clip(one, 120) for one in finding.blames[:_BLAMES]], more=more)


def _lines(text: str) -> Markup:
    """Several lines as written, each harmless and escaped: a code change must keep its lines."""
    return Markup("\n").join(
        escape(format.clip(format.harmless_line(line), 400)) for line in text.splitlines()[:_LINES]
    )


@pass_context
def _shown(context: Context, value: object) -> object:
    """Convert the value of a template expression before it is escaped: messages are said in the page's language."""
    if isinstance(value, Message):
        value = context["tell"](value)
    return format.harmless_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@pass_context
def _said(context: Context, text: Text, limit: int) -> str:
    """A text of Hermes in the page's language; a sentence that is no message yet is translated by its pattern."""
    said: str = context["tell"](text)
    return format.clip(said, limit)


@pass_context
def _clip(context: Context, text: Text, limit: int) -> str:
    return format.clip(context["tell"](text) if isinstance(text, Message) else text, limit)
