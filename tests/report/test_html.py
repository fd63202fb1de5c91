"""The HTML page as text: what stands in it, in which order, and what cannot get into it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, pairwise

import pytest

from hermes.model.report import Report
from hermes.model.step_measures import KernelTop
from hermes.report import palette
from hermes.report.html import render_html

VOID = {"meta", "link", "br", "input", "wbr", "img"}
ALL = ["real", "hostile", "many", "unmeasured", "empty"]


class _Page(HTMLParser):
    """Collects tags and text, and checks that every element is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"script", "style"}:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(params=ALL)
def any_report(request: pytest.FixtureRequest) -> Report:
    report = request.getfixturevalue(request.param)
    assert isinstance(report, Report)
    return report


def test_every_element_is_closed_and_every_id_is_unique(any_report: Report) -> None:
    page = _Page(render_html(any_report))
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)


def test_every_link_within_the_page_has_its_target(any_report: Report) -> None:
    page = _Page(render_html(any_report))
    targets = {value[1:] for name, value in page.attributes if name == "href" and value and value[0] == "#"}
    assert targets <= set(page.ids)


def test_equal_reports_give_equal_pages(any_report: Report) -> None:
    assert render_html(any_report) == render_html(any_report)


def test_the_page_holds_one_script_and_one_style_and_policy_allows_just_these(any_report: Report) -> None:
    html = render_html(any_report)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    for pattern, directive in (
        (r"<style>(.*?)</style>", "style-src"),
        (r'<script type="module">(.*?)</script>', "script-src"),
    ):
        (content,) = re.findall(pattern, html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} &#39;sha256-{digest}&#39;" in policy[1]
    assert policy[1].startswith("default-src &#39;none&#39;")
    assert "unsafe" not in policy[1]


def test_nothing_is_loaded_and_no_handler_or_inline_style_is_written(any_report: Report) -> None:
    page = _Page(render_html(any_report))
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on") or name in {"src", "srcset", "style", "action"}}
    assert page.tags["img"] + page.tags["iframe"] + page.tags["object"] == 0
    # One script that runs, and one that is data.
    assert (page.tags["script"], page.tags["style"], page.tags["link"]) == (2, 1, 1)


def test_names_of_the_trace_stay_text(hostile: Report) -> None:
    page = _Page(render_html(hostile))
    for name in (
        "<script>alert(1)</script>",
        "</script><img src=x onerror=alert(1)>",
        '"><svg onload=alert(1)>',
    ):
        assert name in page.text
    assert "{{ 7 * 7 }}" in page.text


def test_only_https_sources_become_links(hostile: Report) -> None:
    page = _Page(render_html(hostile))
    links = {value for name, value in page.attributes if name == "href" and value and not value.startswith("#")}
    assert links == {"data:,", 'https://x/"onmouseover="alert(1)'}


def test_direction_overrides_and_broken_bytes_do_not_reach_the_page(hostile: Report) -> None:
    html = render_html(hostile)
    html.encode("utf-8")
    assert not set(html) & set("\x1b\x9b\x07\u202e\u2066\u200b\r")


def test_what_is_missing_and_the_verdict_come_first(real: Report) -> None:
    text = _Page(render_html(real)).text
    places = [
        text.index(words)
        for words in (
            "only ranks 0 and 1 of 8 were collected",
            "two transfers name no peer",
            "1 step of 130 ms on 2 of 8 ranks",
            "Where the time goes",
            "Explanations, in the order of the tree",
            "The split of each step",
            "Rank by rank",
            "The step by Ascend's definition",
            "Waits inside collectives, by peer",
            "Coverage and diagnostics",
            "Captures",
        )
    ]
    assert places[:9] == sorted(places[:9])


def test_the_split_shows_each_part_with_its_share(real: Report) -> None:
    text = _Page(render_html(real)).text
    assert "130 ms 8.87 ms 6.8% 96.0 ms 73.9% 12.0 us <0.1% 25.0 ms 19.3%" in text


def test_the_segments_of_a_bar_touch_and_end_at_the_window(real: Report) -> None:
    html = render_html(real)
    (bar,) = re.findall(r'<td class="bar">(.*?)</td>', html.split("rank 1, step 50", 1)[0], re.DOTALL)
    rects = [(int(x), int(w)) for x, w in re.findall(r'x="(\d+)" y="0" width="(\d+)"', bar)]
    assert rects[0][0] == 0
    assert all(x + w == following for (x, w), (following, _) in pairwise(rects))
    assert sum(rects[-1]) == 10_000


def test_a_loss_shows_evidence_against_its_threshold_and_all_of_its_action(real: Report) -> None:
    text = _Page(render_html(real)).text
    assert "longest wait for one peer 86.2 ms 5.00 ms communication.json, hcom_allReduce__271_0_1" in text
    for word in ("Do Start the profiler", "Verify The wait of rank 0", "Risk None beyond", "Source https://"):
        assert word in text


def test_the_difference_to_the_profilers_file_is_named(real: Report) -> None:
    assert "differs in stage by -0.125 us, preparing by +0.038 us" in _Page(render_html(real)).text


def test_what_was_not_measured_is_said_and_not_zero(unmeasured: Report) -> None:
    page = render_html(unmeasured)
    text = _Page(page).text
    assert "47.2 ms not measured not measured not measured not measured" in text
    assert "Not measured in this input: whole capture, by rank, close to the critical path" in text
    # What ran beside the host's operators was measured: nothing did.
    assert "0.0%" not in page.split('id="steps"')[1].split("</section>")[0]


def test_an_empty_report_has_no_chart_and_says_so(empty: Report) -> None:
    page = _Page(render_html(empty))
    assert page.tags["svg"] == 0
    assert "Not measured: no step and no device task was found." in page.text


def test_a_single_rank_has_no_chart_over_ranks(unmeasured: Report) -> None:
    assert "Rank by rank" not in _Page(render_html(unmeasured)).text


def test_ranks_that_were_not_collected_keep_their_place_in_the_charts(real: Report) -> None:
    html = render_html(real)
    assert html.count('class="gap"') >= 5 * 6
    assert "rank 7: not collected or not measured" in html


def test_a_long_table_is_cut_and_says_how_much_is_left(many: Report) -> None:
    html = render_html(many)
    section = html.split('id="steps"')[1].split("</section>")[0]
    assert section.count("<tr>") == 1 + 200
    assert "312 more rows in report.json" in section


def test_a_thousand_ranks_share_columns(many: Report) -> None:
    steps = tuple(replace(many.steps[0], rank=rank) for rank in range(1000))
    wide = replace(many, steps=steps, coverage=replace(many.coverage, ranks_expected=1000))
    html = render_html(wide)
    plot = html.split('<svg class="plot"')[1].split("</svg>")[0]
    assert plot.count("<rect") == 125
    assert "the most of ranks 992 to 999" in plot


def test_a_mad_number_of_ranks_draws_a_page_of_usual_size(real: Report) -> None:
    mad = replace(real, coverage=replace(real.coverage, ranks_expected=10**15))
    assert len(render_html(mad)) < 310_000


def test_a_very_long_name_is_cut_and_says_so(hostile: Report) -> None:
    html = render_html(hostile)
    assert "K" * 2_001 not in html
    assert "more characters)" in html


def test_a_long_name_can_be_reached_by_keyboard_and_is_whole(real: Report) -> None:
    name = real.rows(KernelTop)[-1].name
    assert f'<span tabindex="0" title="{name}"'.replace("<4", "&lt;4").replace('>"', '&gt;"') in render_html(real)


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return red, green, blue


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (_rgb(one), _rgb(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "panel", "warn-panel"])
@pytest.mark.parametrize("text", ["ink", "muted", "link", "warn"])
def test_text_meets_wcag_aa(colours: dict[str, str], ground: str, text: str) -> None:
    assert _contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("mark", ["compute", "comm", "wait", "copy", "host", "edge"])
def test_marks_stand_out_from_the_page(colours: dict[str, str], mark: str) -> None:
    assert _contrast(colours[mark], colours["paper"]) >= 3.0


# Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB.
_SIGHT = {
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def _lab(colour: str, sight: str) -> tuple[float, float, float]:
    r, g, b = (min(max(sum(m * c for m, c in zip(row, _rgb(colour), strict=True)), 0), 1) for row in _SIGHT[sight])
    x, y, z = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    fx, fy, fz = (c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sight", sorted(_SIGHT))
@pytest.mark.parametrize(("one", "other"), list(combinations(["compute", "comm", "wait", "copy", "host", "free"], 2)))
def test_meanings_differ_for_every_kind_of_sight(colours: dict[str, str], sight: str, one: str, other: str) -> None:
    apart = zip(_lab(colours[one], sight), _lab(colours[other], sight), strict=True)
    assert sum((a - b) ** 2 for a, b in apart) ** 0.5 >= 15
