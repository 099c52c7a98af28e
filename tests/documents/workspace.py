"""A folder in which the commands of the documents find what they name, in small.

The recipe in it has the names of the real configs for runs of one epoch on a few utterances.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.interchange import read_network, write_onnx
from asdf.networks import build_network
from asdf.segments import Segment, Timed, format_spoofed, write_rttm
from asdf.settings.sections import Sections
from asdf.tasks.tracing.source_scores import SourceScores, write_source_scores
from tests.conftest import PATIENCE_S, RECIPE

CONFIGS = """
quickstart
recipe.training_sets = ('demo-train',)
recipe.validation_sets = ('demo-dev',)
recipe.evaluation_sets = ('demo-dev', 'demo-eval')
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'filter_bank'
back_end.back_end_class = 'linear'
network.optimizer = 'adam'
network.initial_learning_rate = 0.01
network.minibatch_size = 12
network.train_clip_size = 8000
network.min_evaluation_utterance_length_in_samples = 8000
network.max_evaluation_utterance_length_in_samples = 64000
network.max_epochs = 1
network.checkpoint_interval_s = None
computing.network_dataloader_workers = 0
computing.threads = 1
paths.system_folder = 'quickstart'

net < quickstart
paths.system_folder = 'net'

larger_net < net
paths.system_folder = 'larger_net'
recipe.seed = 2

train-ssl-aasist < net
paths.system_folder = 'ssl-aasist'

generalisation < net
paths.system_folder = 'generalisation'

demo-partial < net
localisation.enabled = True
paths.system_folder = 'demo-partial'

mini-wav2vec < net
paths.system_folder = 'mini-wav2vec'

mini-best < net
paths.system_folder = 'mini-best'

demo-sources < net
paths.system_folder = 'demo_sources'
source.column = 'attack'
"""


@dataclass
class Ended:
    """How a command ended, and all that it printed."""

    command: str
    status: int
    output: str


@dataclass
class Workspace:
    """The folder, and what runs in it."""

    folder: Path
    python: Path
    # Where `cd` has led to.
    current: Path = field(init=False)

    def __post_init__(self) -> None:
        self.current = self.folder

    def run(self, command: str, folder: Path | None = None) -> Ended:
        """Run a command of bash with the warm Python as `python` and `torchrun`."""
        process = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"{command}\nstatus=$?; wait; exit $status"],
            cwd=folder or self.current,
            env={**os.environ, "PATH": f"{self.python.parent}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
        return Ended(command, process.returncode, process.stdout.decode(errors="replace"))


def make_workspace(folder: Path, corpus: Path, python: Path) -> None:
    """Fill `folder` with what the documents name.

    Args:
        corpus: a demo corpus.
        python: the executable that runs the recipe, and gets the others next to it.
    """
    torchrun = python.parent / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec "{python}" -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)
    command = python.parent / "asdf-antispoofing"
    command.write_text(f'#!/bin/sh\nexec "{python}" -m asdf "$@"\n')
    command.chmod(0o755)
    recipe = folder / "recipes" / "wav2vec_aasist"
    (recipe / "configs").mkdir(parents=True)
    source = (RECIPE / "run.py").read_text()
    (recipe / "run.py").write_text(source.replace(", make=make_demo_corpus", ""))
    data = folder / "data"
    make_data(data, corpus)
    init = f"paths.output_folder = 'output'\npaths.database_folder = '{data}'\n"
    (recipe / "configs" / "init_config.py").write_text(init)
    (recipe / "configs" / "run_configs.py").write_text(CONFIGS)
    space = Workspace(folder, python)
    ended = space.run("python recipes/wav2vec_aasist/run.py net larger_net quickstart")
    assert ended.status == 0, ended.output
    output = recipe / "output"
    # The commands of the README name the output both from the recipe's folder and from a run's.
    (folder / "output").symlink_to(output)
    write_scores(folder, output, corpus)
    write_sources(folder, corpus)
    write_recordings(folder, corpus)
    write_networks(folder, output)
    write_frames(folder)
    write_embeddings(folder)


def make_data(folder: Path, corpus: Path) -> None:
    """Put the corpus, and noises and rooms for augmentation, below one folder."""
    folder.mkdir()
    for path in corpus.iterdir():
        (folder / path.name).symlink_to(path)
    rng = np.random.default_rng(0)
    for name in ("musan/noise/n.wav", "musan/music/m.wav", "RIRS_NOISES/simulated/room.wav"):
        path = folder / name
        path.parent.mkdir(parents=True)
        decay = np.exp(-np.arange(16000) / 800)
        soundfile.write(path, 0.1 * decay * rng.standard_normal(16000), 16000)
    for label in ("real", "fake"):
        path = folder / "mine" / "train" / label
        path.mkdir(parents=True)
        for speaker in range(6):
            noise = 0.1 * rng.standard_normal(16000)
            soundfile.write(path / f"s{speaker}_1.wav", noise, 16000)


def write_scores(folder: Path, output: Path, corpus: Path) -> None:
    """Write score files and label files of the evaluation and development sets."""
    systems = {"a": "net", "b": "larger_net", "first": "net", "second": "larger_net"}
    for name, system in systems.items():
        scores = output / system / "scores" / "epoch.1" / "demo-eval.txt"
        shutil.copy(scores, folder / f"{name}.txt")
    shutil.copy(folder / "a.txt", folder / "scores.txt")
    development = output / "net" / "scores" / "epoch.1" / "demo-dev.txt"
    for path in (folder / "dev.txt", folder / "scores" / "epoch.4" / "dev.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(development, path)
    evaluated = folder / "scores" / "epoch.20" / "asvspoof19-eval.txt"
    evaluated.parent.mkdir(parents=True)
    shutil.copy(folder / "a.txt", evaluated)
    protocols = corpus / "LA" / "ASVspoof2019_LA_cm_protocols"
    shutil.copy(protocols / "ASVspoof2019.LA.cm.eval.trl.txt", folder / "protocol.txt")
    keys = []
    for line in (folder / "protocol.txt").read_text().splitlines():
        speaker, utterance, _, attack, key = line.split()
        keys.append(f"{speaker} {utterance} alaw ita_tx {attack} {key} notrim eval\n")
    metadata = folder / "keys" / "LA" / "CM" / "trial_metadata.txt"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("".join(keys))
    shutil.copy(metadata, folder / "trial_metadata.txt")
    write_decisions(folder)
    write_verification(folder)
    (folder / "scores.txt.gz").write_bytes(gzip.compress((folder / "scores.txt").read_bytes()))
    (folder / "LA.tar.gz").write_bytes(gzip.compress(b""))


def write_decisions(folder: Path) -> None:
    """Write scores of the evaluation set as eval.txt, and decisions as the challenge AT-ADD has."""
    shutil.copy(folder / "a.txt", folder / "eval.txt")
    labels = ["name,label,type\n"]
    predicted = ["name,predict\n"]
    for index, line in enumerate((folder / "a.txt").read_text().splitlines()):
        name, label, score = line.rsplit(None, 2)
        kind = "speech" if index % 2 else "music"
        labels.append(f"{name},{'real' if label == '1' else 'fake'},{kind}\n")
        predicted.append(f"{name},{'real' if float(score) > 0 else 'fake'}\n")
    names = [row.split(",")[0] for row in labels[1:]]
    (folder / "trials.txt").write_text("\n".join(names) + "\n")
    (folder / "eval.csv").write_text("".join(labels))
    (folder / "predict.csv").write_text("".join(predicted))


def write_verification(folder: Path) -> None:
    """Write scores and keys of speaker verification under attack, of two sets."""
    rng = np.random.default_rng(0)
    means = {"target": (2, 2), "nontarget": (2, -2), "spoof": (-2, 1)}
    for prefix, scores_name in (("", "scores"), ("dev_", "dev")):
        scores = ["spk\tfilename\tcm-score\tasv-score\tsasv-score\n"]
        keys = []
        for index in range(120):
            kind = list(means)[index % 3]
            trial = f"{prefix}S{index % 4}\t{prefix}U{index}"
            cm, asv = rng.normal(means[kind])
            scores.append(f"{trial}\t{cm}\t{asv}\t-\n")
            keys.append(f"{trial}\tF\t{'A01' if kind == 'spoof' else 'bonafide'}\t{kind}\n")
        (folder / f"{scores_name}.tsv").write_text("".join(scores))
        (folder / f"{prefix}keys.tsv").write_text("".join(keys))


def write_sources(folder: Path, corpus: Path) -> None:
    """Write traced sources of the evaluation set, by the names that the documents have."""
    lines = (corpus / "LA" / "ASVspoof2019_LA_cm_protocols").glob("*.eval.trl.txt")
    rows = [line.split() for path in lines for line in path.read_text().splitlines()]
    attacks = [row[3] for row in rows]
    logits = np.random.default_rng(0).normal(size=(len(rows), 3))
    classes = ("A01", "A02", "A03")
    scores = SourceScores.of_logits([row[1] for row in rows], "attack", classes, attacks, logits)
    for name in ("scores/epoch.30/demo-eval", "demo-eval", "first", "second"):
        path = folder / f"{name}.sources.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_source_scores(path, scores)


def write_recordings(folder: Path, corpus: Path) -> None:
    """Write recordings in several formats, and lists of them."""
    for name in ("train_list.txt", "dev_list.txt", "eval_list.txt"):
        shutil.copy(corpus / name, folder / name)
    (folder / "LA").symlink_to(corpus / "LA")
    first = (corpus / "dev_list.txt").read_text().split()[0]
    speech, rate = soundfile.read(corpus / first, dtype="float32")
    longer = np.tile(speech, 1 + 12 * rate // len(speech))[: 12 * rate]
    # ffmpeg goes by what a file holds: this is a talk of which the sound alone is left.
    soundfile.write(folder / "talk.mkv", longer[: 4 * rate], rate, format="WAV")
    turns = ("0.000 2.200 <NA> <NA> ann", "2.000 2.000 <NA> <NA> bob")
    lines = [f"SPEAKER call 1 {turn} <NA> <NA>\n" for turn in turns]
    (folder / "call.rttm").write_text("".join(lines))
    names = ("call.mp3", "hour.mp3", "more.wav", "recordings/a.wav", "recordings/b.flac")
    for name in names:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        soundfile.write(path, longer if name == "hour.mp3" else longer[: 4 * rate], rate)


def write_embeddings(folder: Path) -> None:
    """Write drawn numbers as `embed` writes embeddings."""
    rng = np.random.default_rng(0)
    arrays = {
        "embeddings": rng.normal(size=(40, 8)).astype(np.float32),
        "scores": rng.normal(size=40).astype(np.float32),
        "ids": np.array([f"{index}.wav" for index in range(40)]),
        "labels": np.arange(40, dtype=np.int8) % 2,
    }
    np.savez(folder / "dev.npz", **arrays)


def write_networks(folder: Path, output: Path) -> None:
    """Write a network of ASDF and a published one."""
    for name in ("network.pt", "net.pt"):
        shutil.copy(output / "net" / "networks" / "epoch.1.pt", folder / name)
    network, _ = read_network(folder / "net.pt")
    write_onnx(network, folder / "net.onnx")
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_Linear"
    settings.front_end.front_end_class = "log_mel"
    settings.localisation.enabled = True
    network = build_network(settings).eval()
    write_network_file(folder / "localiser.pt", NetworkFile.from_network(network, settings))


def write_frames(folder: Path) -> None:
    """Write scores of frames with the spoofed parts of their recordings."""
    recordings = []
    timed = {}
    rows = ["utterance\tlabel\tspoofed_s\n"]
    for name, spoofed in (("a", ()), ("b", (Segment(0.2, 0.4),))):
        scores = np.random.default_rng(len(spoofed)).normal(1 - len(spoofed), 1, 40)
        entry = {"name": f"{name}.flac", "hop_s": 0.02, "duration_s": 0.8}
        recordings.append({**entry, "scores": scores.tolist()})
        timed[name] = Timed(spoofed, 0.8)
        rows.append(f"{name}.flac\t{1 - len(spoofed)}\t{format_spoofed(spoofed)}\n")
    (folder / "frames.json").write_text(json.dumps({"recordings": recordings}))
    (folder / "trials.tsv").write_text("".join(rows))
    write_rttm(folder / "rttm", timed)


if __name__ == "__main__":
    # For looking at it: python -m tests.documents.workspace FOLDER CORPUS
    make_workspace(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.executable))
