"""Convert a network of ASDF to a format that other programs can load.

    python -m asdf export net.pt --format onnx net.onnx              # ONNX, for any language
    python -m asdf export net.pt --format torchscript net.ts         # TorchScript, for C++
    python -m asdf export net.pt --format torchscript net.ts --samples 48000  # for clips of 3 s
    python -m asdf export net.pt --format safetensors net.safetensors  # safetensors, for ASDF
    python -m asdf export net.pt --format hub folder/                # for upload to Hugging Face
    python -m asdf export net.pt --format transformers folder/       # for transformers, with ASDF
    python -m asdf export net.pt --push ORG/NAME --licence cc-by-4.0 # to a repository on the hub

ONNX and TorchScript models take waveforms (batch, samples) at 16 kHz and return embeddings and
logits (spoof, bona fide), without calibration. ONNX models accept any length, if the graph agrees
with the network at all checked lengths; with --samples, and TorchScript models, exactly that one.

A hub folder has a model card with the corpora, settings and error rates in the network's file or
its run, and no paths or user names of your machine. A transformers folder works in
`pipeline("audio-classification", model="folder/", trust_remote_code=True)` where ASDF is installed;
it knows no 'mixed' and no 'undecided'. The other formats are those of published programs
(docs/weights.md): OUT is what their authors' code loads.

--push pushes the hub folder, or with --format transformers that one, as one commit; ORG/NAME@BRANCH
names a branch. It needs the package huggingface_hub, and a token (hf auth login, or HF_TOKEN).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from asdf.commands.options import NETWORK_HELP, Command, WeightsOptions, argument, flag, option
from asdf.commands.outputs import check_file, show
from asdf.errors import UsageError
from asdf.hub import parse_name, push_folder
from asdf.ports import load, provided
from asdf.settings.sections import FRAME_SAMPLES

if TYPE_CHECKING:
    from torch import nn

    from asdf.checkpoint.network_file import NetworkFile

GRAPHS = ("onnx", "torchscript")
FOLDERS = ("hub", "transformers")
FORMATS = (*GRAPHS, "safetensors", *FOLDERS, *provided("EXPORTS"))


@dataclass(frozen=True, kw_only=True)
class ExportOptions(WeightsOptions):
    """Options of the command."""

    network: str = argument(NETWORK_HELP, "NETWORK")
    named: Path | None = argument("output file", "OUT", default=None, hidden=True)
    format: str = option(
        f"{', '.join(FORMATS)} (with --push: hub)", "FORMAT", "", choices=FORMATS, needed=True
    )
    output: Path | None = option("output file, or folder", "OUT", short="-o", needed=True)
    samples: int | None = option(
        "onnx, torchscript: fixed input length (torchscript: 64600; onnx: any length)", "N"
    )
    push: str = option("repository on the hub to push to", "ORG/NAME", "")
    private: bool = flag("--push: create a repository that only its owners can see")
    licence: str = option(
        "hub, transformers: licence of the weights, by its name on the hub: mit, cc-by-4.0, other",
        "NAME",
        "",
    )

    @property
    def out(self) -> Path | None:
        """The output file, from --output or the argument after NETWORK; None with --push."""
        return self.output or self.named


COMMAND = Command("export", __doc__, ExportOptions)


def main(arguments: list[str]) -> int:
    """Export a network and print what was written; 0.

    Raises:
        UsageError: a mistake in the command line, or nobody is logged in.
        AsdfError: the network cannot be read, does not fit this layout, or OUT cannot be written;
            or the hub refuses the upload.
    """
    args = COMMAND.read(arguments)
    args = _checked(args)
    # torch is needed from here on, and takes seconds to import.
    from asdf.interchange import read_detector

    network, file = read_detector(args.network, args.network_folder, args.base)
    if args.out is not None:
        _write(args, args.out, network, file)
        return 0
    name = parse_name(f"hub:{args.push.removeprefix('hub:')}")
    assert name is not None  # with 'hub:' it is a name or an error
    with TemporaryDirectory(prefix="asdf-push-") as temporary:
        # The card is named like the folder.
        folder = Path(temporary) / name.repository.rpartition("/")[2]
        _write(args, folder, network, file, f"hub:{name.repository}")
        pushed, address = push_folder(folder, name, args.private, f"Add {folder.name}")
    show(f"published: {address}")
    show(f'usage: asdf.Detector("hub:{name.repository}"), or this commit: "{pushed}"')
    return 0


def _checked(args: ExportOptions) -> ExportOptions:
    """Return the options, checked before the network is read, which takes the longest.

    Raises:
        UsageError: they do not fit each other, or the output exists already.
    """
    given = [place for place in (args.output, args.named, args.push) if place]
    chosen = args.format or ("hub" if args.push else "")
    folders = f"{FOLDERS[0]} and {FOLDERS[1]}"
    refusals = {
        "give exactly one output: --output OUT, or --push ORG/NAME.": len(given) != 1,
        f"--format is missing: {', '.join(FORMATS)}.": not chosen,
        f"--push pushes {' or '.join(FOLDERS)}, not {chosen}.": args.push and chosen not in FOLDERS,
        "--private applies to --push. Leave it out.": args.private and not args.push,
        f"--licence applies to {folders}, not to {chosen}.": args.licence and chosen not in FOLDERS,
        f"--samples applies to {', '.join(GRAPHS)}; {chosen} has no fixed length. Leave --samples "
        "out.": args.samples is not None and chosen not in GRAPHS,
        f"--samples {args.samples}: give at least {FRAME_SAMPLES}, one frame.": (
            args.samples is not None and args.samples < FRAME_SAMPLES
        ),
    }
    for text, is_wrong in refusals.items():
        if is_wrong:
            raise UsageError(text)
    if args.out is not None:
        check_new(args.out)
    return replace(args, format=chosen)


def check_new(out: Path) -> None:
    """Refuse to overwrite a file, because a network may be the only copy.

    Raises:
        UsageError: `out` exists, or is standard output.
    """
    check_file(out)
    if out.exists():
        raise UsageError(
            f"{out} exists already and is not overwritten. Remove it first, or give another OUT."
        )


def _write(
    args: ExportOptions,
    out: Path,
    network: nn.Module,
    file: NetworkFile,
    address: str = "this/folder",
) -> None:
    """Write the network and print what was written."""
    from asdf.checkpoint.network_reading import write_safetensors_network
    from asdf.interchange import samples_for, write_onnx, write_torchscript
    from asdf.networks.attached import describe_heads
    from asdf.networks.build import summary
    from asdf.scoring.scorer import check_usual

    write = provided("EXPORTS").get(args.format)
    if write is not None or args.format == "transformers":
        check_usual(file.to_sections().audio, f"The layout {args.format}")
    if write is not None:
        remark = load(write)(args.format, out, network, file)
    elif args.format in FOLDERS:
        remark = _write_folder(args, out, network, file, address)
    elif args.format == "safetensors":
        write_safetensors_network(out, file)
        remark = ""
    elif file.to_sections().audio.channels == "all":
        raise UsageError(
            f"the network uses all channels of a recording, but the input of {args.format} is "
            "(batch, samples). Export it as safetensors or hub, or serve the network file."
        )
    elif args.format == "onnx":
        remark = write_onnx(network, out, args.samples)
    else:
        remark = write_torchscript(network, out, samples_for(network, args.samples))
    kind = file.network_class or type(network).__name__
    show(f"written to {out}: {kind}, {summary(network).total:,} parameters, as {args.format}")
    if remark:
        show(remark)
    if args.format in GRAPHS:
        for output in describe_heads(network).values():
            show(f"the exported network gives utterance scores only, without {output}")


_USE = """
## Use with transformers

```python
from transformers import pipeline

detector = pipeline("audio-classification", model="{address}", trust_remote_code=True)
detector("recording.wav")
```

needs transformers and ASDF (`pip install asdf-antispoofing`); `trust_remote_code=True` runs
`modeling_asdf.py`, which imports ASDF. The larger share is ASDF's verdict, where
that is no third one, such as undecided. That of a calibrated
network is the logistic function of the log-likelihood ratio less the threshold.
"""


def _write_folder(
    args: ExportOptions, out: Path, network: nn.Module, file: NetworkFile, address: str
) -> str:
    from asdf.checkpoint.network_reading import write_hub_folder
    from asdf.interchange import (
        find_network,
        measured_eers,
        model_card_text,
        write_transformers_folder,
    )
    from asdf.networks.build import summary

    use = ""
    write = write_hub_folder
    if args.format == "transformers":
        use = _USE.format(address=address.removeprefix("hub:"))
        write = write_transformers_folder
    # The folder of a run means its best network, whose results are under that name.
    eers = measured_eers(find_network(args.network), file)
    # Resolved, because the folder may be given as '.', which is not a name for a card.
    name = out.resolve().name
    card = model_card_text(name, file, summary(network).total, eers, address, args.licence, use)
    write(out, file, card)
    measured = "no measured EERs, because the network has none"
    if eers:
        measured = f"{len(eers)} measured EERs"
    remark = "" if args.licence else " and no licence: state it with --licence"
    return f"README.md is the model card, with {measured}{remark}"
