"""Pictures of embeddings: the options of `python -m asdf embed`, and what is drawn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.runs.files import write_text

if TYPE_CHECKING:
    from asdf.trials.embeddings import Embeddings

METHODS = ("pca", "tsne", "umap")
_SUFFIXES = (".svg", ".png", ".pdf")


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a picture."""
    parser.add_argument(
        "--picture", type=Path, metavar="OUT", help="draw the embeddings: .svg, .png or .pdf"
    )
    parser.add_argument(
        "--by", default="label", metavar="COLUMN", help="the column that points differ by (label)"
    )
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="pca",
        help="principal components (pca), or t-SNE or UMAP (pip install "
        "'asdf-antispoofing[embeddings]')",
    )


def check_picture(args: argparse.Namespace) -> None:
    """Refuse a format that cannot be written."""
    if args.picture and args.picture.suffix not in _SUFFIXES:
        raise UsageError(f"--picture {args.picture}: write {', '.join(_SUFFIXES)}.")


def draw_picture(args: argparse.Namespace, embeddings: Embeddings) -> None:
    """Draw the embeddings, and show how many there are of each value.

    Raises:
        AsdfError: there is no such column, or the picture cannot be written.
        UsageError: a package is missing.
    """
    from asdf.report import embedding_picture

    picture = embedding_picture(embeddings, args.by, args.method)
    if args.picture.suffix == ".svg":
        write_text(args.picture, picture.svg())
    else:
        from asdf.report.plots import write_embedding_plot

        write_embedding_plot(args.picture, picture)
    for group in picture.groups:
        show(f"  {group.name}: {group.count:,} ({group.shape})")
    show(f"written to {args.picture}: {picture.title}")
