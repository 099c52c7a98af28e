"""Measure the distance of recordings from a network's training set, by their embeddings.

    python -m asdf embed network.pt train_list.txt --output train.npz
    python -m asdf embed network.pt recordings/ --output new.npz
    python -m asdf distance train.npz new.npz

The output is the Frechet distance between the embeddings of both files, with a 95 % interval over
recordings, or over speakers if both files have them, and for comparison the distance of held-out
recordings of the training set. On recordings far from its training set, a detector may be wrong
more often than its error rates say.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asdf.commands.options import Command, argument, option
from asdf.commands.outputs import show, text_stream
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import write_text
from asdf.tables.plain_json import as_json

if TYPE_CHECKING:
    from asdf.tasks.embeddings.embedding_files import Embeddings

# Each tail of a 95 % interval has 2.5 % of the draws: one of 40.
_MIN_DRAWS = 40
# Words of the command line, without a space, and those of a file of embeddings.
_CLASSES = {"bona-fide": "bona fide", "spoof": "spoof"}


@dataclass(frozen=True, kw_only=True)
class DistanceOptions:
    """Options of the command."""

    training: Path = argument(
        "embeddings of the training set",
        metavar="TRAINING.npz",
    )
    new: Path = argument(
        "embeddings of other recordings",
        metavar="NEW.npz",
    )
    only: str | None = option(
        "compare only recordings of this class",
        choices=_CLASSES,
    )
    draws: int = option(
        "number of random halves that are drawn",
        metavar="N",
        default=200,
    )
    seed: int = option(
        "seed of the draws",
        metavar="N",
        default=0,
    )
    json: Path | None = option(
        "also write the numbers as JSON; - is standard output",
        metavar="OUT",
    )


COMMAND = Command("distance", __doc__, DistanceOptions, {".json": "json"})


def main(arguments: list[str]) -> int:
    """Show the distance; return 0 even if it is far, which the sentence states.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, or the two files do not match.
    """
    args = COMMAND.read(arguments)
    if args.draws < _MIN_DRAWS or args.seed < 0:
        raise UsageError(f"--draws must be at least {_MIN_DRAWS}, and --seed must not be negative.")
    from asdf.tasks.embeddings.home_distance import measure_distance

    training = _read(args.training, args.only)
    new = _read(args.new, args.only)
    # Engine, device and threads may differ: they change an embedding by rounding alone.
    for name in ("sha256", "scored", "sad", "precision"):
        if training.how.get(name) != new.how.get(name):
            raise AsdfError(
                f"{args.training} and {args.new} were computed differently: they differ in "
                f"{name!r}. Embed both lists with the same network and options."
            )
    distance = measure_distance(
        training.embeddings_NE,
        new.embeddings_NE,
        training_speakers=_speakers(training),
        new_speakers=_speakers(new),
        draws=args.draws,
        seed=args.seed,
    )
    screen = text_stream([args.json])
    if args.json:
        record = {**asdict(distance), "is_far": distance.is_far}
        write_text(args.json, as_json(record))
    drawn = "speakers" if distance.by_speakers else "recordings"
    show(f"{args.new} from {args.training}: {distance.value:.4g}", screen)
    show(f"  95 %: {distance.low:.4g} .. {distance.high:.4g} over {drawn}", screen)
    home = f"{distance.home:.4g}, 97.5 % below {distance.home_high:.4g}"
    show(f"  held-out training recordings: {home}", screen)
    show(f"  {distance.recordings} recordings at a time, {distance.axes} principal axes", screen)
    show(distance.describe(), screen)
    return 0


def _read(path: Path, only: str | None) -> Embeddings:
    from asdf.tasks.embeddings.embedding_files import read_embeddings

    embeddings = read_embeddings(path)
    if only is None:
        return embeddings
    values = np.array(embeddings.values_of("label"))
    chosen = np.flatnonzero(values == _CLASSES[only])
    if not chosen.size:
        raise AsdfError(f"{path}: no recording is {_CLASSES[only]}. Leave --only out.")
    return embeddings.select(chosen)


def _speakers(embeddings: Embeddings) -> list[str] | None:
    """Return the speaker of each recording; None unless all are known."""
    speakers = embeddings.trials.columns.get("speaker")
    if speakers is None or not all(speakers):
        return None
    return list(speakers)
