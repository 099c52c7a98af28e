"""The network of a score file, checked wherever a result would be taken for that of another.

Invariant: before anything is learnt from both, scores of another network, or with reversed sign,
are refused with one message; a check that is impossible is reported as not done, and never assumed
to succeed. A threshold, weights or a result of another network may be meant, and are remarked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.errors import AsdfError
from asdf.runs.layout import NetworkName, layout_of_score_file, network_of_score_file
from asdf.runs.streams import descriptor_of, input_name, show_error
from asdf.trials.how_scored import FULL, entry_path
from asdf.trials.run_folder import RunFolder
from asdf.trials.scored_files import how_scored, read_how_scored

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector
    from asdf.trials.score_file import Scores


TOLERANCES = {FULL: 1e-3, "tf32": 0.01, "bf16": 0.05}
"""Relative tolerance of a score from the network's in fp32 on this machine, or absolute
tolerance for scores below 1, by the precision in which the score was computed. Scores on other
machines are within it, those of another epoch of a training hardly ever."""

_TOLERANCE_NOT_KNOWN = TOLERANCES["tf32"]


def network_of(path: Path) -> str | None:
    """Return the digest of the network that made a score file; None if it is not stated."""
    stated = read_how_scored(path)
    return None if stated is None else stated.network


def warn_of_other_network(path: Path, what: str, source: str, theirs: str | None) -> None:
    """Show a warning if what is applied to a score file is of another network, as far as is known.

    Args:
        what: Name of what is applied to the scores, such as 'threshold'.
        source: Score file, or network, that it is from.
        theirs: Digest of the network of `source`.
    """
    ours = network_of(path)
    if theirs is not None and ours is not None and theirs != ours:
        show_error(
            f"warning: the {what} of {source} is of another network (SHA-256 {theirs[:12]}...) "
            f"than the scores in {input_name(path)} ({ours[:12]}...). Score both sets with one."
        )


def replaced_network(path: Path) -> str:
    """Return a remark if the network file of a run is not the one that made its scores; else ''."""
    layout, name = layout_of_score_file(path), network_of_score_file(path)
    stated = network_of(path)
    if layout is None or name is None or stated is None:
        return ""
    file = layout.network_file(name)
    with suppress(OSError, AsdfError):
        # This time cannot be set, so the weights of an older file, of gigabytes, are not read.
        changed = file.stat().st_ctime_ns
        if changed > entry_path(path).stat().st_mtime_ns and _digest(file, changed) != stated:
            return (
                f"the scores in {path} are not of the present {file.name}, which was replaced "
                "after them: score the set again (stage 2)"
            )
    return ""


@lru_cache
def _digest(file: Path, _: int) -> str:
    """Return the digest of a network file, once for all sets that it scored."""
    from asdf.interchange import network_digest

    return network_digest(file)


def check_networks_of(
    networks: Sequence[str], paths: Sequence[Path], scores: Sequence[Scores], folder: Path | None
) -> None:
    """Check the score file of each network, in the same order; report skipped checks.

    Raises:
        AsdfError: scores are of another network, or have a reversed sign.
    """
    from asdf.interchange import network_digest

    digests = [network_digest(network) for network in networks]
    for network, path, own, digest in zip(networks, paths, scores, digests, strict=True):
        stated = network_of(path)
        if stated == digest:
            continue
        if stated in digests:
            right = networks[digests.index(stated)]
            raise AsdfError(
                f"{path} was scored with {right}, not with {network}: give networks and score "
                "files in the same order."
            )
        _check_by_scoring(network, path, own, folder, digest_differs=stated is not None)


def _check_by_scoring(
    network: str, path: Path, scores: Scores, folder: Path | None, *, digest_differs: bool
) -> None:
    """Score two recordings of a score file with a network, and compare."""
    # The trials with the lowest and the highest score, which differ most.
    chosen = [int(np.argmin(scores.scores)), int(np.argmax(scores.scores))]
    names = [scores.ids[index] for index in chosen]
    recordings = locate_recordings(names, path, folder)
    reason = "the recordings of its trials were not found; --folder gives their location"
    if recordings is not None:
        # Plain fp32 on the CPU, from which the tolerances are measured.
        detector = open_as_scored(network, path, device="cpu", engine="plain")
        reason = detector if isinstance(detector, str) else ""
        computed: dict[int, float] = {}
        for result in () if isinstance(detector, str) else detector.score_many(recordings):
            if result.raw is None:
                reason = f"{result.name} cannot be scored: {result.error}"
                break
            computed[result.index] = result.raw
        if not reason:
            stated = [float(scores.scores[index]) for index in chosen]
            _compare(network, path, names, stated, [computed[0], computed[1]])
            return
    if digest_differs:
        raise AsdfError(
            f"{input_name(path)} was scored with another network than {network}: the digest next "
            f"to it differs, and two of its recordings could not be scored for a comparison "
            f"({reason}). Score the list again: python -m asdf score {network} LIST --scores OUT"
        )
    show_error(
        f"warning: could not check that {input_name(path)} was scored with {network}: {reason}. "
        f"{_likely_network(network, path)}LLRs are meaningless if the scores are from another "
        "network."
    )


def locate_recordings(ids: Sequence[str], path: Path, folder: Path | None) -> list[Path] | None:
    """Return the recordings of a score file's trials; None if one is missing.

    Args:
        folder: Folder that the trials are relative to; None: the usual folders.
    """
    for base in _folders(path, folder):
        recordings = [base / utterance for utterance in ids]
        if all(map(os.path.isfile, recordings)):
            return recordings
    return None


def _folders(path: Path, folder: Path | None) -> Iterator[Path]:
    """Yield the folders that the trials of a score file may be relative to."""
    if folder is not None:
        yield folder
        return
    # Paths in the file may be absolute, or relative to the current folder.
    yield Path()
    if descriptor_of(path) is not None:
        return
    yield path.parent
    layout = layout_of_score_file(path.absolute())
    if layout is None:
        return
    database = RunFolder(layout.system).database_folder()
    if database is not None:
        yield database
        # A set is in the folder of its corpus.
        if database.is_dir():
            yield from sorted(entry for entry in database.iterdir() if entry.is_dir())


def open_as_scored(network: str, path: Path, **options: Any) -> Detector | str:
    """Open a network at the length that a score file states, or return why it cannot be.

    Args:
        options: Other arguments of `Detector`.
    """
    from asdf.scoring.detector import Detector

    length = how_scored(path).length
    try:
        detector = Detector(network, **options)
        if length not in (None, detector.length):
            detector = Detector(network, full_length=True, **options)
            if length != detector.length:
                return "it was scored with another length than that of the network"
    except AsdfError as error:
        return str(error)
    return detector


def _compare(
    network: str,
    path: Path,
    names: Sequence[str],
    stated: Sequence[float],
    computed: Sequence[float],
) -> None:
    relative = TOLERANCES.get(how_scored(path).precision or "", _TOLERANCE_NOT_KNOWN)
    tolerance = relative * np.maximum(1.0, np.abs(computed))
    if (np.abs(np.subtract(stated, computed)) <= tolerance).all():
        return
    cause = f"They are probably from another network. {_likely_network(network, path)}"
    if (np.abs(np.add(stated, computed)) <= tolerance).all():
        cause = "The signs are reversed: a higher score must mean bona fide. "
    of_file, of_network = (f"{low:.6g} and {high:.6g}" for low, high in (stated, computed))
    raise AsdfError(
        f"{input_name(path)} does not contain scores of {network}: {' and '.join(names)} have "
        f"{of_file} there, but the network gives {of_network}. {cause}Score the list again: "
        f"python -m asdf score {network} LIST --scores OUT"
    )


def _likely_network(network: str, path: Path) -> str:
    """Return the network that the folder of scores indicates, if it is another one."""
    scored = network_of_score_file(path.resolve()) if descriptor_of(path) is None else None
    name = Path(network).resolve()
    if scored is None or scored == NetworkName(name.stem):
        return ""
    return f"Their folder suggests that they are from {scored.file}, not {name.name}. "
