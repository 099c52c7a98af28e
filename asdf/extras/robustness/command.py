"""Measure the effect of codecs, noise, rooms etc. on detectors: EER, minDCF and Cllr by grade.

    python -m asdf robustness network.pt dev_list.txt --output robustness
    python -m asdf robustness a.pt b.pt dev_list.txt --output both   # compare on the same copies
    python -m asdf robustness network.pt dev_list.txt --output r --only white --grades white=5,-5
    python -m asdf robustness                                        # all degradations

Each recording of the list is degraded and scored as a trial. Misses and false alarms are counted at
one threshold: that of the network, or of equal error rates on clean speech. Differences are tested
on the same recordings. FOLDER gets report.html, results.csv, .json, .tex and .txt, and a score file
for each network and condition. After a stop, the same command resumes.

Exit status: 0 all recordings measured, 1 some were left out, 2 error in the command line.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.lists import read_recordings
from asdf.commands.options import Command, WeightsOptions, argument, flag, option, replicates_option
from asdf.commands.outputs import show
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import lock_work, write_text
from asdf.trials.trial_list import TrialList
from asdf.version import VERSION

if TYPE_CHECKING:
    from asdf.extras.robustness.running import Rival

# Of a copy: 24 bits; FLAC reduces them to about two thirds.
_MB_PER_S = 3 * SAMPLE_RATE / 1_000_000


def _check_workers(workers: int) -> None:
    if workers < 0:
        raise UsageError(f"--workers {workers}: give 0 or more.")


@dataclass(frozen=True, kw_only=True)
class RobustnessOptions(WeightsOptions):
    """Options of the command."""

    # With a default, since the command alone lists the degradations; `main` asks for the rest.
    names: tuple[str, ...] = argument(
        "networks, and list of recordings with labels", metavar="NETWORK... LIST", default=()
    )
    output: Path | None = option(
        "output folder for copies, score files and results", metavar="FOLDER"
    )
    only: str = option(
        "restrict to these families, degradations or conditions, such as codec,white_10",
        metavar="NAMES",
        default="",
    )
    grades: tuple[str, ...] = option(
        "grades of a degradation instead of the default ones, such as mp3=16,8",
        metavar="NAME=GRADES",
        default=(),
        repeated=True,
    )
    noise: Path | None = option("folder with recordings of noise", metavar="FOLDER")
    music: Path | None = option("folder with music (default: synthesised)", metavar="FOLDER")
    rooms: Path | None = option("folder with room impulse responses", metavar="FOLDER")
    encodec: Path | None = option("folder with transformers' EncodecModel", metavar="FOLDER")
    folder: Path | None = option(
        "folder that paths in the list are relative to (the folder of the list), or that contains "
        "the recordings of a protocol or corpus"
    )
    workers: int = option(
        "number of additional processes that degrade recordings",
        metavar="N",
        default=2,
        check=_check_workers,
    )
    keep_audio: bool = flag("keep the degraded copies in FOLDER/audio")
    # Without replicates there would be no p-values, and the tables of changes state them.
    replicates: int = replicates_option("number of bootstrap replicates", may_be_none=False)
    device: str = option("device: auto (a GPU if available), cpu, cuda or cuda:1", default="auto")
    full_length: bool = flag("score whole recordings up to 62.5 s")


FIRST = ("output", "only", "grades", "noise", "music", "rooms", "workers", "device")
COMMAND = Command("robustness", __doc__, RobustnessOptions, first=FIRST)


def main(arguments: list[str]) -> int:
    """Measure detectors; return 1 if recordings are left out, else 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a network or the list cannot be read, or an output cannot be written.
    """
    args = COMMAND.read(arguments)
    from asdf.extras.robustness.degradations import Material
    from asdf.extras.robustness.making import catalogue, choose_conditions, parse_grades
    from asdf.extras.robustness.running import Plan, run_study
    from asdf.extras.robustness.showing import study_files

    if not arguments:
        show(catalogue())
        return 0
    if len(args.names) < 2:
        raise UsageError("give one or more networks and a list of recordings: NETWORK... LIST.")
    if args.output is None:
        raise UsageError("the output folder is missing. Give it with --output FOLDER.")
    *networks, named = args.names
    trials = read_recordings(named, args.folder, classes=True)
    counts = [int((trials.labels == label).sum()) for label in (1, 0)]
    if min(counts) < 2 or sum(counts) < len(trials):
        raise AsdfError(
            f"robustness is measured by error rates, so each recording of {trials.name} needs a "
            f"label, and each class needs at least two recordings (bona fide {counts[0]}, spoof "
            f"{counts[1]}, without a label {len(trials) - sum(counts)})."
        )
    material = Material(
        tuple(str(trials.path(index)) for index in range(len(trials))),
        noise=_files(args.noise),
        music=_files(args.music),
        rooms=_files(args.rooms),
        encodec=str(args.encodec or ""),
    )
    only = [name for name in args.only.split(",") if name]
    conditions, left_out = choose_conditions(material, only, parse_grades(args.grades))
    show(copies_sentence(args, trials, len(conditions)), sys.stderr)
    # Networks come last: mistakes in the list or in names are reported before one is loaded.
    rivals = open_rivals(networks, args)
    plan = Plan(
        trials=trials,
        conditions=conditions,
        material=material,
        folder=args.output,
        workers=args.workers,
        replicates=args.replicates,
        keeps_audio=args.keep_audio,
        say=lambda sentence: show(sentence, sys.stderr),
    )
    made_by = {
        "ASDF": VERSION,
        "command": f"asdf-antispoofing robustness {shlex.join(arguments)}",
        **{f"SHA-256 of {rival.name}": rival.digest for rival in rivals},
    }
    # Two studies at once would remove each other's copies.
    locks = args.output / ".progress"
    with lock_work(locks, args.output):
        study = run_study(plan, rivals)
        contents = study_files(study, left_out, made_by)
        for name, content in contents.items():
            write_text(args.output / name, content)
        shutil.rmtree(locks)
    show(contents["results.txt"].rstrip("\n"))
    show(f"written to {args.output}: report.html, results.*, scores/", sys.stderr)
    return int(bool(study.left_out))


def _files(folder: Path | None) -> tuple[str, ...]:
    """Return the recordings below a folder; () without a folder."""
    from asdf.commands.score_recordings import find_recordings

    return () if folder is None else tuple(map(str, find_recordings([str(folder)]).paths))


def copies_sentence(args: RobustnessOptions, trials: TrialList, conditions: int) -> str:
    """Say before any work what it takes on the disk."""
    from asdf.audio import audio_length

    samples = 0
    for index in range(len(trials)):
        # A problem is reported where the file is read.
        with suppress(AsdfError):
            samples += audio_length(trials.path(index))
    seconds = samples / SAMPLE_RATE
    size = f"{seconds * _MB_PER_S:,.0f} MB at a time in {args.output}, removed after scoring"
    if args.keep_audio:
        size = f"{seconds * _MB_PER_S * conditions:,.0f} MB in {args.output} (--keep-audio)"
    return (
        f"{len(trials):,} recordings, {seconds / 60:,.1f} minutes, {conditions} conditions: copies "
        f"take up to {size}"
    )


def open_rivals(networks: Sequence[str], args: RobustnessOptions) -> list[Rival]:
    """Open networks, each with a distinct name, based on the stem of its file."""
    from asdf.extras.robustness.running import Rival
    from asdf.scoring.detector import Detector
    from asdf.scoring.document import network_digest
    from asdf.scoring.scorer import check_usual

    rivals: list[Rival] = []
    stems: list[str] = []
    for network in networks:
        detector = Detector(
            network, args.device, args.network_folder, None, args.full_length, base=args.base
        )
        check_usual(detector.settings.audio, f"A measurement of {network} on changed copies")
        stem = Path(network).stem or "network"
        stems.append(stem)
        # Networks in several folders may have the same file name.
        name = stem if stems.count(stem) == 1 else f"{stem}-{stems.count(stem)}"
        rivals.append(Rival(name, detector, network_digest(network)))
    return rivals
