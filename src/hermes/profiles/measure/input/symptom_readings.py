"""Declares the readings of the input pipeline that symptoms of cases compare."""

from __future__ import annotations

from hermes.model.input_measures import Fetches, InputCopies, InputQueue, InputRates
from hermes.model.symptom import WINDOW, ratio, text

ratio(Fetches, "input.wait_share", "waiting for batches while the device is free", "device_free_ns", "steps", WINDOW)
ratio(Fetches, "input.variation", "longest such call over the median", "longest_ns", "median_ns", unit="ratio")
ratio(Fetches, "input.long_share", "fetches that found no batch ready", "long", "fetches")
text(Fetches, "input.loader", "`main process` or `workers`", "kind")
ratio(Fetches, "input.early_share", "batches that came before the one that was due", "early", "fetches")
ratio(Fetches, "input.epoch_share", "making iterators, of the capture", "epoch_ns", "steps", WINDOW)
ratio(Fetches, "input.reading_share", "reading, of the time of fetches in the main process", "reading_ns", "wait_ns")
ratio(
    Fetches,
    "input.processing_share",
    "processing, of the time of fetches in the main process",
    "processing_ns",
    "wait_ns",
)
ratio(
    InputQueue,
    "input.queue_empty",
    "samples in which a queue was empty",
    "empty",
    by="queue",
    of=("data", "host", "device"),
)
ratio(
    InputRates,
    "input.supply",
    "batches that reading and processing give over those that the loop would take",
    "supply",
    "demand",
    unit="ratio",
)
ratio(
    InputRates,
    "input.copy_supply",
    "batches that copies allow over those that the loop would take",
    "fetching",
    "demand",
    unit="ratio",
)
ratio(
    InputRates,
    "input.workers_over_cores",
    "workers that would keep up over cores to spare",
    "workers_needed",
    "cores_free",
    unit="ratio",
)
ratio(InputCopies, "input.copy_share", "exposed copies from the host to the device", "exposed_ns", WINDOW, total=True)
ratio(InputCopies, "input.pageable_share", "bytes copied from pageable memory", "pageable_bytes", "bytes")
ratio(InputCopies, "input.copies", "copies from the host in a step", "copies", unit="count")
ratio(InputCopies, "input.copy_size", "mean size of such a copy", "bytes", "copies", unit="bytes")
