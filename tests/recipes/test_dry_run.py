"""`--dry-run` shows the plan of every config, and names everything that would stop the run."""

import re

import pytest
import torch

from asdf.distributed.devices import visible_gpus
from asdf.networks import build_network
from asdf.settings.sections import Sections

SSL = (
    "network.network_class=asdf.networks.SSL_ASP",
    "front_end.architecture=tiny",
    "network.train_clip_size=4000",
)


@pytest.fixture
def weights(tmp_path):
    """The weights of a tiny front end, in torchaudio's naming."""
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.front_end.architecture = "tiny"
    path = tmp_path / "tiny.pt"
    torch.save(build_network(settings).front_end.model.state_dict(), path)
    return path


def test_all_problems_of_all_configs_are_in_one_message_behind_all_plans(recipe, capsys, tmp_path):
    (tmp_path / "data").mkdir()
    recipe.add_configs(
        "average < debug\nrecipe.selected_epochs = ('average',)\n\n"
        "beyond < debug\nrecipe.start_stage = 7\nrecipe.end_stage = 7\n\n"
        "typo < debug\nrecipe.training_sets = ('demo-trian',)\nnetwork.callbacks = ('os.system',)\n"
    )
    configs = ("debug", "average", "beyond", "typo")
    folder = f"paths.database_folder={tmp_path / 'data'}"
    assert recipe.run_here(*configs, folder, "--dry-run") == 2
    plan, errors = capsys.readouterr()
    assert "error" not in plan
    headings = re.findall(r"^config (.*): dry run, nothing is computed or written$", plan, re.M)
    assert tuple(headings) == configs
    assert errors.startswith("error: ") and errors.count("error:") == 1
    lists = [tmp_path / "data" / f"{name}_list.txt" for name in ("train", "dev", "eval")]
    check = "Check paths.database_folder and the corpus's entry in the recipe."
    assert errors.count(check) == 3  # once for each list, not for each config
    assert f"config debug, average: there is no list {lists[0]}. {check}" in errors
    assert f"config debug, average, typo: there is no list {lists[1]}. {check}" in errors
    for said in (
        "config average: recipe.selected_epochs names 'average', but network.average_best_networks "
        "is 0.",
        "config beyond: recipe.start_stage = 7 and recipe.end_stage = 7 do not fit the stages of "
        "this recipe: "
        "0 (measure the utterances), 1 (train the network), 2 (score the chosen epochs), 3 (report "
        "the results).",
        "config typo: the recipe knows no corpus 'demo-trian'. Did you mean 'demo-train'?",
        "config typo: network.callbacks: os.system (",
        "is not a class derived from asdf.training.callbacks.Callback, which is required",
    ):
        assert errors.count(said) == 1, errors
    assert not recipe.output.exists()


def test_what_three_corpora_lack_is_said_once(recipe, capsys, tmp_path):
    (tmp_path / "none").mkdir()
    parts = {"training": "", "validation": "-dev", "evaluation": "-eval"}
    words = [f"recipe.{name}_sets=('asvspoof19{part}',)" for name, part in parts.items()]
    words.append(f"paths.database_folder={tmp_path / 'none'}")
    outcome = recipe.call(capsys, "debug", "--dry-run", *words)
    assert outcome.status == 1
    assert outcome.output.count("ASVspoof 2019 LA is not in") == 1


TWO_STAGES = """
import sys
from asdf.recipe import Corpus, open_recipe
from asdf.recipe.stages import train_network

CORPORA = {name: Corpus(name.removeprefix("demo-") + "_list.txt")
           for name in ("demo-train", "demo-dev", "demo-eval")}

def train(run):
    \"\"\"teach it\"\"\"
    train_network(run, run.build_network(), *run.training_utterances())

def celebrate(run):
    print("done")

with open_recipe(__file__, CORPORA) as recipe:
    for run in recipe.runs():
        run.stage(1, train)
        run.stage(2, celebrate)
"""


def test_the_stages_are_those_of_the_recipe(recipe, capsys):
    (recipe.folder / "run.py").write_text(TWO_STAGES)
    outcome = recipe.call(capsys, "debug", "--dry-run").ok()
    assert outcome.output.partition("\nstages\n")[2].splitlines() == [
        "  1  teach it",
        "     train on demo-train, validate on demo-dev",
        f"     writes {recipe.system() / 'networks'}",
        "  2  celebrate",
    ]
    said = "do not fit the stages of this recipe: 1 (teach it), 2 (celebrate)"
    recipe.call(capsys, "debug", "recipe.start_stage=3").refused(said)
    assert not recipe.output.exists()


def network_of(output):
    return output.partition("\nnetwork\n")[2].partition("\n\n")[0].splitlines()


@pytest.mark.parametrize("initial", ["weights", "random"])
def test_the_size_of_the_network(recipe, capsys, weights, initial):
    words = [f"front_end.weights={weights}"] if initial == "weights" else []
    words += ["--dry-run", *SSL, "computing.use_gpu=False"]
    outcome = recipe.call(capsys, "debug", *words).ok()
    # 4 bytes for each parameter: weights, gradients, two moments of Adam.
    assert network_of(outcome.output) == [
        "  127,586 parameters, 127,586 of them trained",
        "  weights 0.5 MiB, gradients 0.5 MiB, moments of adam 1.0 MiB",
    ]


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ((), "captured as CUDA graphs"),
        (("network.loss=supervised_contrastive",), "launched without CUDA graphs: the loss is"),
        (("network.training_step=own.Own",), "launched without CUDA graphs: network.training_step"),
        (("computing.processes=2",), "launched without CUDA graphs: batch norm exchanges"),
    ],
)
def test_a_dry_run_says_whether_a_step_on_a_gpu_has_graphs(recipe, capsys, words, how):
    (recipe.folder / "own.py").write_text(
        "from asdf.training.steps import TrainingStep\n\n\n"
        "class Own(TrainingStep):\n"
        "    def compute_gradient(self, window):\n"
        "        window.backward()\n"
    )
    network = ("network.network_class=asdf.networks.SSL_AASIST", *SSL[1:])
    outcome = recipe.call(capsys, "debug", "--dry-run", *network, *words).ok()
    assert f"\n  on a GPU, the passes of a step are {how}" in outcome.output


def test_moments_are_those_of_the_optimiser_and_of_what_is_trained(recipe, capsys):
    words = (*SSL, "computing.use_gpu=False", "front_end.frozen=True", "network.ema_decay=0.9")
    words += ("network.optimizer=torch.optim.Adagrad",)
    size, held = network_of(recipe.call(capsys, "debug", "--dry-run", *words).output)
    trained = int(re.search(r" (\S+) of them trained", size)[1].replace(",", ""))
    assert 0 < trained < 127_586
    mebibytes = 4 * trained / 2**20
    assert held == (
        f"  weights 0.5 MiB, gradients {mebibytes:.1f} MiB, moments of torch.optim.Adagrad and "
        f"averages of weights {2 * mebibytes:.1f} MiB"
    )


def test_the_size_of_a_network_that_reads_its_numbers_and_of_none(recipe, capsys):
    words = ("recipe.start_stage=2", "network.resume_epoch=-1")
    assert not network_of(recipe.call(capsys, "debug", "--dry-run", *words).output)
    (recipe.folder / "looking.py").write_text(
        "from tests.small_networks import Plain\n\n\n"
        "class Looking(Plain):\n"
        "    def __init__(self, settings):\n"
        "        super().__init__(settings)\n"
        "        assert float(self.output.weight.abs().max()) > 0\n"
    )
    words = ("debug", "--dry-run", "network.network_class=looking.Looking")
    outcome = recipe.call(capsys, *words).ok()
    assert " parameters, " in network_of(outcome.output)[0]


OWN = """
import torch
from torch import nn

from asdf.networks import LinearClassHead
from asdf.training.losses import Loss
from tests.small_networks import Plain


class Narrow(Plain):
    def __init__(self, settings):
        super().__init__(settings)
        self.output = nn.Linear(47, 2)


class Endless(Plain):
    def forward(self, waveforms_BT):
        embeddings_BE, logits_B2 = super().forward(waveforms_BT)
        return embeddings_BE, logits_B2 / 0


class Unbuilt(Plain):
    def __init__(self, settings):
        super().__init__(settings)
        self.kernel = settings.network.kernel


class Detached(Loss):
    needs_embeddings = False

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return logits_B2.detach()[:, 0]


class Joined(Loss):
    columns = ("attack",)

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return embeddings_BE.mean(dim=0)


class Short(LinearClassHead):
    def logits(self, embeddings_BE):
        return super().logits(embeddings_BE)[:, 1:]
"""


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("network.network_class=my_code.Narrow", "my_code.Narrow fails on 2 utterances of 16000 s"),
        ("network.network_class=my_code.Endless", "which are not all finite numbers"),
        ("network.network_class=my_code.Unbuilt", "my_code.Unbuilt(settings) failed: Attr"),
        ("network.loss=my_code.Detached", "my_code.Detached depends on nothing that is trained"),
        ("network.loss=my_code.Joined", "my_code.Joined gives a tensor (48,) as per_utterance of"),
        ("source.head=my_code.Short", "my_code.Short returns (2, 2) as the logits of 2 utterances"),
    ],
)
def test_a_network_a_loss_or_a_head_that_fails_on_noise_is_a_problem(
    recipe, capsys, setting, problem
):
    (recipe.folder / "my_code.py").write_text(OWN)
    words = [setting, "network.train_clip_size=16000"]
    if setting.startswith("source.head"):
        words.append("source.column=attack")
    if not setting.startswith("network.network_class"):
        words.append("network.network_class=tests.small_networks.Plain")
    outcome = recipe.call(capsys, "debug", "--dry-run", *words)
    outcome.refused(problem, status=1)
    assert network_of(outcome.output) == ["  PROBLEM, see below"]
    assert outcome.output.count(problem) == 1, outcome.output


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("whisper", "whisper"),
        ("empty", "there is no config.json in it"),
        ("tiny.pt", "do not fit Wav2Vec2Model"),
        ("none.pt", "none.pt: check front_end.weights."),
        ("torchaudio:XLSR", "front_end.weights: 'torchaudio:XLSR' is not known."),
    ],
)
def test_wrong_weights_are_found_by_a_dry_run_and_before_anything_is_measured(
    recipe, capsys, tmp_path, weights, path, said
):
    for name in ("whisper", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "whisper" / "config.json").write_text('{"model_type": "whisper"}')
    # Of another architecture.
    state = torch.load(weights, weights_only=True)
    name, tensor = next(iter(state.items()))
    torch.save({**state, name: tensor[:1]}, weights)
    named = path if ":" in path else tmp_path / path
    words = ("debug", *SSL, f"front_end.weights={named}")
    for command in ((*words, "--dry-run"), words):
        outcome = recipe.call(capsys, *command)
        assert outcome.status in (1, 2) and "Traceback" not in outcome.output
        assert said in outcome.output and outcome.output.count("error:") == 1
        assert not (recipe.output / "sad").exists()


def test_a_bundle_that_is_known_is_not_fetched(recipe, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    words = ("front_end.weights=torchaudio:WAV2VEC2_BASE", "front_end.layer=13")
    outcome = recipe.call(capsys, "debug", "--dry-run", *SSL, *words)
    assert "front_end.layer = 13: this front end has 12 encoder layers" in outcome.output
    outcome = recipe.call(capsys, "debug", "--dry-run", *SSL, words[0]).ok()
    assert "94,472,578 parameters" in outcome.output, outcome.output
    assert not (tmp_path / "torch").exists()


no_gpu = pytest.mark.skipif(visible_gpus() > 0, reason="there is a GPU here")


@no_gpu
def test_a_gpu_that_is_required_is_missed_by_the_dry_run_and_by_the_run(recipe, capsys):
    said = "computing.use_gpu = 'required', but no NVIDIA GPU was found. In a job ask for one"
    for dry in ((), ("--dry-run",)):
        recipe.call(capsys, "debug", *dry, "computing.use_gpu='required'").refused(said)
    assert not recipe.output.exists()


@no_gpu
def test_a_run_on_the_cpu_that_might_have_expected_a_gpu_says_so_once(recipe, capsys):
    words = ("debug", "recipe.start_stage=0", "recipe.end_stage=0")
    outcome = recipe.call(capsys, *words).ok()
    assert outcome.output.count("warning: no GPU that torch can use: computing on the CPU") == 1
    meant = recipe.call(capsys, *words, "computing.use_gpu=False").ok()
    assert "no GPU that torch" not in meant.output
