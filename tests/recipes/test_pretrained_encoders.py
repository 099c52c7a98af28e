"""A pretrained encoder starts from its weights, or from random numbers that were asked for."""

import shutil

import pytest

from tests.conftest import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
OURS = "network.network_class=asdf.networks.SSL_ASP"
REFUSED = "front_end.weights = None would train front_end.architecture"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([OURS], "front_end.weights = 'torchaudio:WAV2VEC2_XLSR_300M'"),
        ([OURS, "front_end.architecture=hubert_base"], "'torchaudio:HUBERT_BASE'"),
        (
            [OURS, "front_end.front_end_class=transformers", "front_end.architecture=me/xls-r"],
            "front_end.weights = 'me/xls-r'",
        ),
        (["network.network_class=asdf.src.networks.architectures.SSL_AASIST"], "xlsr2_300m.pt"),
    ],
)
def test_random_numbers_that_nobody_asked_for_are_refused(recipe, capsys, words, named) -> None:
    for more in ([], ["--dry-run"], ["network.resume_epoch=0"]):
        recipe.call(capsys, "debug", *words, *more).refused(REFUSED, named)
    assert not recipe.system().exists()


@pytest.mark.parametrize(
    "words",
    [
        [OURS, "front_end.weights=random"],
        [OURS, "front_end.architecture=tiny"],
        [OURS, "recipe.start_stage=2"],
        [OURS, "network.initial_network=a.pt"],
        [OURS, "network.resume_epoch=-3"],
        [OURS, "front_end.front_end_class=lfcc"],
        ["network.network_class=asdf.networks.AASIST"],
        ["network.network_class=small_networks.Plain"],
    ],
)
def test_what_needs_no_pretrained_weights_is_not_refused(recipe, capsys, words) -> None:
    # Checked before the corpus, which is not there.
    nowhere = "paths.database_folder=nowhere"
    assert REFUSED not in recipe.call(capsys, "debug", *words, nowhere, "--dry-run").output


def test_training_that_goes_on_is_not_refused(recipe, capsys) -> None:
    recipe.system().joinpath("networks").mkdir(parents=True)
    recipe.system().joinpath("networks", "epoch.1.pt").touch()
    assert REFUSED not in recipe.call(capsys, "debug", OURS, "--dry-run").output


def test_random_is_what_none_is(recipe, capsys) -> None:
    words = [OURS, "front_end.architecture=tiny", "network.max_epochs=1", "recipe.end_stage=1"]
    scores = []
    for system, weights in (("asked", "'random'"), ("unasked", "None")):
        folder = f"paths.system_folder={system}"
        recipe.call(capsys, "debug", *words, folder, f"front_end.weights={weights}").ok()
        scores.append((recipe.system(system) / "scores/epoch.1/demo-dev.txt").read_text())
        settings = (recipe.system(system) / "settings.py").read_text()
        assert f"front_end.weights = {weights}  #" in settings
    assert scores[0] == scores[1]


def test_the_original_configs_run_as_they_are(recipe, capsys, corpus, monkeypatch) -> None:
    """Of their SSL_AASIST, which loaded xlsr2_300m.pt, with the weights that the message names."""
    monkeypatch.setenv("LOCAL_SCRATCH", str(recipe.folder))
    for path in (FIXTURES / "original_configs").iterdir():
        shutil.copy(path, recipe.folder / "configs")
    shutil.copy(FIXTURES / "networks/fairseq_xlsr_like.pt", recipe.folder / "xlsr2_300m.pt")
    words = ["train-ssl-aasist", f"paths.database_folder={corpus}", "computing.use_gpu=False"]
    # What makes it short.
    words += ["network.max_epochs=1", "network.train_clip_size=8000", "computing.threads=1"]
    words += ["computing.network_dataloader_workers=0"]
    recipe.call(capsys, *words).refused("front_end.weights = 'xlsr2_300m.pt'")
    init = recipe.folder / "configs" / "init_config.py"
    init.write_text(init.read_text() + "front_end.weights = 'xlsr2_300m.pt'\n")
    recipe.call(capsys, *words).ok()
    assert (recipe.folder / "asdf_outputs/ssl_aasist/networks/epoch.1.pt").is_file()
