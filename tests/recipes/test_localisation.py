"""Partially spoofed recordings, from training to a report of where they are spoofed."""

import numpy as np
import pytest
import soundfile

import asdf
from asdf.segments import COLUMN, format_spoofed, read_frame_table
from asdf.segments.spoofed_seconds import Segment
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList
from tests.recipes.resuming import assert_resumes_exactly

CONFIG = """
partial < debug
paths.system_folder = 'partial'
recipe.training_sets = ('demo-partial-train',)
recipe.validation_sets = ('demo-partial-dev',)
recipe.evaluation_sets = ('demo-partial-eval',)
localisation.enabled = True

framed < partial
network.network_class = 'small_networks.Framed'
paths.system_folder = 'framed'

linear < partial
network.network_class = 'asdf.networks.SSL_Linear'
front_end.front_end_class = 'log_mel'
localisation.resolution = 320
network.validation_metric = 'frame_eer'
network.train_clip_size = 8000
network.initial_learning_rate = 0.1
network.max_epochs = 10
network.epochs_per_train_call = 5
recipe.selected_epochs = ('best',)
paths.system_folder = 'linear'
"""
SIZES = {"train": 12, "dev": 6, "eval": 6}


def make_recording(rng: np.random.Generator, samples: int, parts: list[Segment]) -> np.ndarray:
    """Low tones, and high ones where they are spoofed."""
    times_s = np.arange(samples) / 16000
    waveform = np.sin(2 * np.pi * rng.uniform(200, 600) * times_s)
    high = np.sin(2 * np.pi * rng.uniform(3000, 5000) * times_s)
    for part in parts:
        first, end = round(part.start_s * 16000), round(part.end_s * 16000)
        waveform[first:end] = high[first:end]
    return 0.3 * waveform + rng.normal(0, 0.01, samples)


@pytest.fixture(scope="module")
def partial_corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("database")
    (folder / "partial").mkdir()
    rng = np.random.default_rng(5)
    for name, size in SIZES.items():
        ids, labels, values = [], [], []
        for number in range(size):
            samples = int(rng.integers(12_000, 20_000))
            start_s = round(float(rng.uniform(0, 0.4)), 3)
            parts = [Segment(start_s, start_s + 0.25)] if number % 2 else []
            path = f"partial/{name}-{number}.wav"
            soundfile.write(folder / path, make_recording(rng, samples, parts), 16000)
            ids.append(path)
            labels.append(int(not parts))
            values.append(format_spoofed(parts))
        trials = TrialList(ids, np.array(labels, np.int8), columns={COLUMN: values})
        write_trials(folder / "partial" / f"{name}_list.tsv", trials)
    return folder


@pytest.fixture
def located(recipe, partial_corpus):
    run_file = recipe.folder / "run.py"
    run_file.write_text(run_file.read_text().replace(", make=make_partial_demo", ""))
    folder = f"paths.database_folder = '{partial_corpus}'\n"
    return recipe.with_files(CONFIG.replace("< debug\n", f"< debug\n{folder}"))


def test_a_run_locates_what_is_spoofed(located, capsys, partial_corpus):
    outcome = located.call(capsys, "linear").ok()
    said = "frames of 320 samples are scored and trained; 6 of 6 spoofs are spoofed in parts only"
    assert said in outcome.output
    system = located.system("linear")
    (result,) = located.results("localisation", "linear")
    # Frames that straddle a boundary are spoofed: none else are hard.
    assert result["point_eer"] < 0.05
    assert result["range_eer"] < 0.08
    assert result["f1"] > 0.85
    assert (result["set"], result["threshold_of"]) == ("demo-partial-eval", "demo-partial-dev")
    assert f"{100 * result['range_eer']:.3f}" in outcome.output
    low, high = result["intervals"]["f1"]
    assert low <= result["f1"] <= high and result["intervals_over"] == "6 recordings"
    page = (system / "results" / "report.html").read_text()
    assert "Localisation on demo-partial-eval, with 95 % intervals over 6 recordings" in page
    # The metric that chose the network.
    best = min(
        located.evaluations("linear"), key=lambda entry: entry["frame_eer"]["demo-partial-dev"]
    )
    assert result["network"] == best["network"].removesuffix(".pt")
    # The network file by itself marks a recording.
    detector = asdf.Detector(system / "networks" / best["network"], device="cpu")
    score = detector.score_trial(partial_corpus / "partial" / "eval-1.wav", frames=True)
    table = read_frame_table(system / "scores" / result["network"] / "demo-partial-eval.frames.npz")
    np.testing.assert_allclose(score.frames.scores, table.of_trial(1), atol=1e-4)
    stated = (partial_corpus / "partial" / "eval_list.tsv").read_text().splitlines()[2]
    start_s, end_s = map(float, stated.split("\t")[2].split("-"))
    inside_s = outside_s = 0.0
    for segment in score.frames.segments(result["threshold"]):
        shared_s = min(segment.end_s, end_s) - max(segment.start_s, start_s)
        inside_s += max(shared_s, 0.0)
        outside_s += segment.duration_s - max(shared_s, 0.0)
    assert inside_s > 0.1
    # Frames that straddle its ends are marked, of 20 ms each.
    assert outside_s < 0.05


@pytest.mark.slow
def test_frame_scores_do_not_depend_on_the_number_of_processes(located, capsys):
    located.call(capsys, "framed", "network.max_epochs=1").ok()
    folder = located.system("framed") / "scores" / "epoch.1"
    files = [folder / f"demo-partial-eval{suffix}" for suffix in (".txt", ".frames.npz")]
    expected = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    located.run("framed", "recipe.start_stage=2", "computing.processes=2").ok()
    assert [path.read_bytes() for path in files] == expected


@pytest.mark.slow
def test_a_killed_run_ends_as_one_never_killed(located):
    options = ("network.checkpoint_interval_steps=2", "augmentation.mixup_probability=0.5")
    assert_resumes_exactly(located, "framed", *options, TEST_KILL="0:4")
    for name in ("localisation.json", "localisation.txt"):
        results = [located.system(run) / "results" / name for run in ("whole", "killed")]
        assert results[0].read_bytes() == results[1].read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("network.network_class='asdf.networks.SSL_AASIST'",), "outputs no frames to score one "),
        (("sad.mode='endpoint'",), "sad.mode = 'endpoint'"),
        (("augmentation.chain=('silence',)",), "which trims lengths that are only known when"),
        (("network.score='llr'",), "needs the proportion of bona fide examples in training"),
        (("network.max_cut_proportion=0.1",), "cuts off the last frames of recordings"),
        (
            ("localisation.enabled=False", "network.validation_metric='frame_eer'"),
            "validation_metric belongs to the task 'frames', which this network does not have",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_training(located, capsys, options, message):
    located.call(capsys, "linear", *options).refused(message)
