"""One line in the log on the recordings that needed another decoder than libsndfile."""

from __future__ import annotations

from asdf.audio import fallbacks
from asdf.distributed.world import World
from asdf.runs.log import LOG
from asdf.trials.trial_list import TrialList


def log_fallbacks(
    what: str, decoded: set[str], utterances: TrialList, total: int, world: World
) -> None:
    """Log how many recordings FFmpeg decoded, if any; all ranks call this together.

    Args:
        what: was done with the recordings, as 'scoring dev'.
        decoded: paths that FFmpeg decoded on this rank.
        total: the number of recordings of `utterances` that were read.
    """
    gathered = world.gather(decoded)
    if gathered is not None:
        paths = (utterances.path(index) for index in range(len(utterances)))
        line = fallbacks.describe(set().union(*gathered), paths, total)
        if line:
            LOG.info("%s: %s", what, line)
