"""The small detector as its config has it, on the real recordings that it is for."""

import json
from pathlib import Path

import pytest

from tests.conftest import RECIPE


def train(recipe, shared, folder: Path, name: str, *words: str) -> str:
    """Run the config with `words` and return its output."""
    folders = {"database": shared / "corpora" / "mini", "output": folder, "system": name}
    fixed = [f"paths.{kind}_folder={path}" for kind, path in folders.items()]
    fixed += ["computing.threads=1", "recipe.check_recordings=False"]
    command = [recipe.python(), str(RECIPE / "run.py"), "mini-best", *fixed, *words]
    return recipe.run_command(command).ok().output


@pytest.mark.slow
def test_it_detects_after_few_epochs(recipe, shared, tmp_path):
    """Of the codecs those that are quick."""
    codecs = "augmentation.codecs=('mu-law', 'a-law')"
    output = train(recipe, shared, tmp_path, "best", codecs, "network.max_epochs=4")
    assert "75,394 parameters" in output
    [row] = json.loads((tmp_path / "best" / "results" / "results.json").read_text())
    assert row["set"] == "mini-dev" and row["eer"] < 0.15


@pytest.mark.slow
def test_it_detects_from_cached_features_of_copies_to_the_byte(recipe, shared, tmp_path):
    words = (
        "augmentation.chain=()",
        "front_end.cache_features=True",
        "network.clip_position=start",
        "vocoding.vocoders=('griffin_lim', 'source_filter', 'lpc', 'phase')",
        "vocoding.copies=0.1",
        "network.max_epochs=10",
        "network.epochs_per_train_call=10",
    )
    notes = [train(recipe, shared, tmp_path, name, *words) for name in ("first", "again")]
    assert "of the training utterances 25 are vocoded copies" in notes[0]

    [row] = json.loads((tmp_path / "first" / "results" / "results.json").read_text())
    # Spectra see 27 % at best by their means, and a small wav2vec 6 to 10 % after ten minutes.
    assert row["set"] == "mini-dev" and row["eer"] < 0.1
    network = tmp_path / "first" / "networks" / "epoch.10.pt"
    assert network.stat().st_size < 2_000_000

    scores = Path("scores", "epoch.10", "mini-dev.txt")
    first = (tmp_path / "first" / scores).read_bytes()
    assert first == (tmp_path / "again" / scores).read_bytes()
    assert len(list((tmp_path / "features").glob("*/features.bin"))) == 1
