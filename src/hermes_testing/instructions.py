"""The instructions of a modelled rank's program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes_testing.job import Group
from hermes_testing.profile import Kernel

Phase = Literal["forward", "backward", "optimizer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Fetch a batch from the DataLoader and copy it to the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Run one operator. `pair` joins a forward operator with its autograd `node`, which frees its output."""

    op: str
    inner: str
    kernels: tuple[Kernel, ...]
    phase: Phase
    pair: str = ""
    node: str = ""
    extra: Literal["", "recompilation", "ai_cpu_operators"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicate:
    """Launch an operation; the compute stream waits for it here, or at an `Await` of its `handle`.

    `fused` is a kernel that carries it out itself, on the compute stream.
    """

    group: Group
    op: str
    bytes: int
    phase: Phase
    stream: int
    handle: str = ""
    peer: int | None = None
    fused: Kernel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulate:
    """Take the gradient of one parameter of this shape, as autograd does once it is computed."""

    shape: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """Let the compute stream wait for an operation launched before."""

    handle: str
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Copy one number to the host, which waits for the compute stream. `extra`: a fault put it here."""

    phase: Phase
    extra: Literal["", "synchronisation_calls"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """Stop the main thread for a garbage collection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enter:
    """Begin a Python call (`frame`) or a framework range that encloses what follows."""

    name: str
    kind: Literal["frame", "module", "range"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """End what the last `Enter` began."""


Instruction = Load | Run | Communicate | Accumulate | Await | Item | Collect | Enter | Leave
