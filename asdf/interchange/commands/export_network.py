"""Convert a network of ASDF to a format that other programs can load.

    python -m asdf export net.pt --format ssl_anti_spoofing out.pth  # SSL_Anti-spoofing, SLS, ...
    python -m asdf export net.pt --format aasist AASIST.pth          # original AASIST, AASIST-L
    python -m asdf export net.pt --format rawnet2 RawNet2.pth        # ASVspoof 2021's RawNet2
    python -m asdf export net.pt --format antideepfake net.ckpt      # AntiDeepfake; or .safetensors
    python -m asdf export net.pt --format df_arena model.safetensors  # DF-Arena's layers
    python -m asdf export net.pt --format transformers_classifier folder/  # as it was imported
    python -m asdf export net.pt --format published net.safetensors  # the authors' format, if any
    python -m asdf export net.pt --format onnx net.onnx              # ONNX, for any language
    python -m asdf export net.pt --format onnx small.onnx --int8     # with 8-bit weights
    python -m asdf export net.pt --format torchscript net.ts         # TorchScript, for C++
    python -m asdf export net.pt --format torchscript net.ts --samples 48000  # for clips of 3 s
    python -m asdf export net.pt --format executorch net.pte         # ExecuTorch, for phones
    python -m asdf export net.pt --format litert net.tflite          # LiteRT, for phones
    python -m asdf export net.pt --format triton repository/           # Triton and KServe
    python -m asdf export net.pt --format safetensors net.safetensors  # safetensors, for ASDF
    python -m asdf export net.pt --format hub folder/                # for upload to Hugging Face
    python -m asdf export net.pt --format transformers folder/        # for transformers
    python -m asdf export net.pt --format web folder/                # a web page that scores

ONNX and TorchScript models take waveforms (batch, samples) at 16 kHz and return embeddings and
logits (spoof, bona fide), without calibration. ONNX models accept any length, if the exported graph
agrees with the network at all checked lengths. TorchScript models, and ONNX models with --samples,
take exactly --samples samples: cut or repeat recordings to that length. ONNX needs the packages
onnx and onnxruntime. ExecuTorch and LiteRT programs take one recording of --samples samples,
(1, samples); they need the extra of the same name, whose runtime is used to check them.

A transformers_classifier folder has the format of transformers' audio classifiers that `import`
reads: AutoModelForAudioClassification.from_pretrained("folder") gives the same logits.

A triton folder is a model repository: the ONNX graph, a config.pbtxt for Triton Inference Server,
which batches requests of equal length, and inferenceservice.yaml, a manifest for KServe. The
model's parameters state the score and the lengths to which clients cut or repeat recordings.

A hub folder contains model.safetensors, config.json and README.md, a model card with the corpora,
settings and error rates in the network's file or its run. `python -m asdf score folder/ ...` scores
with it.

A transformers folder also works without ASDF: `pipeline("audio-classification", model="folder/",
trust_remote_code=True)` and `AutoModelForAudioClassification` load it. It contains the parts of
ASDF's code that this network needs, which are run and compared before they are written. The model
can be trained further, and ASDF can read the folder. Not supported are front ends of transformers,
network classes outside ASDF, and unmerged low-rank updates; an error message names them.

A web folder contains a page that scores recordings in the browser, like `score`, without sending
them anywhere. Any server for static files can serve it, such as `python -m http.server`. The folder
includes the npm package onnxruntime-web, which runs the network, from --runtime or downloaded by
npm. See docs/browser.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.options import NETWORK_HELP, Command, WeightsOptions, argument, flag, option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.interchange.commands.export_transformers import scoring_rule, write_transformers
from asdf.interchange.commands.import_network import check_new
from asdf.settings.sections import FRAME_SAMPLES

if TYPE_CHECKING:
    from torch import Tensor, nn

    from asdf.checkpoint.network_file import NetworkFile

FORMATS = (
    "ssl_anti_spoofing",
    "aasist",
    "rawnet2",
    "antideepfake",
    "df_arena",
    "transformers_classifier",
    "published",
    "onnx",
    "torchscript",
    "executorch",
    "litert",
    "triton",
    "safetensors",
    "hub",
    "transformers",
    "web",
)
GRAPHS = ("onnx", "torchscript", "executorch", "litert", "triton")
QUANTISED = ("onnx", "triton", "web")


@dataclass(frozen=True, kw_only=True)
class ExportOptions(WeightsOptions):
    """Options of the command."""

    network: str = argument(NETWORK_HELP, "NETWORK")
    named: Path | None = argument("output file", "OUT", default=None, hidden=True)
    format: str = option(", ".join(FORMATS), "FORMAT", default=MISSING, choices=FORMATS)
    output: Path | None = option(
        "output file, or folder for transformers_classifier, triton, hub, transformers and web",
        "OUT",
        short="-o",
        needed=True,
    )
    samples: int | None = option(
        f"{', '.join(GRAPHS)}: fixed input length (torchscript, executorch, litert: 64600; others: "
        "any length)",
        "N",
    )
    int8: bool = flag("onnx, triton, web: quantise the weights of large linear layers")
    runtime: Path | None = option(
        "web: folder dist of the npm package onnxruntime-web (default: downloaded by npm)",
        "FOLDER",
    )

    @property
    def out(self) -> Path:
        """The output file, from --output or the argument after NETWORK.

        Raises:
            UsageError: both or neither are given.
        """
        if (self.output is None) == (self.named is None):
            raise UsageError("give exactly one output: --output OUT.")
        return self.output or self.named  # type: ignore[return-value]


COMMAND = Command("export", __doc__, ExportOptions)


def main(arguments: list[str]) -> int:
    """Export a network and print what was written; 0.

    Raises:
        UsageError: a mistake in the command line.
        AsdfError: the network cannot be read, does not fit this layout, or OUT cannot be written.
    """
    args = COMMAND.read(arguments)
    if args.samples is not None and args.format not in GRAPHS:
        raise UsageError(
            f"--samples applies to {', '.join(GRAPHS)}; {args.format} has no fixed length. Leave "
            "--samples out."
        )
    if args.int8 and args.format not in QUANTISED:
        raise UsageError(
            f"--int8 applies to {', '.join(QUANTISED)}; {args.format} keeps the weights unchanged. "
            "Leave --int8 out."
        )
    if args.runtime is not None and args.format != "web":
        raise UsageError(f"--runtime applies to web, not to {args.format}. Leave it out.")
    if args.samples is not None and args.samples < FRAME_SAMPLES:
        raise UsageError(f"--samples {args.samples}: give at least {FRAME_SAMPLES}, one frame.")
    # Checked before the network is read, which takes the longest.
    check_new(args.out)
    # torch is needed from here on, and takes seconds to import.
    from asdf.interchange import read_detector
    from asdf.networks.build import summary

    network, file = read_detector(args.network, args.network_folder, args.base)
    _check_audio(file, args.format)
    if args.format in _PUBLISHED:
        _check_no_loss(network, args.format)
        for head in _heads_of(network):
            raise UsageError(
                f"the network has {head}, which the format {args.format} cannot store. Export it "
                "as safetensors or hub, or as onnx or torchscript for utterance scores only."
            )
    remark = _WRITERS[args.format](args, network, file)
    kind = file.network_class or type(network).__name__
    parameters = summary(network).total
    show(f"written to {args.out}: {kind}, {parameters:,} parameters, as {args.format}")
    if remark:
        show(remark)
    if args.format in (*GRAPHS, "transformers", "web"):
        for output in _heads_of(network).values():
            show(f"the exported network gives utterance scores only, without {output}")
    return 0


def _heads_of(network: nn.Module) -> dict[str, str]:
    """Return the outputs of the network's heads besides scores, by head."""
    from asdf.networks import frame_hop
    from asdf.networks.heads import heads_of

    heads = {}
    if frame_hop(network) is not None:
        heads["a frame-level head (localisation.enabled = True)"] = "the scores of frames"
    for head in heads_of(network):
        heads[f"a head of {head.key!r}"] = f"the values of {head.key!r}"
    return heads


def _check_audio(file: NetworkFile, layout: str) -> None:
    """Refuse a network whose audio format the layout does not support.

    Raises:
        UsageError: its rate is not 16 kHz, or it takes several channels.
    """
    from asdf.scoring.usual_audio import check_usual

    audio = file.to_sections().audio
    if layout in (*_PUBLISHED, "web", "transformers"):
        check_usual(audio, f"The layout {layout}")
    if layout in GRAPHS and audio.channels == "all":
        raise UsageError(
            f"the network uses all channels of a recording, but the input of {layout} is (batch, "
            "samples). Export it as safetensors or hub, or serve the network file."
        )


def _check_no_loss(network: nn.Module, layout: str) -> None:
    """Refuse a network that includes a loss, for which a published layout has no layer.

    Raises:
        UsageError: the network includes a loss.
    """
    from asdf.interchange import has_one_class
    from asdf.networks.trained_loss import loss_of

    loss = loss_of(network)
    has_layer = layout in ("antideepfake", "published") and has_one_class(network)
    if loss is not None and not has_layer:
        raise UsageError(
            f"the network was trained with {type(loss).__name__}, whose layers compute its scores, "
            f"and the format {layout} cannot store them. Export it as onnx, torchscript, "
            "safetensors or hub."
        )


# Each writer returns notes on the file for the user, or ''.


def _write_published(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.checkpoint.weights_file import write_weights_file
    from asdf.interchange import published_state

    state, filled = published_state(network)
    write_weights_file(args.out, state)
    return _describe_filled(filled)


def _write_antideepfake(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.interchange import antideepfake_state

    state, filled = antideepfake_state(network)
    _write_layers(args.out, state)
    return _describe_filled(filled)


def _write_df_arena(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.checkpoint.safetensors import write_safetensors
    from asdf.checkpoint.weights_file import write_weights_file
    from asdf.interchange import df_arena_state

    state = df_arena_state(network)
    if args.out.suffix == ".safetensors":
        write_safetensors(args.out, state, {"format": "pt"})
    else:
        write_weights_file(args.out, state)
    return (
        "the file does not include DF-Arena's config.json and code: put it in a copy of their "
        "repository"
    )


def _write_classifier(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.interchange import write_classifier

    settings = file.to_sections()
    write_classifier(args.out, network, settings)
    numbers = settings.back_end.classifier_bona_fide
    named = ", ".join(settings.back_end.classifier_classes[number] for number in numbers)
    return f"its classes keep their order and names; bona fide: {named}"


def _write_as_published(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.checkpoint.weights_file import write_weights_file
    from asdf.interchange import authors_state, key_of_layers, lacks_pretraining

    state, filled = authors_state(network)
    key = key_of_layers(network)
    # A safetensors file cannot store a key.
    if key and args.out.suffix != ".safetensors":
        write_weights_file(args.out, {key: state})
    else:
        _write_layers(args.out, state)
    return _describe_filled(filled) if filled or lacks_pretraining(network) else ""


def _write_layers(out: Path, state: dict[str, Tensor]) -> None:
    from asdf.checkpoint.safetensors import write_safetensors
    from asdf.checkpoint.weights_file import write_weights_file

    if out.suffix == ".safetensors":
        write_safetensors(out, state, {"format": "pt"})
    else:
        write_weights_file(out, state)


def _describe_filled(filled: list[str]) -> str:
    if not filled:
        return "layers used only in pretraining the front end are missing: load with strict=False"
    return (
        f"filled with zeros, for programs that load strictly: {len(filled)} layers used only in "
        "pretraining the front end"
    )


def _write_aasist(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.checkpoint.weights_file import write_weights_file
    from asdf.interchange import aasist_state

    write_weights_file(args.out, aasist_state(network))
    return ""


def _write_rawnet2(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.checkpoint.weights_file import write_weights_file
    from asdf.interchange import rawnet2_state

    write_weights_file(args.out, rawnet2_state(network))
    return ""


def _write_graph(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf import interchange

    if args.format == "onnx":
        return interchange.write_onnx(network, args.out, args.samples, args.int8)
    writers = {
        "torchscript": interchange.write_torchscript,
        "executorch": interchange.write_executorch,
        "litert": interchange.write_litert,
    }
    samples = interchange.samples_for(network, args.samples)
    return writers[args.format](network, args.out, samples)


def _write_triton(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.interchange import write_triton_repository

    rule = scoring_rule(network, file)
    facts = {
        "sampling_rate": file.to_sections().audio.sample_rate,
        "labels": "spoof,bonafide",
        "min_samples": rule.min_samples,
        "max_samples": rule.max_samples,
        "score": rule.score,
    }
    if rule.calibration is not None:
        facts.update({"calibration": json.dumps(rule.calibration), "threshold": rule.threshold})
    name = (file.network_class or type(network).__name__).rpartition(".")[2]
    return write_triton_repository(args.out, name, network, facts, args.samples, args.int8)


def _write_safetensors(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.checkpoint.safetensors_network import write_safetensors_network

    write_safetensors_network(args.out, file)
    return ""


def _write_hub(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    count = write_card_and_weights(args.out, args.network, network, file)
    measured = "no measured EERs, because the network has none"
    if count:
        measured = f"{count} measured EERs"
    return f"README.md is the model card, with {measured}. Add the licence before you publish it."


def write_card_and_weights(
    folder: Path,
    source: str | Path,
    network: nn.Module,
    file: NetworkFile,
    address: str = "this/folder",
    licence: str = "",
) -> int:
    """Write the hub folder of a network, which is named like the folder.

    Args:
        source: Path of the network, next to which the results of its run may be.
        address, licence: Address and licence for the card, as in `model_card_text`.

    Returns:
        Number of measured EERs on the card.

    Raises:
        AsdfError: it cannot be written.
    """
    from asdf.checkpoint.safetensors_network import write_hub_folder
    from asdf.interchange import find_network, measured_eers, model_card_text
    from asdf.networks.build import summary

    # Resolved, because the folder may be given as '.', which is not a name for a card.
    name = folder.resolve().name
    # The folder of a run means its best network, whose results are under that name.
    eers = measured_eers(find_network(source), file)
    parameters = summary(network).total
    card = model_card_text(name, file, parameters, eers, address, licence)
    write_hub_folder(folder, file, card)
    return len(eers)


def _write_transformers(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    return write_transformers(args.network, args.out, network, file)


def _write_web(args: ExportOptions, network: nn.Module, file: NetworkFile) -> str:
    from asdf.browser import find_runtime, write_browser_folder
    from asdf.scoring.detector import Detector

    # Checked before the graph, which takes the longest.
    runtime = find_runtime(args.runtime)
    detector = Detector(args.network, "cpu", args.network_folder, base=args.base)
    written = write_browser_folder(args.out, network, detector, runtime, args.int8)
    lines = [written.words]
    if not runtime.is_tested:
        lines.append(f"uses onnxruntime-web {runtime.version}, with which ASDF was not tested")
    lines.append(
        f"{written.bytes / 1e6:.1f} MB, including {written.graph_bytes / 1e6:.1f} MB of network. "
        f"To use it: python3 -m http.server 8000 --bind 127.0.0.1 --directory {args.out}, then "
        "open http://127.0.0.1:8000/"
    )
    return "\n".join(lines)


_PUBLISHED = (
    "ssl_anti_spoofing",
    "aasist",
    "rawnet2",
    "antideepfake",
    "df_arena",
    "transformers_classifier",
    "published",
)
_WRITERS: dict[str, Callable[[ExportOptions, nn.Module, NetworkFile], str]] = {
    "ssl_anti_spoofing": _write_published,
    "aasist": _write_aasist,
    "rawnet2": _write_rawnet2,
    "antideepfake": _write_antideepfake,
    "df_arena": _write_df_arena,
    "transformers_classifier": _write_classifier,
    "published": _write_as_published,
    "onnx": _write_graph,
    "torchscript": _write_graph,
    "executorch": _write_graph,
    "litert": _write_graph,
    "triton": _write_triton,
    "safetensors": _write_safetensors,
    "hub": _write_hub,
    "transformers": _write_transformers,
    "web": _write_web,
}
