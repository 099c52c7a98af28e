"""The network that a service uses at a time.

Invariant: a request is answered by the network that it began with, even if another is loaded
meanwhile. The previous network is released with the last of its requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from asdf.scoring.detector import Detector
from asdf.scoring.document import Documents
from asdf.scoring.hearing import Hearing


# Compared by identity, as the key of what is shown about it.
@dataclass(frozen=True, eq=False)
class Served:
    """A network in use.

    Attributes:
        network: Path or name that the detector was opened by.
        documents: Maker of the answers.
        hearing: Scorer of recordings; a single object, so that pieces share forward passes.
    """

    detector: Detector
    network: str
    documents: Documents = field(init=False)
    hearing: Hearing = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "documents", Documents(self.detector, self.network))
        object.__setattr__(self, "hearing", self.detector.hearing)

    @property
    def digest(self) -> str | None:
        """SHA-256 of the network's file."""
        return self.documents.provenance.network_sha256
