"""Plots of embeddings: the options of `python -m asdf embed`, and the drawing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.options import option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.runs.files import write_text

if TYPE_CHECKING:
    from asdf.tasks.embeddings.embedding_files import Embeddings

# Also in `projection`, which imports numpy: --help should not wait for that.
METHODS = ("pca", "tsne", "umap")
_SUFFIXES = (".svg", ".png", ".pdf")


def _check_suffix(path: Path) -> None:
    if path.suffix not in _SUFFIXES:
        raise UsageError(f"--picture {path}: the name must end in one of {', '.join(_SUFFIXES)}.")


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """A plot of the embeddings."""

    picture: Path | None = option(
        "draw the embeddings: .svg, .png or .pdf", "OUT", check=_check_suffix
    )
    by: str = option("column that determines colour and shape of points", "COLUMN", default="label")
    method: str = option(
        "projection: principal components (%(default)s), or t-SNE or UMAP, which need pip install "
        "'asdf-antispoofing[embeddings]'",
        default="pca",
        choices=METHODS,
    )


def draw_picture(path: Path, embeddings: Embeddings, args: PictureOptions) -> None:
    """Draw the embeddings, and show the number for each value.

    Raises:
        AsdfError: there is no such column, or the plot cannot be written.
        UsageError: a package is missing.
    """
    from asdf.tasks.embeddings.pictures import embedding_picture

    picture = embedding_picture(embeddings, args.by, args.method)
    if path.suffix == ".svg":
        from asdf.report import points_svg

        write_text(path, points_svg(picture))
    else:
        from asdf.report.plots import write_embedding_plot

        write_embedding_plot(path, picture)
    for group in picture.groups:
        show(f"  {group.name}: {group.count:,} ({group.shape})")
    show(f"written to {path}: {picture.title}")
