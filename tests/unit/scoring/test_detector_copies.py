"""Detectors in threads, in other processes, and copied."""

import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import asdf
from asdf.errors import AsdfError, UsageError
from asdf.metrics.calibration import Calibration
from tests.conftest import PATIENCE_S
from tests.unit.conftest import network_settings, sound, write_small_network

TESTS = Path(__file__).parents[2]


def waveform(seed: int = 0, samples: int = 8000) -> np.ndarray:
    return sound(samples, seed).astype(np.float32)


def run_program(folder: Path, text: str, *words: object, threads: int = 1) -> str:
    """Run a program in its file, as multiprocessing needs it; return what it prints."""
    program = folder / "program.py"
    program.write_text(text)
    command = [sys.executable, str(program), *map(str, words)]
    options = {"timeout": PATIENCE_S, "env": {**os.environ, "OMP_NUM_THREADS": str(threads)}}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_copy_scores_the_same_bits(tmp_path: Path) -> None:
    entries = {"calibration": Calibration(2.0, -0.5, 0.25).content()}
    path = write_small_network(tmp_path / "network.pt", **entries)
    detector = asdf.Detector(path, "cpu", threads=1, threshold=0.1, max_seconds=3)
    expected = detector.score_trial(waveform(), 16000)
    for same in (copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))):
        score = same.score_trial(waveform(), 16000)
        assert (score, score.threshold, score.llr) == (expected, 0.1, expected)
        assert (same.calibration, same.length) == (detector.calibration, detector.length)
        with pytest.raises(AsdfError, match="the limit max_seconds"):
            same.score_trial(waveform(0, 50000), 16000)
    # What is not used here may be used elsewhere, and give other digits.
    chosen = asdf.Detector(path, "cpu", threads=1, precision="tf32", engine="plain").arguments
    assert (chosen["precision"], chosen["engine"], chosen["threads"]) == ("fp32", "plain", 1)
    # It names the file, and holds no weights.
    assert len(pickle.dumps(detector)) < 2000 < path.stat().st_size


def test_a_copy_made_in_another_folder_finds_the_file(tmp_path: Path, monkeypatch) -> None:
    write_small_network(tmp_path / "network.pt")
    monkeypatch.chdir(tmp_path)
    detector = asdf.Detector("network.pt", "cpu", threads=1)
    expected = detector.score_trial(waveform(), 16000)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pickle.loads(pickle.dumps(detector)).score_trial(waveform(), 16000) == expected


def test_a_network_of_ones_own_is_copied_with_its_folder(tmp_path: Path) -> None:

    settings = network_settings(network_class="small_networks.Plain")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TESTS))
        path = write_small_network(tmp_path / "network.pt", settings)
        detector = asdf.Detector(path, "cpu", network_folder=TESTS, full_length=True)
        same = pickle.loads(pickle.dumps(detector))
    assert same.length == detector.length
    assert same.score_trial(waveform(), 16000) == detector.score_trial(waveform(), 16000)


def test_a_copy_of_a_file_that_is_another_now_is_refused(tmp_path: Path) -> None:
    path = write_small_network(tmp_path / "network.pt")
    detector = asdf.Detector(path, "cpu")
    pickled = pickle.dumps(detector)
    content = path.read_bytes()
    calibration = Calibration(2.0, -0.5, 0.25).content()
    write_small_network(path, calibration=calibration)
    with pytest.raises(AsdfError, match=r"network\.pt is missing, or not the file that this co"):
        pickle.loads(pickled)
    with pytest.raises(AsdfError, match=r"cannot be copied: .* was deleted or rewritten since"):
        copy.deepcopy(detector)
    path.unlink()
    with pytest.raises(AsdfError, match=r"network\.pt is missing, or not the file"):
        pickle.loads(pickled)
    path.write_bytes(content)
    expected = detector.score_trial(waveform(), 16000)
    assert pickle.loads(pickled).score_trial(waveform(), 16000) == expected


def test_threads_get_the_scores_that_one_gets(network_file: Path) -> None:
    detector = asdf.Detector(network_file, "cpu", threads=1)
    inputs = [waveform(seed, 8000 - 500 * (seed % 3)) for seed in range(12)]

    def score_one(samples: np.ndarray):
        return detector.score_trial(samples, 16000, embedding=True)

    def score_all(_: int) -> list[float | None]:
        return [result.score for result in detector.score_many([(x, 16000) for x in inputs])]

    expected, many = list(map(score_one, inputs)), score_all(0)
    with ThreadPoolExecutor(4) as pool:
        scores = list(pool.map(score_one, inputs))
        lists = list(pool.map(score_all, range(3)))
    assert scores == expected and lists == [many] * 3
    for score, alone in zip(scores, expected, strict=True):
        np.testing.assert_array_equal(score.embedding, alone.embedding)


def test_threads_that_computed_before_compute_with_the_detectors_number(network_file: Path) -> None:
    """Torch goes on with a thread's number of then, and with it the last bits of sums."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(1) as pool:
            torch.set_num_threads(2)
            assert pool.submit(lambda: (torch.ones(9).sum(), torch.get_num_threads())).result()[1]
            detector = asdf.Detector(network_file, "cpu", threads=1)
            used = []
            module = detector._scorer._network
            module.register_forward_pre_hook(lambda *_: used.append(torch.get_num_threads()))
            pool.submit(detector.score, waveform(), 16000).result()
            assert used == [1]
            # What else the program computes there goes on as it was.
            assert pool.submit(torch.get_num_threads).result() == 2
    finally:
        torch.set_num_threads(before)


def test_warming_up_changes_no_score(network_file: Path) -> None:
    detector = asdf.Detector(network_file, "cpu")
    expected = detector.score_trial(waveform(), 8000)
    warm = asdf.Detector(network_file, "cpu")
    state = np.random.get_state()[1].tolist()
    torch_state = torch.get_rng_state()
    assert warm.warm_up(seconds=0.3) is warm
    assert warm.score_trial(waveform(), 8000) == expected
    assert np.random.get_state()[1].tolist() == state
    assert torch.equal(torch.get_rng_state(), torch_state)
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="give a positive number"):
            warm.warm_up(seconds)


FORKS = """
import os, sys
import numpy as np
import asdf

x = np.sin(np.arange(64000) / 9).astype(np.float32)
detector = asdf.Detector(sys.argv[1], "cpu", threads=2)
print(round(detector.score_trial(x, 8000), 4), flush=True)

def in_fork(work):
    sys.stdout.flush()
    process = os.fork()
    if not process:
        try:
            work()
        except Exception as error:
            print(type(error).__name__, str(error), flush=True)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(process, 0)

for work in (
    lambda: detector.score_trial(x, 8000),
    lambda: next(detector.score_many([(x, 8000)])),
    lambda: detector.stream(8000),
    lambda: detector.warm_up(),
    lambda: print(round(asdf.Detector(sys.argv[1], "cpu", threads=2).score_trial(x, 8000), 4)),
):
    in_fork(work)
print(round(detector.score_trial(x, 8000), 4), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork_nothing_hangs(network_file: Path, tmp_path: Path) -> None:
    """The parent has computed with two threads; its child has none of them."""
    lines = run_program(tmp_path, FORKS, network_file, threads=2).splitlines()
    assert len(lines) == 7
    for line in lines[1:5]:
        assert line.startswith("UsageError this detector was made in process ")
        assert "Make the detector in this process" in line
    assert lines[0] == lines[5] == lines[6]


SPAWNED = """
import multiprocessing, sys
import numpy as np
import asdf

def main():
    x = np.sin(np.arange(8000) / 9).astype(np.float32)
    detector = asdf.Detector(sys.argv[1], "cpu", threads=1)
    print(repr(detector.score_trial(x, 16000)))
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            print(repr(pool.apply(detector.score, (x, 16000))))

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_other_processes_get_a_detector_and_return_its_scores(network_file, tmp_path):
    first, spawned, served = run_program(tmp_path, SPAWNED, network_file).splitlines()
    assert first == spawned == served


FORKS_WHILE_SCORING = """
import os, sys, threading
import numpy as np
import torch
import asdf
from asdf.errors import UsageError

x = np.sin(np.arange(16000) / 9).astype(np.float32)
detector = asdf.Detector(sys.argv[1], "cpu", threads=2)
first = detector.score_trial(x, 16000)
ended = threading.Event()
scored = threading.Event()
wrong = []
computing = []

def score_on():
    while not ended.is_set():
        if detector.score_trial(x, 16000) != first:
            wrong.append(1)
        scored.set()

torch.nn.modules.module.register_module_forward_pre_hook(lambda *_: computing.append(1))
torch.nn.modules.module.register_module_forward_hook(lambda *_: computing.pop() and None)
thread = threading.Thread(target=score_on)
thread.start()
for number in range(6):
    # At another moment of another score each time.
    scored.clear()
    scored.wait()
    process = os.fork()
    if not process:
        # What a library has locked while it computes would stay locked here.
        print("forked while computing:", len(computing), flush=True)
        try:
            detector.score_trial(x, 16000)
        except UsageError as error:
            print("refused:", str(error)[:22], flush=True)
        mine = asdf.Detector(sys.argv[1], "cpu", threads=2).score_trial(x, 16000)
        print("differs by:", round(abs(mine - first), 4), flush=True)
        os._exit(0)
    os.waitpid(process, 0)
ended.set()
thread.join()
print("wrong:", len(wrong), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_another_thread_scores_neither_hangs_nor_scores_wrongly(
    network_file: Path, tmp_path: Path
) -> None:
    """The child refuses its parent's detector, scores with its own, and the parent goes on."""
    lines = run_program(tmp_path, FORKS_WHILE_SCORING, network_file, threads=2).splitlines()
    assert lines.count("forked while computing: 0") == 6
    assert lines.count("refused: this detector was made") == 6
    assert lines.count("differs by: 0.0") == 6
    assert lines[-1] == "wrong: 0" and len(lines) == 19


FORKS_WHILE_READING = """
import os, sys, threading
import numpy as np
import asdf

x = np.sin(np.arange(16000) / 9).astype(np.float32)
begun, go_on = threading.Event(), threading.Event()

class Stored:
    def __array__(self, dtype=None, copy=None):
        begun.set()
        go_on.wait()
        return x

detector = asdf.Detector(sys.argv[1], "cpu", threads=2)
print(detector.score_trial(x, 16000))
thread = threading.Thread(target=lambda: print(detector.score_trial(Stored(), 16000), flush=True))
thread.start()
begun.wait()
sys.stdout.flush()
process = os.fork()
if not process:
    print(asdf.Detector(sys.argv[1], "cpu", threads=2).score_trial(x, 16000), flush=True)
    os._exit(0)
os.waitpid(process, 0)
print(detector.score_trial(x, 16000), flush=True)
go_on.set()
thread.join()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_another_thread_reads_samples_can_score(network_file, tmp_path):
    """Neither the child nor another thread of the parent waits for what that thread reads."""
    lines = run_program(tmp_path, FORKS_WHILE_READING, network_file, threads=2).splitlines()
    assert len(lines) == 4
    first, *others = map(float, lines)
    assert others == [pytest.approx(first, abs=1e-4)] * 3
