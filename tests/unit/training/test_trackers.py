"""Weights & Biases with the real package, without a server."""

from __future__ import annotations

import json
import struct
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from asdf.errors import UsageError
from asdf.settings.sections import Sections
from asdf.training.callbacks import WeightsAndBiases
from tests.conftest import PATIENCE_S

STEP = {
    "step": 2,
    "epoch": 0.5,
    "loss": 0.7,
    "learning_rate": 0.1,
    "utterances_per_s": 9.0,
    "data_wait": 0.2,
}
EVALUATION = {
    "step": 4,
    "epoch": 1.0,
    "network": "epoch.1.pt",
    "eer": {"dev": 0.25},
    "validation_loss": {"dev": 0.75},
    # No number, and not drawn.
    "recordings": {"dev": "0123456789abcdef"},
}
ROWS = [{"epoch": "epoch.1", "set": "eval", "eer": 0.125, "min_dcf": 0.5, "full": True}]


def play(kind: type[Any], folder: Path) -> Any:
    tracker = kind(Sections(), folder)
    tracker.on_step(STEP)
    tracker.on_step({**STEP, "step": 4, "loss": 0.5})
    tracker.on_evaluation(EVALUATION)
    tracker.on_results(ROWS)
    return tracker


@pytest.mark.slow
def test_weights_and_biases_saves_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    # As a power cut may leave it.
    (tmp_path / "tracking.json").write_text("{")
    play(WeightsAndBiases, tmp_path).close()
    identifier = json.loads((tmp_path / "tracking.json").read_text())["wandb"]
    (path,) = (tmp_path / "wandb").glob(f"offline-run-*-{identifier}/run-{identifier}.wandb")
    # Its service writes the file, and ends after the run.
    deadline = time.monotonic() + PATIENCE_S
    while not (records := _records(path.read_bytes())) or not records[-1].HasField("exit"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    history: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for record in records:
        if record.history.item:
            items = record.history.item
            history.append({_key(item): json.loads(item.value_json) for item in items})
        for item in record.summary.update:
            summary[_key(item)] = json.loads(item.value_json)
        for item in record.run.config.update:
            config[_key(item)] = json.loads(item.value_json)
    losses = [row["training/loss"] for row in history if "training/loss" in row]
    assert losses == [0.7, 0.5]
    assert [row["eer/dev"] for row in history if "eer/dev" in row] == [0.25]
    assert [row["validation_loss/dev"] for row in history if "validation_loss/dev" in row] == [0.75]
    assert not [row for row in history if "recordings/dev" in row]
    assert summary["results/epoch.1/eval/eer"] == 0.125
    assert config["network"]["max_epochs"] == 1000


def _records(content: bytes) -> list[Any]:
    """The records of a file in LevelDB's log format, behind a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    records = []
    position = 7
    whole = b""
    while position + 7 <= len(content):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        length, kind = struct.unpack_from("<HB", content, position + 4)
        position += 7
        whole += content[position : position + length]
        position += length
        # 1: a whole record, 4: the last part of one.
        if kind in (1, 4):
            records.append(Record.FromString(whole))
            whole = b""
    return records


def _key(item: Any) -> str:
    return item.key or "/".join(item.nested_key)


def test_a_tracker_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match=r"pip install 'asdf-antispoofing\[wandb\]'"):
        WeightsAndBiases(Sections(), tmp_path)
