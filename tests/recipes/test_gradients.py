"""A gradient that is not finite, while the loss is, ends the run, and no network is saved."""

import re

import pytest

SETTINGS = ["debug", "network.network_class=small_networks.Exploding", "network.max_epochs=1"]


@pytest.mark.parametrize(("minibatch", "named"), [(4, 4), (9, 8)])
def test_the_step_is_named_and_nothing_is_saved_from_it(recipe, capsys, minibatch, named):
    """It is seen with the next step of the epoch; with minibatches of 9 the epoch ends there."""
    outcome = recipe.call(capsys, *SETTINGS, f"network.minibatch_size={minibatch}")
    assert outcome.status == 1, outcome.output
    message = re.search(r"error: the gradient of step 3 \((.*)\) is not a finite", outcome.output)
    assert message, outcome.output
    assert len(message[1].split(", ")) == named
    assert not list(recipe.system().glob("networks/*.pt"))
