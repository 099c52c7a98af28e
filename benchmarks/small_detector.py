"""Train, calibrate and measure the shipped detector, and write its files.

    python -m benchmarks.small_detector MINI RUNS ELSEWHERE --date 2026-11-29

MINI is the folder of the corpus `mini`. The config `mini-best` is trained on its training part, and
once more for each of four folds, without two attacks and some speakers. Error rates and calibration
are of the folds' scores of what their training lacked. For the calibration, each recording takes
one of four ways that recordings take to a user, because ratios learnt from the corpus as it is
mislead elsewhere. The recordings of the development part, which the network's training lacked, show
what is unlike. RUNS keeps the runs, and resumes them.
ELSEWHERE has the recordings of `python -m benchmarks.elsewhere`, on which it is measured too.
The files `small.safetensors` and `facts.json` in asdf/shipped/small are written again: the same
content for the same corpus, versions, date and kind of processor. It takes 20 minutes of a core.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from asdf import Detector
from asdf.__main__ import main as run_command
from asdf.checkpoint.network_reading import read_network_file, write_safetensors_network
from asdf.commands.judged_files import ProtocolOptions, read_protocol_option, read_system_scores
from asdf.errors import AsdfError
from asdf.extras.forensic.calibrating.command import CalibrateOptions
from asdf.extras.forensic.calibrating.learning import (
    describe_learnt,
    describe_set,
    learn_calibration,
)
from asdf.facts import SAMPLE_RATE
from asdf.interchange import read_network
from asdf.interchange.graphs import write_onnx
from asdf.metrics.bootstrap import confidence_intervals
from asdf.metrics.calibration import Calibration
from asdf.metrics.detection import eer
from asdf.metrics.results import by_condition
from asdf.metrics.summary import speakers_of
from asdf.runs.files import sha256_of, write_text
from asdf.scoring.columns import Learning, find_columns
from asdf.shipped import FACTS, GRAPH, NETWORK
from asdf.trials.trial_list import TrialList
from benchmarks.elsewhere import PHONE, read, through

RECIPE = "recipes/wav2vec_aasist/run.py"
CONFIG = "mini-best"
LAST = "epoch.15"
WAYS = ("whole", "phone", "vorbis", "word")
PARTS = {"train": "train.trn", "dev": "dev.trl"}
PROTOCOL = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm.{}.txt"
ATTACKS = {
    "A01": "espeak-ng",
    "A02": "festival's diphones",
    "A03": "flite's clustergen",
    "A04": "WORLD",
    "A05": "Griffin-Lim",
    "A06": "festival's HTS",
    "A07": "Kokoro",
    "A08": "SPTK's MLSA",
}
SOURCES = {
    "telephone prompts of Asterisk, spoken by Allison Smith": "CC BY-SA 3.0",
    "telephone prompts of Asterisk, spoken by Carlo Flora": "CC BY 3.0",
    "festvox-ru by N. V. Shmyrev": "BSD-like",
    "voices of the games Fish Fillets NG and Tux Paint": "GPL-2",
    "speech of espeak-ng, festival, flite, WORLD, librosa, Kokoro and SPTK": (
        "programs and voices under GPL-2+, GPL-3+, LGPL-2.1+, X11, MIT, BSD, ISC and Apache-2.0"
    ),
}


def main(arguments: list[str]) -> int:
    """Build the two files; return 0."""
    parser = argparse.ArgumentParser("python -m benchmarks.small_detector", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("mini", type=Path, metavar="MINI")
    parser.add_argument("runs", type=Path, metavar="RUNS")
    parser.add_argument("elsewhere", type=Path, metavar="ELSEWHERE")
    parser.add_argument("--date", required=True, help="day that the calibration states")
    args = parser.parse_args(arguments)
    mini, runs = args.mini.absolute(), args.runs.absolute()
    train(mini, runs)
    network = runs / "whole" / "networks" / f"{LAST}.pt"
    calibration = calibrate(network, mini, runs)
    file = read_network_file(network).without_training()
    file.calibration = {**calibration.content(), "date": args.date}
    write_safetensors_network(NETWORK, file)
    write_onnx(read_network(NETWORK)[0], GRAPH)
    trained = (mini / PROTOCOL.format(PARTS["train"])).read_text().split("\n")
    assert calibration.highest_llr is not None and calibration.lowest_llr is not None
    facts: dict[str, Any] = {
        "architecture": CONFIG,
        "parameters": sum(each.numel() for each in read_network(network)[0].parameters()),
        "trained_on": f"{sum(map(bool, trained))} recordings in nine languages",
        "sources": SOURCES,
        "licence": "MIT",
        "sha256": sha256_of(NETWORK),
        "ratio_bona_fide": round(math.exp(calibration.highest_llr), 1),
        "ratio_spoof": round(math.exp(-calibration.lowest_llr), 1),
        **measure_folds(runs),
        **measure_elsewhere(network, args.elsewhere, calibration),
    }
    write_text(FACTS, json.dumps(facts, indent=2) + "\n")
    return 0


def train(mini: Path, runs: Path) -> None:
    """Train the network, and the four folds without two attacks and some speakers each."""
    words = [f"paths.database_folder={mini}", "computing.threads=1"]
    words.append("computing.network_dataloader_workers=0")
    whole = [RECIPE, CONFIG, f"paths.system_folder={runs / 'whole'}", *words]
    subprocess.run([sys.executable, *whole], check=True)
    folds = (f"paths.system_folder={runs / CONFIG}", *words, "--folds", "attack:2", "--slots", "1")
    run("launch", RECIPE, CONFIG, *folds)


def write_folds(mini: Path, runs: Path) -> dict[str, list[float]]:
    """Write the folds' scores of their recordings as they are and altered, and the protocol.

    Returns:
        The least and the greatest level and offset of the altered recordings.
    """
    known = "".join((mini / PROTOCOL.format(name)).read_text() for name in PARTS.values())
    trials = {row.split()[1]: row.split() for row in known.splitlines()}
    rows, altered, levels = [], [], []
    random = np.random.default_rng(0)
    # The ways of each speaker and attack take turns, so that none is of one class.
    turns: Counter[tuple[str, str]] = Counter()
    for path in sorted(runs.glob(f"{CONFIG}-*/scores/{LAST}/mini-train+mini-dev.*.txt")):
        # A fold's lines name the set before the path.
        lines = [line.partition(":")[2].split() for line in path.read_text().splitlines()]
        detector = Detector(path.parents[2] / "networks" / f"{LAST}.pt", "cpu")
        waveforms = []
        for row in lines:
            speaker, _, _, attack, _ = trials[Path(row[0]).stem]
            way = WAYS[turns[speaker, attack] % len(WAYS)]
            turns[speaker, attack] += 1
            waveforms.append((alter(read(mini / row[0])[0], way, random), SAMPLE_RATE))
        for scored in sorted(detector.score_many(waveforms), key=lambda each: each.index):
            row = lines[scored.index]
            altered.append(f"{row[0]} {row[1]} {scored.score}\n")
            levels.append((scored.level_dbfs, scored.offset))
        rows += lines
    write_text(runs / "folds.txt", "".join(f"{' '.join(row)}\n" for row in rows))
    write_text(runs / "altered.txt", "".join(altered))
    # A fold leaves out vocoded copies of those who speak in its training.
    kept = {Path(row[0]).stem for row in rows}
    texts = [f"{' '.join(trial)}\n" for name, trial in trials.items() if name in kept]
    write_text(runs / "protocol.txt", "".join(texts))
    columns = zip(("level_dbfs", "offset"), np.array(levels, np.float64).T, strict=True)
    return {name: [float(column.min()), float(column.max())] for name, column in columns}


def alter(samples: np.ndarray, way: str, random: np.random.Generator) -> np.ndarray:
    """Return a recording at another level, after one of `WAYS`; 'word' is one or two of it."""
    if way == "phone":
        samples = through(samples, SAMPLE_RATE, "WAV", "GSM610", PHONE)
    elif way == "vorbis":
        samples = through(samples, SAMPLE_RATE, "OGG", "VORBIS", 22_050)
    elif way == "word":
        count = min(samples.size, round(random.uniform(1.0, 1.6) * SAMPLE_RATE))
        start = random.integers(samples.size - count + 1)
        samples = samples[start : start + count]
    return np.clip(samples * 10 ** (random.uniform(-12, 12) / 20), -1, 1).astype(np.float32)


def calibrate(network: Path, mini: Path, runs: Path) -> Calibration:
    """Calibrate on the scores of each fold's network of what its training lacked, altered."""
    levels = write_folds(mini, runs)
    path = runs / "altered.txt"
    trials = read_protocol_option(ProtocolOptions(protocol=runs / "protocol.txt"))
    scores = read_system_scores(path, trials, False)
    learnt_from = describe_set(path, scores, trials.trials, {}, ())
    learnt_from = replace(learnt_from, name="mini, attacks and speakers that training lacked")
    calibration, cllrs = learn_calibration(learnt_from)
    print(describe_learnt(path, learnt_from, calibration, cllrs))
    dev = runs / "dev.txt"
    run("score", network, mini / "dev_list.txt", "--folder", mini, "--scores", dev)
    everyone = read_protocol_option(ProtocolOptions(protocol=mini / PROTOCOL.format(PARTS["dev"])))
    of_dev = read_system_scores(dev, everyone, False)
    unseen = describe_set(dev, of_dev, everyone.trials, {}, ())
    options = CalibrateOptions(network=str(network))
    learning = Learning(str(network), dev, mini, unseen, False, options)
    for column in find_columns().values():
        calibration = column.learn(calibration, learning)
    return replace(calibration, others={**calibration.others, "levels": levels})


def measure_folds(runs: Path) -> dict[str, Any]:
    """Return the folds' error rates, for all spoofs and for each attack, in %."""
    protocol = read_protocol_option(ProtocolOptions(protocol=runs / "protocol.txt"))
    scores = read_system_scores(runs / "folds.txt", protocol, False)
    assert protocol.trials is not None
    speakers = speakers_of(scores, protocol.trials)
    assert speakers is not None
    interval = confidence_intervals(scores, speakers=speakers).eer
    by_attack = by_condition(scores, attacks_of(list(scores.ids), protocol.trials))
    return {
        "bona_fide": int(scores.bona_fide.size),
        "spoof": int(scores.spoof.size),
        "speakers": len(set(speakers)),
        "eer": percent(interval.value),
        "eer_low": percent(interval.low),
        "eer_high": percent(interval.high),
        "eer_by_attack": {
            ATTACKS[attack]: percent(result.eer) for attack, result in by_attack.items()
        },
    }


def measure_elsewhere(network: Path, folder: Path, calibration: Calibration) -> dict[str, Any]:
    """Return the error rates on the recordings of `benchmarks.elsewhere`, in %."""
    path = folder / "scores.txt"
    run("score", network, folder / "list.txt", "--folder", folder, "--scores", path)
    protocol = read_protocol_option(ProtocolOptions(protocol=folder / "protocol.txt"))
    scores = read_system_scores(path, protocol, False)
    assert protocol.trials is not None
    by_attack = by_condition(scores, attacks_of(list(scores.ids), protocol.trials))
    return {
        "elsewhere": f"{len(scores.ids)} recordings from elsewhere",
        "elsewhere_eer": percent(eer(scores.bona_fide, scores.spoof)[0]),
        "elsewhere_by_attack": {name: percent(each.eer) for name, each in by_attack.items()},
        "elsewhere_accused": percent(
            float((calibration.llr(scores.bona_fide) <= -math.log(2)).mean())
        ),
    }


def attacks_of(ids: Sequence[str], trials: TrialList) -> list[str]:
    """Return the attack of each scored trial."""
    attacks = []
    for utterance in ids:
        index = trials.index_of(utterance)
        assert index is not None
        attacks.append(trials.columns["attack"][index])
    return attacks


def percent(rate: float) -> float:
    return round(100 * rate, 2)


def run(*words: str | Path) -> None:
    """Run a command of ASDF."""
    status = run_command([str(word) for word in words])
    if status:
        raise AsdfError(f"{words[0]} ended with {status}.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
