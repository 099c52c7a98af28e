"""What a term may know and change from step to step, and what is recorded of it."""

from __future__ import annotations

import pytest
import torch

from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.build import build_network
from asdf.report.drawing import course_lines, training_course
from asdf.training.objective import Objective, TargetSource, check_needs
from asdf.training.training_progress import Progress
from tests.unit.conftest import network_settings
from tests.unit.training.terms.test_base import AIMS, Aiming, expected, make
from tests.unit.training.test_step import SIZE, UTTERANCES, WAVEFORMS, Net


class Rising(Aiming):
    """Its weight is what is trained so far."""

    def begin_step(self, epochs: float) -> None:
        self.weight = epochs


class Seeing(Aiming):
    """Notes what it sees of the minibatches."""

    needs = ("clips", "features")

    def __init__(self) -> None:
        self.seen: list[dict[str, torch.Tensor]] = []

    def per_utterance(self, outputs, targets):
        self.seen.append(dict(outputs.extras))
        return super().per_utterance(outputs, targets)


def batches_of(window):
    return (Batch(WAVEFORMS[torch.from_numpy(share.utterances)]) for share in window.shares)


def with_term(step, term):
    step.objective = Objective(step.objective.loss, (term,))
    step.targets = TargetSource(UTTERANCES, step.objective, step.settings, World().device)
    return step


@pytest.mark.parametrize("minibatch, interval", [(4, 1), (2, 2)])
def test_the_mean_of_a_term_is_that_of_the_utterances_that_count(minibatch, interval):
    # At this rate the network stays what it is.
    step = make(initial_learning_rate=1e-30)
    progress = Progress()
    since = []
    for window in TrainingPlan(SIZE, minibatch, interval).windows(1):
        step.take(window, batches_of(window), progress, [])
        since.append((window.utterances, progress.terms_since_printed()))
    embeddings, _ = make().network(WAVEFORMS)
    errors = ((embeddings[:, 0] - AIMS) ** 2).detach().double()
    counted = AIMS >= 0
    assert progress.terms_of_epoch() == pytest.approx({"aims": float(errors[counted].mean())})
    for utterances, means in since:
        chosen = torch.from_numpy(utterances)
        values = errors[chosen][counted[chosen]]
        assert means == (pytest.approx({"aims": float(values.mean())}) if len(values) else {})
    again = Progress.from_state(progress.state())
    assert again.terms == progress.terms
    progress.begin_epoch()
    assert "terms" not in progress.state() and progress.terms_of_epoch() == {}


@pytest.mark.parametrize(
    "damage", [{"aims": [1.0]}, {"aims": "x"}, [1.0], {"aims": [1, 2, 3, "a"]}]
)
def test_damaged_sums_of_terms_are_refused(damage):
    with pytest.raises(ValueError, match="its terms is"):
        Progress.from_state({**Progress().state(), "terms": damage})


def test_the_weight_of_a_term_follows_the_epochs():
    window = next(iter(TrainingPlan(SIZE, 4, 2).windows(1)))
    slopes = {}
    for epochs in (0, 3):
        step = with_term(make(), Rising())
        before = {name: value.clone() for name, value in step.network.state_dict().items()}
        step.take(window, batches_of(window), Progress(epochs=epochs), [])
        after = step.network.state_dict()
        slopes[epochs] = {name: before[name] - after[name] for name in before}
    detection = expected(window, 1.0)[0]
    of_term = expected(window, 0.0)[0]
    for name in detection:
        # `expected` weighs the term by 0.7.
        alone = detection[name] - of_term[name]
        torch.testing.assert_close(slopes[0][name], alone, rtol=1e-4, atol=1e-6)
        whole = alone + 3 / 0.7 * of_term[name]
        torch.testing.assert_close(slopes[3][name], whole, rtol=1e-4, atol=1e-6)


def test_a_term_sees_the_clips_and_the_features():
    settings = network_settings(
        network_class="asdf.networks.ComposedDetector", train_clip_size=16_000
    )
    settings.front_end.front_end_class = "lfcc"
    settings.back_end.back_end_class = "linear"
    network = build_network(settings).train()
    term = Seeing()
    check_needs((term,), network, from_features=False)
    clips = 0.1 * torch.randn(2, 16_000)
    objective = Objective(make().objective.loss, (term,))
    outputs = objective.with_clips(network(clips), clips)
    assert outputs.extras["clips"] is clips
    torch.testing.assert_close(outputs.extras["features"], network.front_end(clips))
    # Scoring gives what it gave.
    assert not hasattr(network.eval()(clips), "extras")


def test_what_a_term_cannot_see_is_refused():
    with pytest.raises(UsageError, match="needs the features of a front end, and Net does not"):
        check_needs((Seeing(),), Net(), from_features=False)

    class Hearing(Aiming):
        needs = ("clips",)

    with pytest.raises(UsageError, match=r"set front_end.cache_features = False"):
        check_needs((Hearing(),), Net(), from_features=True)


def test_a_page_draws_the_terms():
    records = [
        {"kind": "step", "epoch": epoch, "loss": 1.0, "learning_rate": 0.1, "terms": {"aims": 2.0}}
        for epoch in (0.5, 1.0)
    ]
    records.append({"kind": "step", "epoch": 1.5, "terms": "broken"})
    course = training_course("run", records)
    assert course.terms == {"aims": [0.5, 2.0, 1.0, 2.0]}
    (line,) = course_lines([course], [course.terms["aims"]], "term:aims")
    assert line.points == [0.5, 2.0, 1.0, 2.0] and line.name == "run"
    assert course_lines([course], [[]], "term:others") == []
