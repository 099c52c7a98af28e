"""What a recipe says of its configs, what it records of a run, and what is handed to Slurm."""

import hashlib
import os
import re
import sys
from pathlib import Path

import pytest

from asdf.__main__ import main
from tests.conftest import ROOT
from tests.proofs.frozen import compare, compare_settings

CONFIGS = """
base
# What all of them share: corpora,
# clips and epochs.
recipe.training_sets = ('demo-train',)
recipe.validation_sets = ('demo-dev',)
network.minibatch_size = 14
network.train_clip_size = 8000
network.max_epochs = 4
network.optimizer = 'adam'
network.adam_betas = (0.9, 0.98)
paths.system_folder = 'base'

# A pretrained encoder and AASIST.
# python run.py detector
detector < base
front_end.weights = 'xlsr2_300m.pt'
front_end.learning_rate = 1e-6
network.minibatch_size = 2 * 7
rawboost.enabled = True
paths.system_folder = 'detector'

low-rank < detector
front_end.gradient_checkpointing = True
lora.rank = 8
network.schedule = 'cosine'
network.warmup_steps = 100

lfcc-lcnn < base
network.network_class = 'asdf.networks.SSL_LCNN'
front_end.front_end_class = 'lfcc'
spectrum.filters = 30
augmentation.chain = ('bandwidth', 'frequency_mask')

frames < base
localisation.enabled = True
network.network_class = 'asdf.networks.SSL_Linear'
front_end.architecture = 'tiny'
"""
NAMES = ("base", "detector", "low-rank", "lfcc-lcnn", "frames")
SECTIONS = ("paths.", "computing.", "audio.", "network.", "front_end.", "recipe.")
# Of these sections, what only few runs need.
RARE = re.compile(
    r"computing.(shard_|gradient_|hang_|gpu_memory_gib|cuda_graphs)|"
    r"front_end.cache_|recipe.(sampler|check_recordings)"
)
STUB = """#!/bin/bash
if [ "${0##*/}" = sbatch ]; then printf '%q ' sbatch "$@" >> "$STUB_LOG"; echo 4711; fi
"""


def settings_lines(text: str, sections: tuple[str, ...] = ()) -> str:
    """Keep the lines of settings that were set, and all of these sections."""
    kept = []
    for line in text.splitlines():
        is_set = line.strip() and not line.endswith(" default")
        if is_set or (line.startswith(sections) and not RARE.match(line)):
            kept.append(re.sub("  +", "  ", line) + "\n")
    return "".join(kept)


@pytest.fixture
def outputs(tmp_path) -> Path:
    (tmp_path / "outputs").mkdir()
    return tmp_path / "outputs"


def test_what_is_said_of_configs_is_as_before(recipe, outputs, corpus, capsys) -> None:
    (recipe.folder / "configs" / "run_configs.py").write_text(CONFIGS)
    for name in NAMES:
        text = recipe.call(capsys, name, "--explain").output.replace(str(corpus), "CORPUS")
        sections = SECTIONS if name == "base" else ()
        (outputs / f"{name}.txt").write_text(settings_lines(text, sections))
    compare_settings(outputs, "configs/settings")


def test_configs_are_listed_and_a_setting_explained_as_before(recipe, outputs, capsys) -> None:
    (recipe.folder / "configs" / "run_configs.py").write_text(CONFIGS)
    for name, words in (
        ("list", ["--list"]),
        ("minibatch_size", ["low-rank", "--explain", "network.minibatch_size"]),
        ("mistake", ["low-rank", "--explain", "network.max_epoch"]),
    ):
        text = recipe.call(capsys, *words).output.replace(str(recipe.folder), "RECIPE")
        # Columns are as wide as the path.
        (outputs / f"{name}.txt").write_text(re.sub(r"(?<=\S)  +", "  ", text))
    compare(outputs, "configs/texts", 0, 0)


def test_settings_of_a_run_are_as_before(recipe, outputs, corpus, capsys) -> None:
    words = ["network.max_epochs=1", "recipe.end_stage=0", "network.adam_betas=(0.9, 0.98)"]
    assert recipe.call(capsys, "normed", *words).status == 0
    text = (recipe.system("normed") / "settings.py").read_text().replace(str(corpus), "CORPUS")
    text = text.replace(str(recipe.folder), "RECIPE")
    (outputs / "settings.py").write_text(settings_lines(text, SECTIONS))
    compare_settings(outputs, "run")


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Path:
    """Stand in for Slurm's programs; return the file of the calls of sbatch."""
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "squeue", "scontrol"):
        path = tmp_path / "bin" / name
        path.write_text(STUB)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("STUB_LOG", str(tmp_path / "calls.txt"))
    return tmp_path / "calls.txt"


def test_what_slurm_gets_is_as_before(recipe, outputs, slurm, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pt").touch()
    (tmp_path / "list.txt").write_text("a.wav 1\n")
    score = ["score", "net.pt", "list.txt", "--csv", "o.csv", "--slurm", "4", "--max-running", "2"]
    assert main([*score, "--", "--partition=gpu", "--time=1:00:00"]) == 0
    scripts = ROOT / "puhti_slurm_scripts"
    launch = ["launch", str(recipe.folder / "run.py"), "debug", "--seeds", "0-1"]
    launch += ["--sweep", "network.max_epochs=1,2", "--slurm", str(scripts / "puhti_array.sh")]
    assert main([*launch, "--max-running", "3", "--", "--time=06:00:00"]) == 0
    texts = {"calls.txt": slurm.read_text()}
    for path in (tmp_path / "o.csv.slurm").glob("*.sh"):
        texts[path.name] = path.read_text()
    [runs] = recipe.output.glob("launch-*.jsonl")
    texts["runs.jsonl"] = runs.read_text()
    # The environment may lie in the checkout.
    names = {sys.executable: "PYTHON", str(tmp_path): "FOLDER", str(ROOT): "ROOT"}
    for name, text in texts.items():
        for found, word in names.items():
            text = text.replace(found, word)
        text = re.sub(r"launch-[0-9a-f]{12}|\b[0-9a-f]{16}\b", "DIGEST", text)
        (outputs / name).write_text(text)
    compare(outputs, "slurm", 0, 0)


def test_job_scripts_are_as_before(outputs) -> None:
    lines = []
    for path in sorted((ROOT / "puhti_slurm_scripts").rglob("*.sh")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{path.relative_to(ROOT)} {digest}\n")
    (outputs / "digests.txt").write_text("".join(lines))
    compare(outputs, "job_scripts", 0, 0)
