"""Configs as users of the original ASDF have them load unchanged."""

from __future__ import annotations

import re
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


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_SCRATCH", "/scratch")


def test_every_name_of_the_original_is_known_and_in_the_fixture() -> None:
    assert catalogue().keys() >= ALL
    text = (ORIGINAL / "init_config.py").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+\.\w+) =", text, re.MULTILINE)) == ALL


def test_init_config() -> None:
    settings = Settings(ORIGINAL / "init_config.py")
    assert settings.paths.output_folder == "/scratch/asdf_outputs"
    assert settings.computing.gpu_ids == (0,)
    assert settings.network.network_class == "asdf.networks.SSL_AASIST"
    assert settings.network.train_clip_size == 64000
    assert settings.network.weight_decay_skiplist == ("batchnorm",)
    assert settings.network.resume_epoch == 0
    assert settings.rawboost.maxF == 8000
    assert settings.recipe.evaluation_sets == ("asvspoof19-dev", "asvspoof19-eval")


def test_run_configs() -> None:
    settings = Settings(ORIGINAL / "init_config.py")
    names = [
        "train-ssl-aasist",
        "train-ssl-aasist-long",
        "debug_1.0",
        "eval-ssl-aasist",
        "2019-eval",
    ]
    seen = {
        name: settings.snapshot()
        for name, _ in zip(
            names, settings.load_settings(ORIGINAL / "run_configs.py", names), strict=True
        )
    }
    train, long, debug, score, eval_2019 = (seen[name] for name in names)
    assert (
        train.network.optimizer,
        train.network.initial_learning_rate,
        train.network.max_epochs,
    ) == ("adam", 1e-6, 20)
    assert (train.rawboost.enabled, train.rawboost.algo) == (True, 5)
    assert (long.network.max_epochs, long.network.train_clip_size, long.network.minibatch_size) == (
        100,
        64600,
        14,
    )
    assert (debug.computing.use_gpu, debug.network.max_epochs, debug.paths.system_folder) == (
        False,
        1,
        "debug",
    )
    assert debug.network.train_clip_size == 64600
    assert (score.network.resume_epoch, score.recipe.selected_epochs) == (-20, (5, 10, 20))
    assert (score.sad.mode, score.recipe.evaluation_sets) == (
        "endpoint",
        ("asvspoof19-eval", "asvspoof21-la-eval"),
    )
    assert (eval_2019.recipe.start_stage, eval_2019.recipe.evaluation_sets) == (
        2,
        ("asvspoof19-eval",),
    )
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
