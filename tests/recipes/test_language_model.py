"""Runs whose network is an audio language model: texts, updates, exact resumes, generated texts."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main
from asdf.networks.language_models.rationale import NOTE
from tests.conftest import ROOT
from tests.test_your_own import EXAMPLES
from tests.unit.conftest import write_small_network
from tests.unit.networks.test_language_models import network_of as language_model
from tests.unit.networks.test_language_models import write_folder

CONFIG = """
spoken < debug
network.network_class = 'asdf.networks.AudioLanguageModel'
front_end.architecture = 'tiny'
lora.rank = 2
language_model.text_column = 'attack'
language_model.text_weight = 0.5
language_model.rationale_tokens = 12
network.max_epochs = 1
network.train_clip_size = 16000
network.minibatch_size = 8
network.checkpoint_interval_steps = 1
network.print_interval = 1
recipe.end_stage = 1
"""


def network_of(recipe, system):
    path = recipe.system(system) / "networks" / "epoch.1.pt"
    return torch.load(path, weights_only=True)


def steps_of(recipe, system):
    lines = (recipe.system(system) / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "step"]


def assert_same(first, second):
    for key in ("model_state_dict", "optimizer_state_dict"):
        torch.testing.assert_close(first[key], second[key], rtol=0, atol=0)


def score(*words):
    return main(["score", *map(str, words), "--device", "cpu"])


def test_it_trains_resumes_is_scored_and_says_something(recipe, capsys, tmp_path):
    recipe.add_configs(CONFIG)
    outcome = recipe.call(capsys, "spoken", "paths.system_folder=run", "recipe.end_stage=2")
    assert outcome.status == 0, outcome.output
    steps = steps_of(recipe, "run")
    assert steps
    for step in steps:
        # The loss that is minimised is that of the answers, and half that of the texts.
        assert 0.6 < step["loss"] - 0.5 * step["terms"]["rationale"] < 0.8
    file = network_of(recipe, "run")
    assert file["heads"]["rationale"]["head"] == "asdf.networks.Words"
    learnt = {name for name in file["model_state_dict"] if "lora_B" in name}
    assert learnt and all("language_model.layers" in name for name in learnt)
    assert any(file["model_state_dict"][name].abs().sum() for name in learnt)
    assert (
        recipe.call(capsys, "spoken", "paths.system_folder=part", "network.max_steps=2").status == 0
    )
    resumed = recipe.call(capsys, "spoken", "paths.system_folder=part")
    assert resumed.status == 0 and "going on from" in resumed.output, resumed.output
    assert_same(file, network_of(recipe, "part"))
    network = recipe.system("run") / "networks" / "epoch.1.pt"
    says_the_same(network, tmp_path, capsys)


def says_the_same(network, folder, capsys):
    """Hold the texts of files, of the screen and of the Detector against each other."""
    noise = np.random.default_rng(0).normal(0, 0.1, 40000).astype(np.float32)
    recording = folder / "noise.wav"
    soundfile.write(recording, noise, 16000, subtype="FLOAT")
    detector = asdf.Detector(network, "cpu")
    plain = detector.score(recording)
    said = detector.score(recording, rationale=True)
    assert plain == said and plain.rationale is None
    assert said.rationale.is_cut and said.rationale.tokens == 12
    assert said.rationale == detector.score(recording, rationale=True).rationale
    words = [network, recording, "--rationale", "--label", "spoof", "--scores", folder / "dev.txt"]
    capsys.readouterr()
    words += ["--json", folder / "dev.json", "--csv", folder / "dev.csv"]
    assert score(*words) == 0
    captured = capsys.readouterr()
    assert "generated text, no evidence" in captured.out and NOTE in captured.err
    written = json.loads((folder / "dev.json").read_text())
    assert written["rationales"] == NOTE
    assert written["recordings"][0]["rationale"] == said.rationale.entry()
    with (folder / "dev.rationales.csv").open() as table:
        (row,) = csv.DictReader(table)
    assert row["note"] == NOTE and float(row["score"]) == plain
    with (folder / "dev.csv").open() as table:
        (of_table,) = csv.DictReader(table)
    assert of_table["generated_text"] == row["generated_text"]
    assert row["generated_text"].lstrip("'") == said.rationale.text.lstrip("'")


def test_other_networks_refuse_to_say_something(tmp_path, capsys):
    network_file = write_small_network(tmp_path / "network.pt")
    recording = tmp_path / "noise.wav"
    soundfile.write(recording, np.zeros(16000, np.float32) + 0.1, 16000)
    assert score(network_file, recording, "--rationale", "--json", tmp_path / "out.json") == 2
    assert "AASIST_L generates no text" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_a_dry_run_describes_it(recipe, capsys):
    recipe.add_configs(CONFIG)
    outcome = recipe.call(capsys, "spoken", "--dry-run")
    assert outcome.status == 0, outcome.output
    # 2 layers of attention (4 maps of 32 to 32) and feed-forward (3 of 32 and 64), rank 2.
    trained = 2 * 2 * (4 * 64 + 3 * 96)
    assert f"parameters, {trained:,} of them trained" in outcome.output
    outcome = recipe.call(capsys, "spoken", "--dry-run", "language_model.prompt=real or fake?")
    assert outcome.status == 2 and "'{audio}' 0 times" in outcome.output, outcome.output
    refused = recipe.call(capsys, "spoken", "--dry-run", "front_end.layer=1")
    assert refused.status == 2 and "front_end.layer does not apply to" in refused.output


def test_a_dry_run_tries_steps_and_reads_weights(recipe, capsys, tmp_path):
    example = EXAMPLES["my_sam"]
    (recipe.folder / "my_sam.py").write_text(example.code)
    recipe.add_configs(CONFIG)
    tried = recipe.call(capsys, "spoken", "--dry-run", "network.training_step=my_sam.SAM")
    assert tried.status == 0, tried.output
    folder = write_folder(tmp_path / "model", language_model())
    named = f"front_end.weights={folder}"
    outcome = recipe.call(capsys, "spoken", "--dry-run", named)
    assert outcome.status == 0 and "parameters" in outcome.output, outcome.output
    # The words of the model show what the settings cannot.
    answer = "language_model.spoof_answer=forged"
    refused = recipe.call(capsys, "spoken", "--dry-run", named, answer)
    assert refused.status != 0 and "is 6 tokens of this model" in refused.output, refused.output


@pytest.mark.slow
def test_a_run_of_updates_on_weights_is_small_and_goes_on(recipe, capsys, tmp_path):
    folder = write_folder(tmp_path / "model", language_model())
    recipe.add_configs(f"{CONFIG}front_end.weights = '{folder}'\n")
    words = ("spoken", "paths.system_folder=whole", "recipe.end_stage=2")
    outcome = recipe.call(capsys, *words)
    assert outcome.status == 0, outcome.output
    file = network_of(recipe, "whole")
    assert file["base"]["weights"] == str(folder)
    assert all("lora_" in name for name in file["model_state_dict"])
    part = ("spoken", "paths.system_folder=part")
    assert recipe.call(capsys, *part, "network.max_steps=2").status == 0
    assert recipe.call(capsys, *part).status == 0
    assert_same(file, network_of(recipe, "part"))


def test_the_config_of_the_page(recipe, capsys):
    page = (ROOT / "docs" / "language_models.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(spoken < .*?)```", page, re.DOTALL)
    recipe.add_configs(shown.replace("quickstart", "debug"))
    tiny = (
        "front_end.weights=None",
        "front_end.architecture=tiny",
        "language_model.text_column=attack",
    )
    outcome = recipe.call(capsys, "spoken", *tiny, "--dry-run")
    assert outcome.status == 0, outcome.output


def test_recordings_of_varying_length_are_heard_without_their_padding(recipe, capsys):
    recipe.add_configs(CONFIG)
    words = ("lengths.minibatch_s=14", "paths.system_folder=run", "recipe.validation_sets=()")
    outcome = recipe.call(capsys, "spoken", *words)
    assert outcome.status == 0, outcome.output
    for step in steps_of(recipe, "run"):
        # Of one or two utterances each, at weights that hardly tell them apart.
        assert 0.4 < step["loss"] - 0.5 * step["terms"]["rationale"] < 1.0


@pytest.mark.slow
def test_two_processes_resume_exactly_and_may_divide_it(recipe):
    recipe.add_configs(CONFIG)
    for system, words in (("whole", ()), ("part", ("network.max_steps=1",)), ("part", ())):
        outcome = recipe.run("spoken", f"paths.system_folder={system}", *words, processes=2)
        assert outcome.status == 0, outcome.output
    assert_same(network_of(recipe, "whole"), network_of(recipe, "part"))
    divided = ("paths.system_folder=divided", "computing.shard_network=True")
    outcome = recipe.run("spoken", *divided, processes=2)
    assert outcome.status == 0, outcome.output
    whole = network_of(recipe, "whole")["model_state_dict"]
    torch.testing.assert_close(network_of(recipe, "divided")["model_state_dict"], whole)
    # As many utterances per step, in the same order.
    words = ("paths.system_folder=alone", "network.optimizer_step_interval=2")
    outcome = recipe.run("spoken", *words)
    assert outcome.status == 0, outcome.output
    of_two = {record["step"]: record["loss"] for record in steps_of(recipe, "whole")}
    of_one = {record["step"]: record["loss"] for record in steps_of(recipe, "alone")}
    # Sums in another order: a few units of float32.
    assert len(of_one) == 2 and of_one == pytest.approx(of_two, rel=1e-5)
