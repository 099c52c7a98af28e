"""The small detector as its config has it, on the real recordings that it is for."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import RECIPE


def test_it_detects_in_seconds_and_from_its_cached_features_to_the_byte(recipe, shared, tmp_path):
    """Fewer copies and epochs than the config: copying takes most of its time."""
    words = [
        "mini-best",
        f"paths.database_folder={shared / 'corpora' / 'mini'}",
        f"paths.output_folder={tmp_path}",
        "vocoding.copies=0.1",
        "network.max_epochs=10",
        "computing.threads=1",
        "recipe.check_recordings=False",
    ]
    notes = []
    for name in ("first", "again"):
        command = [recipe.python(), str(RECIPE / "run.py"), *words, f"paths.system_folder={name}"]
        outcome = recipe.run_command(command)
        assert outcome.status == 0, outcome.output
        notes.append(outcome.output)
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
