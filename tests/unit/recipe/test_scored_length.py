"""What a run writes next to its score files is what `score_list` takes of each recording."""

from types import SimpleNamespace

from torch import nn

from asdf.recipe.stages import _scored_length
from asdf.settings.sections import Sections
from asdf.trials.scored_length import ScoredLength


class Fixed(nn.Module):
    fixed_samples = 5000


def test_a_network_of_one_length_is_scored_from_it():
    settings = Sections()
    settings.network.min_evaluation_utterance_length_in_samples = 800
    settings.network.max_evaluation_utterance_length_in_samples = 90_000
    run = SimpleNamespace(settings=settings)
    assert _scored_length(run, nn.Linear(1, 1)) == ScoredLength(800, 90_000)
    assert _scored_length(run, Fixed()) == ScoredLength(5000, 5000)
