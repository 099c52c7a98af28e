"""Which networks recipe.selected_epochs means."""

import pytest

from asdf.errors import AsdfError, UsageError
from asdf.recipe.problems import check_choices
from asdf.recipe.run_folders import select_networks
from asdf.recipe.training_stage import find_starting_point
from asdf.runs.evaluations import Evaluation, write_evaluations
from asdf.runs.layout import RESUME, Layout, NetworkName
from asdf.settings.sections import Sections


def settings(selected=None, resume="auto") -> Sections:
    made = Sections()
    made.recipe.selected_epochs, made.network.resume_epoch = selected, resume
    return made


@pytest.fixture
def networks(tmp_path):
    layout = Layout(tmp_path)
    layout.networks.mkdir()
    for name in ("epoch.2.pt", "epoch.9.pt", "epoch.10.pt", "epoch.10.step.95.pt", "average.pt"):
        (layout.networks / name).touch()
    eers = {
        "epoch.1.pt": 0.01,
        "epoch.2.pt": 0.3,
        "epoch.9.pt": 0.2,
        "epoch.10.step.95.pt": 0.1,
        "epoch.10.pt": 0.15,
    }
    evaluations = [
        Evaluation(step, None, NetworkName.parse(name), {"dev": eer})
        for step, (name, eer) in enumerate(eers.items())
    ]
    write_evaluations(layout, evaluations)
    return layout


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (settings(), ["epoch.10.pt"]),
        (settings(("last",)), ["epoch.10.pt"]),
        (settings((9, 2)), ["epoch.9.pt", "epoch.2.pt"]),
        (settings(("best",)), ["epoch.10.step.95.pt"]),  # epoch 1 was better, and was not retained
        (settings(("average", "last", 10)), ["average.pt", "epoch.10.pt"]),
        (settings(resume=-9), ["epoch.9.pt"]),
        (settings((2,), resume=-9), ["epoch.2.pt"]),
    ],
)
def test_names(networks, chosen, names):
    assert select_networks(chosen, networks) == names


def test_networks_that_do_not_exist(networks, tmp_path):
    with pytest.raises(
        AsdfError,
        match=r"holds no epoch\.3\.pt, epoch\.4\.pt\. There are epoch\.2\.pt, .*selected_epochs",
    ):
        select_networks(settings((3, 2, 4)), networks)
    empty = Layout(tmp_path / "empty")
    empty.networks.mkdir(parents=True)
    for chosen, said in ((None, "there are no networks in .*run stage 1 first"),
                         (("best",), "no network in .* has been evaluated"),
                         ((1,), "There are no networks: run stage 1 first")):  # fmt: skip
        with pytest.raises(AsdfError, match=said):
            select_networks(settings(chosen), empty)


@pytest.mark.parametrize(
    ("selected", "averaged", "validation", "said"),
    [
        (("average",), 0, ("v",), "'average', but network.average_best_networks is 0"),
        (("average",), 2, (), "network.average_best_networks needs validation results"),
        (("best",), 0, (), "'best' needs validation results, but recipe.validation_sets is empty"),
        (("average",), 2, ("v",), ""),
    ],
)
def test_what_training_will_not_make_is_found_before_it(selected, averaged, validation, said):
    chosen = settings(selected)
    chosen.network.average_best_networks = averaged
    chosen.recipe.validation_sets = validation
    if said:
        with pytest.raises(UsageError, match=said):
            check_choices(chosen)
        # Networks of an earlier training may well be chosen so.
        chosen.recipe.start_stage = 2
    check_choices(chosen)


@pytest.mark.parametrize("sampler", ["shuffled", "balanced_corpora"])
def test_weights_that_no_sampler_reads_are_refused(sampler):
    chosen = settings(None)
    chosen.recipe.sampler = sampler
    check_choices(chosen)
    chosen.recipe.set_weights = (0.5, 0.5)
    with pytest.raises(UsageError) as error:
        check_choices(chosen)
    assert str(error.value) == (
        f"recipe.set_weights = (0.5, 0.5) has no effect with recipe.sampler = '{sampler}': set "
        "recipe.sampler to 'weighted_corpora', or recipe.set_weights = None."
    )
    # A sampler of the user's own may read them.
    for other in ("weighted_corpora", "mine.Sampler"):
        chosen.recipe.sampler = other
        check_choices(chosen)
    # Nothing is trained.
    chosen.recipe.sampler = sampler
    chosen.recipe.start_stage = 2
    check_choices(chosen)


def test_a_start_from_0_never_overwrites_what_it_would_resume(tmp_path):
    layout = Layout(tmp_path)
    layout.networks.mkdir()
    assert find_starting_point(0, layout) is None
    layout.network_file(RESUME).touch()
    with pytest.raises(AsdfError, match=r"resume_epoch = 0 would overwrite resume\.pt in"):
        find_starting_point(0, layout)
