"""Make the worked case of docs/own_corpus.md: a corpus whose spoofs were multiplied by 2, audited.

    python -m docs.corpus_case FOLDER

The folder gets the demo corpus and two copies of its training and development sets, `as_saved` with
the gain and `matched` without, each with its audit.json and audit.html. The picture of the first is
docs/own_corpus.png.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from selenium.webdriver.common.by import By

from asdf.corpora import read_protocol
from asdf.demo import make_demo_corpus
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList
from docs.screenshots import DOCS, start_browser

GAINS = {"as_saved": 2, "matched": 1}
PROTOCOLS = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm"
LISTS = {"train": "train.trn", "dev": "dev.trl"}
WINDOW = (1000, 900)


def main(folder: Path) -> None:
    """Make the corpora, audit them, and take the picture."""
    demo = folder / "demo"
    make_demo_corpus(demo)
    for kind, gain in GAINS.items():
        for name, protocol in LISTS.items():
            copy_set(demo, folder / kind, name, protocol, gain)
        words = ["audit", *(f"{name}_list.tsv" for name in LISTS), "-o", "audit.html"]
        # Its status is 1 where it found something.
        command = [sys.executable, "-m", "asdf", *words, "--json", "audit.json"]
        subprocess.run(command, cwd=folder / kind, check=False)
    take_header(folder / "as_saved" / "audit.html", DOCS / "own_corpus.png")


def copy_set(demo: Path, folder: Path, name: str, protocol: str, gain: int) -> None:
    """Write a set of the demo corpus with a table of its trials, its spoofs multiplied."""
    trials = read_protocol(demo / f"{PROTOCOLS}.{protocol}.txt")
    (folder / "speech").mkdir(parents=True, exist_ok=True)
    paths = []
    for utterance, label in zip(trials.ids, trials.labels.tolist(), strict=True):
        source = demo / f"LA/ASVspoof2019_LA_{name}/flac/{utterance}.flac"
        samples, rate = soundfile.read(source, dtype="int16")
        if not label:
            samples = (gain * samples.astype(np.int32)).clip(-32768, 32767).astype(np.int16)
        paths.append(f"speech/{utterance}.flac")
        soundfile.write(folder / paths[-1], samples, rate)
    columns = {column: trials.columns[column] for column in ("speaker", "attack")}
    table = TrialList(paths, trials.labels, columns=columns)
    write_trials(folder / f"{name}_list.tsv", table)


def take_header(page: Path, picture: Path) -> None:
    """Take what a page begins with."""
    with tempfile.TemporaryDirectory() as folder:
        browser = start_browser(Path(folder))
        try:
            browser.set_window_size(*WINDOW)
            browser.get(page.resolve().as_uri())
            browser.find_element(By.CSS_SELECTOR, "header").screenshot(str(picture))
        finally:
            browser.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
