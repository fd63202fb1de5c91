"""What other wings and faces may use of jobs; each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.lazy import names_of

if TYPE_CHECKING:
    from hermes.jobs import aside as aside
    from hermes.jobs import capture_messages as capture_messages
    from hermes.jobs import captures as captures
    from hermes.jobs import change_alarm_thresholds as change_alarm_thresholds
    from hermes.jobs import detection_document as detection_document
    from hermes.jobs import fitting as fitting
    from hermes.jobs import messages as messages
    from hermes.jobs import metrics as metrics
    from hermes.jobs.alarms_in_step_log import Detection as Detection
    from hermes.jobs.alarms_in_step_log import Explained as Explained
    from hermes.jobs.alarms_in_step_log import detect_in as detect_in
    from hermes.jobs.captures import Asked as Asked
    from hermes.jobs.captures import Wish as Wish
    from hermes.jobs.captures import answers as answers
    from hermes.jobs.captures import ask as ask
    from hermes.jobs.captures import cancel as cancel
    from hermes.jobs.captures import find_job as find_job
    from hermes.jobs.captures import finished as finished
    from hermes.jobs.captures import follow as follow
    from hermes.jobs.captures import latest as latest
    from hermes.jobs.captures import progress as progress
    from hermes.jobs.captures import said_by as said_by
    from hermes.jobs.detect.alarm import Alarm as Alarm
    from hermes.jobs.detect.causes import Cause as Cause
    from hermes.jobs.detect.causes import Spent as Spent
    from hermes.jobs.detect.findings import of_alarm as of_alarm
    from hermes.jobs.detect.messages import choices as choices
    from hermes.jobs.detect.messages import quoted as quoted
    from hermes.jobs.dynamic_config import Ask as Ask
    from hermes.jobs.dynamic_config import write as write
    from hermes.jobs.events import events as events
    from hermes.jobs.history import Change as Change
    from hermes.jobs.history import changes as changes
    from hermes.jobs.history import logged as logged
    from hermes.jobs.kineto_daemon import daemon as daemon
    from hermes.jobs.kineto_daemon import kineto_messages as kineto_messages
    from hermes.jobs.kineto_daemon.daemon import Capture as Capture
    from hermes.jobs.kineto_daemon.daemon import Part as Part
    from hermes.jobs.overview import Overview as Overview
    from hermes.jobs.prune import prune as prune
    from hermes.jobs.reasons import reason as reason
    from hermes.jobs.view import JobView as JobView
    from hermes.jobs.view import RankView as RankView
    from hermes.jobs.view import bandwidth_lines as bandwidth_lines
    from hermes.jobs.watch import Watcher as Watcher
    from hermes.jobs.watch import analysed as analysed
    from hermes.jobs.webhook import Webhook as Webhook

_HOMES = {
    "Alarm": "hermes.jobs.detect.alarm",
    "Ask": "hermes.jobs.dynamic_config",
    "Asked": "hermes.jobs.captures",
    "Capture": "hermes.jobs.kineto_daemon.daemon",
    "Cause": "hermes.jobs.detect.causes",
    "Change": "hermes.jobs.history",
    "Detection": "hermes.jobs.alarms_in_step_log",
    "Explained": "hermes.jobs.alarms_in_step_log",
    "JobView": "hermes.jobs.view",
    "Overview": "hermes.jobs.overview",
    "Part": "hermes.jobs.kineto_daemon.daemon",
    "RankView": "hermes.jobs.view",
    "Watcher": "hermes.jobs.watch",
    "Webhook": "hermes.jobs.webhook",
    "Wish": "hermes.jobs.captures",
    "analysed": "hermes.jobs.watch",
    "answers": "hermes.jobs.captures",
    "aside": "hermes.jobs.aside",
    "ask": "hermes.jobs.captures",
    "bandwidth_lines": "hermes.jobs.view",
    "cancel": "hermes.jobs.captures",
    "changes": "hermes.jobs.history",
    "daemon": "hermes.jobs.kineto_daemon.daemon",
    "detect_in": "hermes.jobs.alarms_in_step_log",
    "events": "hermes.jobs.events",
    "find_job": "hermes.jobs.captures",
    "finished": "hermes.jobs.captures",
    "fitting": "hermes.jobs.fitting",
    "follow": "hermes.jobs.captures",
    "kineto_messages": "hermes.jobs.kineto_daemon.kineto_messages",
    "latest": "hermes.jobs.captures",
    "metrics": "hermes.jobs.metrics",
    "logged": "hermes.jobs.history",
    "progress": "hermes.jobs.captures",
    "of_alarm": "hermes.jobs.detect.findings",
    "prune": "hermes.jobs.prune",
    "reason": "hermes.jobs.reasons",
    "said_by": "hermes.jobs.captures",
    "detection_document": "hermes.jobs.detection_document",
    "messages": "hermes.jobs.messages",
    "choices": "hermes.jobs.detect.messages",
    "quoted": "hermes.jobs.detect.messages",
    "Spent": "hermes.jobs.detect.causes",
    "change_alarm_thresholds": "hermes.jobs.change_alarm_thresholds",
    "capture_messages": "hermes.jobs.capture_messages",
    "captures": "hermes.jobs.captures",
    "write": "hermes.jobs.dynamic_config",
}

__getattr__ = names_of(__name__, _HOMES)
