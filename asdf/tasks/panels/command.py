"""Select, calibrate and fuse the detectors that are competent on your recordings: a panel.

    python -m asdf panel a.pt b.pt hub:ORG/NAME --control control.txt --output panel.json
    python -m asdf score panel.json call.mp3 --csv call.csv     # with the verdict of each detector
    python -m asdf serve panel.json

The control set consists of recordings with known labels that are similar to those you will judge:
a list with labels, a table of trials, a folder with real/ and fake/, a protocol, or the name of a
corpus. Each detector scores it. Detectors that do not separate the classes better than chance are
excluded, by a one-sided rank test corrected for the number of detectors (--level). The others, at
least two, are calibrated separately and fused; the gain is cross-validated as by `fuse`.

The panel is a fused system that every command accepts as a network. For each recording it gives the
fused score, the numbers of bona fide and spoof verdicts, and the likelihood ratio of each detector.
The scores of the control set are saved in the folder of --scores, so they are not computed again
if the command is stopped, or repeated with more detectors.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asdf.commands.judged_files import System, named_systems
from asdf.commands.options import (
    PROGRAM,
    Command,
    WeightsOptions,
    argument,
    option,
    replicates_option,
)
from asdf.commands.outputs import check_overwriting, show, text_stream, write_outputs
from asdf.commands.score_options import Engine, Precision, ScoreOptions
from asdf.errors import AsdfError, UsageError
from asdf.hub import SUFFIXES
from asdf.metrics.llr_maps import AUTO
from asdf.metrics.several_systems import speakers_of
from asdf.runs.files import write_text
from asdf.tables.plain_json import as_json
from asdf.tasks.fusion.commands.fuse import METHODS, check_folds, fit_development
from asdf.tasks.fusion.commands.fuse_networks import check_networks, write_fused_system
from asdf.tasks.fusion.commands.fuse_scores import DevelopmentSet
from asdf.tasks.fusion.commands.fuse_text import gain_record, gain_text
from asdf.text import numbered
from asdf.trials.formats import read_score_file
from asdf.trials.scored_files import read_how_scored

if TYPE_CHECKING:
    from asdf.checkpoint.panel_entry import Panel
    from asdf.commands.score_recordings import Recordings
    from asdf.tasks.fusion.gain import FusionGain
    from asdf.tasks.panels.competence import Competence
    from asdf.trials.score_file import Scores
    from asdf.trials.trial_list import TrialList

MIN_MEMBERS = 2


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise UsageError(f"--level {level:g}: give a probability above 0 and below 1.")


@dataclass(frozen=True, kw_only=True)
class PanelOptions(WeightsOptions):
    """Options of the command."""

    networks: tuple[str, ...] = argument(
        "two or more detectors: files, folders of runs, names on the hub, or small; NAME= sets the "
        "name of a detector",
        metavar="[NAME=]NETWORK",
    )
    control: str = option(
        "recordings similar to yours, with labels",
        metavar="LIST|FOLDER|CORPUS",
        needed=True,
        default="",
    )
    output: Path | None = option(
        "output file of the panel (.json)",
        metavar="OUT",
        short="-o",
        aliases=("--out",),
        needed=True,
    )
    folder: Path | None = option(
        "folder that paths in the list are relative to (the folder of the list), or that contains "
        "the recordings of a protocol or corpus",
        metavar="F",
    )
    scores: Path | None = option(
        "folder for the scores of the control set (OUT without suffix, plus '_scores')",
        metavar="FOLDER",
    )
    level: float = option(
        "significance level of the test that excludes detectors",
        metavar="P",
        default=0.05,
        check=_check_level,
    )
    method: str = option(
        "fusion method, as in `fuse` (%(default)s: logistic, or mean if a detector would get a "
        "negative weight)",
        default=AUTO,
        choices=(AUTO, *METHODS),
    )
    folds: int = option("number of folds of the cross-validation", metavar="N", default=5)
    seed: int = option("seed of folds, intervals and test", metavar="N", default=0)
    replicates: int = replicates_option("number of bootstrap replicates", may_be_none=False)
    json: Path | None = option("write all results as JSON, with all digits", metavar="OUT")
    device: str = option("device: auto (a GPU if available), cpu, cuda or cuda:1", default="auto")
    precision: Precision = option("number format of the networks, as in `score`", default="auto")
    engine: Engine = option("fp32 engine on a CPU, as in `score`", default="packed")
    threads: int | None = option("number of CPU threads, as in `score`", "N")


COMMAND = Command("panel", __doc__, PanelOptions)


@dataclass(frozen=True)
class _Candidates:
    """The detectors with their scores on the control set.

    Attributes:
        networks: Detectors as given, in the order of `scored`.
        scored: Names and scores.
    """

    networks: list[str]
    scored: DevelopmentSet

    def select(self, chosen: Sequence[int]) -> _Candidates:
        """Return the detectors with these indices."""
        scored = replace(
            self.scored,
            names=[self.scored.names[index] for index in chosen],
            paths=[self.scored.paths[index] for index in chosen],
            scores=[self.scored.scores[index] for index in chosen],
        )
        return _Candidates([self.networks[index] for index in chosen], scored)


def main(arguments: list[str]) -> int:
    """Write a panel; return 0, or the status of `score` if it was stopped.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: networks or recordings cannot be read, or fewer than two detectors are competent.
    """
    args = COMMAND.read(arguments)
    systems = _check(args)
    screen = text_stream([args.json])
    # torch is needed from here on, and takes seconds to import.
    from asdf.commands.named_recordings import read_recordings
    from asdf.tasks.panels.competence import measure_competence
    from asdf.tasks.panels.competence_table import competence_lines, competence_record

    control = read_recordings(args.control, args.folder, classes=True)
    _check_control(args.control, control)
    _check_together([str(system.path) for system in systems], args)
    folder = args.scores or _scores_folder(args)
    status = _score(args, systems, control, folder, f"{PROGRAM} panel {shlex.join(arguments)}")
    if status:
        return status
    candidates = _read_scores(systems, control, folder)
    speakers = candidates.scored.speakers
    competence = measure_competence(
        candidates.scored.scores,
        candidates.scored.names,
        speakers,
        level=args.level,
        replicates=args.replicates,
        seed=args.seed,
    )
    count = None if speakers is None else len(set(speakers))
    show("\n".join(_heading(control)), screen)
    show("\n".join(competence_lines(competence, args.level, count)), screen)
    members = candidates.select(_members(competence, count, args.control))
    measured = _fuse(args, members.scored)
    panel = _calibrate(members.scored, competence_record(competence), args.level)
    record = gain_record(members.scored, measured)
    record |= {"panel": panel.summary(), "folds": args.folds, "seed": args.seed}

    def write_panel(path: Path) -> None:
        write_fused_system(path, members.networks, members.scored, measured, panel)

    write_outputs(
        [(args.output, write_panel), (args.json, lambda path: write_text(path, as_json(record)))]
    )
    show(f"\n{gain_text(members.scored, measured)}", screen)
    show(f"\nwritten to {args.output}: score recordings with it as with a network", screen)
    return 0


def _check(args: PanelOptions) -> list[System]:
    """Return the detectors with their names.

    Raises:
        UsageError: options contradict each other.
    """
    if args.output is None or not args.control:
        raise UsageError(
            "a panel needs a control set and an output file. Give --control and --output."
        )
    systems = _named(args.networks)
    if len(systems) < MIN_MEMBERS:
        raise UsageError("a panel needs at least two detectors. Give two or more networks.")
    named = [str(system.path) for system in systems]
    check_networks(named, args.output)
    check_folds(args.folds, args.seed)
    check_overwriting([Path(args.control), *map(Path, named)], [args.output, args.json])
    return systems


def _named(words: Sequence[str]) -> list[System]:
    """Return the detectors with names that can also be file names."""
    systems = named_systems(words)
    names = []
    for system in systems:
        # Score files get these names: net.txt for net.pt, and no folder for the '/' of a hub name.
        stem, dot, suffix = system.name.rpartition(".")
        name = stem if f"{dot}{suffix}".lower() in SUFFIXES and stem else system.name
        names.append(name.replace("/", "-"))
    return [
        replace(system, name=name) for system, name in zip(systems, numbered(names), strict=True)
    ]


def _check_control(named: str, control: TrialList) -> None:
    """Raise UsageError for a control set without labels of both classes."""
    if (np.asarray(control.labels) < 0).any():
        raise UsageError(f"{named}: every recording of the control set needs a label. Add labels.")
    if len(set(control.labels.tolist())) < 2:
        raise UsageError(
            f"{named}: the control set has only one class. Add recordings of the other class."
        )


def _check_together(networks: Sequence[str], args: PanelOptions) -> None:
    """Refuse networks that cannot form a panel, before hours of scoring.

    Raises:
        UsageError: two are the same, or they hear different parts of a recording.
        AsdfError: a network cannot be read.
    """
    from asdf.interchange import network_digest
    from asdf.scoring.detector import Detector

    first = None
    known: dict[str, str] = {}
    for network in networks:
        digest = network_digest(network)
        if digest in known:
            # Two that always agree would look like independent witnesses.
            raise UsageError(
                f"{known[digest]} and {network} are the same network. Give it only once."
            )
        known[digest] = network
        # On the CPU, since only its settings are compared.
        detector = Detector(network, "cpu", args.network_folder, args.threads, base=args.base)
        if first is None:
            first = (network, detector.settings.sad)
        elif detector.settings.sad != first[1]:
            raise UsageError(
                f"{network} and {first[0]} remove silence in different ways (settings 'sad'), so "
                "they do not score the same parts of a recording and cannot form a panel. Leave "
                "one of them out."
            )


def _scores_folder(args: PanelOptions) -> Path:
    assert args.output is not None
    return args.output.with_name(f"{args.output.stem}_scores")


def _score(
    args: PanelOptions, systems: Sequence[System], control: TrialList, folder: Path, command: str
) -> int:
    """Score the control set with each detector without scores; return the exit status."""
    from asdf.commands.score import score_into_outputs
    from asdf.commands.score_recordings import Recording, Recordings

    recordings = Recordings()
    for index, name in enumerate(control.ids):
        recordings.add(Recording(control.path(index), name, int(control.labels[index])))
    folder.mkdir(parents=True, exist_ok=True)
    for system in systems:
        out = folder / f"{system.name}.txt"
        network = str(system.path)
        if _is_scored(out, network, recordings):
            show(f"{system.name}: using the scores in {out}", sys.stderr)
            continue
        show(f"{system.name}: scoring {len(recordings):,} recordings", sys.stderr)
        options = ScoreOptions(
            network=network,
            recordings=(),
            scores=out,
            device=args.device,
            precision=args.precision,
            engine=args.engine,
            threads=args.threads,
            base=args.base,
            network_folder=args.network_folder,
        )
        status = score_into_outputs(options, recordings, None, command)
        if status:
            return status
    return 0


def _is_scored(path: Path, network: str, recordings: Recordings) -> bool:
    """Whether a score file contains this network's scores of these recordings."""
    from asdf.interchange import network_digest

    if not path.exists():
        return False
    stated = read_how_scored(path)
    if stated is None or stated.network != network_digest(network):
        return False
    scores = read_score_file(path)
    if scores.labels is None:
        return False
    # The labels too, since all later steps take them from this file.
    labels = list(recordings.labels)
    return scores.ids == list(recordings.names) and scores.labels.tolist() == labels


def _read_scores(systems: Sequence[System], control: TrialList, folder: Path) -> _Candidates:
    paths = [folder / f"{system.name}.txt" for system in systems]
    scores: list[Scores] = [read_score_file(path).labelled(path) for path in paths]
    names = [system.name for system in systems]
    speakers = speakers_of(scores[0], control)
    scored = DevelopmentSet(control.name, names, paths, scores, speakers)
    return _Candidates([str(system.path) for system in systems], scored)


def _heading(control: TrialList) -> list[str]:
    labels = np.asarray(control.labels)
    name = control.name or "the control set"
    return [
        f"{name}: {labels.size:,} recordings, {(labels == 1).sum():,} bona fide, "
        f"{(labels == 0).sum():,} spoof",
        "",
    ]


def _members(competence: Sequence[Competence], speakers: int | None, control: str) -> list[int]:
    """Return the indices of the competent detectors.

    Raises:
        AsdfError: there are fewer than two.
    """
    members = [index for index, one in enumerate(competence) if one.is_member]
    if len(members) >= MIN_MEMBERS:
        return members
    count = {0: "no detector is", 1: f"only {competence[members[0]].name} is" if members else ""}
    over = "" if speakers is None else f" of its {speakers} speakers"
    raise AsdfError(
        f"{count[len(members)]} better than chance on {control}, but a panel needs two, so nothing "
        "was written. Either the detectors do not generalise to this set, or its recordings"
        f"{over} are too few to show it. Use other detectors, or more recordings."
    )


def _fuse(args: PanelOptions, scored: DevelopmentSet) -> FusionGain:
    """Fit the fusion; by default one in which no detector has a negative weight."""
    rest = (args.folds, args.seed, args.replicates)
    if args.method != AUTO:
        return fit_development(scored, args.method, *rest)
    measured = fit_development(scored, "logistic", *rest)
    weights = measured.fusion.weights
    if min(weights) >= 0:
        return measured
    negative = [name for name, weight in zip(scored.names, weights, strict=True) if weight < 0]
    show(
        f"\nlogistic fusion would give {', '.join(negative)} a negative weight, so the mean of the "
        "detectors' LLRs is used",
        sys.stderr,
    )
    return fit_development(scored, "mean", *rest)


def _calibrate(
    scored: DevelopmentSet, competence: Sequence[dict[str, object]], level: float
) -> Panel:
    """Return the panel with a calibration of each member.

    Raises:
        AsdfError: a member's scores cannot be calibrated; the message names it.
    """
    from asdf.checkpoint.panel_entry import Panel, PanelMember
    from asdf.commands.learn_calibration import CalibrationSet, learn_calibration

    members = []
    for name, scores in zip(scored.names, scored.scores, strict=True):
        try:
            learnt = learn_calibration(CalibrationSet(scores, scored.set, scored.speakers))
        except AsdfError as error:
            raise AsdfError(f"{name}: {error}") from None
        # Only the interval of the fused score is shown.
        calibration = replace(learnt.calibration, replicates=None)
        members.append(PanelMember(name, calibration))
    return Panel(tuple(members), tuple(competence), level)
