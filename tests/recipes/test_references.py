"""A network of one's own takes references of a list, in training and in scoring; zeros without."""

import numpy as np
import pytest

import asdf
from asdf.__main__ import main
from asdf.evaluation import read_scores
from tests.test_your_own import EXAMPLES

SHOWN = "\n".join(EXAMPLES["reference"].lines)
CONFIG = f"""
beside < debug
{SHOWN}
network.max_epochs = 1
network.minibatch_size = 8
recipe.training_sets = ('train',)
recipe.validation_sets = ('dev',)
recipe.evaluation_sets = ('dev', 'alone')
recipe.end_stage = 2
"""


@pytest.fixture
def beside(recipe, corpus):
    """A recipe whose lists name a reference for two of three trials."""
    (recipe.folder / "reference.py").write_text(EXAMPLES["reference"].code)
    entries = []
    for name in ("train", "dev"):
        lines = (corpus / f"{name}_list.txt").read_text().splitlines()
        genuine = [line.split()[0] for line in lines if line.endswith(" 1")]
        rows = ["path,label,reference"]
        for number, line in enumerate(lines):
            path, label = line.split()
            reference = "" if number % 3 == 0 else genuine[number % len(genuine)]
            rows.append(f"{path},{label},{reference}")
        table = recipe.folder / f"{name}.csv"
        table.write_text("\n".join(rows) + "\n")
        entries.append(f'    "{name}": Corpus({str(table)!r}),\n')
    entries.append('    "alone": Corpus("dev_list.txt"),\n')
    run = (recipe.folder / "run.py").read_text()
    added = run.replace("CORPORA = {\n", "CORPORA = {\n" + "".join(entries))
    (recipe.folder / "run.py").write_text(added)
    recipe.add_configs(CONFIG)
    return recipe


def test_it_trains_and_scores_with_an_empty_cell_and_without_the_column(
    beside, corpus, capsys, tmp_path
):
    beside.call(capsys, "beside").ok()
    network = beside.system() / "networks" / "epoch.1.pt"
    detector = asdf.Detector(network, "cpu", network_folder=beside.folder, speech_check="off")
    of_list, alone = beside.scores("dev"), beside.scores("alone")
    rows = (beside.folder / "dev.csv").read_text().splitlines()[1:]
    differ = 0
    trials = zip(rows, of_list.ids, of_list.scores, alone.scores, strict=True)
    for row, name, score, without in trials:
        path, _, reference = row.split(",")
        assert name == path
        zeros = float(detector.score_trial(corpus / path))
        assert without == pytest.approx(zeros, abs=1e-5)
        heard = detector.with_reference(corpus / reference) if reference else detector
        assert score == pytest.approx(float(heard.score_trial(corpus / path)), abs=1e-5)
        differ += abs(score - zeros) > 1e-4
    assert 0 < differ <= sum(not row.endswith(",") for row in rows)
    # The command reads the column, too.
    words = ["score", str(network), str(beside.folder / "dev.csv"), "--folder", str(corpus)]
    words += ["--network-folder", str(beside.folder), "--device", "cpu"]
    assert main([*words, "--scores", str(tmp_path / "out.txt")]) == 0
    written = read_scores(tmp_path / "out.txt")
    np.testing.assert_allclose(written.scores, of_list.scores, atol=1e-5)


def test_a_missing_reference_is_named_before_anything_is_computed(beside, capsys):
    table = beside.folder / "dev.csv"
    table.write_text(table.read_text().rstrip("\n") + "missing.flac\n")
    for words in (("--dry-run",), ()):
        outcome = beside.call(capsys, "beside", *words)
        outcome.refused("references of dev are not in", "missing.flac", status=1)
