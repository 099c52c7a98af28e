"""Checks of a run's classes, before anything is measured."""

from __future__ import annotations

from pathlib import Path

from asdf.recipe.problems import failures
from asdf.recipe.requirements import class_checks
from asdf.settings import Sections


def test_every_missing_class_is_reported(tmp_path: Path) -> None:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_AASITS"
    settings.front_end.front_end_class = "my_front_end.Filters"
    settings.back_end.back_end_class = "my_back_end.Pooling"
    settings.network.validation_metric = "my_metrics.Rate"
    settings.network.loss = "my_losses.Margin"
    settings.network.tasks = ("my_tasks.Speakers",)
    found = dict.fromkeys(str(error) for error in failures(class_checks(settings, tmp_path)))
    assert [message.partition(":")[0] for message in found] == [
        "network.network_class",
        "front_end.front_end_class",
        "back_end.back_end_class",
        "network.validation_metric",
        "network.loss",
        "network.tasks",
    ]
    assert failures(class_checks(Sections(), tmp_path)) == []
