"""List the networks and front ends of ASDF with their sizes, costs and input lengths.

    python -m asdf networks                             # with the 300 M XLS-R front end
    python -m asdf networks --front-end wav2vec2_base   # with another front end
    python -m asdf networks --seconds 10                # cost of a longer clip

Multiply-adds count matrix products and convolutions for one clip; networks with a fixed input
length cut or repeat the clip. Nothing is downloaded, and no weights are allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from asdf.commands.options import Command, option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.settings import Sections
from asdf.settings.class_path import find_class
from asdf.settings.relations import THAT_KEEP_TIME
from asdf.settings.sections import BACK_ENDS, FRONT_ENDS
from asdf.text import aligned

if TYPE_CHECKING:
    from torch import nn

_HOUR_S = 3600
# Indices of columns with numbers.
_RIGHT = (1, 2, 3)


@dataclass(frozen=True)
class Row:
    """A network class and its costs.

    Attributes:
        parameters: Number of parameters of the whole network.
        back_end_parameters: Number of parameters outside of the front end.
        multiply_adds: Number of multiply-adds for one clip.
        takes: Description of the input lengths.
    """

    name: str
    parameters: int
    back_end_parameters: int
    multiply_adds: int
    takes: str
    paper: str


@dataclass(frozen=True, kw_only=True)
class NetworksOptions:
    """Options of the command."""

    front_end: str = option(
        "architecture of the front end, as in front_end.architecture",
        "NAME",
        default=Sections().front_end.architecture,
    )
    seconds: float = option("length of the clip in seconds", "S", default=4.0)


COMMAND = Command("networks", __doc__, NetworksOptions)


def main(arguments: list[str]) -> int:
    """Print the table; return 0.

    Raises:
        UsageError: there is no such front end, or the clip has no length.
    """
    args = COMMAND.read(arguments)
    # NaN fails the comparison too, and becomes 0.
    samples = round(args.seconds * SAMPLE_RATE) if 0 < args.seconds < _HOUR_S else 0
    if samples < 1:
        raise UsageError(
            f"--seconds {args.seconds:g}: the length of a clip must be above 0 s and below an hour."
        )
    show(table(measure(args.front_end, samples), f"{args.seconds:g} s"))
    show(
        f"\nSSL_*: with front_end.architecture = {args.front_end!r}. The setting "
        "network.network_class selects a network.\n"
    )
    show(front_end_table(args.front_end))
    names = ", ".join(map(repr, BACK_ENDS))
    show(
        "\nThe setting front_end.front_end_class selects a front end. asdf.networks."
        "ComposedDetector combines any of them with a back end, back_end.back_end_class = "
        f"{names}.\n\nBack ends that keep the time axis, for frame scores in addition to the "
        f"utterance score (localisation.enabled = True): {THAT_KEEP_TIME}."
    )
    return 0


def measure(architecture: str, samples: int) -> list[Row]:
    """Return the rows of all networks of the project, for a clip of `samples` samples."""
    from asdf import networks

    rows = []
    for name in networks.__all__:
        kind = getattr(networks, name)
        # Networks state their paper; other names in the room are not networks.
        paper = getattr(kind, "paper", "") if isinstance(kind, type) else ""
        if paper:
            rows.append(_measure_network(f"asdf.networks.{name}", paper, architecture, samples))
    return rows


def _measure_network(class_path: str, paper: str, architecture: str, samples: int) -> Row:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from asdf.networks import build_network, fixed_samples

    settings = Sections()
    settings.front_end.architecture = architecture
    settings.network.network_class = class_path
    # Tensors on the meta device have shapes but no values, so that networks of any size are cheap.
    with torch.device("meta"):
        network = build_network(settings).eval().requires_grad_(False)
        with FlopCounterMode(display=False) as counter:
            network(torch.empty(1, samples))
    total = _count_parameters(network)
    front_end = getattr(network, "front_end", None)
    back_end = total
    if front_end is not None:
        back_end -= _count_parameters(front_end)
    # The counter counts a multiplication and an addition as two.
    multiply_adds = counter.get_total_flops() // 2
    fixed = fixed_samples(network)
    takes = f"{fixed:,} samples" if fixed else "any length"
    return Row(class_path, total, back_end, multiply_adds, takes, paper)


def front_end_table(architecture: str) -> str:
    """Return the front ends by their short names, in columns."""
    cells = [["front end", "values per frame", "samples of a frame", "every", "what it is"]]
    for name, class_path in FRONT_ENDS.items():
        sizes = _measure_front_end(name, architecture)
        kind = find_class(class_path, None, "front_end.front_end_class", object)
        summary = (kind.__doc__ or "").partition("\n")[0]
        cells.append([name, *sizes, summary])
    return "\n".join(aligned(cells, _RIGHT))


def _measure_front_end(name: str, architecture: str) -> list[str]:
    """Return dimension, window and hop; [] if only a model's folder states them."""
    import torch

    from asdf.networks import TransformersFrontEnd
    from asdf.networks.ssl_detector import find_front_end_class

    sections = Sections()
    sections.front_end.architecture = architecture
    sections.front_end.front_end_class = name
    kind = find_front_end_class(sections.front_end)
    assert kind is not None
    if issubclass(kind, TransformersFrontEnd):
        return ["", "", ""]
    with torch.device("meta"):
        front_end = kind.from_settings(sections)
    return [f"{front_end.dimension:,}", f"{front_end.window:,}", f"{front_end.hop:,}"]


def _count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def table(rows: list[Row], clip: str) -> str:
    """Return the rows below a heading, in columns."""
    cells = [
        [
            "network class",
            "parameters",
            "without front end",
            f"multiply-adds, {clip}",
            "takes",
            "published in",
        ]
    ]
    for row in rows:
        cells.append(
            [
                row.name,
                f"{row.parameters:,}",
                f"{row.back_end_parameters:,}",
                f"{row.multiply_adds / 1e9:.2f} G",
                row.takes,
                row.paper,
            ],
        )
    return "\n".join(aligned(cells, _RIGHT))
