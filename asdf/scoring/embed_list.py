"""The embedding of each recording of a list, exactly once, on any number of processes.

Invariant: batches are formed from the whole list before they are dealt out, so an embedding is the
same to the last bit on any number of processes with the same number of threads, and after any stop:
what was computed lies in parts of whole batches, of which a later command computes only the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asdf.data.datasets import WholeUtterances
from asdf.data.decoders import log_fallbacks
from asdf.data.loaders import BatchLoader
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.parts import Columns, Parts, join_columns
from asdf.runs.progress import track
from asdf.scoring.score_list import keys_of
from asdf.scoring.scorer import Scorer
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList

_SHOWN = 5
_TRIALS, _EMBEDDINGS, _SCORES = "trials", "embeddings", "scores"


def embed_list(
    scorer: Scorer,
    utterances: TrialList,
    lengths: np.ndarray,
    settings: Sections,
    world: World,
    stop: StopRequest,
    parts: Parts,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return embeddings (N, E) and scores (N,) on the main rank; None on the others.

    Args:
        lengths: Lengths of the utterances, in samples (see `asdf.data.lengths`).
        parts: Parts of what has been computed, and of what is added.

    Raises:
        AsdfError: a recording cannot be read, an embedding is not finite, or a batch does not fit
            into the device's memory.
        UsageError: the network returns no embeddings.
        Stopped: a stop was requested; what was computed is in `parts`.
    """
    what = f"embedding {utterances.name}"
    known = world.run_on_main(lambda: _known_trials(parts.read(what), len(utterances)))
    remaining = [batch for batch in scorer.plan_batches(lengths) if not known[batch.trials].all()]
    local = remaining[world.rank :: world.size]
    dataset = WholeUtterances(utterances, settings.sad)
    loader = BatchLoader(dataset, settings.computing.network_dataloader_workers, world, stop=stop)
    keys = list(map(keys_of, local))
    batches = track(loader.batches(keys), len(local), what, shown=world.is_main, unit="batches")
    for batch, waveforms in zip(local, batches, strict=False):
        output = scorer.score_tensor(waveforms, embedding=True)
        assert output.embeddings is not None
        parts.add({_TRIALS: batch.trials, _EMBEDDINGS: output.embeddings, _SCORES: output.scores})
        if parts.due:
            parts.save()
        if stop:
            break
    parts.save()
    world.stop_together(stop, f"while {what}")
    log_fallbacks(what, loader.decoded_by_ffmpeg, utterances, len(utterances), world)
    assembled: list[Columns] = []
    world.run_on_main(lambda: assembled.append(_assemble(parts.read(what), utterances)))
    if not assembled:
        return None
    return assembled[0][_EMBEDDINGS], assembled[0][_SCORES]


def _known_trials(parts: Sequence[Columns], count: int) -> np.ndarray:
    known = np.zeros(count, bool)
    for part in parts:
        known[part[_TRIALS]] = True
    return known


def _assemble(parts: Sequence[Columns], utterances: TrialList) -> Columns:
    """Put parts into the order of the list, and check them."""
    joined = join_columns(parts)
    trials = joined[_TRIALS]
    if not np.array_equal(np.sort(trials), np.arange(len(utterances))):
        raise RuntimeError(f"{utterances.name}: {len(trials)} of {len(utterances)} embeddings")
    order = np.argsort(trials)
    whole = {name: column[order] for name, column in joined.items()}
    finite = np.isfinite(whole[_EMBEDDINGS]).all(axis=1) & np.isfinite(whole[_SCORES])
    wrong = np.flatnonzero(~finite)
    if len(wrong):
        names = ", ".join(utterances.ids[index] for index in wrong[:_SHOWN])
        raise AsdfError(
            f"{len(wrong)} of the {len(trials)} embeddings of {utterances.name} are not finite, "
            f"first: {names}. The network has probably diverged: choose an earlier epoch."
        )
    return whole
