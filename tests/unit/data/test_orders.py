"""What a sampler returns is looked at before anything is trained on it."""

import numpy as np
import pytest

from asdf.data.sampler_orders import Orders, earlier_turns, find_sampler
from asdf.data.samplers import Sampler, Shuffled
from asdf.data.training_plan import TrainingPlan
from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList

UTTERANCES = TrialList([str(i) for i in range(6)], [1, 0] * 3)


class Listed(Sampler):
    """Returns `orders[epoch]`, or what a function there returns."""

    def order(self, epoch):
        order = self.orders[epoch]
        return order() if callable(order) else order


def listed(**orders) -> Listed:
    sampler = Listed(Sections(), UTTERANCES)
    sampler.orders = {int(name[1:]): order for name, order in orders.items()}
    return sampler


def test_an_order_of_any_integers_becomes_a_copy_of_its_own():
    mine = np.array([5, 0, 0], np.uint8)
    orders = Orders(listed(e1=mine, e2=[1, 2, 3]))
    mine[0] = 1
    assert orders.size == 3 and orders.of(1).tolist() == [5, 0, 0]
    assert orders.of(2).dtype == np.int64 and orders.of(2).tolist() == [1, 2, 3]


def test_an_epoch_is_drawn_once_and_its_digest_names_it():
    orders = Orders(Shuffled(Sections(), UTTERANCES))
    assert orders.of(3) is orders.of(3)
    again = Orders(Shuffled(Sections(), UTTERANCES))
    assert orders.digest(3) == again.digest(3) != again.digest(4)
    # Whatever type of integers the sampler uses.
    narrow, wide = (Orders(listed(e1=np.array([3, 1], kind))) for kind in (np.int16, np.int64))
    assert narrow.digest(1) == wide.digest(1)


def clip_keys(plan: TrainingPlan, epoch: int) -> list[tuple[int, int]]:
    shares = [share for window in plan.windows(epoch) for share in window.shares]
    return [key for share in shares for key in share.clip_keys()]


def draw():
    return np.random.default_rng().permutation(6)


def fail():
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("order", "part"),
    [
        ([0, 6], "has the index 6, but the training list has the utterances 0 to 5"),
        ([0, -1], "has the index -1"),
        ([0.0, 1.0], r"returned an array of shape \(2,\) and type float64"),
        ([True, False], "type bool"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([], r"shape \(0,\)"),
        (None, r"shape \(\) and type object"),
        (draw, "order must follow from self.seed and the epoch alone"),
        (fail, r"Listed.order\(1\) failed: KeyError: 'no such thing' \(.*test_orders.py, line"),
    ],
)
def test_what_is_no_order_is_refused_with_the_name_of_its_class(order, part):
    with pytest.raises(AsdfError, match=part) as caught:
        Orders(listed(e1=order))
    assert str(caught.value).startswith("recipe.sampler: tests.unit.data.test_orders.Listed.order")


def test_all_epochs_have_the_same_number_of_turns():
    orders = Orders(listed(e1=[0, 1, 2], e2=[0, 1]))
    with pytest.raises(AsdfError, match=r"order\(2\) has 2 turns, but order\(1\) has 3"):
        orders.of(2)


@pytest.mark.parametrize(
    ("base", "misspelt", "missing"),
    [("Sampler", "orders", "order"), ("GroupedSampler", "group", "groups")],
)
def test_a_sampler_that_lacks_its_method_is_refused(tmp_path, base, misspelt, missing):
    name = f"sampler_without_{missing}"
    (tmp_path / f"{name}.py").write_text(
        f"from asdf.data.samplers import {base}\n\n\n"
        f"class Mine({base}):\n    def {misspelt}(self, epoch=1):\n        return [0]\n"
    )
    settings = Sections()
    settings.recipe.sampler = f"{name}.Mine"
    with pytest.raises(UsageError, match=f"{name}.Mine does not implement {missing}, which Sa"):
        find_sampler(settings, tmp_path)


def test_the_turns_before_a_turn_are_counted_by_utterance():
    assert earlier_turns(np.array([4, 1, 4, 4, 1, 0])).tolist() == [0, 0, 1, 2, 1, 0]
    assert earlier_turns(np.arange(5)[::-1]).tolist() == [0] * 5


def test_a_second_turn_in_an_epoch_has_a_clip_of_its_own():
    orders = Orders(listed(e1=[4, 4, 1, 4, 1], e2=[0, 1, 2, 3, 4]))
    plan = TrainingPlan(orders.size, 2, orders=orders)
    keys = clip_keys(plan, 1)
    # The last, a single one, has a filler: the same clip once more.
    assert len(set(keys[:5])) == 5 and keys[4] == keys[5]
    assert [key for key in keys if key[0] == 1] == [(1, 4), (1, 1)]
    assert all(draws > 10**9 for draws, _ in set(keys) - {(1, 4), (1, 1)})
    assert [window.epoch_size for window in plan.windows(2)] == [5, 5, 5]
    second = clip_keys(plan, 2)
    assert second[:5] == [(2, index) for index in range(5)]


def test_ranks_share_the_turns_of_a_sampler():
    orders = Orders(listed(e1=[5, 5, 3, 3, 3, 0, 5, 1]))
    alone = TrainingPlan(8, 4, orders=orders)
    expected = [share.clip_keys() for window in alone.windows(1) for share in window.shares]
    ranks = [TrainingPlan(8, 2, 1, 2, rank, orders=orders) for rank in (0, 1)]
    shared = [[s.clip_keys() for w in plan.windows(1) for s in w.shares] for plan in ranks]
    both = [first + second for first, second in zip(*shared, strict=True)]
    assert both == expected
    # From the middle: the same clips as without a stop.
    rest = [share.clip_keys() for window in alone.windows(1, 4) for share in window.shares]
    assert rest == expected[1:]
