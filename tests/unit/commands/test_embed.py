"""`python -m asdf embed`: exact, resumable, of every kind of list."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.commands.embed import Embeddings
from asdf.extras.cpu.packed_weights import is_available
from asdf.trials.trial_list import TrialList
from tests.conftest import PATIENCE_S
from tests.unit.conftest import small_settings, sound, write_small_network
from tests.unit.scoring.counting import count_batches


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("embed")
    rows = ["utterance\tlabel\tspeaker\tattack\n"]
    for index in range(30):
        path = folder / "audio" / f"{index}.wav"
        path.parent.mkdir(exist_ok=True)
        soundfile.write(path, sound(3000 + 700 * (index % 9), index), 16000)
        rows.append(f"audio/{index}.wav\t{index % 2}\ts{index % 5}\tA0{index % 3}\n")
    (folder / "trials.txt").write_text("".join(rows))
    settings = small_settings(minibatch_size=2, train_clip_size=4000)
    write_small_network(folder / "network.pt", settings)
    return folder


def embed(folder: Path, out: Path, *words: object) -> int:
    fixed = [folder / "network.pt", *words, "--output", out, "--device", "cpu", "--workers", 0]
    return main(["embed", *map(str, fixed)])


def read_embeddings(path: Path) -> Embeddings:
    with np.load(path) as file:
        arrays = dict(file)
    columns = {name[7:]: value for name, value in arrays.items() if name.startswith("column_")}
    trials = TrialList(arrays["ids"].tolist(), arrays["labels"], columns=columns)
    how = json.loads(str(arrays["how"]))
    return Embeddings(trials, arrays["embeddings"], arrays["scores"], how)


@pytest.fixture(scope="module")
def whole(folder) -> Path:
    out = folder / "whole.npz"
    assert embed(folder, out, folder / "trials.txt") == 0
    return out


def test_they_are_those_of_the_detector(folder, whole):
    embeddings = read_embeddings(whole)
    detector = asdf.Detector(folder / "network.pt", "cpu", threads=1)
    assert embeddings.embeddings_NE.dtype == np.float32
    for index in (0, 7, 8, 29):
        score = detector.score_trial(folder / "audio" / f"{index}.wav", embedding=True)
        np.testing.assert_allclose(embeddings.embeddings_NE[index], score.embedding, atol=1e-5)
        assert embeddings.scores_N[index] == pytest.approx(float(score), abs=1e-5)
    trials = embeddings.trials
    assert trials.ids[3] == "audio/3.wav" and trials.labels[:3].tolist() == [0, 1, 0]
    assert trials.columns["speaker"][6] == "s1" and trials.columns["attack"][4] == "A01"
    digest = hashlib.sha256((folder / "network.pt").read_bytes()).hexdigest()
    assert embeddings.how["sha256"] == digest
    assert embeddings.how["scored"] == {"min_samples": 4000, "max_samples": 8000}
    assert embeddings.how["asdf"] == asdf.__version__
    assert embeddings.how["engine"] == ("packed" if is_available() else "plain")
    assert not list(folder.glob(".whole*"))


def test_other_lists_of_the_same_recordings(folder, whole, tmp_path):
    expected = read_embeddings(whole).embeddings_NE
    assert embed(folder, tmp_path / "a.npz", folder / "audio") == 0
    of_folder = read_embeddings(tmp_path / "a.npz")
    order = [int(Path(name).stem) for name in of_folder.trials.ids]
    np.testing.assert_allclose(of_folder.embeddings_NE, expected[order], atol=1e-5)
    assert set(of_folder.trials.labels.tolist()) == {-1}
    keys = {0: "spoof", 1: "bonafide"}
    lines = [f"sp {index} - A01 {keys[index % 2]}\n" for index in range(30)]
    (tmp_path / "protocol.txt").write_text("".join(lines))
    assert embed(folder, tmp_path / "p.npz", tmp_path / "protocol.txt", "--folder", folder) == 0
    of_protocol = read_embeddings(tmp_path / "p.npz")
    np.testing.assert_allclose(of_protocol.embeddings_NE, expected, atol=1e-5)
    assert of_protocol.trials.ids[4] == "audio/4.wav"
    (tmp_path / "protocol.txt").write_text("".join([*lines, "sp 99 - A01 spoof\n"]))
    assert embed(folder, tmp_path / "q.npz", tmp_path / "protocol.txt", "--folder", folder) == 1


@pytest.mark.slow
def test_two_processes_write_the_bytes_of_one(warm, folder, whole, tmp_path):
    out = tmp_path / "two.npz"
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    fixed = [folder / "network.pt", folder / "trials.txt", "--output", out, "--device", "cpu"]
    words = [*launcher, "-m", "asdf", "embed", *map(str, fixed), "--workers", "0"]
    done = subprocess.run([warm(), *words], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == whole.read_bytes()


def test_a_killed_command_goes_on_to_the_same_bytes(folder, whole, tmp_path, monkeypatch, capsys):
    """What `kill -9` leaves: parts of whole batches. They are not computed again."""
    out = tmp_path / "killed.npz"
    monkeypatch.setattr("asdf.runs.parts.SAVED_EVERY_S", -1)
    with pytest.MonkeyPatch.context() as patch:
        computed = count_batches(patch, fail_after=5)
        assert embed(folder, out, folder / "trials.txt") == 130
    parts = list(tmp_path.glob(".killed.npz.progress/.trials.rows-*.npz"))
    assert len(parts) == 5 and not out.exists()
    again = count_batches(monkeypatch)
    assert embed(folder, out, folder / "trials.txt") == 0
    assert out.read_bytes() == whole.read_bytes()
    assert sum(computed) + sum(again) == 30
    assert not list(tmp_path.glob(".killed*"))


def test_other_work_begins_anew(folder, whole, tmp_path):
    progress = tmp_path / ".new.npz.progress"
    progress.mkdir()
    wrong = {
        "work": np.array("{}"),
        "trials": np.arange(30),
        "embeddings": np.zeros((30, 3)),
        "scores": np.zeros(30),
    }
    np.savez(progress / ".trials.rows-0.npz", **wrong)
    (progress / ".trials.rows-1.npz").write_bytes(b"PK")
    assert embed(folder, tmp_path / "new.npz", folder / "trials.txt") == 0
    assert (tmp_path / "new.npz").read_bytes() == whole.read_bytes()


def test_a_broken_recording_of_a_folder_is_reported_and_the_rest_go_on(folder, whole, tmp_path):
    audio = tmp_path / "audio"
    shutil.copytree(folder / "audio", audio)
    (audio / "3.wav").write_bytes(b"RIFF")
    # A sound header, and rubbish behind it.
    soundfile.write(audio / "7.flac", sound(9000), 16000)
    content = (audio / "7.flac").read_bytes()
    (audio / "7.flac").write_bytes(content[: len(content) // 2])
    (audio / "7.wav").unlink()
    out = tmp_path / "e.npz"
    assert embed(folder, out, audio) == 1
    written = read_embeddings(out)
    names = sorted(path.name for path in audio.iterdir())
    names = [name for name in names if name not in ("3.wav", "7.flac")]
    assert list(written.trials.ids) == names
    assert written.how["skipped"] == 2
    reference = read_embeddings(whole)
    index = list(reference.trials.ids).index("audio/11.wav")
    np.testing.assert_allclose(
        written.embeddings_NE[names.index("11.wav")], reference.embeddings_NE[index], atol=1e-5
    )
    assert "skipped" not in reference.how
    for path in audio.iterdir():
        path.write_bytes(b"RIFF")
    assert embed(folder, out, audio) == 1


def test_mistakes_in_the_command(folder, tmp_path, capsys):
    network = str(folder / "network.pt")
    for source, out, message in (
        ("x.txt", "x.txt", "the name must end in .npz"),
        ("x.txt", "x.npz", "there is no list, folder or"),
        ("asvspoof19-eval", "x.npz", "Give its folder with --folder"),
    ):
        assert main(["embed", network, source, "--output", str(tmp_path / out)]) == 2
        assert message in capsys.readouterr().err


def test_a_network_with_packed_layers_goes_on(folder, tmp_path, monkeypatch):
    """Its first batch replaces layers: what goes on knows it as what has stopped."""
    lines = (folder / "trials.txt").read_text().splitlines(keepends=True)
    (tmp_path / "list.txt").write_text("".join(lines[:7]))
    settings = small_settings(network_class="asdf.networks.AASIST_L", minibatch_size=1)
    write_small_network(tmp_path / "network.pt", settings)

    def run(out: str) -> int:
        return embed(tmp_path, tmp_path / out, tmp_path / "list.txt", "--folder", folder)

    assert run("whole.npz") == 0
    monkeypatch.setattr("asdf.runs.parts.SAVED_EVERY_S", -1)
    with pytest.MonkeyPatch.context() as patch:
        computed = count_batches(patch, fail_after=2)
        assert run("out.npz") == 130
    again = count_batches(monkeypatch)
    assert run("out.npz") == 0
    assert sum(computed) + sum(again) == 6
    assert (tmp_path / "out.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
