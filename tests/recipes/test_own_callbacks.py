"""What a user's callback sees of a whole run: of its steps, its stages and its end."""

import json

import pytest
import torch

from asdf.evaluation import eer

CALLBACK = '''
import json

import torch

from asdf.training.callbacks import Callback


class Watch(Callback):
    """Notes everything, to a file with a name per start."""

    needs_gradient_norm = True
    needs_outputs = True

    def __init__(self, settings, folder):
        super().__init__(settings, folder)
        self.notes = []

    def on_start(self, step):
        self.note("start", step, type(self.training.network).__name__)

    def on_epoch_start(self, epoch):
        self.note("epoch start", epoch)

    def on_every_step(self, record):
        outputs = record.outputs
        loss = torch.nn.functional.cross_entropy(outputs.logits_B2, outputs.labels_B)
        rates = [group["lr"] for group in self.training.optimiser.param_groups]
        self.note(
            "step", record.step, record.loss, float(loss), record.gradient_norm,
            record.learning_rate in rates, outputs.utterances,
            len(outputs.embeddings_BE) == len(outputs.utterances),
        )

    def on_step(self, record):
        self.note("printed", record["step"])

    def on_checkpoint(self, path):
        assert path.exists()
        self.note("checkpoint", path.name)

    def on_epoch_end(self, record):
        self.note("epoch end", record["epoch"], record["loss"])

    def on_evaluation(self, record):
        self.note("evaluation", record["network"])

    def on_end(self, record):
        self.note("end", record["reason"])

    def on_scores(self, record):
        assert self.training is None or record["path"].exists()
        self.note("scores", record["network"], record["set"], record["eer"])

    def on_results(self, rows):
        self.note("results", [[row["epoch"], row["set"], row["eer"]] for row in rows])

    def on_stop(self, reason):
        self.note("stop", reason)

    def on_failure(self, error):
        self.note("failure", type(error).__name__)

    def close(self):
        self.note("close")
        name = "notes-" + str(self.settings.recipe.start_stage) + ".json"
        (self.folder / name).write_text(json.dumps(self.notes))

    def note(self, *values):
        self.notes.append(values)


class Stopping(Watch):
    def on_every_step(self, record):
        if record.step == 1:
            import os, signal
            os.kill(os.getpid(), signal.SIGTERM)


class Failing(Watch):
    def on_every_step(self, record):
        self.training.network.output.weight.data.fill_(float("nan"))
'''
CONFIG = """
watched < debug
network.callbacks = ('my_callbacks.Watch',)
network.max_epochs = 1
network.minibatch_size = 8
"""


@pytest.fixture
def watched(recipe):
    return recipe.with_files(CONFIG, my_callbacks=CALLBACK)


def notes(recipe, start: int = 0) -> list[list]:
    return json.loads((recipe.system() / f"notes-{start}.json").read_text())


def test_it_sees_the_whole_run(watched, capsys):
    watched.call(capsys, "watched").ok()
    seen = notes(watched)
    # 26 utterances in minibatches of 8; the sets of validation and evaluation.
    assert [note[0] for note in seen] == [
        *("start", "epoch start", "step", "step", "printed", "step", "step", "printed"),
        *("epoch end", "checkpoint", "evaluation", "end", "scores", "scores", "results", "close"),
    ]
    assert seen[0] == ["start", 0, "Plain"]
    steps = [note for note in seen if note[0] == "step"]
    for number, (_, step, loss, own_loss, norm, has_rate, _, one_each) in enumerate(steps, 1):
        assert step == number and has_rate and one_each
        assert loss == pytest.approx(own_loss, rel=1e-5) and norm > 0
    utterances = [name for note in steps for name in note[6]]
    assert len(utterances) == len(set(utterances)) == 26
    mean = sum(note[2] * len(note[6]) for note in steps) / 26
    assert ["checkpoint", "epoch.1.pt"] in seen and ["printed", 4] in seen
    [ended] = [note for note in seen if note[0] == "epoch end"]
    assert ended == ["epoch end", 1, pytest.approx(mean)]
    scores = {note[2]: note[3] for note in seen if note[0] == "scores"}
    for name, value in scores.items():
        read = watched.scores(name)
        assert value == eer(read.bona_fide, read.spoof)[0]
    rows = next(note[1] for note in seen if note[0] == "results")
    assert [[row[1], row[2]] for row in rows] == [[name, scores[name]] for name in scores]


@pytest.mark.slow
def test_the_numbers_of_a_run_do_not_depend_on_who_watches(watched, capsys):
    states = []
    for name, callbacks in (("seen", "('my_callbacks.Watch',)"), ("alone", "()")):
        words = (f"paths.system_folder={name}", f"network.callbacks={callbacks}")
        watched.call(capsys, "watched", *words, "recipe.end_stage=1").ok()
        states.append(watched.load(system=name)["model_state_dict"])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_results_of_a_later_start_reach_it(watched, capsys):
    watched.call(capsys, "watched", "recipe.end_stage=2").ok()
    watched.call(capsys, "watched", "recipe.start_stage=3").ok()
    assert [note[0] for note in notes(watched, 3)] == ["results", "close"]


def test_it_hears_of_a_stop_and_of_a_failure(watched, capsys):
    watched.run("watched", "network.callbacks=('my_callbacks.Stopping',)").ok()
    seen = notes(watched)
    names = ["start", "epoch start", "printed", "checkpoint", "stop", "close"]
    assert [note[0] for note in seen] == names, seen
    words = ("network.callbacks=('my_callbacks.Failing',)", "paths.system_folder=failing")
    failed = watched.call(capsys, "watched", *words)
    assert failed.status == 1
    seen = json.loads((watched.system("failing") / "notes-0.json").read_text())
    assert [note[0] for note in seen] == ["start", "epoch start", "failure", "close"]
    assert seen[2] == ["failure", "AsdfError"]


@pytest.mark.slow
def test_on_two_processes_it_sees_the_main_one(watched):
    watched.run("watched", "network.minibatch_size=4", processes=2).ok()
    steps = [note for note in notes(watched) if note[0] == "step"]
    assert len(steps) == 4 and sum(len(note[6]) for note in steps) == 13
    assert all(note[4] > 0 for note in steps)
