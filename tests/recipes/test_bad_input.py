"""Whatever is wrong with the input of a run: one clear message, no traceback, and nothing lost."""

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from asdf.runs.start_records import append_record
from tests.conftest import PATIENCE_S


@pytest.fixture
def own(recipe, corpus, tmp_path, capsys):
    """The recipe with a corpus of its own, that a test may damage."""
    return Own(recipe, shutil.copytree(corpus, tmp_path / "corpus"), capsys)


@pytest.fixture
def trained(own, trained_output):
    """The recipe with a corpus of its own, after a run of one epoch."""
    shutil.copytree(trained_output, own.recipe.output)
    return own


class Own:
    def __init__(self, recipe, corpus: Path, capsys):
        self.recipe, self.corpus, self.capsys = recipe, corpus, capsys

    def call(self, *words: str):
        folder = f"paths.database_folder={self.corpus}"
        return self.recipe.call(self.capsys, "debug", folder, *words)

    def recordings(self, name: str) -> list[Path]:
        lines = (self.corpus / f"{name}_list.txt").read_text().splitlines()
        return [self.corpus / line.rpartition(" ")[0] for line in lines]

    def refusal(self, *words: str, status: int = 1) -> str:
        """Return the message that ends the run, after the checks that hold for any message."""
        before = outputs(self.recipe.output)
        outcome = self.call(*words)
        assert outcome.status == status, outcome.output
        assert "Traceback" not in outcome.output, outcome.output
        assert outcome.output.count("error:") == 1, outcome.output
        after = outputs(self.recipe.output)
        assert {path: after.get(path) for path in before} == before
        assert not list(self.recipe.output.rglob("*.part"))
        assert not list(self.recipe.output.rglob("owner.lock"))
        return outcome.output.partition("error:")[2].strip()


def outputs(folder: Path) -> dict[Path, bytes]:
    """What a failed run must not change: all but the notes on the run itself."""
    notes = ("log.txt", "environment.json", "settings.py", "metrics.jsonl")
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in notes
    }


def test_missing_recordings_are_all_counted_before_anything_starts(own):
    gone = [*own.recordings("train")[3:15], own.recordings("eval")[0]]
    for path in gone:
        path.unlink()
    message = own.refusal()
    assert "12 of the 26 files of demo-train are not in" in message and "... and 2 more" in message
    assert "1 of the 8 files of demo-eval are not in" in message and gone[-1].name in message
    assert "Check paths.database_folder" in message and "Nothing has been started" in message
    assert not (own.recipe.output / "sad").exists()
    lists = [own.corpus / f"{name}_list.txt" for name in ("train", "eval")]
    for path in lists:
        path.unlink()
    message = own.refusal()
    assert all(f"there is no list {path}. Check paths.database_folder" in message for path in lists)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [], "train_list.txt: no trials found. Was it copied completely?"),
        (lambda lines: [*lines[:4], lines[4][:-1] + "2"], "train_list.txt, line 5: 'LA/"),
        (lambda lines: [*lines, lines[1]], "is already in line 2 (1 line repeats an utterance)"),
        (
            lambda lines: [line for line in lines if line.endswith("0")],
            "none of them bona fide: training needs both",
        ),
    ],
    ids=["empty", "bad label", "duplicate", "no bona fide"],
)
def test_a_list_that_is_not_sound(own, change, said):
    path = own.corpus / "train_list.txt"
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))
    assert said in own.refusal()
    # Sound recordings are not checked again; the table is only written whole.
    assert not list((own.recipe.output / "sad").glob("*.tsv"))


def test_broken_recordings_are_all_named_after_measuring(trained):
    paths = trained.recordings("train")[2:5]
    whole = paths[0].read_bytes()
    wave, rate = soundfile.read(paths[0])
    soundfile.write(paths[0].with_suffix(".wav"), wave, rate)
    paths[0].write_bytes(paths[0].with_suffix(".wav").read_bytes()[: len(whole) // 2])
    paths[1].write_bytes(b"")
    paths[2].write_text("a web page that says 404")
    message = trained.refusal("network.max_epochs=2")
    assert "3 of the 26 recordings of demo-train cannot be used:" in message
    assert f"{paths[0]} cannot be decoded to its end" in message
    assert f"{paths[1]} is empty (0 bytes)" in message and f"{paths[2]} is not audio" in message
    assert "Fix them, or take them out of the list" in message


def test_recordings_that_do_not_decode_are_all_named_before_training(own):
    paths = own.recordings("train")[3:5]
    for path in paths:
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    own.recordings("train")[6].unlink()
    os.mkfifo(own.recordings("train")[6])
    message = own.refusal("network.train_clip_size=1600")
    assert "3 of the 26 recordings of demo-train cannot be used:" in message
    assert all(f"{path} cannot be decoded to its end" in message for path in paths)
    assert f"{own.recordings('train')[6]} is not an ordinary file" in message
    # Sound recordings are not checked again; the table is only written whole.
    assert not list((own.recipe.output / "sad").glob("*.tsv"))


BLOCKING = """
import os
import asdf.data.lengths
asdf.data.lengths.decoded_length = lambda path: os.open(os.environ["PIPE"], os.O_RDONLY)
"""


def test_a_stop_ends_a_run_that_waits_for_a_file_server(own, tmp_path):
    """A pipe without a writer stands for it."""
    os.mkfifo(tmp_path / "pipe")
    run = own.recipe.folder / "run.py"
    run.write_text(run.read_text().replace("\nLA = ", f"{BLOCKING}\nLA = ", 1))
    words = ("debug", f"paths.database_folder={own.corpus}")
    with own.recipe.start(*words, PIPE=str(tmp_path / "pipe")) as process:
        for line in process.stdout:
            if "stage 0" in line:
                process.send_signal(signal.SIGTERM)
                break
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert "stopped by signal SIGTERM while checking demo-train; the same command resumes" in output


@pytest.mark.slow_but("1")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_flac_that_is_cut_off_is_found_when_it_is_read(trained, workers):
    path = trained.recordings("train")[0]
    path.write_bytes(path.read_bytes()[:-2000])
    # Clips as long as the whole recording: its end is among them.
    words = ("network.max_epochs=2", "network.train_clip_size=48000")
    words += ("recipe.check_recordings=False", f"computing.network_dataloader_workers={workers}")
    message = trained.refusal(*words)
    assert f"{path} cannot be decoded to its end" in message
    assert "Copy or download it again" in message


@pytest.mark.slow_but("dev")
@pytest.mark.parametrize("name", ["train", "dev"])
def test_samples_that_are_not_numbers(trained, name):
    path = trained.recordings(name)[0]
    wave, rate = soundfile.read(path, dtype="float32")
    wave[100:] = np.nan
    soundfile.write(path, wave, rate, format="WAV", subtype="FLOAT")
    message = trained.refusal("paths.system_folder=other")
    assert f"{path} holds samples that are not finite" in message
    # What was scored before is saved to go on from; there is no score file.
    assert not list(trained.recipe.system("other").glob("scores/*/*.txt"))


def test_stereo_and_other_sampling_rates_are_taken(own):
    rng = np.random.default_rng(0)
    for name in ("train", "dev", "eval"):
        kinds = ((8000, 1), (44100, 1), (16000, 2), (48000, 2))
        for path, (rate, channels) in zip(own.recordings(name), kinds, strict=False):
            soundfile.write(path, rng.uniform(-0.3, 0.3, (rate, channels)), rate)
    own.call("network.max_epochs=1", "recipe.end_stage=2").ok()
    assert len(own.recipe.scores("demo-eval")) == 8
    [lengths] = (own.recipe.output / "sad").glob("demo-dev.*.tsv")
    assert [line.split("\t")[1] for line in lengths.read_text().splitlines()[:4]] == ["16000"] * 4


LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.argv[:2] = []
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_a_full_disk_while_saving(own, tmp_path):
    """A limit on the size of files stands for the full disk; the same command then goes on."""
    heavy = "network.network_class=small_networks.Heavy"
    own.call("network.max_epochs=1", heavy).ok()
    # The record of a start lists the changed files of the checkout: the limit leaves room for it.
    changed = {"git": {"changed": [f"M asdf/changed_{number}.py" for number in range(1000)]}}
    append_record(own.recipe.system() / "environment.json", changed)
    before = outputs(own.recipe.output)
    words = ("debug", f"paths.database_folder={own.corpus}", "network.max_epochs=2", heavy)
    limit = (own.recipe.system() / "networks" / "epoch.1.pt").stat().st_size // 2
    python, *command = own.recipe.command(*words)
    full = own.recipe.run_command([python, "-c", LIMITED, str(limit), *command])
    assert full.status == 1 and "Traceback" not in full.output, full.output
    path = own.recipe.system() / "networks" / "epoch.2.pt"
    assert full.output.count("error:") == 1
    assert f"error: cannot write {path}: File too large." in full.output
    assert "Free some space" in full.output
    after = outputs(own.recipe.output)
    assert before.items() <= after.items()
    # The network was scored while its file was being written.
    scored = {path.parent.name for path in after.keys() - before.keys()}
    assert scored == {"epoch.2"} and not (path.parent / "resume.pt").exists()
    resumed = own.call("network.max_epochs=2", heavy).ok()
    assert "going on from epoch.1.pt: epoch 1" in resumed.output
    assert path.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("network.max_epochs=2", "network.network_class=small_networks.Normed"),
            (
                "epoch.1.pt do not fit Normed; nothing was loaded. Layers 5 missing from",
                "norm.bias",
                "of the network class small_networks.Plain",
                "Set network.network_class",
                "another paths.system_folder",
            ),
        ),
        (
            ("network.max_epochs=2", "network.optimizer=sgd"),
            ["the checkpoint was trained with another optimiser"],
        ),
        (("network.resume_epoch=0",), ("0 would overwrite epoch.1.pt in", "from the newest")),
        (("network.resume_epoch=7",), ("7: there is no epoch.7.pt in", "There are epoch.1.pt.")),
        (("network.resume_epoch=-7", "recipe.end_stage=1"), ("there is no network",)),
    ],
)
def test_a_checkpoint_that_training_cannot_go_on_from(trained, words, said):
    message = trained.refusal(*words)
    for text in said:
        assert text in message


@pytest.mark.slow
def test_a_network_of_the_original_framework_is_scored_but_not_trained_further(trained):
    path = trained.recipe.system() / "networks" / "epoch.1.pt"
    content = torch.load(path, weights_only=True)
    torch.save({name: content[name] for name in ("model_state_dict", "optimizer_state_dict")}, path)
    message = trained.refusal("network.max_epochs=2")
    assert "epoch.1.pt contains weights but no training progress" in message
    scores = trained.recipe.system() / "scores" / "epoch.1" / "demo-eval.txt"
    before = scores.read_bytes()
    scores.unlink()
    assert trained.call("recipe.start_stage=2").status == 0 and scores.read_bytes() == before


def test_a_damaged_network(trained):
    path = trained.recipe.system() / "networks" / "epoch.1.pt"
    path.write_bytes(path.read_bytes()[:-500])
    assert "none of the 1 networks in" in trained.refusal("network.max_epochs=2")
    message = trained.refusal("recipe.start_stage=2")
    assert f"cannot read the network {path}: " in message and "nothing in it was run" in message


def clip(path: Path) -> None:
    """Let Diverging give no finite number for a recording."""
    wave, rate = soundfile.read(path)
    soundfile.write(path, 0.95 * np.sign(wave), rate)


def test_a_loss_that_is_not_a_number_names_the_utterances(trained):
    path = trained.recordings("train")[6]
    clip(path)
    words = ("network.network_class=small_networks.Diverging", "network.max_epochs=2")
    message = trained.refusal(*words)
    assert "is not a finite number for 1 utterances: demo-train:" in message
    assert path.name in message
    assert "lower network.initial_learning_rate" in message


def test_scores_that_are_not_numbers_are_not_written(trained):
    path = trained.recordings("dev")[6]
    clip(path)
    words = ("recipe.start_stage=2", "network.network_class=small_networks.Diverging")
    message = trained.refusal(*words)
    assert "1 of the 8 scores of demo-dev are not finite numbers" in message
    assert path.name in message
    assert "The network has probably diverged" in message


def test_results_without_scores(trained):
    path = trained.recipe.system() / "scores" / "epoch.1" / "demo-eval.txt"
    path.unlink()
    message = trained.refusal("recipe.start_stage=3")
    assert f"there is no score file {path}: run stage 2 first" in message


@pytest.mark.slow
def test_small_files_that_are_damaged_do_not_stop_a_restart(trained):
    words = ("network.max_epochs=2", "recipe.selected_epochs=('best',)")
    system = trained.recipe.system()
    (system / "networks" / "evaluations.json").write_text('[{"step": 12}]')
    (system / "owner.lock").write_text("[1]")
    (system / "environment.json").write_bytes(b"\xff")
    with (system / "metrics.jsonl").open("ab") as metrics:
        metrics.write(b"\xff\xfe")
    for folder in (system / "results", system / "scores" / "epoch.1", system / "trials"):
        folder.mkdir(exist_ok=True)
        (folder / ".report.html.abc.part").write_text("half")
    outcome = trained.call(*words).ok()
    assert "evaluations.json is not a list of evaluations; its 1 evaluations" in outcome.output
    assert f"warning: {system / 'environment.json'} is damaged" in outcome.output
    assert not list(system.rglob("*.part"))
    files = [system / "networks" / "evaluations.json", system / "results" / "results.json"]
    damaged = [path.read_bytes() for path in files]
    shutil.rmtree(system)
    trained.call(*words).ok()
    assert [path.read_bytes() for path in files] == damaged
