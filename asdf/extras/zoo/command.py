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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.commands.options import Command, argument, option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.extras.zoo.clips import find_clips, import_checked
from asdf.interchange.commands.export_network import check_new

if TYPE_CHECKING:
    from torch import nn

    from asdf.extras.zoo.layouts.hub.classifier_folder import Recognised


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
    overrides = read_overrides(map(_quote_architecture, words), catalogue, mistakes)
    steps = steps_of(overrides, catalogue, mistakes)
    raise_all(mistakes.mistakes)
    return {step.setting: step.value for step in steps}


def _quote_architecture(word: str) -> str:
    """Quote an architecture's literal, whose quotes the shell removed: the setting is a string."""
    name, equals, value = word.partition("=")
    if equals and value.lstrip().startswith("{"):
        return f"{name}={value.strip()!r}"
    return word


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
