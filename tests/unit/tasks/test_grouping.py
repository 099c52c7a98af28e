"""Runs are put together by the settings that they recorded, and by names only without these."""

import pytest

from asdf.settings import Sections
from asdf.tasks.studies.configurations import NO_EFFECT, RunGroup, group_name, group_runs
from asdf.trials.run_folder import RunFolder
from tests.unit.report.folders import make_run
from tests.unit.report.seeded import make_seeded_run


def grouped(*folders) -> list[RunGroup]:
    runs = [RunFolder(folder) for folder in folders]
    return group_runs(runs, [run.name for run in runs])


def test_runs_that_differ_by_their_seed_alone_are_a_group_whatever_their_names(tmp_path):
    folders = [make_seeded_run(tmp_path / name, seed) for name, seed in (("b", 10), ("a", 2))]
    folders.append(make_seeded_run(tmp_path / "c_seed3", 3, network__score="llr"))
    assert grouped(*folders) == [RunGroup("a, b", (1, 0), ("2", "10"))]


@pytest.mark.parametrize(
    ("name", "is_same"),
    [
        ("computing__network_dataloader_workers", True),
        ("computing__gpu_ids", True),
        ("network__print_interval", True),
        ("paths__database_folder", True),
        ("recipe__start_stage", True),
        ("computing__processes", False),
        ("network__initial_learning_rate", False),
        ("computing__scoring_precision", False),
        ("recipe__evaluation_sets", False),
        ("own__hidden", False),
    ],
)
def test_settings_that_change_no_result_keep_no_runs_apart(tmp_path, name, is_same):
    first = make_seeded_run(tmp_path / "net-seed0", 0, **{name: 1})
    second = make_seeded_run(tmp_path / "net-seed1", 1, **{name: 2})
    assert len(grouped(first, second)) == is_same


def test_evaluation_sets_count_where_they_choose_the_network(tmp_path):
    folders = []
    for seed, sets in enumerate((("eval",), ("eval", "other"))):
        values = {"recipe__validation_sets": ("dev",), "recipe__evaluation_sets": sets}
        folders.append(make_seeded_run(tmp_path / f"s{seed}", seed, **values))
    assert len(grouped(*folders)) == 1


def test_each_seed_counts_once(tmp_path):
    seeds = {"a": 0, "again": 0, "b": 1}
    folders = [make_seeded_run(tmp_path / name, seed) for name, seed in seeds.items()]
    assert grouped(*folders) == [RunGroup("a, b", (0, 2), ("0", "1"))]
    assert grouped(*folders[:2]) == []


def test_without_a_recorded_seed_the_names_decide(tmp_path):
    folders = [make_run(tmp_path / name) for name in ("net_seed1", "net_seed2", "other")]
    assert grouped(*folders) == [RunGroup("net_seed*", (0, 1), ("1", "2"))]


def test_names_of_groups():
    assert group_name(["x-lr_1e-05-seed0", "x-lr_1e-05-seed1"]) == "x-lr_1e-05-seed*"
    assert group_name(list("abcde")) == "a, b, c and 2 more"


def test_every_setting_of_the_table_exists():
    settings = Sections()
    for name in NO_EFFECT:
        section, _, setting = name.partition(".")
        assert hasattr(getattr(settings, section), setting), name
