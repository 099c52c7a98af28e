from __future__ import annotations

import math
from typing import Any

import pytest

from asdf.settings.catalogue import catalogue, describe_names, our_catalogue, section_types
from asdf.settings.config_layers import expand
from asdf.settings.mistakes import Complaint
from asdf.settings.value_checks import check_value

FORM = "'package.module.Class'"
NOR = f"nor a class path {FORM}"
OPTIMISERS = f"'sgd', 'adam', 'adamw' {NOR}"
BACKENDS = "'auto', 'nccl', 'gloo' or 'mpi'"
USE_GPU = "expected True or False or 'required'"
NUMBERS, STRINGS = "expected a tuple of whole numbers", "expected a tuple of strings"
OF_ONE = "a tuple of one value is written"
EPOCHS = "expected a whole number, 'best', 'average' or 'last'"
BEST = ", not a string; the nearest is 'best'"
OF_WINDOWS = "is a Windows path; write one of this system, as /mnt/c/... in WSL"
CHARACTER = "the path contains a character that is not allowed in file names"


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        ("network.max_epochs", 3, 3),
        ("network.momentum", 0, 0.0),
        ("network.max_steps", None, None),
        ("network.resume_epoch", "auto", "auto"),
        ("network.resume_epoch", -20, -20),
        ("network.adam_betas", [0, 0.5], (0.0, 0.5)),
        ("computing.gpu_ids", [0, 2, 3], (0, 2, 3)),
        ("computing.gpu_ids", (), ()),
        ("computing.use_gpu", False, False),
        ("recipe.selected_epochs", [3, "best"], (3, "best")),
        ("recipe.selected_epochs", None, None),
        ("network.callbacks", ["my.module.Class"], ("my.module.Class",)),
        ("paths.output_folder", "$X/y", "$X/y"),
        ("rawboost.algo", 8, 8),
        ("network.optimizer", "my_optimisers.Lion", "my_optimisers.Lion"),
        ("augmentation.chain", ["noise", "mine.Part"], ("noise", "mine.Part")),
        ("front_end.trained_parts", ["norms", "layers:3-"], ("norms", "layers:3-")),
        ("front_end.trained_parts", ("*.attention.*",), ("*.attention.*",)),
    ],
)
def test_fits(name: str, value: Any, result: Any) -> None:
    fitted = check_value(catalogue()[name], value)
    assert fitted == result
    assert type(fitted) is type(result)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("network.max_epochs", True, "expected a whole number, not True"),
        ("network.max_epochs", "3", "expected a whole number, not a string"),
        ("network.max_epochs", 1e3, "expected a whole number, not a float; write 1000"),
        ("network.max_epochs", 1.5, "expected a whole number, not a float"),
        ("network.max_epochs", None, "expected a whole number, not None"),
        ("network.max_epochs", (3,), "expected a whole number, not a tuple"),
        ("network.max_epochs", 0, "must be at least 1"),
        ("network.train_clip_size", 16, "must be at least 400 samples"),
        ("network.max_steps", 0, "must be at least 1"),
        ("network.max_steps", "x", "expected a whole number or None, not a string"),
        ("network.initial_learning_rate", 0, "must be above 0"),
        ("network.initial_learning_rate", math.nan, "expected a finite number"),
        ("network.gradient_clip_norm", math.inf, "expected a finite number"),
        ("network.momentum", True, "expected a number, not True"),
        ("network.momentum", 10**400, "the number is out of range"),
        ("network.momentum", 1.5, "must be at most 1"),
        (
            "network.optimizer",
            "adm",
            f"'adm' is neither one of {OPTIMISERS}; the nearest is 'adam'",
        ),
        ("network.optimizer", "SGD", f"'SGD' is neither one of {OPTIMISERS}; the nearest is 'sgd'"),
        ("network.optimizer", 1, "expected a string, not a whole number; write '1'"),
        ("computing.backend", "NCCL", f"expected {BACKENDS}; the nearest is 'nccl'"),
        ("computing.backend", 1, f"expected {BACKENDS}"),
        ("network.resume_epoch", "best", "expected a whole number or 'auto', not a string"),
        ("network.resume_epoch", False, "expected a whole number or 'auto', not False"),
        ("network.adam_betas", (0.9,), "expected a tuple of 2 numbers, not 1"),
        ("network.adam_betas", 0.9, "expected a tuple of 2 numbers, not a float"),
        ("network.adam_betas", (0.9, "x"), "value 2 ('x'): expected a number, not a string"),
        ("network.adam_betas", (0.9, 2), "must be at most 1"),
        ("computing.use_gpu", 0, f"{USE_GPU}, not a whole number; write False"),
        ("computing.gpu_ids", 0, f"{NUMBERS}, not a whole number; {OF_ONE} (0,)"),
        ("computing.gpu_ids", "x", f"{NUMBERS}, not a string"),
        ("computing.gpu_ids", (0, -1), "must be at least 0"),
        ("computing.gpu_ids", (0, 1, 0), "0 occurs twice"),
        ("computing.gpu_ids", (0, True), "value 2 (True): expected a whole number, not True"),
        (
            "recipe.training_sets",
            "asvspoof19",
            f"{STRINGS}, not a string; {OF_ONE} ('asvspoof19',)",
        ),
        ("recipe.training_sets", None, f"{STRINGS}, not None"),
        ("recipe.evaluation_sets", ("a", "b", "a"), "'a' occurs twice"),
        ("recipe.selected_epochs", ("bset",), f"value 1 ('bset'): {EPOCHS}{BEST}"),
        ("network.network_class", "AASIST", f"'AASIST' is not a class path; it is written {FORM}"),
        ("network.network_class", "a.b-c", f"'a.b-c' is not a class path; it is written {FORM}"),
        ("network.callbacks", ("a.B", "c"), f"'c' is neither one of 'tensorboard', 'wandb' {NOR}"),
        ("front_end.architecture", "", "must not be empty"),
        ("paths.output_folder", " ", "the path is empty; write '.' for the current folder"),
        ("paths.output_folder", "a\0b", CHARACTER),
        ("paths.output_folder", "\ud800", CHARACTER),
        ("paths.output_folder", r"C:\data", OF_WINDOWS),
        ("paths.output_folder", "C:\new", OF_WINDOWS),
        (
            "augmentation.noise_folders",
            ("a", ""),
            "the path is empty; write '.' for the current folder",
        ),
        ("augmentation.chain", ("noise", "noise"), "'noise' occurs twice"),
        ("paths.system_folder", 2024, "expected a string, not a whole number; write '2024'"),
    ],
)
def test_refused(name: str, value: Any, problem: str) -> None:
    with pytest.raises(Complaint) as caught:
        check_value(catalogue()[name], value)
    assert caught.value.text == problem


def test_every_default_fits_its_own_setting() -> None:
    for known in catalogue().values():
        assert check_value(known, known.default) == known.default
    known = catalogue()
    assert describe_names(known["network.optimizer"]) == "'sgd', 'adam', 'adamw' or a class path"
    assert describe_names(known["network.callbacks"]) == "'tensorboard', 'wandb' or class paths"


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (
            "network.max_epoch",
            "no setting 'network.max_epoch'; the nearest is 'network.max_epochs'",
        ),
        ("rawboost.applyingratio", "the nearest is 'rawboost.applyingRatio'"),
        ("network.algo", "there is no setting 'network.algo'; the nearest is 'rawboost.algo'"),
        ("netwrk.max_epochs", "there is no section 'netwrk'; the nearest is 'network.max_epochs'"),
        ("a.b.max_epochs", "there is no section 'a.b'; the nearest is 'network.max_epochs'"),
        ("x.qqq", f"there is no section 'x'; the sections are {', '.join(section_types())}"),
        ("max_epochs", "has no section; write section.name; the nearest is 'network.max_epochs'"),
    ],
)
def test_unknown_names(target: str, problem: str) -> None:
    with pytest.raises(Complaint) as caught:
        our_catalogue().look_up(target)
    assert str(caught.value).endswith(problem)


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("SCRATCH", "/s")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("NONE", raising=False)
    assert expand("$SCRATCH/LA") == "/s/LA"
    assert expand("${SCRATCH}LA/./$SCRATCH") == "/sLA/.//s"
    assert expand("~/a~b") == "/home/u/a~b"
    assert expand("cost $5 $") == "cost $5 $"
    with pytest.raises(Complaint) as caught:
        expand("$NONE/$SCRATCH/${NONE}/${EMPTY}")
    assert caught.value.text == (
        "the environment variables $NONE, $EMPTY are not set; export NONE=... first, or write the "
        "path in full"
    )
