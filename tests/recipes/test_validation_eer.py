"""The EER of a validation set is one number, from the score file to all that is decided by it."""

import json
import shutil

from asdf.evaluation import eer, read_scores

CALLBACK = """
import json
from asdf.training.callbacks import Callback


class Eers(Callback):
    def on_evaluation(self, record):
        with open(self.folder / "eers.jsonl", "a") as file:
            file.write(json.dumps(record) + "\\n")
"""

CONFIG = """
judged < debug
network.callbacks = ('my_callbacks.Eers',)
network.initial_learning_rate = 0.01
network.evaluation_interval_steps = 3
network.max_epochs = 4
recipe.selected_epochs = ('best',)
recipe.validation_sets = ('demo-train',)
recipe.evaluation_sets = ('demo-eval',)
paths.system_folder = 'judged'
"""


def eers_of_score_files(system) -> dict[str, float]:
    """By the names of the networks, oldest first."""
    paths = (system / "scores").glob("*/demo-train.txt")
    networks = json.loads((system / "networks" / "evaluations.json").read_text())
    order = [record["network"].removesuffix(".pt") for record in networks]
    eers = {}
    for path in sorted(paths, key=lambda path: order.index(path.parent.name)):
        scores = read_scores(path)
        eers[f"{path.parent.name}.pt"] = eer(scores.bona_fide, scores.spoof)[0]
    return eers


def records(path) -> dict[str, float]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["network"]: line["eer"]["demo-train"] for line in lines if "eer" in line}


def test_all_that_is_decided_follows_the_eers_of_the_score_files(recipe, capsys):
    recipe.add_configs(CONFIG)
    (recipe.folder / "my_callbacks.py").write_text(CALLBACK)
    outcome = recipe.call(capsys, "judged").ok()
    system = recipe.system("judged")
    expected = eers_of_score_files(system)
    # 7 steps an epoch: every third step, and the ends of the epochs.
    assert len(expected) == 12 and len(set(expected.values())) > 1
    evaluations = json.loads((system / "networks" / "evaluations.json").read_text())
    assert {record["network"]: record["eer"] for record in evaluations} == {
        network: {"demo-train": value} for network, value in expected.items()
    }
    assert records(system / "metrics.jsonl") == expected
    assert records(system / "eers.jsonl") == expected
    for network, value in expected.items():
        name = network.removesuffix(".pt")
        assert f"{name} on demo-train: EER {100 * value:.3f} %" in outcome.output
    # Of equals the later one.
    best = [name for name, value in expected.items() if value == min(expected.values())][-1]
    scored = [path.parent.name for path in (system / "scores").glob("*/demo-eval.txt")]
    assert scored == [best.removesuffix(".pt")]
    # An early stop follows the EERs of the score files.
    shutil.rmtree(system)
    words = ("judged", "network.early_stop_evaluations=1", "recipe.end_stage=1")
    outcome = recipe.call(capsys, *words).ok()
    values = list(eers_of_score_files(recipe.system("judged")).values())
    assert 1 < len(values) < 12
    # Each one but the last was better than the one before it.
    assert values[:-1] == sorted(set(values[:-1]), reverse=True) and values[-1] >= values[-2]
    assert "1 evaluations without a better EER than that of" in outcome.output
