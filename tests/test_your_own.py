"""Every file of docs/your_own.md and of recipes/ideas, in a recipe folder of its own.

Each is run with its config lines, which stand below it or in its docstring.
"""

import csv
import json
import re
import runpy
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main
from asdf.errors import UsageError
from asdf.evaluation import read_scores
from asdf.extras.forensic.case.examining import make_case
from asdf.extras.forensic.case.pages import case_page
from asdf.extras.service.answers import entry_of
from asdf.interchange import read_network
from asdf.networks import Outputs
from tests.unit.conftest import sound, write_small_network

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "your_own.md").read_text(encoding="utf-8")
IDEAS = ROOT / "recipes" / "ideas"
# A file with its name in the first line, and the indented lines of a config after it.
EXAMPLE = re.compile(r"```python\n# (\w+)\.py\n(.*?)```\n\n((?:    \S[^\n]*\n)+)", re.DOTALL)
# What makes the examples quick, and gives a loss or a front end something to work on.
BASE = """
shown < debug
network.max_epochs = 1
network.minibatch_size = 8
recipe.end_stage = 3
"""


@dataclass
class Example:
    """A file of the page, and the config lines that use it."""

    module: str
    code: str
    lines: list[str]


EXAMPLES = {}
for module, code, config in EXAMPLE.findall(PAGE):
    EXAMPLES[module] = Example(module, code, [line.strip() for line in config.splitlines()])
for path in sorted(IDEAS.glob("*.py")):
    code = path.read_text(encoding="utf-8")
    shown = re.findall(r"^    (\w+\.\w+ = .*)$", code.split('"""')[1], re.MULTILINE)
    EXAMPLES[path.stem] = Example(path.stem, code, shown)


def run(recipe, capsys, names: str, *words: str):
    """Train with the files of these names, and the lines of each."""
    lines = []
    for name in names.split():
        (recipe.folder / f"{name}.py").write_text(EXAMPLES[name].code)
        lines += EXAMPLES[name].lines
    recipe.add_configs(BASE + "\n".join(lines) + "\n")
    return recipe.call(capsys, "shown", *words).ok()


def network_of(recipe, system: str = "system1", epoch: int = 1) -> dict:
    path = recipe.system(system) / "networks" / f"epoch.{epoch}.pt"
    return torch.load(path, weights_only=True)


def steps_of(recipe) -> list[dict]:
    lines = (recipe.system() / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "step"]


def test_every_file_of_the_page_is_run() -> None:
    of_page = [name for name in EXAMPLES if name.startswith("my_")]
    assert of_page == re.findall(r"^# (my_\w+)\.py$", PAGE, re.MULTILINE)
    listed = re.findall(r"^\| \[(\w+)\.py\]", (IDEAS / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [name for name in EXAMPLES if name not in of_page]
    assert len(of_page) == 15 and len(listed) == 10


def test_a_loss_an_optimiser_a_schedule_a_metric_and_a_callback(recipe, capsys):
    words = ["network.print_interval=1"]
    if find_spec("tensorboard") is None:
        words.append("network.callbacks=('my_callbacks.Notify',)")
    names = "my_loss my_optimiser my_schedule my_metric my_callbacks"
    run(recipe, capsys, names, *words)
    file = network_of(recipe)
    assert file["settings"]["centre"] == {"margin": 3.0}
    assert file["model_state_dict"]["trained_loss.centre_E"].shape == (48,)
    # Minus the distance from the centre: never positive.
    scores = read_scores(recipe.system() / "scores" / "epoch.1" / "demo-dev.txt")
    assert scores.bona_fide.max() < 0 and scores.spoof.max() < 0
    state = file["optimizer_state_dict"]
    assert state["param_groups"][0]["betas"] == (0.95, 0.98)
    assert set(state["state"][0]) == {"average"}
    rates = [record["learning_rate"] for record in steps_of(recipe)]
    # 26 utterances, 8 per step; the rate of a step follows from what is done before it.
    done = [8 * step / 26 for step in range(4)]
    assert rates == pytest.approx([0.0001 * (1 - abs(2 * part - 1)) for part in done])
    assert "missed" in (recipe.system() / "networks" / "evaluations.json").read_text()
    newest = (recipe.system() / "newest_eer.txt").read_text()
    assert re.fullmatch(r"epoch 1(\.0)?: demo-dev [\d.]+ %, gradients up to [\d.]+\n", newest)
    assert (recipe.system() / "sets.txt").read_text() == "demo-dev\ndemo-eval"


def test_an_augmentation_a_vocoder_and_a_sampler(recipe, capsys):
    outcome = run(recipe, capsys, "my_parts my_vocoder my_sampler", "recipe.end_stage=1")
    assert "examples are augmented: speed, Clipping" in outcome.output
    assert network_of(recipe)["settings"]["clipping"] == {"probability": 0.5, "highest": 8.0}
    assert re.search(
        r"13 are vocoded copies \(\d griffin_lim, \d my_vocoder.Noisy\)", outcome.output
    )
    # 13 bona fide utterances twice, 13 spoofs and 13 copies once.
    assert "of 52, step" in outcome.output


@pytest.mark.parametrize(
    ("names", "layer", "shape"),
    [
        ("my_front_end", "back_end.LL.weight", (128, 40)),
        ("my_back_end", "back_end.output.weight", (2, 120)),
        ("my_network", "front_end.model.encoder.transformer.layer_norm.weight", (64,)),
    ],
)
def test_a_network_or_an_end_of_it(recipe, capsys, names, layer, shape):
    run(recipe, capsys, names, "network.train_clip_size=16000", "recipe.end_stage=1")
    assert network_of(recipe)["model_state_dict"][layer].shape == shape


def test_a_back_end_with_scores_per_frame_and_a_head_for_sources(recipe, capsys):
    run(recipe, capsys, "my_timed_back_end my_head", "recipe.end_stage=2")
    state = network_of(recipe)["model_state_dict"]
    assert state["back_end.smooth.weight"].shape == (32, 60, 5)
    scores = recipe.system() / "scores" / "epoch.1"
    assert (scores / "demo-dev.frames.npz").exists()
    (weights,) = [state[name] for name in state if name.endswith("layers.2.weight")]
    header = (scores / "demo-dev.sources.tsv").read_text().splitlines()[0].split("\t")
    assert header[-3:] == ["A01", "A02", "A03"] and weights.shape == (3, 16)


def test_the_task_next_to_another_one(recipe, capsys):
    outcome = run(recipe, capsys, "forget_speakers")
    file = network_of(recipe)
    assert file["settings"]["speakers"] == {"weight": 0.3}
    assert file["sources"]["classes"] == ["A01", "A02", "A03"]
    entry = file["heads"]["speakers"]
    assert entry["head"] == "forget_speakers.SpeakerHead" and entry["dimension"] == 48
    count = len(entry["names"])
    assert f"; {count} speakers" in outcome.output
    scores = recipe.system() / "scores" / "epoch.1"
    listed = read_scores(scores / "demo-dev.txt")
    values = np.load(scores / "demo-dev.speakers.npz")
    assert values["ids"].tolist() == list(listed.ids)
    assert values["values"].shape == (len(listed.ids), count)
    network = recipe.system() / "networks" / "epoch.1.pt"
    detector = asdf.Detector(network, "cpu", network_folder=recipe.folder)
    noise = np.random.default_rng(0).normal(0, 0.1, 1_100_000).astype(np.float32)
    whole = detector.score_whole(noise, 16000)
    assert whole.extras["speakers"].shape == (count,) and whole.windows > 1
    windows = detector.score_over_time(noise[:80_000], 2.0, 2.0, 16000)
    assert windows[0].extras["speakers"].shape == (count,)
    assert set(windows[0].extras["sources"].probabilities) == {"A01", "A02", "A03"}
    # A second start finds the heads in its files, and goes on.
    outcome = recipe.call(capsys, "shown", "network.max_epochs=2").ok()
    assert "epoch 2" in outcome.output


def test_the_teacher(recipe, capsys, tmp_path):
    path = write_small_network(tmp_path / "large.pt")
    run(recipe, capsys, "distillation", f"taught.network={path}", "recipe.end_stage=1")
    assert all(np.isfinite(record["terms"]["taught"]) for record in steps_of(recipe))
    state = network_of(recipe)["model_state_dict"]
    recipe.call(capsys, "shown", "network.tasks=()", "paths.system_folder=alone")
    alone = network_of(recipe, "alone")["model_state_dict"]
    # The student's file is that of any network, with other weights than without the teacher.
    assert list(state) == list(alone)
    assert not all(torch.equal(state[name], alone[name]) for name in state)
    module = runpy.run_path(str(recipe.folder / "distillation.py"))
    teacher, _ = read_network(path)
    clips_BT, logits_B2 = 0.1 * torch.randn(3, 16000), torch.randn(3, 2)
    term = module["TaughtTerm"](module["TaughtSettings"](temperature=3.0), teacher)
    values_B = term.per_utterance(Outputs(None, logits_B2, {"clips": clips_BT}), torch.zeros(3))
    with torch.no_grad():
        p_B = (teacher(clips_BT)[1] @ torch.tensor([-1.0, 1.0]) / 3).sigmoid()
    q_B = ((logits_B2[:, 1] - logits_B2[:, 0]) / 3).sigmoid()
    expected_B = -9 * (p_B * q_B.log() + (1 - p_B) * (1 - q_B).log())
    torch.testing.assert_close(values_B, expected_B)


def test_the_default_network_of_the_original(tmp_path):
    path = tmp_path / "default_network.py"
    path.write_text(EXAMPLES["default_network"].code)
    network = runpy.run_path(str(path))["DefaultNetwork"]
    network = network(None, SimpleNamespace(dimension=1024)).eval()
    for name, tensor in network.state_dict().items():
        numbers = torch.arange(tensor.numel(), dtype=torch.float64)
        values = 0.05 * torch.sin(0.7 * numbers + len(name))
        values = values.abs() + 0.5 if name.endswith("running_var") else values
        tensor.copy_(values.reshape(tensor.shape))
    features = torch.sin(0.013 * torch.arange(57 * 1024, dtype=torch.float64)).float()
    with torch.no_grad():
        _, logits_B2 = network(features.reshape(1, 57, 1024))
    # Of the original's own code, with these weights and features.
    torch.testing.assert_close(logits_B2, torch.tensor([[-0.0456053168, -0.1621077955]]))


def test_weights_of_the_original_take_the_place_of_those_of_an_epoch(
    recipe, capsys, tmp_path, monkeypatch
):
    words = ("front_end.architecture=tiny", "network.train_clip_size=16000", "recipe.end_stage=2")
    run(recipe, capsys, "default_network", *words)
    scores = read_scores(recipe.system() / "scores" / "epoch.1" / "demo-dev.txt")
    assert np.isfinite(scores.scores).all()
    state = network_of(recipe)["model_state_dict"]
    assert state["back_end.LL.weight"].shape == (128, 64)
    # As the original saves it, on several GPUs.
    theirs = {"module.consecutive_lr_updates": torch.zeros(1), "module.ssl_model.x": torch.ones(1)}
    for name, tensor in state.items():
        if name.startswith("back_end."):
            theirs[name.replace("back_end.", "module.")] = torch.zeros_like(tensor)
    theirs["module.LL4.bias"] = torch.tensor([0.25, 0.75])
    monkeypatch.chdir(tmp_path)
    torch.save({"model_state_dict": theirs}, "epoch.24.pt")
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    program = re.findall(r"```python\n(from pathlib.*?)```", page, re.DOTALL)[0]
    epoch = recipe.system() / "networks" / "epoch.1.pt"
    exec(program.replace("output/default-network/networks/epoch.1.pt", str(epoch)), {})
    detector = asdf.Detector("default.pt", "cpu", network_folder=recipe.folder)
    assert detector.score_trial(sound(20_000, 0), 16_000).raw == pytest.approx(0.75)


def test_the_language_model(recipe, capsys, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 50}
    config = transformers.Qwen2Config(**sizes, num_attention_heads=2, num_key_value_heads=2)
    transformers.Qwen2ForCausalLM(config).save_pretrained(tmp_path / "model")
    numbers = ["asked.question=(3, 4, 5)", "asked.spoof=6", "asked.bona_fide=7"]
    words = [f"asked.model={tmp_path / 'model'}", *numbers, "recipe.end_stage=2"]
    run(recipe, capsys, "language_model", *words)
    scores = read_scores(recipe.system() / "scores" / "epoch.1" / "demo-dev.txt")
    assert np.isfinite(scores.bona_fide).all() and np.ptp(scores.scores) > 0


def test_the_column(tmp_path, monkeypatch, capsys):
    example = EXAMPLES["my_column"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_column.py").write_text(example.code)
    write_small_network(tmp_path / "network.pt")
    soundfile.write("call.wav", sound(20_000, 1), 16000)
    plain = asdf.Detector("network.pt", "cpu").score_whole("call.wav")
    [line] = example.lines
    words = [*line.split()[1:], "--csv", "o.csv", "--json", "o.json", "--device", "cpu"]
    for threshold, verdict in ((plain.score - 0.01, "undecided"), (plain.score - 1, "bona fide")):
        words[words.index("--threshold") + 1] = str(threshold)
        assert main(words) == 0
        [row] = csv.DictReader(Path("o.csv").read_text().splitlines())
        [entry] = json.loads(Path("o.json").read_text())["recordings"]
        assert float(row["margin"]) == entry["margin"] == pytest.approx(plain.score - threshold)
        assert row["verdict"] == entry["verdict"] == verdict
    assert "\t1.00 from the threshold" in capsys.readouterr().out
    detector = asdf.Detector("network.pt", "cpu", threshold=0.0, columns=["my_column.Margin"])
    assert detector.score_whole("call.wav").margin == plain.score
    [scored] = detector.score_many(["call.wav"], whole=True)
    stated = {"Score above the threshold": f"{plain.score:.2f}"}
    assert entry_of(scored, is_shown=True)["shown"]["facts"] == stated
    page = case_page(make_case(detector, ["call.wav"], "case"))
    assert f">{plain.score:.2f}<" in page and ">Score above the threshold<" in page
    with pytest.raises(UsageError, match=r"has no class .Other.*Margin"):
        asdf.Detector("network.pt", "cpu", columns=["my_column.Other"])


STEPS = {
    "my_sam": {"sam": {"rho": 0.1, "adaptive": False}},
    "mldg": {"mldg": {"inner_rate": 0.05}},
    "adversarial": {"attacked": {"radius": 0.001}},
    "mean_teacher": {"teacher": {"decay": 0.9}},
    "denoising": {"denoising": {"noise": 0.02}},
    "gem": {"gem": {"column": "attack"}},
}


@pytest.mark.slow_but("my_sam")
@pytest.mark.parametrize("name", STEPS)
def test_the_training_step(recipe, capsys, name):
    words = ["recipe.end_stage=1", "network.print_interval=1"]
    # The deviation in this network has no second derivative where frames are equal.
    words += ["mldg.first_order=True"] * (name == "mldg")
    # The first corpus, or attack, has no memory to mind.
    last = 2 if name == "gem" else 1
    words.append(f"network.max_epochs={last}")
    run(recipe, capsys, name, *words)
    file = network_of(recipe, epoch=last)
    for section, values in STEPS[name].items():
        assert values.items() <= file["settings"][section].items()
    losses = [record["loss"] for record in steps_of(recipe)]
    assert len(losses) == 4 * last and np.isfinite(losses).all()
    # The steps are not those of the plain one, from the same weights.
    others = ("network.training_step=plain", "paths.system_folder=plain")
    recipe.call(capsys, "shown", *words, *others)
    plain = network_of(recipe, "plain", last)
    key = next(iter(file["model_state_dict"]))
    assert not torch.equal(file["model_state_dict"][key], plain["model_state_dict"][key])
