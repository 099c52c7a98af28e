"""The work of the stages; recipes call these functions or their own.

torch is loaded with the modules that do the work, once a stage runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from asdf.recipe.run import Run
from asdf.runs.layout import NetworkName
from asdf.runs.log import LOG

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from asdf.trials.trial_list import TrialList


def train_network(run: Run, network: nn.Module, utterances: TrialList, lengths: np.ndarray) -> None:
    """Train `network`, resuming as `network.resume_epoch` specifies, and validate it meanwhile.

    Args:
        lengths: Lengths of the utterances, in samples after speech activity detection.
    """
    from asdf.recipe.lists import Measured
    from asdf.recipe.training_stage import train

    train(run, network, Measured(utterances, lengths))


def validate_network(run: Run) -> None:
    """Score the validation sets with the network chosen by network.resume_epoch = -N."""
    from asdf.recipe.scoring_stage import score_validation_sets

    name = NetworkName.after_epoch(-int(run.settings.network.resume_epoch)).file
    LOG.info("network.resume_epoch = %s: no training", run.settings.network.resume_epoch)
    score_validation_sets(run, run.load_network(name), name)


def evaluate_network(
    run: Run, network: nn.Module, name: str, sets: Iterable[str]
) -> dict[str, float]:
    """Score `sets` with a network, write the score files and return the EERs, on every rank."""
    from asdf.recipe.scoring_stage import evaluate_sets

    return evaluate_sets(run, network, name, sets)


def report_results(run: Run, networks: Iterable[str], sets: Iterable[str]) -> None:
    """Compute the metrics of the score files; log them, and write tables and a page."""
    from asdf.recipe.scoring_stage import report

    report(run, networks, sets)
