"""Titles of the parts, and of the columns, of documents about precision."""

from __future__ import annotations

from hermes.base.message import sentence

CODE = sentence("precision.title.code")
CHAIN = sentence("precision.title.chain")
OPERATORS = sentence("precision.title.operators")
MODULES = sentence("precision.title.modules")
AMPLIFIERS = sentence("precision.title.amplifiers")
SIDES = sentence("precision.title.sides")

OPERATOR = sentence("precision.column.operator")
MODULE = sentence("precision.column.module")
LINE = sentence("precision.column.line")
APART = sentence("precision.column.apart")
AMPLIFICATION = sentence("precision.column.amplification")
STATE = sentence("precision.column.state")
RANK = sentence("precision.column.rank")
STEP = sentence("precision.column.step")
PHASE = sentence("precision.column.phase")
SHAPE = sentence("precision.column.shape")
DTYPE = sentence("precision.column.dtype")
INPUTS = sentence("precision.column.inputs_apart")
OUTPUTS = sentence("precision.column.outputs_apart")
TOLERANCE = sentence("precision.column.of_tolerance")
KNOWN_BY = sentence("precision.column.known_by")
COSINE = sentence("precision.column.cosine")
LARGEST = sentence("precision.column.largest")
AGAINST = sentence("precision.column.against")
SIDE = sentence("precision.column.side")
ROUNDOFFS = sentence("precision.column.roundoffs")
