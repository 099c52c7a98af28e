"""A detector in any known layout, as a network of ASDF.

    python -m asdf import LA_model.pth ssl_aasist.pt            published by SSL_Anti-spoofing
    python -m asdf import AASIST-L.pth aasist_l.pt              raw-waveform AASIST or AASIST-L
    python -m asdf import networks/epoch.7.pt net.pt            of the original ASDF, or ASDF's own without its training
    python -m asdf import folder/ net.pt                        a folder of `export --format hub`
    python -m asdf import sls.pth sls.pt front_end.architecture=wav2vec2_xlsr_300m back_end.sls_samples=64600

Also read are SLS and Nes2Net-X with their front end. Nothing in FILE is run. OUT holds the network and the settings
that build it; `score`, `calibrate` and `export` need no other file. What the shapes of the layers do not tell is the
published value, or is given as section.name=value.

Every layer of FILE goes into the network or is named with the reason why not; a layer that is missing or of another
shape is an error. A pretrained front end alone is no detector: name it in front_end.weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.commands.outputs import check_file, show
from asdf.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from asdf.interchange.formats import Recognised


def main(arguments: list[str]) -> int:
    """Import a network and print what was done; 0.

    Raises:
        UsageError: a mistake in the command line.
        AsdfError: the file cannot be read or does not fit, or OUT cannot be written.
    """
    given = _parser().parse_intermixed_args(arguments)
    settings = overrides(given.settings)
    check_new(given.out)
    # From here on torch is needed, which takes seconds to import.
    from asdf.interchange.claims import build_for
    from asdf.interchange.fitting import check_layers, load_layers
    from asdf.interchange.formats import recognise
    from asdf.interchange.network_file import write_network

    read = recognise(given.file, settings)
    kind, source = read.settings.network.network_class.rpartition(".")[2], str(given.file)
    network = build_for(
        read.settings,
        len(read.state),
        given.file,
        given.network_folder,
        lambda shapes: check_layers(shapes, read.state, kind, source),
    )
    load_layers(network, read.state, source)
    write_network(given.out, network, read.settings, read.extra)
    show(_report(read, network, given.out))
    return 0


def overrides(words: list[str]) -> Mapping[str, Any]:
    """The settings that a command line gives as section.name=value, by their full names.

    Raises:
        UsageError: a setting that there is not, or a value that does not fit it.
    """
    from asdf.settings.layers import override_steps
    from asdf.settings.mistakes import Collector, raise_all

    found = Collector()
    steps = override_steps([_quoted(word) for word in words], found)
    raise_all(found.mistakes)
    return {step.setting: step.value for step in steps}


def _quoted(word: str) -> str:
    """An architecture's literal as the string that the setting is; the shell has taken the quotes off."""
    name, equals, value = word.partition("=")
    return f"{name}={value.strip()!r}" if equals and value.lstrip().startswith("{") else word


def check_new(out: Path) -> None:
    """Refuse to write over what is there: a network may be the only one of its kind.

    Raises:
        UsageError: there is something at `out`, or it is standard output.
    """
    check_file(out)
    if out.exists():
        raise UsageError(
            f"{out} is there already; nothing was written. Remove it first, or name another OUT."
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m asdf import",
        usage="python -m asdf import FILE OUT [section.name=value ...] [--network-folder FOLDER]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a detector in any of these layouts"
    )
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="the network file to write, such as network.pt"
    )
    parser.add_argument(
        "settings", nargs="*", metavar="section.name=value", help="settings that FILE does not tell"
    )
    parser.add_argument(
        "--network-folder",
        type=Path,
        metavar="FOLDER",
        help="where the module of your own network class lies",
    )
    return parser


def _report(read: Recognised, network: nn.Module, out: Path) -> str:
    from asdf.interchange.fitting import groups
    from asdf.networks.build import summary

    lines = [f"recognised: {read.layout}", *read.notes, f"layers mapped: {len(read.state)}"]
    for reason, names in read.left_out.items():
        lines.append(f"left out, {reason}: {groups(names)} ({len(names)})")
    if not read.left_out:
        lines.append("left out: nothing")
    kind = read.settings.network.network_class
    lines += [
        "missing: nothing",
        f"written to {out}: {kind}, {summary(network).total:,} parameters",
    ]
    return "\n".join(lines)
