"""The public names of `profiles` for commands and web pages; each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.lazy_imports import lazy_names

if TYPE_CHECKING:
    from hermes.profiles.advise.operator_work import work_list as work_list
    from hermes.profiles.compare.changes import compare as compare
    from hermes.profiles.compare.reports import compared as compared
    from hermes.profiles.compare.reports import run_of as run_of
    from hermes.profiles.compare.run import ComparedFinding as ComparedFinding
    from hermes.profiles.compare.run import ComparedRun as ComparedRun
    from hermes.profiles.engines.choose import engine_of as engine_of
    from hermes.profiles.engines.engine import Engine as Engine
    from hermes.profiles.load import Loaded as Loaded
    from hermes.profiles.load import RankData as RankData
    from hermes.profiles.load import load as load
    from hermes.profiles.measure.path.flame import flame as flame
    from hermes.profiles.pipeline.analyze import analyze as analyze
    from hermes.profiles.pipeline.analyze import outlined as outlined
    from hermes.profiles.pipeline.analyze import prepare as prepare
    from hermes.profiles.pipeline.load_replay_step import step_of as step_of
    from hermes.profiles.pipeline.remote_ranks import QUESTIONS as QUESTIONS
    from hermes.profiles.pipeline.remote_ranks import RemoteRanks as RemoteRanks
    from hermes.profiles.pipeline.remote_ranks import answer_text as answer_text
    from hermes.profiles.pipeline.remote_ranks import folder_text as folder_text
    from hermes.profiles.pipeline.remote_ranks import loaded_elsewhere as loaded_elsewhere
    from hermes.profiles.pipeline.search_inputs import communication_plan as communication_plan
    from hermes.profiles.read.operator_runs import kernels_alone as kernels_alone
    from hermes.profiles.read.query import literal as literal
    from hermes.profiles.rules import ALL as ALL
    from hermes.profiles.rules.rule_pages import page_of as page_of
    from hermes.profiles.sql_query import query as query
    from hermes.profiles.sql_query import table_sizes as table_sizes
    from hermes.profiles.timeline import ALL_STRETCHES as ALL_STRETCHES
    from hermes.profiles.timeline import TimelineCut as TimelineCut
    from hermes.profiles.timeline import first_moment as first_moment
    from hermes.profiles.timeline import timeline as timeline
    from hermes.profiles.whatif.changes import StepChange as StepChange
    from hermes.profiles.whatif.changes import candidates as candidates
    from hermes.profiles.whatif.changes import changes_of as changes_of
    from hermes.profiles.whatif.changes import parse as parse
    from hermes.profiles.whatif.communication.document import plan_document as plan_document
    from hermes.profiles.whatif.replay import Prediction as Prediction
    from hermes.profiles.whatif.replay import in_order as in_order
    from hermes.profiles.whatif.replay import predict as predict
    from hermes.profiles.whatif.replay import predictions as predictions
    from hermes.profiles.whatif.replay import replay as replay
    from hermes.profiles.whatif.saved_step import restored as restored
    from hermes.profiles.whatif.saved_step import save as save
    from hermes.profiles.whatif.step_event_graph import JobStep as JobStep
    from hermes.profiles.whatif.step_timings import KINDS as KINDS
    from hermes.profiles.whatif.step_timings import Timings as Timings
    from hermes.profiles.whatif.step_timings import timings as timings
    from hermes.store.derived_results import code as code

_HOMES = {
    "ALL": "hermes.profiles.rules",
    "page_of": "hermes.profiles.rules.rule_pages",
    "ALL_STRETCHES": "hermes.profiles.timeline",
    "StepChange": "hermes.profiles.whatif.changes",
    "TimelineCut": "hermes.profiles.timeline",
    "RemoteRanks": "hermes.profiles.pipeline.remote_ranks",
    "Engine": "hermes.profiles.engines.engine",
    "ComparedFinding": "hermes.profiles.compare.run",
    "JobStep": "hermes.profiles.whatif.step_event_graph",
    "KINDS": "hermes.profiles.whatif.step_timings",
    "Loaded": "hermes.profiles.load",
    "Prediction": "hermes.profiles.whatif.replay",
    "QUESTIONS": "hermes.profiles.pipeline.remote_ranks",
    "RankData": "hermes.profiles.load",
    "ComparedRun": "hermes.profiles.compare.run",
    "Timings": "hermes.profiles.whatif.step_timings",
    "answer_text": "hermes.profiles.pipeline.remote_ranks",
    "analyze": "hermes.profiles.pipeline.analyze",
    "candidates": "hermes.profiles.whatif.changes",
    "code": "hermes.store.derived_results",
    "communication_plan": "hermes.profiles.pipeline.search_inputs",
    "compare": "hermes.profiles.compare.changes",
    "compared": "hermes.profiles.compare.reports",
    "engine_of": "hermes.profiles.engines.choose",
    "first_moment": "hermes.profiles.timeline",
    "folder_text": "hermes.profiles.pipeline.remote_ranks",
    "flame": "hermes.profiles.measure.path.flame",
    "in_order": "hermes.profiles.whatif.replay",
    "loaded_elsewhere": "hermes.profiles.pipeline.remote_ranks",
    "literal": "hermes.profiles.read.query",
    "load": "hermes.profiles.load",
    "outlined": "hermes.profiles.pipeline.analyze",
    "prepare": "hermes.profiles.pipeline.analyze",
    "changes_of": "hermes.profiles.whatif.changes",
    "parse": "hermes.profiles.whatif.changes",
    "plan_document": "hermes.profiles.whatif.communication.document",
    "predict": "hermes.profiles.whatif.replay",
    "predictions": "hermes.profiles.whatif.replay",
    "query": "hermes.profiles.sql_query",
    "replay": "hermes.profiles.whatif.replay",
    "restored": "hermes.profiles.whatif.saved_step",
    "run_of": "hermes.profiles.compare.reports",
    "save": "hermes.profiles.whatif.saved_step",
    "table_sizes": "hermes.profiles.sql_query",
    "step_of": "hermes.profiles.pipeline.load_replay_step",
    "timeline": "hermes.profiles.timeline",
    "timings": "hermes.profiles.whatif.step_timings",
    "kernels_alone": "hermes.profiles.read.operator_runs",
    "work_list": "hermes.profiles.advise.operator_work",
}

__getattr__ = lazy_names(__name__, _HOMES)
