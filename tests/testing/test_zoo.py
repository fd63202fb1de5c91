"""The zoo: its entries are whole, its scoring says what it should, and one program is run, profiled and named."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.judgement.zoo.__main__ import main
from bench.judgement.zoo.entry import ENTRIES, PROGRAMS, Entry
from bench.judgement.zoo.measure import measure
from bench.judgement.zoo.page import into_page, line, summary_lines
from bench.judgement.zoo.runner import Nursery, Variant
from bench.judgement.zoo.score import Named, Result, Times, summary
from bench.judgement.zoo.store import save, stored
from tests.each import each

from hermes.knowledge.cases import case

BLIND = [entry for entry in ENTRIES if entry.blind]
CAUSE = Entry(
    name="planted", file="host", program="tiny_ops", layer="cpu", causes=("CPU-29",), also=("CPU-12",),
    monitor=("data work",), cure="one operator",
)  # fmt: skip
CONTROL = Entry(name="sound", file="healthy", program="perceptron", layer="compute", kind="control")
TIE = replace(CAUSE, kind="tie", causes=("IO-02", "CPU-46"), also=())
TWICE = Times(slow=(10.0, 12.0, 11.0), fixed=(5.0, 6.0, 5.5), again=(5.0, 6.3, 5.5))
SAME = Times(slow=(10.0, 10.0), fixed=(), again=(9.0, 9.0))
LOOP = Named(code="CPU009", cases=("CPU-29",), case="CPU-29", confidence=0.7, gain=0.45)
OTHER = Named(code="CMP002", cases=("CMP-23",), case="", confidence=0.5, gain=0.1)
INPUT = Named(code="IO001", cases=("IO-02",), case="IO-02", confidence=0.9, gain=0.2)
GC = Named(code="CPU006", cases=("CPU-30", "CPU-46"), case="CPU-30", confidence=0.9, gain=0.2)


def result(
    *named: Named,
    entry: Entry = CAUSE,
    times: Times = TWICE,
    watched: tuple[str, ...] = (),
    cured: tuple[Named, ...] = (),
) -> Result:
    return Result(entry=entry, times=times, named=named, cured=cured, watched=watched)


def test_there_are_enough_entries_of_every_layer_and_kind_in_both_halves() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES) >= 30
    public = {entry.public for entry in ENTRIES if entry.public}
    assert len(public) == 15
    for half in ("tuned", "held-out"):
        own = [entry for entry in ENTRIES if entry.half == half]
        assert len(own) >= 15
        assert {"io", "cpu", "compute", "communication", "environment", "memory"} <= {entry.layer for entry in own}
        assert {"cause", "decoy", "control"} <= {entry.kind for entry in own}


@each(ENTRIES, lambda entry: entry.name)
def test_an_entry_names_known_cases_and_a_program_that_is_there(entry: Entry) -> None:
    assert [one for one in (*entry.causes, *entry.also, *entry.never) if case(one) is None] == []
    assert f"def {entry.program}(*, slow: bool)" in entry.path.read_text("utf-8")
    assert bool(entry.causes) == entry.has_cure
    assert entry.profiled >= entry.period or entry.period == 1


def test_the_half_of_an_entry_is_settled_by_its_name() -> None:
    assert {entry.name: entry.half for entry in ENTRIES if entry.name in ("fp64", "leak")} == {
        "fp64": "held-out", "leak": "tuned",
    }  # fmt: skip


def test_what_was_written_without_knowing_the_rules_is_held_out() -> None:
    assert [entry.name for entry in BLIND if entry.half != "held-out"] == []
    assert {"io", "cpu", "compute", "communication", "memory", "parallelism"} <= {entry.layer for entry in BLIND}
    healthy = [entry.kind for entry in BLIND if not entry.causes]
    assert (healthy.count("control"), healthy.count("decoy")) == (5, 7)


def test_gain_and_noise_are_middles_over_pairs() -> None:
    assert TWICE.ratio == 2.0
    assert TWICE.gain == 0.5
    assert TWICE.gain_ms == 5.5
    assert TWICE.noise == 0.0
    assert SAME.ratio is None
    assert SAME.noise == pytest.approx(0.1)


def test_the_cause_counts_first_by_itself_or_by_what_says_the_same() -> None:
    assert result(LOOP, OTHER).first
    assert result(replace(LOOP, cases=("CPU-12",))).first
    assert not result(OTHER, LOOP).first
    assert result(OTHER, LOOP).among_three
    assert not result(OTHER, OTHER, OTHER, LOOP).among_three
    assert not result().first


def test_of_a_tie_both_causes_must_be_among_three() -> None:
    assert result(INPUT, GC, entry=TIE).among_three
    assert result(INPUT, OTHER, entry=TIE).first
    assert not result(INPUT, OTHER, entry=TIE).among_three
    assert result(INPUT, GC, entry=TIE).predicted == pytest.approx(0.4)


def test_what_no_profile_can_tell_is_judged_by_the_monitor() -> None:
    entry = replace(CAUSE, only_monitor=True)
    assert result(entry=entry, watched=("data work", "periodic")).first
    assert not result(LOOP, entry=entry, watched=("periodic",)).among_three
    assert summary([result(entry=entry, watched=("data work",))]).exact.of == 0


def test_a_cause_that_costs_nothing_here_is_not_judged() -> None:
    idle = replace(TWICE, fixed=(9.8, 11.9, 11.0))
    assert not result(LOOP, times=idle).judged
    assert summary([result(times=idle), result(LOOP)]).first.of == 1
    assert result(times=idle, entry=replace(CAUSE, trend=True)).judged
    # Noise of half a step hides a cause that would double it.
    assert not result(LOOP, times=replace(TWICE, again=(15.0, 18.0, 16.5))).judged


def test_a_false_alarm_is_confident_and_above_the_noise() -> None:
    said = [replace(OTHER, gain=0.2), replace(OTHER, gain=0.05), replace(OTHER, gain=0.2, confidence=0.4)]
    assert result(*said, entry=CONTROL, times=SAME).false_alarms == (said[0],)
    assert result(said[0]).false_alarms == ()
    assert str(summary([result(*said, entry=CONTROL, times=SAME)]).quiet) == "0 of 1 (0%)"


def test_a_predicted_gain_is_near_within_a_quarter_of_the_measured_one() -> None:
    assert result(LOOP).near
    assert not result(replace(LOOP, gain=0.3)).near
    assert not result(replace(LOOP, gain=0.9)).near
    assert not result(OTHER).gain_judged
    assert not result(LOOP, times=replace(TWICE, fixed=(9.0, 10.0, 9.0))).gain_judged


def test_a_cause_that_is_named_after_its_cure_is_told() -> None:
    assert summary([result(LOOP, cured=(LOOP,)), result(LOOP, cured=(OTHER,))]).gone.good == 1


@pytest.mark.live
def test_the_page_gets_figures_and_what_was_missed_and_keeps_what_is_around(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- results zoo -->\nold\n<!-- end zoo -->\nafter\n", "utf-8")
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install --group torch")
    missed = result(OTHER, LOOP, entry=replace(CAUSE, name="second"))
    into_page(page, [result(LOOP), missed, result(entry=CONTROL, times=SAME)], 5)
    text = page.read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "1 of 2 (50%)" in text
    assert "| `second` |" in text
    assert "| `planted` |" not in text


def test_a_stored_result_comes_back_as_it_was(tmp_path: Path) -> None:
    entry = next(one for one in ENTRIES if one.name == "tiny-ops")
    found = replace(result(LOOP, entry=entry, watched=("periodic",), cured=(GC,)), own=(OTHER,))
    save(found, tmp_path)
    assert stored(entry, tmp_path) == found
    assert stored(CONTROL, tmp_path) is None


def test_lines_say_the_verdict() -> None:
    assert "first" in line(result(LOOP))
    assert "MISSED" in line(result())
    assert "ALARM" in line(result(replace(OTHER, gain=0.3), entry=CONTROL, times=SAME))
    assert "1 of 1 (100%)" in summary_lines([result(LOOP)])[1]


@pytest.mark.live
def test_an_entry_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install --group torch")
    assert main(["--only", "gremlins"]) == 2
    assert "no such entry" in capsys.readouterr().err


@pytest.mark.slow
def test_a_program_is_run_with_its_cause_and_without_and_the_cause_is_named(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install --group torch")
    entry = next(one for one in ENTRIES if one.name == "optimizer-loop")
    with Nursery() as nursery:
        found = measure(nursery, entry, tmp_path / "zoo", repeats=1, own=False)
    assert len(found.times.slow) == len(found.times.fixed) == len(found.times.again) == 1
    assert found.among_three


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install --group torch")
    with Nursery() as one:
        yield one


@pytest.mark.parametrize("entry", BLIND, ids=lambda entry: entry.name)
@pytest.mark.slow
def test_a_program_trains_with_its_cause_and_without(nursery: Nursery, entry: Entry, tmp_path: Path) -> None:
    with (
        Variant(nursery, entry, "slow", tmp_path / "slow") as slow,
        Variant(nursery, entry, "fixed", tmp_path / "fixed") as fixed,
    ):
        for program in (slow, fixed):
            assert len(program.steps(max(3, entry.period))) == max(3, entry.period)


def _programs(name: str) -> Any:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install --group torch")
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.live
@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_cure_of_loops_and_pieces_computes_what_the_cause_computed() -> None:
    models = _programs("loops_and_pieces")
    torch = models.torch
    torch.manual_seed(0)
    edges = torch.randint(0, 20, (2, 90))
    for slow, fixed, x in (
        (*(models.Norm(8, formula=formula) for formula in (True, False)), torch.randn(4, 8)),
        (*(models.Sequences(3, 5, by_cell=by_cell) for by_cell in (True, False)), torch.randn(2, 7, 3)),
        (*(models.Neighbours(6, 20, edges, scatters=scatters) for scatters in (True, False)), torch.randn(20, 6)),
    ):
        fixed.load_state_dict(slow.state_dict())
        assert torch.allclose(slow(x), fixed(x), atol=1e-5)


@pytest.mark.live
def test_a_cure_of_tables_and_masks_computes_what_the_cause_computed() -> None:
    models = _programs("tables_and_masks")
    torch = models.torch
    torch.manual_seed(0)
    lengths = [7, 4, 6]
    scores, tags = torch.randn(3, 7, 5), torch.arange(21).view(3, 7) % 5
    by_text = models._mean_of_texts(scores, tags, lengths)
    assert torch.allclose(by_text, models._mean_of_places(scores, tags, torch.tensor(lengths)), atol=1e-6)
    assert models._window(lengths, 7, 2, lists=True).equal(models._window(lengths, 7, 2, lists=False))
    slow, fixed = (models.Turning(4, turns=turns) for turns in (True, False))
    x = torch.randn(2, 4, 3, 5)
    assert torch.allclose(slow(x), fixed(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), atol=1e-6)
    who, what = torch.arange(6) % 4, torch.arange(6) % 3
    steps = []
    for sparse in (False, True):
        torch.manual_seed(0)
        taste = models.Taste(4, 3, sparse=sparse)
        taste(who, what).sum().backward()
        torch.optim.SGD(taste.parameters(), lr=0.1).step()
        steps.append(torch.cat([taste.people.weight, taste.things.weight]).detach())
    assert torch.allclose(*steps, atol=1e-6)


@pytest.mark.live
def test_a_cure_of_maps_and_pairs_computes_what_the_cause_computed() -> None:
    models = _programs("maps_and_pairs")
    torch = models.torch
    torch.manual_seed(0)
    x = torch.randn(6, 5)
    assert torch.allclose(models._likeness(x, spread=True), models._likeness(x, spread=False), atol=1e-6)
    found = []
    for ready in (False, True):
        torch.manual_seed(0)
        found.append(models.Adapted(5, 2, ready=ready)(x))
    assert torch.allclose(*found, atol=1e-6)
    centres = [[(3.5, 7.0, 1.5), (9.0, 2.0, 3.0)], [(0.0, 11.0, 1.0), (5.0, 5.0, 2.0)]]
    assert torch.allclose(models._heat_of_each(centres, 12), models._heat_of_all(centres, 12), atol=1e-6)


@pytest.mark.live
def test_a_cure_of_fields_and_replays_computes_what_the_cause_computed() -> None:
    models, inputs = _programs("fields_and_shadows"), _programs("scans_and_replays")
    torch = models.torch
    rows = torch.stack([torch.arange(6) % 2, torch.arange(6) % 3], 1)
    for made, x in (
        (lambda slow: models.Fields([2, 3], 4, apart=slow), rows),
        (lambda slow: models.Block(8, 2, masks=slow), torch.randn(2, 5, 8)),
    ):
        found = []
        for slow in (True, False):
            torch.manual_seed(0)
            found.append(made(slow)(x))
        assert torch.allclose(*found, atol=1e-6)
    torch.manual_seed(0)
    whole, cut = inputs.Scans(whole=True), inputs.Scans(whole=False)
    cut._scans = whole._scans
    assert torch.allclose(whole[1], cut[1], atol=1e-6)
    moves = [inputs.Move([0.5] * 32, 3, -1.0, [0.25] * 32)] * 4
    for tuples in (True, False):
        kept = inputs.Kept(4, tuples=tuples)
        for move in moves:
            kept.put(move)
        state, action, earned, after = kept.some(2, inputs.random.Random(0))
        assert [float(part.sum()) for part in (state, action, earned, after)] == [32.0, 6.0, -2.0, 16.0]
