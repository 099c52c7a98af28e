"""A network of ASDF in the layouts that other programs load.

    python -m asdf export net.pt --format ssl_anti_spoofing published.pth    SSL_Anti-spoofing, SLS and Nes2Net load it
    python -m asdf export net.pt --format aasist AASIST.pth                  the authors' AASIST and AASIST-L
    python -m asdf export net.pt --format onnx net.onnx                      ONNX, for any language
    python -m asdf export net.pt --format torchscript net.ts --samples 48000 TorchScript, for C++; of 3 s
    python -m asdf export net.pt --format safetensors net.safetensors        safetensors, which ASDF loads as well
    python -m asdf export net.pt --format hub folder/                        a folder for Hugging Face's uploader

ONNX and TorchScript take waveforms (batch, samples) of exactly --samples samples at 16 kHz and give embeddings and
logits (spoof, bona fide): cut or repeat recordings to that length. Calibration is not in them. ONNX needs the
package onnx.

A hub folder holds model.safetensors, config.json and README.md, a model card with the corpora, the settings and the
error rates that the network's file, or the results of its run, tell. `python -m asdf score folder/ ...` scores with it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.commands.import_network import check_new
from asdf.commands.outputs import show
from asdf.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

FORMATS = ("ssl_anti_spoofing", "aasist", "onnx", "torchscript", "safetensors", "hub")
GRAPHS = ("onnx", "torchscript")


def main(arguments: list[str]) -> int:
    """Export a network and print what was written; 0.

    Raises:
        UsageError: a mistake in the command line.
        AsdfError: the network cannot be read, has no such layout, or OUT cannot be written.
    """
    given = _parser().parse_args(arguments)
    if given.samples is not None and given.format not in GRAPHS:
        raise UsageError(
            f"--samples is for {' and '.join(GRAPHS)}; {given.format} keeps to no length."
        )
    if given.samples is not None and given.samples < 400:
        raise UsageError("--samples: at least 400, which is one frame.")
    check_new(given.out)
    # From here on torch is needed, which takes seconds to import.
    from asdf.interchange.network_file import read_network
    from asdf.networks.build import summary

    network, content = read_network(given.network, given.network_folder)
    told = _WRITERS[given.format](given, network, content)
    kind = content["network_class"] if "network_class" in content else type(network).__name__
    show(
        f"written to {given.out}: {kind}, {summary(network).total:,} parameters, as {given.format}"
    )
    if told:
        show(told)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m asdf export",
        usage="python -m asdf export NETWORK --format FORMAT OUT [--samples N] [--network-folder FOLDER]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", type=Path, metavar="NETWORK", help="a network file of ASDF")
    parser.add_argument(
        "--format", required=True, choices=FORMATS, metavar="FORMAT", help=", ".join(FORMATS)
    )
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="the file to write; for hub the folder"
    )
    parser.add_argument(
        "--samples", type=int, metavar="N", help="onnx, torchscript: length of waveforms (64600)"
    )
    parser.add_argument(
        "--network-folder",
        type=Path,
        metavar="FOLDER",
        help="where the module of your own network class lies",
    )
    return parser


def _published(given: argparse.Namespace, network: nn.Module, content: dict[str, Any]) -> str:
    from asdf.interchange.published import published_state
    from asdf.interchange.weights_file import write_state

    state, filled = published_state(network)
    write_state(given.out, state)
    if not filled:
        return "layers of the front end's pretraining are not in it: load it with strict=False"
    return f"put in as zeros, for programs that load strictly: {len(filled)} layers of the front end's pretraining"


def _aasist(given: argparse.Namespace, network: nn.Module, content: dict[str, Any]) -> str:
    from asdf.interchange.published import aasist_state
    from asdf.interchange.weights_file import write_state

    write_state(given.out, aasist_state(network))
    return ""


def _graph(given: argparse.Namespace, network: nn.Module, content: dict[str, Any]) -> str:
    from asdf.interchange.graphs import samples_for, write_onnx, write_torchscript

    samples = samples_for(network, given.samples)
    checked = (write_onnx if given.format == "onnx" else write_torchscript)(
        network, given.out, samples
    )
    return f"takes waveforms (batch, {samples}) at 16 kHz, gives embeddings and logits (spoof, bona fide)\n{checked}"


def _safetensors(given: argparse.Namespace, network: nn.Module, content: dict[str, Any]) -> str:
    from asdf.interchange.hub import write_safetensors_network

    write_safetensors_network(given.out, content)
    return ""


def _hub(given: argparse.Namespace, network: nn.Module, content: dict[str, Any]) -> str:
    from asdf.interchange.hub import write_hub_folder
    from asdf.interchange.model_card import measured_eers, model_card
    from asdf.interchange.network_file import settings_in
    from asdf.networks.build import summary

    settings = settings_in(content, given.network)
    eers = measured_eers(given.network, content)
    card = model_card(given.out.resolve().name, content, settings, summary(network).total, eers)
    write_hub_folder(given.out, content, card)
    told = f"{len(eers)} measured EERs" if eers else "no measured EERs: none came with the network"
    return f"README.md is the model card, with {told}. Add the licence before you publish it."


_WRITERS = {
    "ssl_anti_spoofing": _published,
    "aasist": _aasist,
    "onnx": _graph,
    "torchscript": _graph,
    "safetensors": _safetensors,
    "hub": _hub,
}
