"""Provenance of a score, for citation and reproduction: versions, digests, date, options.

Invariant: a digest equals what `sha256sum` prints for the named file, so anyone can check it with
other tools; dates are in UTC.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from asdf.errors import AsdfError
from asdf.interchange import find_network
from asdf.places import open_file
from asdf.runs.files import digest_of, sha256_of
from asdf.text import AnyPath
from asdf.version import VERSION

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector

_PIECE = 2**20
# File name in a folder that `export` or the hub writes.
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Provenance:
    """The program, network and options of scores.

    Attributes:
        asdf: Version of ASDF.
        torch: Version of torch.
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

    def now(self) -> Provenance:
        """Return the same provenance with the present date, for a process that keeps running."""
        return replace(self, date=_now())


def describe(network: AnyPath, options: Mapping[str, Any]) -> Provenance:
    """Describe the scores that a network gives from now on; read its file for the digest.

    Args:
        network: Path of the network, or its name on the hub, as in `Detector.source`.
        options: Options that scores depend on, by name; values that are not plain become text.

    Raises:
        AsdfError: as `network_digest`.
    """
    plain = {name: _as_plain(value) for name, value in options.items()}
    return Provenance(VERSION, str(torch.__version__), network_digest(network), _now(), plain)


def provenance_of(detector: Detector) -> Provenance:
    """Return the versions, the network's digest and the options of a detector.

    Raises:
        AsdfError: the network's file is gone.
    """
    options = {
        "threshold": detector.threshold,
        "precision": detector.precision,
        "engine": detector.engine,
        "device": detector.device.type,
        "max_samples": detector.length.max_samples,
        "parts": detector.hearing.summary.search is not None,
        "speech_check": detector.speech_check,
    }
    return describe(detector.source, options)


def made_by(
    provenance: Provenance, trial: bool, window: tuple[float, float] | None, command: str
) -> dict[str, Any]:
    """Return `made_by` for scores that are made now.

    Args:
        trial: Whether they are trial scores.
        window: Length and hop of the windows, in seconds; None without windows.
        command: Command that reproduces the scores.
    """
    entry = provenance.now().entry()
    window_s, hop_s = window or (None, None)
    options = {**entry["options"], "trial": trial, "window": window_s, "hop": hop_s}
    return {**entry, "options": options, "command": command}


def score_command(
    detector: Detector,
    network: str,
    recording: str,
    trial: bool,
    window: tuple[float, float] | None,
) -> str:
    """Return the command that scores a recording as a detector does.

    Folders on the detector's machine are omitted, because they mean nothing elsewhere.

    Args:
        network: Name of the network's file, or its name on the hub.
        recording: Name of the recording's file.
        trial, window: Kind of the score and its windows, as in `made_by`.
    """
    arguments = detector.arguments
    words = ["asdf-antispoofing", "score", network, recording]
    for name in ("device", "threads", "precision", "engine", "threshold"):
        if arguments.get(name) is not None:
            # The form with '=' is needed because a threshold may begin with a minus sign.
            words.append(f"--{name}={arguments[name]}")
    if arguments.get("full_length"):
        words.append("--full-length")
    if not arguments.get("parts", True):
        words.append("--no-parts")
    if trial:
        words.append("--trial")
    if window is not None:
        words += [f"--window={window[0]:g}", f"--hop={window[1]:g}"]
    return shlex.join([*words, "--json=-"])


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


def _as_plain(value: Any) -> Any:
    """Return a value in a form that JSON can represent."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [_as_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
