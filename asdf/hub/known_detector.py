"""What is known of a detector that others have published.

Invariant: what no source says is None, and shown as not known.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedEer:
    """An equal error rate as it was published.

    Attributes:
        percent: in %.
        remark: who measured it or how, where that is not the detector's `protocol`.
    """

    evaluation_set: str
    percent: float
    remark: str = ""


@dataclass(frozen=True)
class KnownDetector:
    """A detector that can be had, and what is known of it; None where the sources say nothing.

    Attributes:
        name: Name of the repository on the hub, or what its authors call it.
        on_hub: whether it is downloaded by its name.
        trained_on, trained_on_short: the sets, in words, and in few words for a table.
        overlap: Sets that are training data, so that EERs on them mean little, in words.
        protocol: Part of a recording that the authors score.
        parameters: their number as stated.
        licence: Licence of the weights.
        size_bytes, sha256: Size and SHA-256 of the file with the weights.
        weights: where they are.
        command: Command by which ASDF takes them.
        paper: its arXiv number, or the conference.
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
        """Name of the file with the weights, as the command takes it; '' of the hub."""
        return "" if self.on_hub else self.command.split()[-2]
