"""Convert a detector in any supported format to a network of ASDF.

    python -m asdf import LA_model.pth net.pt             # published by SSL_Anti-spoofing
    python -m asdf import mms_300m.ckpt net.pt            # AntiDeepfake, or model.safetensors
    python -m asdf import networks/epoch.7.pt net.pt      # original ASDF, or a checkpoint
    python -m asdf import hub:ORG/NAME net.pt             # on the hub, in any of these formats
    python -m asdf import folder/ net.pt                  # a folder of `export --format hub`
    python -m asdf import classifier/ net.pt              # an audio classifier of transformers
    python -m asdf import classifier/ net.pt --bona-fide-class real   # class number or name
    python -m asdf import classifier/ net.pt --genuine a.wav --spoofed b.wav c.wav
    python -m asdf import sls.pth net.pt back_end.sls_samples=64600  # with settings

Supported: SSL_Anti-spoofing, SLS, Nes2Net-X, Conformer, TCM, XLSR-Mamba, AASIST, RawNet2,
RawGAT-ST, LFCC-LCNN of ASVspoof 2021, AntiDeepfake's, DF-Arena's, DeepFense's, WeDefense's and
lab260's networks, spoof_SUPERB's heads (with their encoder in front_end.weights), Whisper-MesoNet
and its siblings, and audio classifiers of transformers with two classes or named ones. No code in
FILE is executed.

OUT contains the network and its settings. What the shapes of the layers do not show gets the
published values, or those given as section.name=value; a detector is scored in the same way as by
its authors. Each layer of FILE is either used or reported with the reason why not.

The bona fide classes of a classifier are inferred from the class names. If these are LABEL_0 and
LABEL_1, give --bona-fide-class, or recordings with known labels, --genuine and --spoofed, which
also check a detector in any format: if they contradict it, nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from asdf.commands.options import Command, argument, option
from asdf.commands.outputs import show
from asdf.commands.score_recordings import Recordings, find_recordings
from asdf.errors import AsdfError, UsageError
from asdf.interchange.command import check_new
from asdf.text import and_more, count_of

if TYPE_CHECKING:
    from torch import nn

    from asdf.extras.zoo.layouts.classifier_folder import Recognised
    from asdf.extras.zoo.layouts.importing import Imported


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of the command."""

    file: Path = argument("detector in any of these formats", "FILE")
    words: tuple[str, ...] = argument(
        "settings that FILE does not contain", "section.name=value", default=()
    )
    output: Path | None = option(
        "network file to write, such as network.pt", "OUT", short="-o", needed=True
    )
    bona_fide_class: tuple[str, ...] = option(
        "bona fide classes of a classifier, by number (from 0) or name; all others are spoof "
        "(default: inferred from their names)",
        "CLASS",
        default=(),
    )
    genuine: tuple[str, ...] = option(
        "genuine recordings (files, folders, lists) that check the detector",
        "RECORDING",
        default=(),
    )
    spoofed: tuple[str, ...] = option(
        "spoofed recordings (files, folders, lists) that check the detector",
        "RECORDING",
        default=(),
    )
    network_folder: Path | None = option(
        "folder with the module of a network class of your own", "FOLDER"
    )

    @property
    def out(self) -> Path:
        """The output file, from --output or the argument after FILE.

        Raises:
            UsageError: neither is given.
        """
        if self.output is not None:
            return self.output
        if not self.words:
            raise UsageError("the output file is missing. Give it with --output OUT.")
        return Path(self.words[0])

    @property
    def settings(self) -> tuple[str, ...]:
        return self.words if self.output is not None else self.words[1:]


COMMAND = Command("import", __doc__, ImportOptions)


def main(arguments: list[str]) -> int:
    """Import a network and print what was done; 0.

    Raises:
        UsageError: a mistake in the command line.
        AsdfError: the file cannot be read or does not fit, recordings contradict it, or OUT cannot
            be written.
    """
    args = COMMAND.read(arguments)
    chosen = settings_of_words(args.settings)
    check_new(args.out)
    clips = find_clips(args.genuine, args.spoofed)
    # torch is needed from here on, and takes seconds to import.
    from asdf.checkpoint.network_file import write_network_file
    from asdf.interchange import find_network, note_source

    # Imported completely before writing, so that an error leaves no file.
    path = find_network(args.file)
    imported, said = import_checked(
        path, chosen, args.network_folder, args.bona_fide_class, clips, args.out
    )
    imported.recognised.notes.extend(said)
    note_source(imported.file, path)
    write_network_file(args.out, imported.file)
    show(_report(imported.recognised, imported.network, args.out))
    return 0


def settings_of_words(words: Sequence[str]) -> Mapping[str, Any]:
    """Return the settings given as section.name=value, by full name.

    Raises:
        UsageError: a setting that does not exist, or a value that does not fit it.
    """
    from asdf.settings.catalogue import our_catalogue
    from asdf.settings.config_layers import read_overrides, steps_of
    from asdf.settings.mistakes import Collector, raise_all

    mistakes = Collector()
    # The reader of a recipe's command line, because settings have the same form in both.
    catalogue = our_catalogue()
    quoted = []
    for word in words:
        name, equals, value = word.partition("=")
        # An architecture's literal, whose quotes the shell removed: the setting is a string.
        is_literal = equals and value.lstrip().startswith("{")
        quoted.append(f"{name}={value.strip()!r}" if is_literal else word)
    overrides = read_overrides(quoted, catalogue, mistakes)
    steps = steps_of(overrides, catalogue, mistakes)
    raise_all(mistakes.mistakes)
    return {step.setting: step.value for step in steps}


def _report(read: Recognised, network: nn.Module, out: Path) -> str:
    from asdf.checkpoint.base_weights import by_module, first_names
    from asdf.networks.build import summary

    mapped = len(read.state) - len(read.filled)
    lines = [f"recognised: {read.layout}", *read.notes, f"layers mapped: {mapped}"]
    # Every layer is in one of these lines, so that nothing is lost silently.
    for reason, names in read.left_out.items():
        lines.append(f"left out, {reason}: {by_module(names)} ({len(names)})")
    if not read.left_out:
        lines.append("left out: nothing")
    if read.filled:
        zeros = f"{first_names(read.filled)} ({len(read.filled)})"
        lines.append(f"filled with zeros, because scores do not depend on them: {zeros}")
    lines.append("missing: nothing")
    kind = read.settings.network.network_class
    lines.append(f"written to {out}: {kind}, {summary(network).total:,} parameters")
    return "\n".join(lines)


# Proportion of all pairs of a genuine and a spoofed recording; between the limits nothing is known.
_CLEAR = 0.75
# Three of each kind: by chance, these would all agree with either polarity one time in ten.
_ENOUGH = 9
_SHOWN = 4


@dataclass(frozen=True)
class ClipScores:
    """Scores of recordings with known labels.

    Attributes:
        genuine, spoofed: Scores by the names of the recordings.
    """

    genuine: dict[str, float]
    spoofed: dict[str, float]

    @property
    def share(self) -> float:
        """Proportion of pairs in which the genuine recording scores higher; ties count half."""
        wins = 0.0
        for genuine, spoofed in product(self.genuine.values(), self.spoofed.values()):
            wins += 0.5 if genuine == spoofed else float(genuine > spoofed)
        return wins / self.pairs

    @property
    def pairs(self) -> int:
        return len(self.genuine) * len(self.spoofed)

    def describe(self) -> str:
        """Return the numbers in words."""
        sides = []
        for scores in (self.genuine, self.spoofed):
            listed = [f"{name} {score:.4f}" for name, score in scores.items()]
            sides.append(and_more(listed, _SHOWN))
        return (
            f"genuine {sides[0]}; spoofed {sides[1]}: the genuine one is higher in "
            f"{self.share * self.pairs:g} of {count_of(self.pairs, 'pair')}"
        )


class Clips(NamedTuple):
    """Recordings of each class."""

    genuine: Recordings
    spoofed: Recordings


def find_clips(genuine: Sequence[str], spoofed: Sequence[str]) -> Clips | None:
    """Return the recordings on the command line; None if there are none.

    Raises:
        UsageError: a recording does not exist, only one class is given, or one is in both.
    """
    if not genuine and not spoofed:
        return None
    if not genuine or not spoofed:
        missing = "--genuine" if spoofed else "--spoofed"
        raise UsageError(f"recordings of both classes are needed, and {missing} is missing.")
    clips = Clips(find_recordings(genuine), find_recordings(spoofed))
    both = set(clips.genuine.paths) & set(clips.spoofed.paths)
    if both:
        raise UsageError(
            f"{min(both)} is given as genuine and as spoofed. Remove it from one of them."
        )
    return clips


def import_checked(
    path: Path,
    chosen: Mapping[str, Any],
    folder: Path | None,
    bona_fide: Sequence[str],
    clips: Clips | None,
    out: Path,
) -> tuple[Imported, list[str]]:
    """Import a detector, and check it with recordings; return it with the outcome.

    Args:
        chosen, folder, bona_fide: Settings, folder and classes, as in `import_detector`.
        clips: Recordings; None: no check.
        out: File that will be written, in whose folder the network is stored for the check.

    Raises:
        UsageError: as `import_detector`.
        AsdfError: as `import_detector`; or the recordings contradict it, or cannot be scored.
    """
    from asdf.extras.zoo.layouts.class_names import UnknownPolarityError
    from asdf.extras.zoo.layouts.importing import import_detector

    try:
        imported = import_detector(path, chosen, folder, bona_fide)
    except UnknownPolarityError as error:
        # With more than two classes, recordings of two labels do not determine the polarity.
        if clips is None or error.classes != 2:
            raise
        imported = import_detector(path, chosen, folder, ["1"])
        scores = _score_clips(imported, clips, folder, out)
        if 1 - _CLEAR < scores.share < _CLEAR:
            raise AsdfError(
                f"{path}: the recordings do not show which class is bona fide; nothing was "
                f"written. Scores with class 1 as bona fide: {scores.describe()}. Pass more "
                "recordings, or name the class: --bona-fide-class."
            ) from None
        if scores.share <= 1 - _CLEAR:
            imported = import_detector(path, chosen, folder, ["0"])
            scores = _score_clips(imported, clips, folder, out)
        decision = f"which class is bona fide follows from {scores.describe()}"
        if scores.pairs < _ENOUGH:
            decision += (
                ". That is little evidence: one error of the detector would invert its verdicts. "
                "Pass more recordings of each kind"
            )
        return imported, [decision]
    if clips is None:
        return imported, []
    scores = _score_clips(imported, clips, folder, out)
    if scores.share < 1 - _CLEAR:
        raise AsdfError(
            f"{path}: the recordings contradict its bona fide output; nothing was written. Scores: "
            f"{scores.describe()}. Its labels are wrong, or it errs on these recordings. Pass more "
            "recordings, or name the bona fide class they indicate (--bona-fide-class)."
        )
    agree = "agree" if scores.share > _CLEAR else "neither contradict nor confirm it"
    return imported, [f"reference recordings {agree}: {scores.describe()}"]


def _score_clips(imported: Imported, clips: Clips, folder: Path | None, out: Path) -> ClipScores:
    from asdf.checkpoint.network_file import write_network_file
    from asdf.scoring.detector import Detector

    # In OUT's folder, which has enough space.
    with TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as temporary:
        network = Path(temporary) / "network.pt"
        write_network_file(network, imported.file)
        detector = Detector(network, "cpu", network_folder=folder)
        sides = []
        for recordings in (clips.genuine, clips.spoofed):
            scores = {}
            for scored in detector.score_many(recordings.paths):
                if scored.score is None:
                    raise AsdfError(f"{scored.name} cannot be scored: {scored.error}")
                scores[str(scored.name)] = float(scored.score)
            sides.append(scores)
    return ClipScores(*sides)
