"""Descriptions of scores: in words, as a JSON document, and their provenance for citation.

Invariant: commands and programs describe a detector's scores alike. A digest equals what
`sha256sum` prints for the named file, so anyone can check it with other tools; dates are in UTC.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.interchange import find_network
from asdf.places import open_file
from asdf.runs.files import digest_of, sha256_of
from asdf.scoring.columns import ScoreColumn, join_placed
from asdf.text import AnyPath
from asdf.trials.how_scored import in_precision
from asdf.version import VERSION

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector


_PIECE = 2**20
# Entries that every heading has, in this order.
_ALWAYS = ("scores", "network", "kind", "threshold", "decision", "precision")
# File name in a folder that `export` or the hub writes.
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Provenance:
    """The program, network and options of scores.

    Attributes:
        asdf: Version of ASDF.
        torch: Version of torch; or of the library that computed a graph without it.
        network_sha256: Digest of the network, see `network_digest`; None: unknown.
        date: UTC date and time in ISO 8601, to the second.
        options: Options that scores depend on, as plain values.
    """

    asdf: str
    torch: str
    network_sha256: str | None
    date: str
    options: dict[str, Any]

    def entry(self) -> dict[str, Any]:
        """Return the fields as plain values: `made_by` in JSON."""
        return asdict(self)


def provenance_of(detector: Detector) -> Provenance:
    """Return the versions, the network's digest and the options of a detector.

    Raises:
        AsdfError: the network's file is gone.
    """
    options = {
        "threshold": detector.threshold,
        "precision": detector.precision,
        "engine": detector.engine,
        "device": detector.pipeline.scorer.device_type,
        "max_samples": detector.length.max_samples,
        "parts": detector.pipeline.summary.search is not None,
        "speech_check": detector.speech_check,
    }
    if detector.engine == "graph":
        import onnxruntime

        library = f"onnxruntime {onnxruntime.__version__}, without torch"
    else:
        import torch

        library = str(torch.__version__)
    return Provenance(VERSION, library, network_digest(detector.source), _now(), options)


def made_by(
    provenance: Provenance, trial: bool, window: tuple[float, float] | None, command: str
) -> dict[str, Any]:
    """Return `made_by` for scores that are made now.

    Args:
        trial: Whether they are trial scores.
        window: Length and hop of the windows, in seconds; None without windows.
        command: Command that reproduces the scores.
    """
    window_s, hop_s = window or (None, None)
    options = {**provenance.options, "trial": trial, "window": window_s, "hop": hop_s}
    # The present date, for a process that keeps running.
    now = replace(provenance, date=_now(), options=options)
    return {**now.entry(), "command": command}


def network_digest(network: AnyPath) -> str:
    """Digest a network's file with SHA-256.

    For a folder with weights and settings, it is the digest of its `model.safetensors`. For a fused
    system, it is the digest of its own file, which states the digests of all its networks; networks
    with other digests are refused on opening.

    Args:
        network: Path, or name on the hub.

    Raises:
        AsdfError: there is no such network, or it cannot be read.
    """
    path = find_network(network)
    weights = path / _WEIGHTS
    try:
        if weights.is_file():
            return sha256_of(weights)
        return digest_of(path) if path.is_dir() else sha256_of(path)
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}.") from None


def recording_digest(recording: AnyPath | bytes) -> str:
    """Digest the file of a recording with SHA-256, before decoding.

    Args:
        recording: Path, possibly of a file in a tar; or the file's content.

    Raises:
        AsdfError: it cannot be read.
    """
    if isinstance(recording, bytes):
        return hashlib.sha256(recording).hexdigest()
    digest = hashlib.sha256()
    try:
        with open_file(recording) as file:
            for piece in iter(lambda: file.read(_PIECE), b""):
                digest.update(piece)
    except OSError as error:
        raise AsdfError(f"cannot read {os.fspath(recording)}: {error.strerror or error}.") from None
    return digest.hexdigest()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Heading:
    """Description of the scores in a table.

    Attributes:
        scores: Recordings that were scored, in words: trials or whole recordings, and their length.
        network: Path of the network file, or its name on the hub with the commit.
        kind: Kind of the scores, 'score' or 'llr'.
        threshold: Lowest score of the verdict 'bona fide'; None: no verdicts.
        decision: Description of the threshold, in words.
        precision: Number format that the network computed in.
        calibration: Origin and limits of LLRs (`Calibration.summary`); None: not known.
        columns: Columns of the scores.
        made_by: Versions, digest, date and options (`asdf.scoring.document`), for JSON; None:
            omitted.
        remark: Sentence on what limits all scores of the network; ''.
    """

    scores: str
    network: str
    kind: str
    threshold: float | None
    decision: str
    precision: str = "fp32"
    calibration: dict[str, Any] | None = None
    columns: tuple[ScoreColumn, ...] = ()
    made_by: dict[str, Any] | None = None
    remark: str = ""

    def entries(self) -> dict[str, Any]:
        """Return the fields as plain values, without those that do not apply."""
        placed = [(0, {name: getattr(self, name) for name in _ALWAYS})]
        for place, name in ((20, "calibration"), (50, "made_by"), (55, "remark")):
            if getattr(self, name):
                placed.append((place, {name: getattr(self, name)}))
        placed += [(column.place[1], column.heading()) for column in self.columns]
        return join_placed(placed)


def make_heading(detector: Detector, network: str, are_trials: bool) -> Heading:
    """Return what the scores of a detector are, in words, with the threshold."""
    # The column is named by the kind, so that no reader takes raw scores for LLRs.
    calibration = detector.calibration
    kind = "score" if calibration is None else "llr"
    decision = ""
    threshold = detector.threshold
    if calibration is not None and threshold == calibration.threshold:
        decision = calibration.describe()
    elif threshold is not None:
        name = "a score" if calibration is None else "an LLR"
        decision = f"bona fide from {name} of {threshold:g} on"
    samples = detector.length.max_samples or 0
    if not are_trials:
        samples = detector.window_samples
    rate = detector.length.sample_rate
    at_rate = "" if rate == SAMPLE_RATE else f" at {rate / 1000:g} kHz"
    length = f"{samples:,} samples{at_rate} ({round(samples / rate, 2):g} s)"
    scores = f"trial scores of whole recordings up to {length}, of longer ones the beginning"
    if not are_trials:
        scores = (
            f"scores of whole recordings; of those longer than {length}, the mean over windows of "
            "that length"
        )
    elif detector.length.min_samples == samples:
        scores = f"trial scores of the first {length}, shorter recordings repeated"
    every = detector.pipeline.summary.columns
    columns = tuple(column for column in every if column.of_trials or not are_trials)
    return Heading(
        scores + in_precision(detector.precision),
        network,
        kind,
        threshold,
        decision,
        detector.precision,
        columns=columns,
        calibration=calibration.summary() if calibration else None,
        remark=detector.remark,
    )
