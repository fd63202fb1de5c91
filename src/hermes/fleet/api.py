"""What faces may use of the fleet; each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.lazy import names_of

if TYPE_CHECKING:
    from hermes.fleet.check import check as check
    from hermes.fleet.exporter import address as address
    from hermes.fleet.exporter import families as families
    from hermes.fleet.exporter import messages as messages
    from hermes.fleet.exporter.exporter import DEVICES_S as DEVICES_S
    from hermes.fleet.exporter.exporter import LOOK_S as LOOK_S
    from hermes.fleet.exporter.exporter import Exporter as Exporter
    from hermes.fleet.exporter.otlp import Push as Push
    from hermes.fleet.exporter.serve import Server as Server
    from hermes.fleet.exporter.serve import served as served
    from hermes.fleet.probe import plan as plan
    from hermes.fleet.probe import probe as probe

_HOMES = {
    "DEVICES_S": "hermes.fleet.exporter.exporter",
    "LOOK_S": "hermes.fleet.exporter.exporter",
    "Exporter": "hermes.fleet.exporter.exporter",
    "Push": "hermes.fleet.exporter.otlp",
    "Server": "hermes.fleet.exporter.serve",
    "check": "hermes.fleet.check.check",
    "address": "hermes.fleet.exporter.address",
    "families": "hermes.fleet.exporter.families",
    "messages": "hermes.fleet.exporter.messages",
    "plan": "hermes.fleet.probe.plan",
    "probe": "hermes.fleet.probe.probe",
    "served": "hermes.fleet.exporter.serve",
}

__getattr__ = names_of(__name__, _HOMES)
