"""Configs as users of the original ASDF have them load unchanged."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest

from asdf.settings import Settings, list_configs
from asdf.settings.catalogue import catalogue

ORIGINAL = Path(__file__).resolve().parents[2] / "fixtures" / "original_configs"

NAMES = {
    "paths": "output_folder system_folder sad_folder",
    "computing": "network_dataloader_workers use_gpu gpu_ids",
    "network": "network_class resume_epoch max_epochs epochs_per_train_call minibatch_size "
    "eval_minibatch_size_factor train_clip_size min_evaluation_utterance_length_in_samples "
    "max_evaluation_utterance_length_in_samples max_cut_proportion print_interval "
    "scoring_print_interval optimizer initial_learning_rate momentum weight_decay "
    "weight_decay_skiplist optimizer_step_interval lr_update_ratio max_consecutive_lr_updates "
    "min_loss_change_ratio min_room_for_improvement target_loss",
    "rawboost": "enabled applyingRatio algo nBands minF maxF minBW maxBW minCoeff maxCoeff minG "
    "maxG minBiasLinNonLin maxBiasLinNonLin N_f P g_sd SNRmin SNRmax",
    "sad": "mode",
    "recipe": "start_stage end_stage selected_epochs training_sets evaluation_sets",
}
ALL = {f"{section}.{name}" for section, names in NAMES.items() for name in names.split()}


INITIAL = {
    "paths.output_folder": "/scratch/asdf_outputs",
    "computing.gpu_ids": (0,),
    "network.network_class": "asdf.networks.SSL_AASIST",
    "network.train_clip_size": 64000,
    "network.weight_decay_skiplist": ("batchnorm",),
    "network.resume_epoch": 0,
    "rawboost.maxF": 8000,
    "recipe.evaluation_sets": ("asvspoof19-dev", "asvspoof19-eval"),
}
CONFIGS: dict[str, dict[str, object]] = {
    "train-ssl-aasist": {
        "network.optimizer": "adam",
        "network.initial_learning_rate": 1e-6,
        "network.max_epochs": 20,
        "rawboost.enabled": True,
        "rawboost.algo": 5,
    },
    "train-ssl-aasist-long": {
        "network.max_epochs": 100,
        "network.train_clip_size": 64600,
        "network.minibatch_size": 14,
    },
    "debug_1.0": {
        "computing.use_gpu": False,
        "network.max_epochs": 1,
        "network.train_clip_size": 64600,
        "paths.system_folder": "debug",
    },
    "eval-ssl-aasist": {
        "network.resume_epoch": -20,
        "recipe.selected_epochs": (5, 10, 20),
        "sad.mode": "endpoint",
        "recipe.evaluation_sets": ("asvspoof19-eval", "asvspoof21-la-eval"),
    },
    "2019-eval": {"recipe.start_stage": 2, "recipe.evaluation_sets": ("asvspoof19-eval",)},
}


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_SCRATCH", "/scratch")


def test_every_name_of_the_original_is_known_and_in_the_fixture() -> None:
    assert catalogue().keys() >= ALL
    text = (ORIGINAL / "init_config.py").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+\.\w+) =", text, re.MULTILINE)) == ALL


def test_init_config() -> None:
    settings = Settings(ORIGINAL / "init_config.py")
    assert {name: attrgetter(name)(settings) for name in INITIAL} == INITIAL


@pytest.mark.parametrize(("name", "values"), CONFIGS.items())
def test_run_configs(name: str, values: dict[str, object]) -> None:
    settings = Settings(ORIGINAL / "init_config.py")
    for _ in settings.load_settings(ORIGINAL / "run_configs.py", [name]):
        snapshot = settings.snapshot()
    assert {setting: attrgetter(setting)(snapshot) for setting in values} == values
    assert settings.network.optimizer == "sgd"


def test_list() -> None:
    assert list_configs(ORIGINAL / "run_configs.py") == (
        "train-ssl-aasist  Trains SSL-AASIST with RawBoost\n"
        "  train-ssl-aasist-long < train-ssl-aasist  The same with longer examples\n"
        "  eval-ssl-aasist < train-ssl-aasist\n"
        "    2019-eval < eval-ssl-aasist\n"
        "cpu\n"
        "  debug_1.0 < cpu < train-ssl-aasist-long"
    )
