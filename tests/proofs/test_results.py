"""Every kind of result in every output: terminal, LaTeX, CSV, JSON and the words of the page."""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from asdf import removed
from asdf.__main__ import main
from asdf.evaluation import write_scores
from asdf.segments import Segment, Timed, write_rttm
from asdf.tasks.tracing.source_scores import write_source_scores
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList
from tests.proofs.frozen import compare, compare_settings
from tests.unit.commands.test_sasv import write_set
from tests.unit.report.folders import make_run
from tests.unit.report.seeded import make_seeded_run
from tests.unit.report.tasks import OPEN, make_run_of_spoofs, traced, write_located, write_traced
from tests.unit.tasks.test_left_out import two_seeds

# Functions of float64 differ by a processor's last digit, and their sums by some of them.
RELATIVE, ABSOLUTE = 1e-7, 1e-9
DRAWS = ("--replicates", "50")
SETS = ("demo-eval", "in-the-wild", "other:test")
ATTACKS = ("A01", "A02", "A03")


def write_detection(folder: Path) -> None:
    """Write scores of two systems on a set with attacks, codecs and speakers, and of an ASV."""
    rng = np.random.default_rng(7)
    labels = np.repeat([1, 0], [60, 90])
    ids = [f"U_{index:03d}" for index in range(labels.size)]
    columns = {
        "attack": ["-" if label else ATTACKS[i % 3] for i, label in enumerate(labels)],
        "codec": [("none", "opus")[i % 2] for i in range(labels.size)],
        "speaker": [f"S{i % 9}" for i in range(labels.size)],
    }
    write_trials(folder / "trials.tsv", TrialList(ids, labels, columns=columns))
    for name, shift in (("first", 2.0), ("second", 1.4)):
        for suffix in ("", "_dev"):
            scores = rng.normal(size=labels.size) + shift * labels
            write_scores(folder / f"{name}{suffix}.txt", ids, labels, scores.astype(np.float32))
    asv = ["target {:.3f}", "nontarget {:.3f}", "spoof {:.3f}"]
    lines = []
    for kind, mean in zip(asv, (2.0, -2.0, 1.0), strict=True):
        lines += [f"- {kind.format(value)}\n" for value in rng.normal(mean, 1, size=80)]
    (folder / "asv.txt").write_text("".join(lines))


def detection(folder: Path) -> list[list[str]]:
    write_detection(folder)
    protocol = ["--protocol", "trials.tsv", *DRAWS]
    every = ["--json", "out.json", "--csv", "out.csv", "--latex", "out.tex"]
    systems = ["one=first.txt", "two=second.txt"]
    return [
        ["evaluate", *systems, *protocol, "--by", "attack,codec", *every],
        ["evaluate", "first.txt", *protocol, "--asv-scores", "asv.txt", "--json", "tandem.json"],
        ["evaluate", "first.txt", *protocol, "--submission", "out.tsv", "--format", "asvspoof5"],
    ]


def decisions(folder: Path) -> list[list[str]]:
    write_detection(folder)
    chosen = ["--threshold-from", "first_dev.txt", "--threshold-by", "best-f1", *DRAWS]
    every = ["--json", "out.json", "--csv", "out.csv", "--latex", "out.tex"]
    return [["evaluate", "first.txt", "--protocol", "trials.tsv", *chosen, *every]]


def seeds(folder: Path) -> list[list[str]]:
    write_detection(folder)
    every = ["--json", "out.json", "--csv", "out.csv", "--latex", "out.tex"]
    systems = ["one=first.txt,first_dev.txt", "two=second.txt,second_dev.txt"]
    return [["evaluate", *systems, *DRAWS, *every]]


def fusion(folder: Path) -> list[list[str]]:
    write_detection(folder)
    applied = ["--apply", "first.txt", "second.txt", "--out", "fused.tsv"]
    words = ["first_dev.txt", "second_dev.txt", *applied, "--json", "out.json", *DRAWS]
    return [["fuse", *words, "--method", method] for method in ("logistic", "mean", "rank")]


def sasv(folder: Path) -> list[list[str]]:
    write_set(folder, "dev", 1)
    write_set(folder, "eval", 2)
    files = ["eval.tsv", "--keys", "eval_keys.tsv", *DRAWS]
    every = ["--json", "out.json", "--csv", "out.csv", "--latex", "out.tex", "--path", "path.csv"]
    development = ["--on", "dev.tsv", "--on-keys", "dev_keys.tsv"]
    return [
        ["sasv", *files, *every],
        ["sasv", *files, "--fuse", "nonlinear", *development, "--output", "fused.tsv"],
    ]


def localisation(folder: Path) -> list[list[str]]:
    rng = np.random.default_rng(3)
    lines, recordings = [], {}
    for name in ("a", "b", "c", "d"):
        spoofed = (Segment(0.3, 0.7),) if name in "bd" else ()
        recordings[name] = Timed(spoofed, 1.0)
        for frame in range(50):
            inside = bool(spoofed) and 15 <= frame < 35
            lines.append(f"{name} {frame} {rng.normal() - 1.5 * inside!r} 0\n")
    (folder / "frames.txt").write_text("".join(lines))
    write_rttm(folder / "spoofed.rttm", recordings)
    steps = ["--hop", "0.02", "--resolution", "0.02,0.16", *DRAWS]
    return [["localise", "frames.txt", "spoofed.rttm", *steps, "--json", "out.json"]]


def sources(folder: Path) -> list[list[str]]:
    write_source_scores(folder / "set.sources.tsv", traced(OPEN))
    every = ["--json", "out.json", "--picture", "matrix.svg", "--reject", "energy"]
    return [["trace", "net=set.sources.tsv", *DRAWS, *every]]


def runs(folder: Path) -> list[list[str]]:
    """One run with all kinds of results, another, and what differs."""
    make_run(folder / "net", attacks=ATTACKS)
    write_traced(folder / "net", {"eval": traced(OPEN)})
    write_located(folder / "net", "eval")
    make_run(folder / "other", shift=1.2)
    return [
        ["report", "net", "--output", "page.html", "--latex", "out.tex", *DRAWS],
        ["report", "net", "other", "--output", "both.html", "--latex", "both.tex", *DRAWS],
        ["compare", "net", "other", "--json", "differences.json", *DRAWS],
    ]


def runs_of_spoofs(folder: Path) -> list[list[str]]:
    make_run_of_spoofs(folder / "net")
    return [["report", "net", "--output", "page.html", *DRAWS]]


def runs_over_seeds(folder: Path) -> list[list[str]]:
    """Two configurations of three seeds on three corpora, one of which they were trained on."""
    for name, shift in (("net", 2.0), ("bad", 1.3)):
        for seed in range(3):
            settings = {"own__shift": shift, "recipe__training_sets": ("demo-train",)}
            make_seeded_run(folder / f"{name}-seed{seed}", seed, shift=shift, sets=SETS, **settings)
    names = [f"{name}-seed{seed}" for name in ("net", "bad") for seed in range(3)]
    return [
        ["report", *names, "--output", "page.html", "--latex", "out.tex", *DRAWS],
        ["compare", *names, *DRAWS],
    ]


def runs_over_folds(folder: Path) -> list[list[str]]:
    names = [path.name for path in two_seeds(folder)]
    return [["report", *names, "--output", "page.html", "--latex", "out.tex", *DRAWS]]


KINDS: tuple[Callable[[Path], list[list[str]]], ...] = (
    detection,
    decisions,
    seeds,
    fusion,
    sasv,
    localisation,
    sources,
    runs,
    runs_of_spoofs,
    runs_over_seeds,
    runs_over_folds,
)


class Words(HTMLParser):
    """The words of a page, without its script, its looks and its drawings."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._unread = 0

    def handle_starttag(self, tag, attrs) -> None:
        self._unread += tag in ("script", "style", "svg")

    def handle_endtag(self, tag) -> None:
        self._unread -= tag in ("script", "style", "svg")

    def handle_data(self, data) -> None:
        if data.strip() and not self._unread:
            self.lines.append(" ".join(data.split()))


def words_of(page: str) -> str:
    reader = Words()
    reader.feed(page)
    return "\n".join(reader.lines) + "\n"


def as_evaluate(words: list[str]) -> list[str]:
    """Return the command line of `evaluate` for one of a command that it has replaced."""
    renamed = {"sasv": "evaluate", "localise": "evaluate", "trace": "evaluate"}
    return [(renamed | {"--output": "--submission"}).get(word, word) for word in words]


def check(kind, commands: list[list[str]], tmp_path: Path, capsys) -> None:
    made_before = set(tmp_path.iterdir())
    folder = tmp_path / "outputs"
    folder.mkdir()
    for number, words in enumerate(commands):
        assert main(words) == 0, words
        captured = capsys.readouterr()
        texts = {"screen.txt": captured.out + captured.err}
        written = {path for path in tmp_path.iterdir() if path.is_file()} - made_before
        for path in written:
            text = path.read_text()
            if path.suffix == ".html":
                texts[f"{path.stem}.txt"] = words_of(text)
            else:
                texts[path.name] = text
            path.unlink()
        for name, text in texts.items():
            (folder / f"{number}.{name}").write_text(text.replace(str(tmp_path), "FOLDER"))
    compare(folder, f"results/{kind.__name__}", RELATIVE, ABSOLUTE)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_results_of_every_kind_are_as_before(kind, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    check(kind, kind(tmp_path), tmp_path, capsys)


@pytest.mark.parametrize("kind", (sasv, localisation, sources), ids=lambda kind: kind.__name__)
def test_evaluate_sees_what_a_file_holds(kind, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    check(kind, list(map(as_evaluate, kind(tmp_path))), tmp_path, capsys)


def test_a_changed_word_and_a_changed_number_are_seen(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "outputs"
    folder.mkdir()
    monkeypatch.setattr("tests.proofs.frozen.FROZEN", tmp_path / "frozen")
    monkeypatch.delenv("ASDF_FREEZE", raising=False)
    text = "EER 12.5 % of 80 trials, 2026-01-02T03:04:05+00:00\n"
    (folder / "a.txt").write_text(text)
    with monkeypatch.context() as context:
        context.setenv("ASDF_FREEZE", "1")
        compare(folder, "x", RELATIVE, ABSOLUTE)
    (folder / "a.txt").write_text(text.replace("2026", "2031"))
    compare(folder, "x", RELATIVE, ABSOLUTE)
    for before, after in (("12.5", "12.6"), ("80", "81"), ("EER", "eer")):
        (folder / "a.txt").write_text(text.replace(before, after))
        with pytest.raises(AssertionError):
            compare(folder, "x", RELATIVE, ABSOLUTE)


def test_a_lost_and_a_changed_setting_are_seen(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "outputs"
    folder.mkdir()
    monkeypatch.setattr("tests.proofs.frozen.FROZEN", tmp_path / "frozen")
    lines = ["a.b = 1  default", "a.c = 2  x.py:3 (net)", "d.e = 0.5  default"]
    (folder / "a.txt").write_text("\n".join(lines))
    monkeypatch.setenv("ASDF_FREEZE", "1")
    compare_settings(folder, "x")
    monkeypatch.delenv("ASDF_FREEZE")
    (folder / "a.txt").write_text("\n".join([*lines[:2], "a.d = 1  default", lines[2]]))
    compare_settings(folder, "x")
    for changed in (lines[:2], [lines[1], lines[0], lines[2]], [*lines[:2], "d.e = 0.6  default"]):
        (folder / "a.txt").write_text("\n".join(changed))
        with pytest.raises(AssertionError):
            compare_settings(folder, "x")
    monkeypatch.setitem(removed.SETTINGS, "d.e", None)
    (folder / "a.txt").write_text("\n".join(lines[:2]))
    compare_settings(folder, "x")
