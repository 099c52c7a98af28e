"""Build the shipped detector from its parts: published weights, and scores of other recordings.

    python -m benchmarks.small_detector AASIST-L.pth MINI --date 2026-11-26

AASIST-L.pth is the file of clovaai/aasist at commit a04c986; MINI is the folder of the corpus
`mini`, which these weights were not trained on, and on which they are measured and calibrated. The
files `small.safetensors` and `facts.json` in asdf/shipped/small are written again: the same bytes
for the same parts, versions and date. It takes three minutes of a core.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asdf.__main__ import main as run_command
from asdf.checkpoint.safetensors_network import write_safetensors_network
from asdf.commands.judged_files import ProtocolOptions, read_protocol_option, read_system_scores
from asdf.errors import AsdfError
from asdf.hub import known_detectors
from asdf.interchange import read_network_file
from asdf.metrics.bootstrap import confidence_intervals
from asdf.metrics.results import by_condition
from asdf.metrics.summary import speakers_of
from asdf.runs.files import sha256_of, write_text
from asdf.shipped import ARCHITECTURE, FACTS, NETWORK
from asdf.trials.trial_list import TrialList

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
MEASURED_ON = (
    "mini: prompts, games and readings in nine languages, and eight kinds of synthesis at 16 kHz"
)


def main(arguments: list[str]) -> int:
    """Build the two files; return 0."""
    parser = argparse.ArgumentParser("python -m benchmarks.small_detector", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("weights", type=Path, metavar="AASIST-L.pth")
    parser.add_argument("mini", type=Path, metavar="MINI")
    parser.add_argument("--date", required=True, help="day that the calibration states")
    args = parser.parse_args(arguments)
    [published] = [known for known in known_detectors() if known.name == ARCHITECTURE]
    if sha256_of(args.weights) != published.sha256:
        raise AsdfError(f"{args.weights} is not the published file of {ARCHITECTURE}.")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        calibrated = calibrate(args.weights, args.mini, work)
        measured = measure(work)
        file = read_network_file(calibrated)
        file.calibration["date"] = args.date
        write_safetensors_network(NETWORK, file)
    facts: dict[str, Any] = {
        "architecture": ARCHITECTURE,
        "trained_on": "English read in a studio and attacks of 2019 (ASVspoof 2019 LA)",
        "published_set": published.eers[0].evaluation_set,
        "published_eer": published.eers[0].percent,
        "licence": published.licence,
        "weights": published.weights,
        "weights_sha256": published.sha256,
        "sha256": sha256_of(NETWORK),
        "measured_on": MEASURED_ON,
        **measured,
    }
    write_text(FACTS, json.dumps(facts, indent=2) + "\n")
    return 0


def calibrate(weights: Path, mini: Path, work: Path) -> Path:
    """Score both parts of mini and calibrate on them; return the path of the network."""
    network = work / "imported.pt"
    run("import", weights, network)
    with (work / "mini.txt").open("w") as scores, (work / "protocol.txt").open("w") as protocol:
        for part, name in PARTS.items():
            path = work / f"{part}.txt"
            run("score", network, mini / f"{part}_list.txt", "--folder", mini, "--scores", path)
            scores.write(path.read_text())
            protocol.write((mini / PROTOCOL.format(name)).read_text())
    calibrated = work / "calibrated.pt"
    words = ("--protocol", work / "protocol.txt", "--folder", mini, "--output", calibrated)
    run("calibrate", network, work / "mini.txt", *words)
    return calibrated


def measure(work: Path) -> dict[str, Any]:
    """Return the error rates on mini, for all spoofs and for each attack, in %."""
    protocol = read_protocol_option(ProtocolOptions(protocol=work / "protocol.txt"))
    scores = read_system_scores(work / "mini.txt", protocol, False)
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
