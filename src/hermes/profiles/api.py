"""What other wings and faces may use of profiles; each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.lazy import names_of

if TYPE_CHECKING:
    from hermes.profiles.advise.operator_work import work_list as work_list
    from hermes.profiles.compare.changes import compare as compare
    from hermes.profiles.compare.reports import compared as compared
    from hermes.profiles.compare.reports import run_of as run_of
    from hermes.profiles.compare.run import Found as Found
    from hermes.profiles.compare.run import Run as Run
    from hermes.profiles.engines.choose import engine_of as engine_of
    from hermes.profiles.engines.engine import Engine as Engine
    from hermes.profiles.load import Loaded as Loaded
    from hermes.profiles.load import RankData as RankData
    from hermes.profiles.load import load as load
    from hermes.profiles.measure.path.flame import flame as flame
    from hermes.profiles.pipeline.analyze import analyze as analyze
    from hermes.profiles.pipeline.analyze import outlined as outlined
    from hermes.profiles.pipeline.analyze import prepare as prepare
    from hermes.profiles.pipeline.whatif import step_of as step_of
    from hermes.profiles.query import query as query
    from hermes.profiles.query import sizes as sizes
    from hermes.profiles.read.operator_runs import kernels_alone as kernels_alone
    from hermes.profiles.read.query import literal as literal
    from hermes.profiles.rules import ALL as ALL
    from hermes.profiles.rules.pages import page_of as page_of
    from hermes.profiles.timeline import ALL_STRETCHES as ALL_STRETCHES
    from hermes.profiles.timeline import Cut as Cut
    from hermes.profiles.timeline import first_moment as first_moment
    from hermes.profiles.timeline import timeline as timeline
    from hermes.profiles.whatif.changes import Change as Change
    from hermes.profiles.whatif.changes import candidates as candidates
    from hermes.profiles.whatif.changes import changes_of as changes_of
    from hermes.profiles.whatif.changes import parse as parse
    from hermes.profiles.whatif.job import JobStep as JobStep
    from hermes.profiles.whatif.kept import restored as restored
    from hermes.profiles.whatif.kept import save as save
    from hermes.profiles.whatif.replay import Prediction as Prediction
    from hermes.profiles.whatif.replay import in_order as in_order
    from hermes.profiles.whatif.replay import predict as predict
    from hermes.profiles.whatif.replay import predictions as predictions
    from hermes.profiles.whatif.replay import replay as replay
    from hermes.profiles.whatif.timing import KINDS as KINDS
    from hermes.profiles.whatif.timing import Timings as Timings
    from hermes.profiles.whatif.timing import timings as timings

_HOMES = {
    "ALL": "hermes.profiles.rules",
    "page_of": "hermes.profiles.rules.pages",
    "ALL_STRETCHES": "hermes.profiles.timeline",
    "Change": "hermes.profiles.whatif.changes",
    "Cut": "hermes.profiles.timeline",
    "Engine": "hermes.profiles.engines.engine",
    "Found": "hermes.profiles.compare.run",
    "JobStep": "hermes.profiles.whatif.job",
    "KINDS": "hermes.profiles.whatif.timing",
    "Loaded": "hermes.profiles.load",
    "Prediction": "hermes.profiles.whatif.replay",
    "RankData": "hermes.profiles.load",
    "Run": "hermes.profiles.compare.run",
    "Timings": "hermes.profiles.whatif.timing",
    "analyze": "hermes.profiles.pipeline.analyze",
    "candidates": "hermes.profiles.whatif.changes",
    "compare": "hermes.profiles.compare.changes",
    "compared": "hermes.profiles.compare.reports",
    "engine_of": "hermes.profiles.engines.choose",
    "first_moment": "hermes.profiles.timeline",
    "flame": "hermes.profiles.measure.path.flame",
    "in_order": "hermes.profiles.whatif.replay",
    "literal": "hermes.profiles.read.query",
    "load": "hermes.profiles.load",
    "outlined": "hermes.profiles.pipeline.analyze",
    "prepare": "hermes.profiles.pipeline.analyze",
    "changes_of": "hermes.profiles.whatif.changes",
    "parse": "hermes.profiles.whatif.changes",
    "predict": "hermes.profiles.whatif.replay",
    "predictions": "hermes.profiles.whatif.replay",
    "query": "hermes.profiles.query",
    "replay": "hermes.profiles.whatif.replay",
    "restored": "hermes.profiles.whatif.kept",
    "run_of": "hermes.profiles.compare.reports",
    "save": "hermes.profiles.whatif.kept",
    "sizes": "hermes.profiles.query",
    "step_of": "hermes.profiles.pipeline.whatif",
    "timeline": "hermes.profiles.timeline",
    "timings": "hermes.profiles.whatif.timing",
    "kernels_alone": "hermes.profiles.read.operator_runs",
    "work_list": "hermes.profiles.advise.operator_work",
}

__getattr__ = names_of(__name__, _HOMES)
