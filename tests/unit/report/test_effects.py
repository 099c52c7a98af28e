"""The effect of a setting: pictures and tables whose numbers are those of the runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from asdf.evaluation import evaluate, read_scores
from asdf.metrics.score_checks import rank_correlation
from asdf.report import report_page
from asdf.report.effect_pictures import effect_section, find_effects, positions_of, value_axis
from tests.unit.report.folders import gathered_of
from tests.unit.report.seeded import make_seeded_run


def eer_of(folder) -> float:
    return evaluate(read_scores(folder / "scores" / "epoch.1" / "eval.txt")).eer


@pytest.fixture(scope="module")
def one_setting(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    folders = []
    for rate, shift in ((1e-3, 1.0), (1e-5, 2.0), (1e-4, 3.0)):
        for seed in (0, 1):
            folder = base / f"net-{rate}-seed{seed}"
            settings = {"network__initial_learning_rate": rate}
            folders.append(make_seeded_run(folder, seed, shift=shift, sets=("eval",), **settings))
    return folders


def test_one_setting_is_a_plot_on_a_logarithmic_axis(one_setting):
    gathered = gathered_of(*one_setting, replicates=50)
    effects = find_effects(gathered)
    assert effects.settings == ("network.initial_learning_rate",)
    assert [point.values for point in effects.points] == [("1e-05",), ("0.0001",), ("0.001",)]
    mean = np.mean([eer_of(folder) for folder in one_setting[2:4]])
    assert effects.points[0].eers["eval"].mean == mean
    section = effect_section(gathered)
    (panel,) = section.figure.panels
    assert f"network.initial_learning_rate = 1e-05: EER {100 * mean:.2f} %" in panel.description
    of_points = [mark for line in panel.lines for mark in panel.marks(line)]
    assert of_points[0].words == f"network.initial_learning_rate = 1e-05: EER {100 * mean:.2f} %"
    marks = [float(mark.x) for mark in of_points]
    # Powers of ten are equally far apart.
    assert marks[1] - marks[0] == pytest.approx(marks[2] - marks[1], abs=0.2)
    assert [panel.x.text(tick) for tick in panel.x.ticks] == ["1e-05", "0.0001", "0.001"]
    # The intervals of three means, and the line through them.
    assert len(list(filter(None, map(panel.path, panel.lines)))) == 4
    assert section.points.rows[0][3].text.startswith(f"{100 * mean:.2f} ± ")
    page = report_page(gathered)
    assert 'data-plot="effect"' in page
    assert "The effect of settings as a table" in page


def make_of_loss_and_size(base: Path, loss: str, size: int) -> Path:
    settings = {"network__loss": loss, "network__minibatch_size": size}
    folder = base / f"{loss}-{size}"
    return make_seeded_run(folder, 0, sets=("eval",), shift=size / 4, **settings)


def test_two_settings_are_a_heat_map(tmp_path):
    pairs = [(loss, size) for loss in ("focal", "aam_softmax") for size in (16, 4)]
    folders = [make_of_loss_and_size(tmp_path, *pair) for pair in pairs]
    section = effect_section(gathered_of(*folders))
    assert section.figure is None
    (heat,) = section.maps.maps
    head = [cell.text for cell in heat["table"].head]
    assert head == ["", "minibatch_size = 4", "minibatch_size = 16"]
    first = heat["table"].rows[0]
    assert first[0].text == "loss = 'aam_softmax'"
    expected = [f"{100 * eer_of(tmp_path / f'aam_softmax-{size}'):.2f}" for size in (4, 16)]
    assert [cell.text for cell in first[1:]] == expected
    assert re.fullmatch(r"h\d", first[1].css)


def test_settings_that_changed_together_are_one_and_reported_as_confounded(tmp_path):
    """Two settings with two values each, of which only two of four combinations exist."""
    pairs = (("focal", 16), ("aam_softmax", 4))
    folders = [make_of_loss_and_size(tmp_path, *pair) for pair in pairs]
    gathered = gathered_of(*folders)
    effects = find_effects(gathered)
    assert effects.settings == ("network.loss + network.minibatch_size",)
    assert [point.values for point in effects.points] == [("'aam_softmax' + 4",), ("'focal' + 16",)]
    section = effect_section(gathered)
    assert section.maps is None and section.figure.title == f"Effect of {effects.settings[0]}"
    (sentence,) = section.confounded
    assert sentence.startswith("network.loss and network.minibatch_size changed together")
    assert "confounded" in sentence and f"<p>{sentence}</p>" in report_page(gathered)
    # A third run with one of them alone separates the two.
    folders.append(make_of_loss_and_size(tmp_path, "focal", 4))
    section = effect_section(gathered_of(*folders))
    assert section.confounded == () and section.maps is not None


def test_more_settings_are_a_table_of_ranks_and_means(tmp_path):
    folders = []
    for index, shift in enumerate((1.0, 1.5, 2.0, 3.0)):
        settings = {
            "network__initial_learning_rate": 10.0**-index,
            "network__loss": ("focal", "cross_entropy")[index % 2],
            "network__minibatch_size": (4, 8, 2, 6)[index],
        }
        folder = tmp_path / f"r{index}"
        folders.append(make_seeded_run(folder, 0, shift=shift, sets=("eval",), **settings))
    section = effect_section(gathered_of(*folders))
    eers = [eer_of(folder) for folder in folders]
    rows = {row[0].text: row[2] for row in section.ranks.rows}
    assert rows["network.initial_learning_rate"].value == pytest.approx(1)
    means = rows["network.loss"].text
    assert f"'focal': {100 * np.mean(eers[::2]):.2f}" in means


def test_rank_correlation_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    first, second = [1, 2, 2, 5, 3], [0.3, 0.1, 0.4, 0.4, 0.2]
    expected = stats.spearmanr(first, second).statistic
    assert rank_correlation(first, second) == pytest.approx(expected)
    assert rank_correlation([1, 1], [1, 2]) is None


@pytest.mark.parametrize(
    ("values", "ends", "is_log"),
    [
        # A hundred times as much, with 6 % of the logarithm on both sides.
        (["1e-05", "0.001"], (1e-5 / 100**0.06, 1e-3 * 100**0.06), True),
        (["0", "10"], (-0.6, 10.6), False),
        (["4", "16"], (3.28, 16.72), False),
        (["'a'", "None"], (-0.06, 1.06), False),
        (["True", "False"], (-0.06, 1.06), False),
    ],
)
def test_axes_of_values(values, ends, is_log):
    axis = value_axis(positions_of(values), "network.loss")
    assert (axis.low, axis.high) == pytest.approx(ends)
    assert axis.scale(np.e) == pytest.approx(1 if is_log else np.e)
    assert [axis.text(tick) for tick in axis.ticks] == values
    assert axis.label == "loss"


def test_runs_that_differ_in_nothing_or_in_too_much_are_no_sweep(tmp_path):
    same = [make_seeded_run(tmp_path / f"s{seed}", seed, sets=("eval",)) for seed in (0, 1)]
    assert find_effects(gathered_of(*same)) is None
    settings = {"network__loss": "focal", "network__score": "llr", "back_end__heads": 3}
    other = make_seeded_run(tmp_path / "other", 0, sets=("eval",), **settings)
    assert find_effects(gathered_of(*same, other)) is None


def test_plots_for_papers_have_them(one_setting, tmp_path):
    from asdf.report import plots

    figure = plots.effect_plot(find_effects(gathered_of(*one_setting)))
    axes = figure.axes[0]
    # Powers of ten are equally far apart.
    assert np.diff(axes.get_xticks()) == pytest.approx([np.log(10)] * 2)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1e-05", "0.0001", "0.001"]
    (drawn,) = [line.get_ydata() for line in axes.lines if line.get_marker() == "o"]
    assert drawn[0] == pytest.approx(100 * np.mean([eer_of(f) for f in one_setting[2:4]]))
