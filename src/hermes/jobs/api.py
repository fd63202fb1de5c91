"""The names of `hermes.jobs` that other packages and the command line may use; each is imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.lazy_imports import lazy_names

if TYPE_CHECKING:
    from hermes.jobs import analyze_capture as analyze_capture
    from hermes.jobs import capture_document as capture_document
    from hermes.jobs import capture_messages as capture_messages
    from hermes.jobs import change_alarm_thresholds as change_alarm_thresholds
    from hermes.jobs import detection_document as detection_document
    from hermes.jobs import messages as messages
    from hermes.jobs import metrics as metrics
    from hermes.jobs import rank_positions as rank_positions
    from hermes.jobs import request_capture as request_capture
    from hermes.jobs import saved_hang as saved_hang
    from hermes.jobs.alarms_in_step_log import Detection as Detection
    from hermes.jobs.alarms_in_step_log import ExplainedAlarm as ExplainedAlarm
    from hermes.jobs.alarms_in_step_log import detect_in as detect_in
    from hermes.jobs.capture_policy import CapturePolicy as CapturePolicy
    from hermes.jobs.capture_policy import Trouble as Trouble
    from hermes.jobs.check_capture_request import check_capture_request as check_capture_request
    from hermes.jobs.connections import LEAST_TRIES as LEAST_TRIES
    from hermes.jobs.connections import Connection as Connection
    from hermes.jobs.detect.alarm import Alarm as Alarm
    from hermes.jobs.detect.alarm_findings import of_alarm as of_alarm
    from hermes.jobs.detect.causes import Cause as Cause
    from hermes.jobs.detect.causes import Spent as Spent
    from hermes.jobs.detect.messages import choices as choices
    from hermes.jobs.detect.messages import quoted as quoted
    from hermes.jobs.dynamic_config import ProfileRequest as ProfileRequest
    from hermes.jobs.dynamic_config import write_config as write_config
    from hermes.jobs.events import events as events
    from hermes.jobs.failure_reasons import reason as reason
    from hermes.jobs.job_view import JobView as JobView
    from hermes.jobs.job_view import RankView as RankView
    from hermes.jobs.job_view import bandwidth_lines as bandwidth_lines
    from hermes.jobs.kineto_daemon import daemon as daemon
    from hermes.jobs.kineto_daemon import kineto_messages as kineto_messages
    from hermes.jobs.kineto_daemon.daemon import Capture as Capture
    from hermes.jobs.kineto_daemon.daemon import RankProgress as RankProgress
    from hermes.jobs.overview import Overview as Overview
    from hermes.jobs.past_job_rows import DAY_NS as DAY_NS
    from hermes.jobs.past_job_rows import CaptureHow as CaptureHow
    from hermes.jobs.past_job_rows import JobDay as JobDay
    from hermes.jobs.past_job_rows import LateRank as LateRank
    from hermes.jobs.past_job_rows import PastCapture as PastCapture
    from hermes.jobs.past_job_rows import PastJob as PastJob
    from hermes.jobs.past_job_rows import SlowSteps as SlowSteps
    from hermes.jobs.past_jobs import past_jobs as past_jobs
    from hermes.jobs.pending_collectives import GroupProgress as GroupProgress
    from hermes.jobs.pending_collectives import PendingCollective as PendingCollective
    from hermes.jobs.prune import prune as prune
    from hermes.jobs.request_capture import CaptureWish as CaptureWish
    from hermes.jobs.request_capture import RequestedCapture as RequestedCapture
    from hermes.jobs.request_capture import answers_of_ranks as answers_of_ranks
    from hermes.jobs.request_capture import cancel as cancel
    from hermes.jobs.request_capture import find_job as find_job
    from hermes.jobs.request_capture import follow as follow
    from hermes.jobs.request_capture import is_finished as is_finished
    from hermes.jobs.request_capture import latest_capture as latest_capture
    from hermes.jobs.request_capture import progress_of_ranks as progress_of_ranks
    from hermes.jobs.request_capture import request_capture_of_job as request_capture_of_job
    from hermes.jobs.request_capture import said_by as said_by
    from hermes.jobs.running_analyses import analysed as analysed
    from hermes.jobs.stall_limits import ALARM as ALARM
    from hermes.jobs.stall_limits import ASKED as ASKED
    from hermes.jobs.steps_around_profile import Change as Change
    from hermes.jobs.steps_around_profile import changes as changes
    from hermes.jobs.steps_around_profile import logged as logged
    from hermes.jobs.watch_job import Watcher as Watcher
    from hermes.jobs.webhook import Webhook as Webhook

_HOMES = {
    "DAY_NS": "hermes.jobs.past_job_rows",
    "CaptureHow": "hermes.jobs.past_job_rows",
    "PastCapture": "hermes.jobs.past_job_rows",
    "JobDay": "hermes.jobs.past_job_rows",
    "LateRank": "hermes.jobs.past_job_rows",
    "PastJob": "hermes.jobs.past_job_rows",
    "SlowSteps": "hermes.jobs.past_job_rows",
    "past_jobs": "hermes.jobs.past_jobs",
    "LEAST_TRIES": "hermes.jobs.connections",
    "Connection": "hermes.jobs.connections",
    "GroupProgress": "hermes.jobs.pending_collectives",
    "PendingCollective": "hermes.jobs.pending_collectives",
    "ALARM": "hermes.jobs.stall_limits",
    "ASKED": "hermes.jobs.stall_limits",
    "Alarm": "hermes.jobs.detect.alarm",
    "ProfileRequest": "hermes.jobs.dynamic_config",
    "RequestedCapture": "hermes.jobs.request_capture",
    "Capture": "hermes.jobs.kineto_daemon.daemon",
    "Cause": "hermes.jobs.detect.causes",
    "Change": "hermes.jobs.steps_around_profile",
    "Detection": "hermes.jobs.alarms_in_step_log",
    "ExplainedAlarm": "hermes.jobs.alarms_in_step_log",
    "JobView": "hermes.jobs.job_view",
    "Overview": "hermes.jobs.overview",
    "RankProgress": "hermes.jobs.kineto_daemon.daemon",
    "CapturePolicy": "hermes.jobs.capture_policy",
    "RankView": "hermes.jobs.job_view",
    "Trouble": "hermes.jobs.capture_policy",
    "Watcher": "hermes.jobs.watch_job",
    "Webhook": "hermes.jobs.webhook",
    "CaptureWish": "hermes.jobs.request_capture",
    "analysed": "hermes.jobs.running_analyses",
    "answers_of_ranks": "hermes.jobs.request_capture",
    "analyze_capture": "hermes.jobs.analyze_capture",
    "request_capture_of_job": "hermes.jobs.request_capture",
    "bandwidth_lines": "hermes.jobs.job_view",
    "cancel": "hermes.jobs.request_capture",
    "changes": "hermes.jobs.steps_around_profile",
    "daemon": "hermes.jobs.kineto_daemon.daemon",
    "detect_in": "hermes.jobs.alarms_in_step_log",
    "events": "hermes.jobs.events",
    "find_job": "hermes.jobs.request_capture",
    "is_finished": "hermes.jobs.request_capture",
    "check_capture_request": "hermes.jobs.check_capture_request",
    "follow": "hermes.jobs.request_capture",
    "kineto_messages": "hermes.jobs.kineto_daemon.kineto_messages",
    "latest_capture": "hermes.jobs.request_capture",
    "saved_hang": "hermes.jobs.saved_hang",
    "metrics": "hermes.jobs.metrics",
    "logged": "hermes.jobs.steps_around_profile",
    "progress_of_ranks": "hermes.jobs.request_capture",
    "of_alarm": "hermes.jobs.detect.alarm_findings",
    "prune": "hermes.jobs.prune",
    "reason": "hermes.jobs.failure_reasons",
    "rank_positions": "hermes.jobs.rank_positions",
    "said_by": "hermes.jobs.request_capture",
    "detection_document": "hermes.jobs.detection_document",
    "messages": "hermes.jobs.messages",
    "choices": "hermes.jobs.detect.messages",
    "quoted": "hermes.jobs.detect.messages",
    "Spent": "hermes.jobs.detect.causes",
    "change_alarm_thresholds": "hermes.jobs.change_alarm_thresholds",
    "capture_document": "hermes.jobs.capture_document",
    "capture_messages": "hermes.jobs.capture_messages",
    "request_capture": "hermes.jobs.request_capture",
    "write_config": "hermes.jobs.dynamic_config",
}

__getattr__ = lazy_names(__name__, _HOMES)
