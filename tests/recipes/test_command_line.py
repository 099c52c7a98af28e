"""The recipe's command line, from its words to its exit status."""

import logging
import re
import sys

import pytest

from asdf.runs.log import LOG
from asdf.settings import Settings
from asdf.settings.config_files import read_text
from tests.conftest import CONFIG_FILES, RECIPE, ROOT

WITHOUT_TORCH = """
import runpy, sys
sys.argv[:] = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print("torch:", sorted({"torch", "torchaudio"} & set(sys.modules)))
    print("modules:", sum(name.split(".")[0] == "asdf" for name in sys.modules))
"""


def test_every_mistake_of_every_config_is_reported_at_once(recipe, capsys):
    words = ("debug", "normedd", "network.max_epoch=2", "recipe.seed=-1", "nonsense.x=1")
    said = ("normedd", "normed", "network.max_epochs", "recipe.seed", "nonsense")
    recipe.call(capsys, *words).refused(*said)
    assert not recipe.output.exists()


def test_a_command_reads_each_config_file_once(recipe, capsys, monkeypatch):
    paths = []

    def counted(path, what):
        paths.append(path)
        return read_text(path, what)

    monkeypatch.setattr("asdf.settings.loading.read_text", counted)
    recipe.call(capsys, "debug", "normed", "--dry-run").ok()
    configs = recipe.folder / "configs"
    assert paths == [configs / "init_config.py", configs / "run_configs.py"]


def test_an_unknown_corpus_is_found_before_the_first_config_runs(recipe, capsys):
    names = {"training": "demo-trian", "validation": "demo-dve", "evaluation": "demo-evla"}
    lines = [f"recipe.{kind}_sets = ('{name}',)\n" for kind, name in names.items()]
    recipe.add_configs("typo < debug\n" + "".join(lines))
    known = [f"config typo: the recipe knows no corpus '{n}'. Did you" for n in names.values()]
    recipe.call(capsys, "debug", "typo").refused(*known)
    assert not recipe.output.exists()


def test_a_class_that_does_not_exist_is_found_before_the_first_config_runs(recipe, capsys):
    recipe.add_configs(
        "typo < normed\nnetwork.network_class = 'small_networks.Normedd'\n\n"
        "typo2 < normed\nnetwork.optimizer = 'torch.optim.Adamm'\n"
    )
    said = ("config typo: network.network_class: module small_networks", "mean 'Normed'?")
    outcome = recipe.call(capsys, "debug", "typo", "typo2")
    outcome.refused(*said, "config typo2: network.optimizer: ", "mean 'Adam'?")
    assert not recipe.output.exists()


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_folders_that_are_not_set(recipe, capsys, more):
    outcome = recipe.call(capsys, "debug", "paths.output_folder=None", *more)
    outcome.refused("paths.output_folder is not set")


def test_overrides_apply_to_every_config_on_top_of_it(recipe, capsys):
    words = ("network.max_epochs=1", "recipe.seed=7", "recipe.end_stage=1")
    recipe.call(capsys, "debug", "normed", *words).ok()
    for name in ("system1", "normed"):
        [path] = (recipe.system(name) / "networks").glob("*.pt")
        assert path.name == "epoch.1.pt"
        assert "recipe.seed = 7" in (recipe.system(name) / "settings.py").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--list",), "  normed < debug"),
        (("normed", "--explain", "network.network_class"), "small_networks.Normed"),
        (("debug", "--explain"), "network.max_epochs"),
        (("debug", "--dry-run", "recipe.end_stage=0"), "26 training utterances = 7 steps per ep"),
    ],
)
def test_questions_are_answered_without_torch(recipe, words, said):
    command = [sys.executable, "-c", WITHOUT_TORCH, str(recipe.folder / "run.py"), *words]
    outcome = recipe.run_command(command).ok()
    assert said in outcome.output, outcome.output
    assert "torch: []" in outcome.output, outcome.output
    if "--explain" in words:
        assert int(outcome.output.rpartition("modules:")[2]) <= 120, outcome.output
    assert not recipe.output.exists()


def test_the_recipes_own_configs_are_sound(capsys, monkeypatch):
    """All of them are resolved; `eval-ssl-aasist` and the like need no corpora for that."""
    Settings(RECIPE / "configs" / "init_config.py")
    text = "\n".join(path.read_text() for path in CONFIG_FILES)
    names = re.findall(r"^([\w-]+)(?: <.*)?$", text, re.MULTILINE)
    assert len(names) == len(set(names)) == 44
    requested = "quickstart sad-off train train-ssl-aasist eval-ssl-aasist train-aasist net "
    requested += "larger_net mini-aasist mini-wav2vec"
    assert set(requested.split()) <= set(names)
    monkeypatch.chdir(ROOT)
    Settings().read_configs(CONFIG_FILES, names)


def test_a_dry_run_shows_devices_batches_and_stages(recipe, corpus, capsys):
    words = ("debug", "--dry-run", "network.optimizer_step_interval=2")
    outcome = recipe.call(capsys, *words, "computing.use_gpu=False").ok()
    for said in (
        "local rank 0: cpu",
        f"demo-train: {corpus / 'train_list.txt'}: 13 bona fide, 13 spoof",
        "minibatch 4 x 1 process x 2 minibatches per step = 8 utterances per optimiser step",
        "26 training utterances = 4 steps per epoch",
        "train on demo-train, validate on demo-dev",
        f"score demo-dev, demo-eval with the last epoch of {recipe.system() / 'networks'}",
    ):
        assert said in outcome.output, outcome.output


def test_a_dry_run_divides_a_global_minibatch_or_says_that_it_cannot(recipe, capsys):
    words = ("debug", "--dry-run", "computing.processes=4", "computing.use_gpu=False")
    outcome = recipe.call(capsys, *words, "network.global_minibatch_size=8").ok()
    assert "minibatch 2 x 4 processes x 1 minibatch per step = 8 utterances" in outcome.output
    outcome = recipe.call(capsys, *words, "network.global_minibatch_size=10")
    said = "network.global_minibatch_size = 10 does not divide by the 4 processes"
    # The plan comes all the same.
    outcome.refused(said, "as 8 and 12 would", "report the results")


def test_a_dry_run_reports_what_is_missing_and_fails(recipe, capsys, tmp_path):
    (tmp_path / "data").mkdir()
    words = ("debug", "--dry-run", f"paths.database_folder={tmp_path / 'data'}")
    lists = [tmp_path / "data" / f"{name}_list.txt" for name in ("train", "dev", "eval")]
    said = [f"there is no list {path}" for path in lists]
    recipe.call(capsys, *words).refused(*said, status=1)
    # What is to be scored only needs no training list.
    for path in lists[1:]:
        path.write_text("a.flac 1\nb.flac 0\n")
    outcome = recipe.call(capsys, *words, "recipe.start_stage=2")
    said = ("2 of the 2 files of demo-dev are not in", "there are no networks in")
    outcome.refused(*said, "run stage 1 first", status=1)
    assert "train_list" not in outcome.output


def test_an_error_is_shown_whoever_else_listens_to_the_log(recipe, capsys, monkeypatch):
    monkeypatch.setattr(LOG, "handlers", [logging.NullHandler()])
    outcome = recipe.call(capsys, "debug", "--dry-run", "front_end.weights=/none/x.pt")
    assert "there is no file /none/x.pt" in outcome.output


@pytest.mark.slow
def test_stages_one_by_one_do_what_all_do_in_one(recipe, capsys):
    words = ("debug", "network.max_epochs=2")
    recipe.call(capsys, *words, "paths.system_folder=whole", "paths.sad_folder=other").ok()
    for stage in range(4):
        only = (f"recipe.start_stage={stage}", f"recipe.end_stage={stage}")
        outcome = recipe.call(capsys, *words, *only).ok()
        said = [number for number in range(4) if f"stage {number}:" in outcome.output]
        assert said == [stage]
    assert list((recipe.output / "sad").iterdir())
    scores = [f"scores/epoch.2/demo-{name}.txt" for name in ("dev", "eval")]
    for path in (*scores, "results/results.txt"):
        assert (recipe.system("whole") / path).read_bytes() == (recipe.system() / path).read_bytes()
    assert recipe.results() == recipe.results(system="whole")


def test_the_settings_are_those_of_init_config_after_an_error(recipe, capsys):
    network = "network.network_class = 'small_networks.None_such'"
    recipe.add_configs(f"broken < debug\nrecipe.seed = 3\n{network}\n")
    recipe.call(capsys, "broken").refused("has no class 'None_such'")
    assert Settings().recipe.seed == 0
    assert Settings().network.network_class == "asdf.networks.SSL_AASIST"
    assert not (recipe.system() / "owner.lock").exists()


def test_an_epoch_is_scored_without_training(trained, capsys):
    recipe = trained
    networks = {path: path.read_bytes() for path in (recipe.system() / "networks").iterdir()}
    scores = recipe.system() / "scores" / "epoch.1"
    (scores / "demo-dev.txt").unlink()
    words = ("network.resume_epoch=-1", "recipe.selected_epochs=('last',)", "recipe.end_stage=2")
    outcome = recipe.call(capsys, "debug", *words).ok()
    assert "no training" in outcome.output, outcome.output
    assert (scores / "demo-dev.txt").exists()
    assert set((recipe.system() / "networks").iterdir()) == set(networks)
    assert all(path.read_bytes() == content for path, content in networks.items())


def test_training_utterances_of_other_lengths_are_left_out_with_their_count(recipe, capsys):
    recipe.call(capsys, "debug", "recipe.end_stage=0").ok()
    [path] = (recipe.output / "sad").glob("demo-train.*.tsv")
    lines = path.read_text().splitlines()[:-1]  # the last one is a checksum
    lengths = sorted(int(line.split("\t")[1]) for line in lines)
    least, most = lengths[3], lengths[-3]
    limits = {"min": least, "max": most}
    words = [f"network.{m}_train_utterance_length_in_samples={v}" for m, v in limits.items()]
    outcome = recipe.call(capsys, "debug", "network.max_epochs=1", "recipe.end_stage=1", *words)
    left_out = sum(not least <= length <= most for length in lengths)
    assert outcome.status == 0 and left_out >= 5
    assert f"{left_out} of 26 training utterances are left out because of their" in outcome.output
    assert f"training on {26 - left_out} utterances" in outcome.output
    words = ("recipe.end_stage=1", "network.min_train_utterance_length_in_samples=1000000")
    outcome = recipe.call(capsys, "debug", *words, "paths.system_folder=none")
    said = "26 of 26 training utterances are left out because of their length\nerror: the list "
    outcome.refused(f"{said}demo-train has 0 utterances, none of them bona fide", status=1)
