"""Measured lengths: right, saved, and never those of something else; digests of recordings."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch.distributed as dist

from asdf.audio import cut_to_speech, read_audio, speech
from asdf.data import lengths as room
from asdf.data.lengths import digest_list, digest_recordings, lengths_file, measure_lengths
from asdf.demo.voices import draw_speaker, speak
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs import parts
from asdf.settings.sections import Audio, SpeechActivity
from asdf.trials.lists import read_list
from asdf.trials.trial_list import TrialList
from tests.conftest import PATIENCE_S
from tests.distributed.worlds import start_processes
from tests.recordings import noise_waveforms, write_recordings

OFF = SpeechActivity()


@pytest.fixture
def utterances(tmp_path):
    """16 kHz, 8 kHz and 44.1 kHz, the last with silent ends."""
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 60000)
    soundfile.write(tmp_path / "a.wav", noise[:5000], 16000)
    soundfile.write(tmp_path / "b.wav", noise[:5000], 8000)
    soundfile.write(
        tmp_path / "c.wav", np.concatenate([np.zeros(22050), noise[:44100], np.zeros(22050)]), 44100
    )
    (tmp_path / "list.txt").write_text("a.wav 1\nb.wav 0\nc.wav 0\n")
    return read_list(tmp_path / "list.txt", tmp_path, "mine")


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_lengths_are_at_16_khz_in_list_order(utterances, tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(room, "_AT_ONCE", at_once)
    lengths = measure_lengths(utterances, OFF, tmp_path / "sad", World())
    assert lengths.tolist() == [5000, 10000, 32000] and lengths.dtype == np.int64


MEASURE_MANY = """
import sys, tracemalloc
from pathlib import Path
import numpy as np
from asdf.audio import speech
from asdf.data.lengths import measure_lengths
from asdf.distributed.world import World
from asdf.settings.sections import SpeechActivity
from asdf.trials.trial_list import TrialList

count, folder = int(sys.argv[1]), Path(sys.argv[2])
ids = [f"{index:06d}.wav" for index in range(count)]
utterances = TrialList(ids, np.ones(count, np.int8), name="many", folder=folder)
speech.audio_length = lambda path, audio: 16_000 + int(path.stem)
tracemalloc.start()
lengths = measure_lengths(utterances, SpeechActivity(), folder / "sad", World())
_, peak = tracemalloc.get_traced_memory()
assert lengths.tolist() == list(range(16_000, 16_000 + count))
print(peak)
"""


@pytest.mark.slow
def test_a_recording_takes_some_dozens_of_bytes(tmp_path):
    """In a process of its own: what other tests left in this one is allocated and freed, too."""
    peaks = {}
    # Of both, the sizes of 20,000 files are looked up.
    for count in (40_000, 80_000):
        folder = tmp_path / str(count)
        words = [sys.executable, "-c", MEASURE_MANY, str(count), str(folder)]
        ended = subprocess.run(words, capture_output=True, text=True, check=True)
        peaks[count] = int(ended.stdout.split()[-1])
    # 143; rows as Python objects take more than 250.
    assert (peaks[80_000] - peaks[40_000]) / 40_000 < 200


def test_speech_activity_detection_shortens_them(utterances, tmp_path):
    endpoint = SpeechActivity(mode="endpoint", hangover_s=0.0)
    lengths = measure_lengths(utterances, endpoint, tmp_path / "sad", World())
    assert lengths.tolist()[:2] == [5000, 10000] and abs(lengths[2] - 16000) <= 640


@pytest.mark.slow
@pytest.mark.skipif(find_spec("silero_vad") is None, reason="silero-vad is not installed")
def test_in_several_threads_silero_measures_what_is_read_later(tmp_path):
    waveforms = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        voice = np.concatenate([np.zeros(8000), speak(draw_speaker(rng), 1.0, rng), np.zeros(8000)])
        waveforms.append(0.5 * voice / np.abs(voice).max())
    utterances = write_recordings(tmp_path, waveforms)
    silero = SpeechActivity("on", detector="silero")
    lengths = measure_lengths(utterances, silero, tmp_path / "sad", World())
    assert lengths.tolist() == [
        len(cut_to_speech(read_audio(utterances.path(index)), silero)) for index in range(12)
    ]
    assert (lengths < 31000).all() and len(set(lengths.tolist())) > 4
    assert lengths_file(tmp_path, utterances, silero) != lengths_file(
        tmp_path, utterances, SpeechActivity("on")
    )


def test_a_measurement_of_a_name_with_a_tab_is_used_again(utterances, tmp_path, monkeypatch):
    (tmp_path / "a.wav").rename(tmp_path / "a\t1.wav")
    ids = ["a\t1.wav", *utterances.ids[1:]]
    tabbed = TrialList(ids, utterances.labels, name="tabbed", folder=tmp_path)
    first = measure_lengths(tabbed, OFF, tmp_path / "sad", World())
    monkeypatch.setattr(room, "measure_speech", None)
    assert measure_lengths(tabbed, OFF, tmp_path / "sad", World()).tolist() == first.tolist()


def test_other_settings_lists_or_recordings_have_other_files(utterances, tmp_path):
    folder = tmp_path / "sad"
    names = {lengths_file(folder, utterances, OFF)}
    # What does not matter while the detector is off does not count.
    assert lengths_file(folder, utterances, SpeechActivity(threshold_db=20)) in names
    for other in (
        SpeechActivity(mode="on"),
        SpeechActivity(mode="endpoint"),
        SpeechActivity("endpoint", 20),
    ):
        names.add(lengths_file(folder, utterances, other))
    names.add(lengths_file(folder, utterances.select(np.array([1, 0, 2])), OFF))
    soundfile.write(tmp_path / "a.wav", np.zeros(7000), 16000)
    names.add(lengths_file(folder, utterances, OFF))
    assert len(names) == 6
    assert measure_lengths(utterances, OFF, folder, World())[0] == 7000


def test_recordings_moved_to_another_folder_need_no_new_measurement(utterances, tmp_path):
    moved = tmp_path / "local_disk"
    moved.mkdir()
    for name in utterances.ids:
        os.link(tmp_path / name, moved / name)
    there = read_list(tmp_path / "list.txt", moved, "mine")
    assert lengths_file(tmp_path, there, OFF) == lengths_file(tmp_path, utterances, OFF)


def test_all_broken_recordings_are_in_one_message_and_the_others_are_saved(
    utterances, tmp_path, monkeypatch
):
    (tmp_path / "a.wav").write_bytes(b"")
    (tmp_path / "b.wav").write_bytes(b"this is no audio")
    with pytest.raises(AsdfError) as caught:
        measure_lengths(utterances, OFF, tmp_path / "sad", World())
    text = str(caught.value)
    assert text.startswith("2 of the 3 recordings of mine cannot be used:")
    assert f"{tmp_path / 'a.wav'} is empty" in text and f"{tmp_path / 'b.wav'} is not audio" in text
    assert not list((tmp_path / "sad").glob("*.tsv"))
    names = decoded_with(monkeypatch)
    for name in ("a.wav", "b.wav"):
        soundfile.write(tmp_path / name, np.zeros(7000), 16000)
    # Of other sizes than before, they may be others altogether.
    assert measure_lengths(utterances, OFF, tmp_path / "sad", World(), check=True)[0] == 7000
    assert sorted(names) == ["a.wav", "b.wav", "c.wav"]


@pytest.fixture
def log(caplog):
    caplog.set_level("INFO", "asdf")
    return caplog


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: b"x.wav\t5\n", "it does not hold the utterances of mine"),
        (lambda text: b"", "it does not hold the utterances of mine"),
        (lambda text: text.replace(b"10000", b"-5"), "its checksum is wrong"),
        (lambda text: text.replace(b"10000", b"10001"), "its checksum is wrong"),
        (lambda text: text.replace(b"b.wav", b"\xff"), "its checksum is wrong"),
        (lambda text: text[:-3], "its checksum is wrong"),
        (lambda text: text + b"c.wav\t5\n", "its checksum is wrong"),
        (lambda text: text.replace(b"10000", b"9" * 30), "too large to convert"),
        (lambda text: text.replace(b"10000", b"letters"), "invalid literal for int()"),
        (lambda text: text.replace(b"10000", b"1\t2"), "is not a name with lengths"),
        (lambda text: text[:14], "b'b.w' is not a name with lengths"),
        (lambda text: bytes(1000), "is not a name with lengths"),
    ],
)
def test_a_damaged_file_is_passed_over_and_made_anew(utterances, tmp_path, log, change, why):
    lengths = measure_lengths(utterances, OFF, tmp_path, World())
    path = lengths_file(tmp_path, utterances, OFF)
    whole = path.read_bytes()
    path.write_bytes(change(whole))
    log.clear()
    assert measure_lengths(utterances, OFF, tmp_path, World()).tolist() == lengths.tolist()
    assert f"{path} is ignored, and mine measured again: " in log.text and why in log.text
    assert path.read_bytes() == whole
    # Another list, which would take from it what is known.
    path.write_bytes(change(whole))
    changed = grown(tmp_path, "c.wav 1\nb.wav 0\n")
    assert measure_lengths(changed, OFF, tmp_path, World()).tolist() == [32000, 10000]
    assert f"{path} is ignored: " in log.text


def test_a_file_of_the_first_version_is_used(utterances, tmp_path, monkeypatch):
    path = lengths_file(tmp_path, utterances, OFF)
    path.write_text("a.wav\t5000\nb.wav\t10000\nc.wav\t32000\n")
    monkeypatch.setattr(speech, "audio_length", lambda *_: pytest.fail("measured again"))
    assert measure_lengths(utterances, OFF, tmp_path, World()).tolist() == [5000, 10000, 32000]


def test_an_absurd_length_in_a_file_of_the_first_version(utterances, tmp_path, log):
    path = lengths_file(tmp_path, utterances, OFF)
    path.write_text("a.wav\t5000\nb.wav\t99999999999\nc.wav\t32000\n")
    assert measure_lengths(utterances, OFF, tmp_path, World()).tolist() == [5000, 10000, 32000]
    assert "mine measured again: b.wav is shorter than 99999999999 samples" in log.text


def damaged(path: Path) -> None:
    """A FLAC whose header is whole and whose second half is not, of the size that it had."""
    noise = np.random.default_rng(2).uniform(-0.5, 0.5, 64000)
    soundfile.write(path, noise, 16000, format="FLAC")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))


@pytest.mark.parametrize("measured_before", [False, True])
def test_recordings_that_do_not_decode_to_their_ends_are_found_before_training(
    utterances, tmp_path, measured_before
):
    damaged(tmp_path / "a.wav")
    damaged(tmp_path / "c.wav")
    if measured_before:
        assert measure_lengths(utterances, OFF, tmp_path, World()).tolist() == [64000, 10000, 64000]
    with pytest.raises(AsdfError) as caught:
        measure_lengths(utterances, OFF, tmp_path, World(), check=True)
    text = str(caught.value)
    assert text.startswith("2 of the 3 recordings of mine cannot be used:\n  ")
    assert all(
        f"{tmp_path / name} cannot be decoded to its end" in text for name in ("a.wav", "c.wav")
    )


def decoded_with(monkeypatch) -> list[str]:
    """The names of the recordings that are decoded from now on."""
    names: list[str] = []

    def noted(function):
        return lambda path, *rest, **named: (
            names.append(path.name) or function(path, *rest, **named)
        )

    for name in ("decoded_length", "read_audio"):
        monkeypatch.setattr(speech, name, noted(getattr(speech, name)))
    return names


def test_a_recording_is_decoded_once_until_its_file_is_another(utterances, tmp_path, monkeypatch):
    names = decoded_with(monkeypatch)
    folder = tmp_path / "sad"
    expected = measure_lengths(utterances, OFF, folder, World()).tolist()
    assert names == []
    for _ in range(2):
        assert measure_lengths(utterances, OFF, folder, World(), check=True).tolist() == expected
        assert sorted(names) == ["a.wav", "b.wav", "c.wav"]
    status = (tmp_path / "b.wav").stat()
    for changed in (status.st_mtime_ns + 10**9, status.st_mtime_ns):
        names.clear()
        os.utime(tmp_path / "b.wav", ns=(status.st_atime_ns, changed))
        assert measure_lengths(utterances, OFF, folder, World(), check=True).tolist() == expected
        assert names == ["b.wav"]
    # What is known of the recordings is known to those who need their lengths only.
    assert measure_lengths(utterances, OFF, folder, World()).tolist() == expected
    assert names == ["b.wav"]


def test_what_speech_activity_detection_decodes_is_decoded_once(utterances, tmp_path, monkeypatch):
    names = decoded_with(monkeypatch)
    for check in (True, True, False):
        measure_lengths(utterances, SpeechActivity("on"), tmp_path, World(), check=check)
    assert sorted(names) == ["a.wav", "b.wav", "c.wav"]
    names.clear()
    measure_lengths(utterances, SpeechActivity("endpoint"), tmp_path, World())
    measure_lengths(utterances, SpeechActivity("endpoint"), tmp_path, World(), check=True)
    assert sorted(names) == ["a.wav", "b.wav", "c.wav"]


def test_recordings_in_a_tar_are_decoded_once(utterances, tmp_path, monkeypatch):
    with tarfile.open(tmp_path / "set.tar", "w") as tar:
        for name in utterances.ids:
            tar.add(tmp_path / name, f"set/{name}")
    packed = read_list(tmp_path / "list.txt", tmp_path / "set", "packed")
    names = decoded_with(monkeypatch)
    for _ in range(2):
        lengths = measure_lengths(packed, OFF, tmp_path / "sad", World(), check=True)
        assert lengths.tolist() == [5000, 10000, 32000]
    assert sorted(names) == ["a.wav", "b.wav", "c.wav"]


def test_a_stop_does_not_wait_for_a_file_that_does_not_open(utterances, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    stop = StopRequest()

    def measured(path: Path, audio: object) -> int:
        stop.reason = "a test"
        return os.open(tmp_path / "pipe", os.O_RDONLY)  # as of a file server that has gone

    monkeypatch.setattr(speech, "audio_length", measured)
    with pytest.raises(Stopped, match="stopped by a test while measuring mine"):
        measure_lengths(utterances, OFF, tmp_path / "sad", World(), stop)
    os.close(os.open(tmp_path / "pipe", os.O_WRONLY))  # lets the thread go


def check_until_killed(
    rank: int, utterances: TrialList, folder: Path, size: int, killed: bool
) -> None:
    """Check recordings in one of several processes; the first is killed when it has saved a part.

    Each process notes what it decodes.
    """
    parts.SAVED_EVERY_S = -1
    room._AT_ONCE = 1
    store = f"file://{folder}/store{size}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    decoded_length, save = speech.decoded_length, parts.Parts.save

    def noted(path: Path, *reading: Audio) -> int:
        with (folder / f"decoded{size}").open("a") as file:
            file.write(f"{path.name}\n")
        return decoded_length(path, *reading)

    def save_and_be_killed(these: parts.Parts) -> None:
        save(these)
        if killed and rank == 0 and these.saved:
            os.kill(os.getpid(), signal.SIGKILL)

    speech.decoded_length = noted
    parts.Parts.save = save_and_be_killed
    world = World(rank, size, rank, size, backend="gloo")
    measure_lengths(utterances, OFF, folder / "sad", world, check=True)
    dist.destroy_process_group()


def measure_until_stopped(rank: int, utterances: TrialList, folder: Path) -> None:
    """Measure in one of two processes; the second is asked to stop, the first reads on and on."""
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    room._AT_ONCE = 1
    stop = StopRequest()
    ended = threading.Event()

    def measured(path: Path, audio: object) -> int:
        if rank == 1:
            while not (folder / "begun").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGUSR1)
            return 1
        with (folder / "begun").open("a") as file:
            file.write(f"{path.name}\n")
        assert ended.wait(PATIENCE_S)
        return 1

    speech.audio_length = measured
    requests = dist.FileStore(str(folder / "requests"), 2)
    world = World(rank, 2, rank, 2, backend="gloo", _store=requests)
    said = "stopped by signal SIGUSR1 while measuring"
    with world.listening(stop), pytest.raises(Stopped, match=said):
        measure_lengths(utterances, OFF, folder / "sad", world, stop)
    # Only what its threads were at: not the whole share, behind which the other process waits.
    ended.set()
    dist.destroy_process_group()


@pytest.mark.slow
def test_a_stop_of_one_process_ends_the_shares_of_all(tmp_path):
    utterances = write_recordings(tmp_path, noise_waveforms(range(4000, 4060)))
    start_processes(measure_until_stopped, (utterances, tmp_path), 2)
    begun = (tmp_path / "begun").read_text().split()
    assert 0 < len(begun) <= room._THREADS < 30


@pytest.mark.slow
def test_after_kill_9_three_processes_go_on_with_the_check_of_two(tmp_path, monkeypatch):
    utterances = write_recordings(tmp_path, noise_waveforms(range(4000, 4040)))
    with pytest.raises(Exception, match="SIGKILL"):
        start_processes(check_until_killed, (utterances, tmp_path, 2, True), 2)
    saved = {
        trial for path in (tmp_path / "sad").glob(".*.npz") for trial in np.load(path)["trials"]
    }
    assert saved
    start_processes(check_until_killed, (utterances, tmp_path, 3, False), 3)
    again = (tmp_path / "decoded3").read_text().split()
    assert sorted(again) == sorted(f"{i}.wav" for i in set(range(40)) - saved)
    assert not list((tmp_path / "sad").glob(".*.npz"))
    (path,) = (tmp_path / "sad").glob("*.tsv")
    whole = measure_lengths(utterances, OFF, tmp_path / "whole", World(), check=True)
    assert whole.tolist() == list(range(4000, 4040))
    assert path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes()


def test_a_requested_stop_loses_nothing_that_was_decoded(tmp_path, monkeypatch, log):
    utterances = write_recordings(tmp_path, noise_waveforms([5000] * 80))
    monkeypatch.setattr(room, "_AT_ONCE", 1)
    names = decoded_with(monkeypatch)
    stop = StopRequest()
    extend = parts.Parts.due.fget
    monkeypatch.setattr(
        parts.Parts, "due", property(lambda these: setattr(stop, "reason", "test") or extend(these))
    )
    with pytest.raises(Stopped, match="the same command resumes from there"):
        measure_lengths(utterances, OFF, tmp_path / "sad", World(), stop, check=True)
    monkeypatch.undo()
    names = decoded_with(monkeypatch)
    lengths = measure_lengths(utterances, OFF, tmp_path / "sad", World(), check=True)
    assert lengths.tolist() == [5000] * 80
    # A thread of the first start may have been at work on one that is decoded again.
    again = len(set(names))
    assert f"continues: {80 - again} of 80 recordings were already done" in log.text
    assert again < 80


def test_once_looks_up_a_sample_of_the_files_and_true_all(tmp_path, monkeypatch, log):
    utterances = write_recordings(tmp_path, noise_waveforms([5000] * 200))
    names = decoded_with(monkeypatch)
    arguments = (utterances, OFF, tmp_path / "sad", World(), None)
    assert measure_lengths(*arguments, "once").tolist() == [5000] * 200
    assert len(names) == 200
    looked_up: list[str] = []
    file_state = room.file_state
    monkeypatch.setattr(
        room, "file_state", lambda path: looked_up.append(path.name) or file_state(path)
    )
    measure_lengths(*arguments, "once")
    assert 64 <= len(looked_up) <= 70 and len(names) == 200
    assert "compared the size" not in log.text
    looked_up.clear()
    measure_lengths(*arguments, True)
    assert len(looked_up) == 200
    assert "compared the size and modification time of the 200 recordings of" in log.text
    # One of the sample was written again, of the same size: all are compared.
    status = (tmp_path / "0.wav").stat()
    for name in ("0.wav", "1.wav"):
        os.utime(tmp_path / name, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    names.clear()
    measure_lengths(*arguments, "once")
    assert sorted(names) == ["0.wav", "1.wav"]
    assert f"{tmp_path / '0.wav'} was changed: all of" in log.text


@pytest.mark.parametrize("check", [False, "once"])
def test_any_recording_of_another_size_is_measured_again(tmp_path, check):
    utterances = write_recordings(tmp_path, noise_waveforms([5000] * 200))
    arguments = (utterances, OFF, tmp_path / "sad", World(), None, check)
    assert measure_lengths(*arguments).tolist() == [5000] * 200
    soundfile.write(utterances.path(1), np.zeros(7000), 16000)
    assert measure_lengths(*arguments).tolist() == [5000, 7000, *[5000] * 198]


def grown(tmp_path: Path, lines: str) -> TrialList:
    """The list after something was done to it."""
    (tmp_path / "list.txt").write_text(lines)
    return read_list(tmp_path / "list.txt", tmp_path, "mine")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("a.wav 1\nb.wav 0\nc.wav 0\nd.wav 1\n", [5000, 10000, 32000, 900]),
        ("d.wav 1\na.wav 1\nb.wav 0\nc.wav 0\n", [900, 5000, 10000, 32000]),
        ("c.wav 1\nd.wav 1\na.wav 1\n", [32000, 900, 5000]),
        ("b.wav 1\nd.wav 0\n", [10000, 900]),
    ],
)
def test_a_list_that_changed_measures_what_is_new(
    utterances, tmp_path, monkeypatch, log, check, lines, expected
):
    measure_lengths(utterances, OFF, tmp_path / "sad", World(), check=check)
    soundfile.write(tmp_path / "d.wav", np.full(900, 0.1), 16000)
    measured: list[str] = []
    name = "decoded_length" if check else "audio_length"
    function = getattr(speech, name)
    monkeypatch.setattr(
        speech, name, lambda path, *rest: measured.append(path.name) or function(path, *rest)
    )
    changed = grown(tmp_path, lines)
    for _ in range(2):
        lengths = measure_lengths(changed, OFF, tmp_path / "sad", World(), check=check)
        assert lengths.tolist() == expected
        assert measured == ["d.wav"]
    known = len(expected) - 1
    assert (
        f"{known} of the {known + 1} recordings of mine were measured with an earlier" in log.text
    )
    # The rows are those of a list that was measured as a whole.
    measure_lengths(changed, OFF, tmp_path / "whole", World(), check=check)
    path = lengths_file(tmp_path / "sad", changed, OFF)
    assert path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes()


def test_recordings_that_were_replaced_meanwhile_are_measured_again(
    utterances, tmp_path, monkeypatch, log
):
    for check in (False, True):
        folder = tmp_path / f"sad{check}"
        soundfile.write(tmp_path / "a.wav", np.zeros(5000), 16000)
        measure_lengths(grown(tmp_path, "a.wav 1\nb.wav 0\n"), OFF, folder, World(), check=check)
        soundfile.write(tmp_path / "a.wav", np.zeros(7000), 16000)
        changed = grown(tmp_path, "a.wav 1\nb.wav 0\nc.wav 0\n")
        lengths = measure_lengths(changed, OFF, folder, World(), check=check)
        assert lengths.tolist() == [7000, 10000, 32000]
    assert "recordings of mine were replaced: all are measured again" in log.text


def test_a_note_of_an_earlier_version_does_not_hide_what_was_replaced(utterances, tmp_path):
    measure_lengths(utterances, OFF, tmp_path / "sad", World())
    (path,) = (tmp_path / "sad").glob("*.json")
    note = json.loads(path.read_text())
    path.write_text(json.dumps({**note, "sizes": {"b.wav": note["sizes"]["b.wav"]}}))
    soundfile.write(tmp_path / "a.wav", np.zeros(7000), 16000)
    changed = grown(tmp_path, "b.wav 0\na.wav 1\n")
    assert measure_lengths(changed, OFF, tmp_path / "sad", World()).tolist() == [10000, 7000]


def test_a_part_of_a_large_list_is_not_measured_again(utterances, tmp_path, monkeypatch, log):
    monkeypatch.setattr("asdf.data.lengths.MAX_RECORDINGS", 1)
    measure_lengths(utterances, OFF, tmp_path / "sad", World())
    changed = grown(tmp_path, "b.wav 0\nc.wav 0\n")
    assert measure_lengths(changed, OFF, tmp_path / "sad", World()).tolist() == [10000, 32000]
    assert "2 of the 2 recordings of mine were measured with an earlier list of it" in log.text


@pytest.mark.parametrize("note", ["{", "[]", '{"table": "../x.tsv", "sizes": {}}', '{"table": 1}'])
def test_a_note_that_is_damaged_or_leads_elsewhere_is_not_followed(utterances, tmp_path, note):
    measure_lengths(utterances, OFF, tmp_path / "sad", World())
    (path,) = (tmp_path / "sad").glob("*.json")
    path.write_text(note)
    changed = grown(tmp_path, "b.wav 0\na.wav 1\n")
    assert measure_lengths(changed, OFF, tmp_path / "sad", World()).tolist() == [10000, 5000]


def test_recordings_on_another_scale_are_named(tmp_path):
    utterances = write_recordings(tmp_path, noise_waveforms([4000, 4000, 4000]))
    for name in ("0.wav", "2.wav"):
        samples, _ = soundfile.read(tmp_path / name, dtype="int16")
        soundfile.write(tmp_path / name, samples.astype(np.float32), 16000, subtype="FLOAT")
    with pytest.raises(AsdfError, match="2 of the 3 recordings of mine cannot be used") as caught:
        measure_lengths(utterances, OFF, tmp_path / "sad", World(), check=True)
    lines = str(caught.value).splitlines()
    assert [("0.wav" in line, "integers written as floats" in line) for line in lines[1:3]] == [
        (True, True),
        (False, True),
    ]


def test_recordings_whose_channels_differ_are_named(tmp_path, caplog):
    """Those that are heard as the mean of two voices, not those with a silent channel."""
    utterances = write_recordings(tmp_path, noise_waveforms([40000] * 4))
    one, silence = noise_waveforms([40000])[0], np.zeros(40000)
    other = np.roll(one, 700)
    for name, channels in (("0", [one, -one]), ("1", [one, silence]), ("3", [one, 1e-3 * other])):
        soundfile.write(tmp_path / f"{name}.wav", np.stack(channels, axis=1), 16000)
    lengths = measure_lengths(utterances, OFF, tmp_path / "sad", World(), check=True)
    assert lengths.tolist() == [40000] * 4
    (message,) = [each for each in caplog.messages if "not the same sound" in each]
    assert message.startswith("2 of the 4 recordings of mine have channels or sound tracks")
    assert "0.wav: the channels cancel each other" in message
    assert "3.wav: channel 1 lies 60 dB under 0" in message


NAMES = [f"{index}.bin" for index in range(40)]


@pytest.fixture
def trials(tmp_path) -> TrialList:
    folder = tmp_path / "speech"
    folder.mkdir()
    for index, name in enumerate(NAMES):
        (folder / name).write_bytes(bytes([index]) * (5000 + index))
    return TrialList(NAMES, np.zeros(len(NAMES), np.int8), name="speech", folder=folder)


def edit(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 255
    path.write_bytes(bytes(content))


def test_another_content_or_size_is_another_digest(trials):
    before = digest_recordings(trials)
    assert digest_recordings(trials) == before
    edit(trials.folder / NAMES[-1], 2500)
    other = digest_recordings(trials)
    assert other != before
    edit(trials.folder / NAMES[-1], 2500)
    assert digest_recordings(trials) == before
    with (trials.folder / NAMES[17]).open("ab") as file:
        file.write(b"1")
    assert digest_recordings(trials) not in (before, other)
    (trials.folder / NAMES[17]).unlink()
    assert digest_recordings(trials) not in (before, other)


@pytest.mark.slow
def test_a_copy_and_a_tar_are_the_same_recordings(trials, tmp_path):
    before = digest_recordings(trials)
    copy = shutil.copytree(trials.folder, tmp_path / "copy")
    for path in copy.iterdir():
        os.utime(path, (1, 1))
    assert digest_recordings(replace(trials, folder=copy)) == before
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for name in NAMES:
            tar.add(copy / name, name)
    assert digest_recordings(replace(trials, folder=tmp_path / "all.tar")) == before


def test_of_a_long_list_recordings_at_equal_distances_are_looked_at(trials):
    before = digest_recordings(trials, max_recordings=10)
    edit(trials.folder / NAMES[5], 2500)
    assert digest_recordings(trials, max_recordings=10) == before
    edit(trials.folder / NAMES[8], 2500)
    assert digest_recordings(trials, max_recordings=10) != before


def test_a_list_is_its_utterances_and_labels(trials):
    labels = trials.labels.copy()
    labels[3] = 1
    digests = {
        digest_list(trials),
        digest_list(replace(trials, labels=labels)),
        digest_list(trials.select(np.arange(39))),
    }
    assert len(digests) == 3
    assert digest_list(replace(trials, name="other")) == digest_list(trials)
