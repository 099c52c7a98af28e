"""The network of a score file: what is of another one is never taken for its own in silence."""

import shutil
from pathlib import Path

import pytest
import torch

from asdf.__main__ import main
from asdf.checkpoint.network_file import write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.evaluation import write_scores
from asdf.interchange import network_digest
from asdf.metrics.calibration import Calibration
from asdf.report import gather
from asdf.scoring.network_check import replaced_network
from asdf.trials.how_scored import HowScored, ScoredLength
from asdf.trials.run_folder import RunFolder
from asdf.trials.scored_files import write_how_scored
from tests.unit.report.folders import make_run

IDS = [f"{number}.wav" for number in range(40)]
SCORES = [2.0, 1.0, 0.5, -1.0]
LENGTH = ScoredLength(16000, 16000)


def changed_copy(network: Path, path: Path) -> Path:
    """Write the network with other weights."""
    content = torch.load(network, weights_only=True)
    for tensor in content["model_state_dict"].values():
        if tensor.is_floating_point():
            tensor.mul_(1.1)
    torch.save(content, path)
    return path


def score_file(path: Path, network: str | None) -> Path:
    write_scores(path, [f"{path.stem}{n}" for n in range(4)], [1, 1, 0, 0], SCORES)
    if network is not None:
        write_how_scored(path, HowScored(LENGTH, "fp32", network=network))
    return path


@pytest.fixture
def run_folder(tmp_path, network_file):
    """The folder of a run whose scores are of its networks."""
    folder = make_run(tmp_path / "net")
    (folder / "networks").mkdir()
    for path in sorted(folder.glob("scores/*/*.txt")):
        network = folder / "networks" / f"{path.parent.name}.pt"
        shutil.copy(network_file, network)
        write_how_scored(path, HowScored(LENGTH, "fp32", network=network_digest(network)))
    return folder


def said(capsys, *words) -> str:
    assert main([*map(str, words), "--replicates", "20"]) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("state", ["another", "the same", "calibrated copy", "not stated"])
def test_a_threshold_of_a_calibrated_network(capsys, tmp_path, network_file, state):
    """It is compared with the record, whose digest a calibration does not change."""
    digest = {"another": "f" * 64, "not stated": None}.get(state, network_digest(network_file))
    scores = score_file(tmp_path / "eval.txt", digest)
    file = read_network_file(network_file)
    file.calibration = Calibration(scale=2.0, offset=1.0, threshold=2.0).content()
    write_network_file(tmp_path / "cal.pt", file)
    err = said(capsys, "evaluate", scores, "--threshold-of", tmp_path / "cal.pt")
    assert ("is of another network (SHA-256 " in err) == (state == "another")
    assert ("than the scores in " in err) == (state == "another")


def test_fused_scores_of_another_network(capsys, tmp_path):
    """Weights that were fitted to a.txt and b.txt, applied in the other order."""
    for name, digest in (("a", "a" * 64), ("b", "b" * 64), ("c", "a" * 64), ("d", "b" * 64)):
        write_scores(tmp_path / f"{name}.txt", IDS, [1, 0] * 20, range(40))
        write_how_scored(tmp_path / f"{name}.txt", HowScored(LENGTH, "fp32", network=digest))
    a, b, c, d = (tmp_path / f"{name}.txt" for name in "abcd")
    words = ("fuse", a, b, "--output", tmp_path / "out.txt", "--apply")
    assert "another network" not in said(capsys, *words, c, d)
    err = said(capsys, *words, d, c)
    assert f"the weight of {a} is of another network (SHA-256 aaaaaaaaaaaa...)" in err
    assert f"than the scores in {c} (aaaaaaaaaaaa...)" in err


def test_a_replaced_network_stands_beside_no_scores_in_silence(capsys, tmp_path, run_folder):
    scores = run_folder / "scores" / "epoch.2" / "dev.txt"
    other = shutil.copytree(run_folder, tmp_path / "other")
    commands = [
        ("evaluate", scores),
        ("fuse", scores, scores.with_name("dev.txt"), "--replicates", "0"),
        ("compare", run_folder, other),
    ]
    for words in commands:
        assert "replaced" not in said(capsys, *words)
    network = run_folder / "networks" / "epoch.2.pt"
    changed_copy(network, tmp_path / "new.pt")
    # As `cp -p` and a restored backup leave it: older than the scores by its own time.
    shutil.move(tmp_path / "new.pt", network)
    remark = f"the scores in {scores} are not of the present epoch.2.pt, which was replaced"
    for words in commands:
        assert f"warning: {remark}" in said(capsys, *words)
    findings = gather([RunFolder(run_folder)]).findings
    assert [finding.level for finding in findings if remark in finding.message] == ["warning"]
    # Those of the other networks are still theirs.
    assert replaced_network(scores.parents[1] / "epoch.1" / "dev.txt") == ""


@pytest.mark.parametrize(
    "state", ["removed", "touched", "calibrated", "without a record", "damaged"]
)
def test_what_is_no_other_network(run_folder, state):
    scores = run_folder / "scores" / "epoch.2" / "dev.txt"
    network = run_folder / "networks" / "epoch.2.pt"
    if state == "removed":
        network.unlink()
    elif state == "touched":
        network.touch()
    elif state == "calibrated":
        file = read_network_file(network)
        file.calibration = Calibration(scale=2.0, offset=1.0, threshold=2.0).content()
        write_network_file(network, file)
    elif state == "damaged":
        network.write_bytes(b"no network")
    else:
        changed_copy(network, network)
        scores.with_suffix(".scored.json").unlink()
    assert replaced_network(scores) == ""
