"""The evaluations of a run's networks, as its files have them."""

import json

import pytest

from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.runs.network_files import other_precisions, read_evaluations, write_evaluations

EVALUATIONS = [
    {"step": 7, "epoch": 1, "network": "epoch.1.pt", "eer": {"dev": 0.1 + 0.2}},
    {"step": 14, "epoch": 2, "network": "epoch.2.pt", "eer": {"dev": 0.25, "eval": 0}},
]
DAMAGES = [
    b"",
    b"\xff\xfe",
    b'[{"step": 7, "epo',
    b'[{"step": 12}]',
    b'{"step": 7}',
    b'[{"step": 7, "network": "epoch.1.pt", "eer": {}}]',
    b'[{"step": 7, "network": "epoch.1.pt", "eer": {"dev": "low"}}]',
    b'[{"step": 7, "network": ["epoch.1.pt"], "eer": {"dev": 0.1}}]',
    b"[" * 100_000,
]


@pytest.fixture
def networks(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(LOG, "propagate", True)
    lines = [{"kind": "step", "step": 7}, *({"kind": "evaluation", **one} for one in EVALUATIONS)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_text(text)
    (tmp_path / "networks").mkdir()
    return tmp_path / "networks"


def test_what_was_written_is_read(networks, caplog):
    assert read_evaluations(networks) == []
    write_evaluations(networks, EVALUATIONS)
    assert read_evaluations(networks) == EVALUATIONS and not caplog.messages


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_passed_over_aloud(networks, caplog, damage):
    path = networks / "evaluations.json"
    path.write_bytes(damage)
    assert read_evaluations(networks) == EVALUATIONS
    [warning] = set(caplog.messages)
    assert warning.startswith(f"warning: {path} ")
    assert warning.endswith(
        f"; its 2 evaluations are read from {networks.parent / 'metrics.jsonl'}"
    )


def test_without_anything_in_its_place_one_message_says_what_to_do(networks):
    path, metrics = networks / "evaluations.json", networks.parent / "metrics.jsonl"
    path.write_text('[{"step": 12}]')
    for text in ('{"kind": "step"}\n', None):
        metrics.write_text(text) if text else metrics.unlink()
        with pytest.raises(AsdfError) as refused:
            read_evaluations(networks)
        assert str(refused.value) == (
            f"{path} is no list of evaluations, and {metrics} has no evaluations to take their place. Get the file "
            "from a backup, or remove it: the networks then count as not evaluated, and none of them can be the best."
        )


def test_eers_of_other_precisions_are_remarked():
    quick = [{**one, "scoring_precision": "bf16"} for one in EVALUATIONS]
    assert other_precisions([], "bf16") == other_precisions(quick, "bf16") == ""
    assert other_precisions(EVALUATIONS, "fp32") == ""  # the first versions named none
    said = other_precisions([*EVALUATIONS, *quick], "bf16")
    assert said.startswith("networks were validated with computing.scoring_precision = 'fp32' so")
    assert "from here on 'bf16'" in said
