"""Score files with the protocol of their set, as the commands that evaluate and draw them take them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.errors import UsageError

if TYPE_CHECKING:
    from asdf.evaluation import Scores
    from asdf.evaluation.trials import Trials

UNDIVIDED = "of the spoofs no values of it are known, or every trial has the same one"
"""Why a column has no conditions, see `asdf.evaluation.conditions.conditions_of`."""

_SUFFIXES = (".txt", ".tsv", ".csv", ".scores")


def add_score_files(parser: argparse.ArgumentParser) -> None:
    """The arguments that name score files and their protocol."""
    parser.add_argument("scores", nargs="+", type=Path, metavar="SCORES", help="score files, one a system")
    parser.add_argument("--protocol", type=Path, metavar="P", help="the label file of the set: labels and conditions")
    parser.add_argument("--subset", metavar="S", help="only the trials of this subset of P (ASVspoof 2021: eval)")
    parser.add_argument("--ignore-others", action="store_true", help="leave out scored trials that P does not have")


def read_protocol_asked(given: argparse.Namespace) -> tuple[Trials | None, Trials | None]:
    """All trials of the protocol that was named, and those of the subset; None without a protocol.

    Raises:
        UsageError: options about a protocol without one, or no trial of that subset.
        AsdfError: the protocol cannot be read.
    """
    if given.protocol is None:
        if given.subset or given.ignore_others:
            raise UsageError("--subset and --ignore-others are about a protocol: give --protocol too.")
        return None, None
    from asdf.data.corpora.protocols import choose_subset, read_protocol

    whole = read_protocol(given.protocol)
    return whole, choose_subset(whole, given.subset, given.protocol) if given.subset else whole


def read_scores_asked(path: Path, trials: Trials | None, whole: Trials | None, ignore_others: bool) -> Scores:
    """The scores in a file, of `trials` where there is a protocol; what is left out is told on stderr.

    Raises:
        AsdfError: the file cannot be read, or does not fit the protocol.
    """
    if trials is None:
        from asdf.evaluation import read_any_scores

        return read_any_scores(path)
    from asdf.evaluation.matching import read_matched

    scores, others = read_matched(path, trials, whole=whole, ignore_others=ignore_others)
    if others:
        print(f"{path}: {others} scored trials are left out, {len(scores)} evaluated", file=sys.stderr)
    return scores


def short_names(paths: Sequence[Path]) -> list[str]:
    """The shortest names that tell the score files apart: file names without suffixes, or else paths as given."""
    stems = [path.name.removesuffix(".gz") for path in paths]
    stems = [stem.rsplit(".", 1)[0] if stem.endswith(_SUFFIXES) else stem for stem in stems]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    # A file's name may hold bytes that are no text, and outputs are text.
    return [name.encode("utf-8", "backslashreplace").decode("utf-8") for name in names]
