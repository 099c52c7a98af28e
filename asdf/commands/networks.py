"""The networks there are: their sizes, what they cost, and which recordings they take.

    python -m asdf networks                                    with a wav2vec 2.0 XLS-R front end of 300 M
    python -m asdf networks --front-end wav2vec2_base          with another front end
    python -m asdf networks --seconds 10                       the cost of a longer clip

Multiply-adds are those of matrix products and convolutions on one clip, which a network of one length cuts or repeats.
Nothing is downloaded, and no weights are made.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.settings import Sections


@dataclass(frozen=True)
class Row:
    """A network class: `parameters` of both ends, `back_end_parameters` those that are not the front end's."""

    name: str
    parameters: int
    back_end_parameters: int
    multiply_adds: int
    takes: str
    paper: str


def main(arguments: list[str]) -> int:
    """Print the table; 0.

    Raises:
        UsageError: no such front end, or no clip to speak of.
    """
    parser = argparse.ArgumentParser(
        prog="python -m asdf networks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--front-end",
        metavar="NAME",
        default=Sections().front_end.architecture,
        help="as front_end.architecture",
    )
    parser.add_argument(
        "--seconds", type=float, metavar="S", default=4.0, help="length of the clip (4)"
    )
    given = parser.parse_args(arguments)
    samples = round(given.seconds * SAMPLE_RATE) if 0 < given.seconds < 3600 else 0
    if samples < 1:
        raise UsageError(
            f"--seconds {given.seconds:g}: a clip of more than 0 s and less than an hour is needed."
        )
    show(table(measure(given.front_end, samples), f"{given.seconds:g} s"))
    show(
        f"\nSSL_*: with front_end.architecture = {given.front_end!r}. Choose with network.network_class."
    )
    return 0


def measure(architecture: str, samples: int) -> list[Row]:
    """The rows of all networks of the project, for a clip of so many samples."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from asdf import networks
    from asdf.networks.build import build_network

    rows = []
    for name in networks.__all__:
        kind = getattr(networks, name)
        paper = getattr(kind, "paper", "") if isinstance(kind, type) else ""
        if not paper:
            continue
        settings = Sections()
        settings.front_end.architecture = architecture
        settings.network.network_class = f"asdf.networks.{name}"
        # Tensors of the meta device have shapes and no values: a network of any size costs next to nothing.
        with torch.device("meta"):
            network = build_network(settings).eval().requires_grad_(False)
            with FlopCounterMode(display=False) as counter:
                network(torch.empty(1, samples))
        front_end = getattr(network, "front_end", None)
        total, in_front = (
            sum(parameter.numel() for parameter in module.parameters()) if module is not None else 0
            for module in (network, front_end)
        )
        fixed = networks.fixed_samples(network)
        takes = f"{fixed:,} samples" if fixed else "any length"
        # The counter counts a multiplication and an addition as two.
        cost = counter.get_total_flops() // 2
        rows.append(Row(f"asdf.networks.{name}", total, total - in_front, cost, takes, paper))
    return rows


def table(rows: list[Row], clip: str) -> str:
    """The rows below a heading, in columns."""
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
        cost = f"{row.multiply_adds / 1e9:.2f} G"
        cells.append(
            [
                row.name,
                f"{row.parameters:,}",
                f"{row.back_end_parameters:,}",
                cost,
                row.takes,
                row.paper,
            ],
        )
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numbers = (1, 2, 3)
    lines = [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)
