"""Facts about a published detector.

Invariant: a fact that no source states is None, and shown as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedEer:
    """A published equal error rate.

    Attributes:
        percent: Equal error rate, in %.
        remark: Source or method of the measurement, if it is not the detector's `protocol`.
    """

    evaluation_set: str
    percent: float
    remark: str = ""


@dataclass(frozen=True)
class KnownDetector:
    """A published detector with its facts; None for facts that the sources do not state.

    Attributes:
        name: Name of the repository on the hub, or the authors' name.
        on_hub: Whether it is downloaded by its name.
        trained_on, trained_on_short: Training sets in words, and in short for a table.
        overlap: Sets that are training data, on which EERs mean little, in words.
        protocol: Part of a recording that the authors score.
        parameters: Number of parameters, as stated.
        licence: Licence of the weights.
        size_bytes, sha256: Size and SHA-256 of the file with the weights.
        weights: Location of the weights.
        command: Command by which ASDF reads them.
        paper: Number of the paper on arXiv, or the conference.
    """

    name: str
    trained_on: str
    trained_on_short: str
    protocol: str
    weights: str
    command: str
    paper: str
    on_hub: bool = False
    overlap: str | None = None
    eers: tuple[PublishedEer, ...] = ()
    parameters: str | None = None
    licence: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None

    @property
    def short_name(self) -> str:
        """Name without the organisation."""
        return self.name.rpartition("/")[2]

    @property
    def file(self) -> str:
        """Name of the file with the weights, as in the command; '' if it is on the hub."""
        return "" if self.on_hub else self.command.split()[-2]  # python -m asdf import FILE net.pt
