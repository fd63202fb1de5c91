"""What an expert says of one real profile."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.model.fault import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the published cure of a cause gave: the step takes `share` less, told by `source`."""

    fault: Fault
    share: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What somebody who knows the field says of a profile, with the sentence of evidence it rests on.

    `path` lies below the folder of real profiles. `bounds` are the components that may be called the bound. `first` are
    the causes of which one is to be named first; empty where no loss is to be told. `wide` are the causes of which one
    is to be among the first three besides. `never` are no causes here, wherever they stand. `inference`: advice on
    training is out of place. `devices` are the kinds of chips whose names may stand in advice.
    """

    path: str
    job: str
    bounds: tuple[str, ...]
    first: tuple[Fault, ...]
    evidence: str
    devices: tuple[str, ...]
    wide: tuple[Fault, ...] = ()
    never: tuple[Fault, ...] = ()
    inference: bool = False
    measured: Measured | None = None

    @property
    def name(self) -> str:
        """The profile's name, without what its files end with."""
        return self.path.rsplit("/", 1)[-1].split(".json")[0].split(".tar")[0]
