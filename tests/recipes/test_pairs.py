"""Trials of two recordings: the files of docs/pairs.md train, stop, go on and score."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from asdf.evaluation import min_a_dcf, read_scores
from tests.distributed.test_exactness import assert_equal_runs

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "pairs.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```python\n# (\w+)\.py\n(.*?)```\n\n((?:    \S[^\n]*\n)+)", re.DOTALL)
FILES = {name: code for name, code, _ in EXAMPLE.findall(PAGE)}
LINES = {name: lines for name, _, lines in EXAMPLE.findall(PAGE)}
BASE = """
network.max_epochs = 2
network.minibatch_size = 8
network.print_interval = 1
network.checkpoint_interval_steps = 2
recipe.end_stage = 3
"""
READY = """
network.network_class = 'asdf.networks.CosinePairNetwork'
front_end.front_end_class = 'lfcc'
back_end.back_end_class = 'mlp'
recipe.training_sets = ('reference-train',)
recipe.validation_sets = ('reference-dev',)
recipe.evaluation_sets = ('reference-dev',)
"""
CORPORA = """CORPORA = {
    "reference-train": Corpus(
        "train_list.txt", protocol=f"{LA}.train.trn.txt", pairs="genuine:speaker"
    ),
    "reference-dev": Corpus("dev_list.txt", protocol=f"{LA}.dev.trl.txt", pairs="genuine:speaker"),
    "source-train": Corpus("train_list.txt", protocol=f"{LA}.train.trn.txt", pairs="same:attack"),
    "source-dev": Corpus("dev_list.txt", protocol=f"{LA}.dev.trl.txt", pairs="same:attack"),
"""
NAMES = ("my_reference", "my_verification")


@pytest.fixture
def pairs(recipe):
    """The recipe with corpora of pairs, and a config per file of the page, and one without."""
    run = recipe.folder / "run.py"
    run.write_text(run.read_text().replace("CORPORA = {\n", CORPORA))
    for name, code in FILES.items():
        (recipe.folder / f"{name}.py").write_text(code)
    for name, lines in {**LINES, "ready": READY}.items():
        flush = "\n".join(line.strip() for line in lines.strip().splitlines())
        system = f"paths.system_folder = '{name}'"
        recipe.add_configs(f"{name} < debug{BASE}{flush}\n{system}\n")
    return recipe


def weights(system: Path, epoch: int = 2) -> dict[str, torch.Tensor]:
    path = system / "networks" / f"epoch.{epoch}.pt"
    return torch.load(path, weights_only=True)["model_state_dict"]


def test_the_page_has_a_file_for_each_task() -> None:
    assert tuple(FILES) == NAMES


@pytest.mark.slow_but("my_reference")
@pytest.mark.parametrize("name", [*NAMES, "ready"])
def test_it_is_tried_first_then_trains_and_scores(pairs, capsys, name: str) -> None:
    outcome = pairs.call(capsys, name, "--dry-run")
    assert outcome.status == 0, outcome.output
    assert "distinct reference recordings" in outcome.output
    outcome = pairs.call(capsys, name)
    assert outcome.status == 0, outcome.output
    assert "training on pairs:" in outcome.output
    kind = "source" if name == "my_verification" else "reference"
    scores = read_scores(pairs.system(name) / "scores" / "epoch.2" / f"{kind}-dev.txt")
    assert np.isfinite(scores.scores).all() and len(scores.bona_fide) and len(scores.spoof)
    assert ("|" in scores.ids[0]) == (kind == "source")


@pytest.mark.parametrize("name", ["my_verification"])
def test_a_run_that_stopped_ends_as_one_that_did_not(pairs, capsys, name: str) -> None:
    assert pairs.call(capsys, name, "paths.system_folder=whole").status == 0
    words = (name, "paths.system_folder=stopped")
    # Three optimiser steps: in the middle of an epoch.
    outcome = pairs.call(capsys, *words, "network.max_steps=3", "recipe.end_stage=1")
    assert outcome.status == 0, outcome.output
    outcome = pairs.call(capsys, *words)
    assert outcome.status == 0 and "going on from" in outcome.output, outcome.output
    whole, stopped = pairs.system("whole"), pairs.system("stopped")
    first, second = weights(whole), weights(stopped)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    scores = "scores/epoch.2/source-dev.txt"
    assert (whole / scores).read_bytes() == (stopped / scores).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_run_ends_as_one_never_killed(pairs, name: str, processes: int) -> None:
    embed = r"(    def embed\(self, waveforms_BT\):)[^\n]*\n"
    code = re.sub(embed, r"\1\n        fail_on_request(self)\n", FILES[name])
    module = "from small_networks import fail_on_request\n" + code
    (pairs.folder / f"{name}.py").write_text(module)
    whole = pairs.run(name, "paths.system_folder=whole", processes=processes)
    assert whole.status == 0, whole.output
    killed = (name, "paths.system_folder=killed")
    # A step embeds references, then recordings: the third step of a process.
    assert pairs.run(*killed, processes=processes, TEST_KILL="0:5").status != 0
    resumed = pairs.run(*killed, processes=processes)
    assert resumed.status == 0 and "going on from" in resumed.output, resumed.output
    assert_equal_runs(pairs.system("whole"), pairs.system("killed"))


@pytest.mark.slow
def test_scores_and_steps_do_not_depend_on_the_number_of_processes(pairs) -> None:
    words = ("my_verification", "network.global_minibatch_size=8")
    alone = pairs.run(*words, "paths.system_folder=alone")
    assert alone.status == 0, alone.output
    both = pairs.run(*words, "paths.system_folder=both", processes=2)
    assert both.status == 0, both.output
    first, second = weights(pairs.system("alone")), weights(pairs.system("both"))
    torch.testing.assert_close(first, second, rtol=0, atol=1e-5)
    # Of one network, the score files of one and of two processes are the same bytes.
    scores = "scores/epoch.2/source-dev.txt"
    file = pairs.system("alone") / scores
    before = file.read_bytes()
    file.unlink()
    words = ("my_verification", "paths.system_folder=alone", "recipe.start_stage=2")
    again = pairs.run(*words, processes=2)
    assert again.status == 0, again.output
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("network.loss=oc_softmax", "which would be ignored"),
        ("recipe.training_sets=('demo-train',)", "demo-train has no column 'reference'"),
        ("augmentation.mixup_probability=0.5", "takes references (further_inputs), which cannot"),
        ("front_end.cache_features=True front_end.frozen=True", "cache_features"),
    ],
)
def test_what_does_not_go_with_references_says_so(pairs, capsys, words: str, said: str) -> None:
    outcome = pairs.call(capsys, "ready", *words.split())
    assert outcome.status != 0 and said in outcome.output, outcome.output
    assert "Traceback" not in outcome.output and outcome.output.count("error:") == 1


def test_a_network_that_takes_none_scores_each_recording_by_itself(pairs, capsys) -> None:
    words = ("network.max_epochs=1", "recipe.end_stage=2")
    sets = "recipe.{}_sets=('{}',)"
    named = [sets.format("validation", "source-dev"), sets.format("evaluation", "source-dev")]
    outcome = pairs.call(capsys, "debug", *words, *named)
    assert outcome.status == 0, outcome.output
    said = "source-dev names reference recordings, which small_networks.Plain does not use"
    assert said in outcome.output
    scores = read_scores(pairs.system() / "scores" / "epoch.1" / "source-dev.txt")
    # Two trials of one recording have one score.
    assert len(set(scores.scores.tolist())) == len(scores) / 2


def test_references_without_embeddings_are_refused(pairs, capsys) -> None:
    code = (
        "from torch import nn\nfrom asdf.networks import DetectorNetwork\n\n\n"
        "class Both(DetectorNetwork):\n    further_inputs = ('references',)\n\n"
        "    def forward(self, waveforms_BT, references=None):\n        pass\n"
    )
    (pairs.folder / "my_both.py").write_text(code)
    for mode in ([], ["--dry-run"]):
        words = ["network.network_class=my_both.Both", "front_end.front_end_class=None", *mode]
        outcome = pairs.call(capsys, "my_reference", *words)
        assert "is not derived from asdf.networks.PairNetwork" in outcome.output, outcome.output
        assert outcome.status != 0 and "Traceback" not in outcome.output


def test_a_joint_network_has_an_a_dcf(pairs, capsys, corpus) -> None:
    """Trials of made-up enrolments: what is reported is what the command makes of the files."""
    lines = (corpus / "dev_list.txt").read_text().split()
    genuine = [name for name, label in zip(lines[::2], lines[1::2], strict=True) if label == "1"]
    spoofs = [name for name, label in zip(lines[::2], lines[1::2], strict=True) if label == "0"]
    rows = ["path,label,reference,asv_label"]
    for first, second in itertools.pairwise(genuine):
        rows += [f"{first},1,anna,target", f"{second},0,{first},nontarget"]
    rows += [f"{name},0,anna,spoof" for name in spoofs]
    (pairs.folder / "joint.csv").write_text("\n".join(rows))
    (pairs.folder / "models.txt").write_text(f"anna {genuine[-1]},{genuine[-2]}\n")
    run = pairs.folder / "run.py"
    entry = f"""    "joint": Corpus(
        {str(pairs.folder / "joint.csv")!r}, references={str(pairs.folder / "models.txt")!r}
    ),
"""
    run.write_text(run.read_text().replace("CORPORA = {\n", "CORPORA = {\n" + entry))
    words = (
        "network.max_epochs=1",
        "recipe.validation_sets=()",
        "recipe.evaluation_sets=('joint',)",
    )
    outcome = pairs.call(capsys, "my_reference", *words)
    assert outcome.status == 0, outcome.output
    assert "min a-DCF" in outcome.output and "EER" in outcome.output
    system = pairs.system("my_reference")
    (record,) = json.loads((system / "results" / "sasv.json").read_text())
    scores = read_scores(system / "scores" / "epoch.1" / "joint.txt")
    kind_of = dict(line.rsplit(",", 1) for line in rows[1:])
    kinds = {}
    for name, score in zip(scores.ids, scores.scores.tolist(), strict=True):
        path, _, reference = name.partition("|")
        label = int(kind_of.get(f"{path},1,{reference}") == "target")
        kinds.setdefault(kind_of[f"{path},{label},{reference}"], []).append(score)
    parts = [np.array(kinds[kind]) for kind in ("target", "nontarget", "spoof")]
    assert record["a_dcf"] == pytest.approx(min_a_dcf(*parts)[0])
