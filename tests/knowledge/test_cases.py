"""The case base keeps its form: every entry complete, every symptom a known measure, every variable spelled right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from tests.each import each

from hermes.knowledge import cases
from hermes.knowledge.cases import Case, CaseError
from hermes.knowledge.cases.predicate import parse
from hermes.model.finding import Layer
from hermes.profiles.rules import ALL

ROOT = Path(__file__).resolve().parents[2]
EVERY = each(cases.cases(), lambda one: str(one.id))
# What looks like an environment variable in a cure and is none.
_OTHER_WORDS = {"FRACTAL_NZ", "AI_CPU", "AI_CORE", "AI_VECTOR_CORE", "ECAP_ACS"}
_VARIABLE = re.compile(r"(?<![\w.])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+_?(?!\w)")
# Sections of the report that are documented together with the analysis that makes them.
_WITH_THEIR_ANALYSIS = {"overlap", "input", "host", "memory", "compute", "communication", "pipeline", "balance",
                        "rank_matrix"}  # fmt: skip
_GOOD = """
[IO-01]
cause = "A cause"
symptoms = ["free.share > 0.1"]
confirm = "Look."
cure = "Mend it."
before = "a"
after = "b"
framework = "any"
chips = ["ascend"]
versions = "any"
gain = "none published"
risk = "none"
sources = ["book: page 1"]
checked = "yes"
"""


def written(one: Case) -> str:
    """All words of an entry but those of its sources."""
    texts = [
        one.cure,
        one.before,
        one.after,
        one.elsewhere,
        one.confirm,
        one.risk,
        one.versions,
        one.framework,
        *one.not_measured,
    ]
    return "\n".join([*texts, *(symptom.text for symptom in one.symptoms)])


def entry(folder: Path, text: str) -> tuple[Case, ...]:
    path = folder / "io.toml"
    path.write_text(text, "utf-8")
    return cases.read(path, "io", {"book": ("A book", "a shelf")})


# The base --------------------------------------------------------------------------------------------------------


def test_there_are_at_least_150_cases_and_some_in_each_layer() -> None:
    assert len(cases.cases()) >= 150
    assert tuple(cases.LAYERS) == get_args(Layer)
    assert all(len(cases.cases_of(layer)) >= 10 for layer in cases.LAYERS)


def test_ids_and_causes_are_used_once_and_ids_are_in_order() -> None:
    ids = [one.id for one in cases.cases()]
    assert len(set(ids)) == len(ids)
    assert len({one.cause for one in cases.cases()}) == len(ids)
    for layer, prefix in cases.LAYERS.items():
        assert [one.id for one in cases.cases_of(layer)] == sorted(i for i in ids if i.startswith(f"{prefix}-"))


@EVERY
def test_the_change_for_other_chips_names_nothing_of_ascend(one: Case) -> None:
    words = re.findall(r"npu|ascend|hccl|mindspeed", one.on(["cuda"]).after.lower()) if one.elsewhere else []
    assert words == []
    assert one.on(["ascend", "cuda"]).after == one.on([]).after == one.after
    assert not one.elsewhere or {"ascend"} < {*one.chips}
    assert one.elsewhere != one.after


@EVERY
def test_an_entry_says_enough_to_act_on(one: Case) -> None:
    assert len(one.confirm.split()) >= 4
    assert one.before != one.after
    assert len(one.cause.split()) >= 3
    assert not one.cause.endswith(".")


@EVERY
def test_a_gain_carries_a_figure_and_its_source(one: Case) -> None:
    assert (one.gain_source is None) is (one.gain == cases.NO_GAIN)
    assert one.gain == cases.NO_GAIN or re.search(r"\d", one.gain)


@EVERY
def test_every_environment_variable_is_spelled_as_its_source_spells_it(one: Case) -> None:
    named = set(_VARIABLE.findall(written(one))) - _OTHER_WORDS
    assert named - cases.variables().keys() == set()


@EVERY
def test_a_setting_in_a_symptom_is_a_variable_that_is_known(one: Case) -> None:
    assert {s.of for s in one.symptoms if s.measure == "setting"} <= cases.variables().keys()


def test_no_variable_is_in_the_list_for_nothing_and_none_is_a_known_misspelling() -> None:
    text = "\n".join(map(written, cases.cases()))
    assert [name for name in cases.variables() if not re.search(rf"(?<!\w){name}(?!\w)", text)] == []
    assert not {"HCCL_RDAM_TC", "ASCEND_GLOBAL_LOGLEVEL", "HCCL_INTRA_PCIE_ENABL"} & cases.variables().keys()


def test_every_source_is_cited_and_every_layer_file_is_read() -> None:
    titles = {title for title, _ in cases.sources().values()}
    cited = {c.title for one in cases.cases() for c in (*one.sources, one.gain_source) if c is not None}
    assert titles - cited == set()
    names = {path.stem for path in (ROOT / "src/hermes/knowledge/cases").glob("*.toml")}
    assert names == {*cases.LAYERS, "sources", "variables"}


@EVERY
def test_references_to_other_cases_lead_somewhere(one: Case) -> None:
    for prefix, number in re.findall(r"\b(IO|CPU|CMP|COM|MEM|PAR|ENV)-(\d\d)\b", written(one)):
        assert cases.case(f"{prefix}-{number}") not in (None, one)


def test_the_operator_knowledge_of_fusion_memory_and_loading_is_there() -> None:
    topics = ("fusing", "overwritten", "recompute", "core", "prefetch_factor", "half")
    assert all(cases.find([topic], cases.cases()) for topic in topics)
    assert cases.find(["article", "fusion", "rules"], cases.cases())[0].id == "CMP-35"


# Predicates ------------------------------------------------------------------------------------------------------


def test_a_predicate_holds_or_not_and_is_open_where_nothing_was_measured() -> None:
    more = parse("free.share > 0.1")
    assert (more.holds(0.2), more.holds(0.1), more.holds(None)) == (True, False, None)
    assert parse("step.variation >= 2").holds(2)
    assert not parse("step.variation <= 2").holds(2.5)


def test_a_setting_is_compared_as_text_so_that_1_is_not_true() -> None:
    equal, other = parse("setting[TASK_QUEUE_ENABLE] == 2"), parse("setting[TASK_QUEUE_ENABLE] != 2")
    assert (equal.of, equal.holds("2"), equal.holds("2.0")) == ("TASK_QUEUE_ENABLE", True, False)
    assert (other.holds("unset"), other.holds("2"), other.holds(None)) == (True, False, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("free.share", "no comparison"),
        ("free.share>0.1", "no comparison"),
    ],
)
def test_a_predicate_of_the_wrong_form_is_refused_and_told_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


# Form ------------------------------------------------------------------------------------------------------------


def test_an_entry_of_the_right_form_is_read_whole(tmp_path: Path) -> None:
    (one,) = entry(tmp_path, _GOOD)
    assert (one.id, one.layer, one.symptoms[0].text, one.is_lead) == ("IO-01", "io", "free.share > 0.1", False)
    assert (one.sources[0].title, one.sources[0].place, one.sources[0].where) == ("A book", "page 1", "a shelf")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[IO-01]", "[CPU-01]", "not of the form IO-01"),
        ('cause = "A cause"', 'cause = ""', "cause is empty"),
        ('cause = "A cause"', "cause = 3", "cause is no text"),
        ('cure = "Mend it."', "", "missing: \\['cure'\\]"),
        ('risk = "none"', 'risk = "none"\nprice = "high"', "unknown: \\['price'\\]"),
        ('symptoms = ["free.share > 0.1"]', "symptoms = []", "neither symptoms nor not_measured"),
        ('symptoms = ["free.share > 0.1"]', 'symptoms = ["luck is 0.1"]', "no comparison"),
        ('symptoms = ["free.share > 0.1"]', 'symptoms = "free.share > 0.1"', "no list of texts"),
        ('chips = ["ascend"]', 'chips = ["abacus"]', "not abacus"),
        ('gain = "none published"', 'gain = "twice as fast"', "a gain has a gain_source"),
        ('sources = ["book: page 1"]', 'sources = ["hearsay"]', "no source 'hearsay'"),
        ('sources = ["book: page 1"]', "sources = []", "sources are empty"),
        ('checked = "yes"', 'checked = "perhaps"', "checked is 'yes', or 'no, '"),
        ('risk = "none"', "risk = none", "not TOML"),
    ],
)
def test_an_entry_of_the_wrong_form_is_refused_with_its_file_and_name(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    assert old in _GOOD
    with pytest.raises(CaseError, match=why) as refused:
        entry(tmp_path, _GOOD.replace(old, new))
    assert refused.value.where.startswith("io.toml")


# Search ----------------------------------------------------------------------------------------------------------


def test_search_finds_by_any_words_in_any_case_and_puts_causes_first() -> None:
    found = [one.id for one in cases.find(["hccl_buffsize"], cases.cases())]
    assert {"COM-24", "MEM-09"} <= set(found)
    assert cases.find(["Garbage", "rank"], cases.cases())[0].id == "CPU-31"
    assert cases.find(["no such word at all"], cases.cases()) == []


def test_what_was_checked_comes_before_leads() -> None:
    found = cases.find(["pytorch"], cases.cases())
    named = [one for one in found if "pytorch" not in one.cause.lower()]
    assert [one.is_lead for one in named] == sorted(one.is_lead for one in named)
    assert any(one.is_lead for one in named)


def test_a_case_is_found_by_its_id_in_either_case_and_nothing_by_a_wrong_one() -> None:
    found = cases.case("io-01")
    assert found is not None
    assert found.id == "IO-01"
    assert cases.case("IO-99") is None
    assert cases.case("workers") is None


@pytest.mark.parametrize(
    "name",
    [
        "ASCEND_GLOBAL_LOG_LEVEL", "HCCL_RDMA_TC", "HCCL_RDMA_SL", "ACLNN_CACHE_LIMIT", "HOST_CACHE_CAPACITY",
        "PYTORCH_NPU_ALLOC_CONF", "ASCEND_LAUNCH_BLOCKING",
    ],
)  # fmt: skip
def test_each_variable_that_the_vendor_s_advisor_looks_at_is_the_cure_of_a_case_that_a_rule_brings(name: str) -> None:
    named = {one.id for one in cases.cases() if name in f"{one.before} {one.after}"}
    assert named & {case for rule in ALL for case in rule.cases}
