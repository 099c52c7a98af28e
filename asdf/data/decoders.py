"""One line in the main log on the recordings of a list that needed another decoder than libsndfile."""

from __future__ import annotations

from asdf.audio import fallbacks
from asdf.distributed.world import World
from asdf.runs.log import LOG
from asdf.trials.trial_list import TrialList


def tell_fallbacks(
    what: str, decoded: set[str], utterances: TrialList, total: int, world: World
) -> None:
    """Log how many of the `total` recordings of `utterances` that were read FFmpeg decoded; nothing when none.

    All ranks call it together.

    Args:
        what: was done with the recordings, as 'scoring dev'.
        decoded: paths that FFmpeg decoded on this rank.
    """
    gathered = world.gather(decoded)
    if gathered is not None:
        paths = (utterances.path(index) for index in range(len(utterances)))
        line = fallbacks.describe(set().union(*gathered), paths, total)
        if line:
            LOG.info("%s: %s", what, line)
