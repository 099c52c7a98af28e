"""A corpus as it was distributed: the same files, whether it lies in a folder or in a tar."""

import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from torch.utils.data import DataLoader

from asdf.audio import read_audio
from asdf.data.batches import Clip
from asdf.data.datasets import WholeUtterances
from asdf.data.lengths import lengths_file, measure_lengths
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.settings.sections import SpeechActivity
from asdf.trials.lists import PlaceTree, Tree, check_files, open_tree, read_list

OFF = SpeechActivity()
AUDIO = [f"train/flac/{name}.flac" for name in ("b", "a", "two words")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """'folder/LA', and 'tar/LA.tar' of the same files."""
    root = tmp_path / "folder" / "LA"
    for seed, name in enumerate(AUDIO):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        samples = np.random.default_rng(seed).uniform(-0.5, 0.5, 4000 + seed)
        soundfile.write(root / name, samples, 16000, subtype="PCM_16")
    for name in ("train/flac/._a.flac", "train/.hidden/x.flac", ".DS_Store", "train-old/y.flac"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"no audio")
    (root / "train" / "protocol.txt").write_text("\ufeffS a - - bonafide\n", encoding="utf-8")
    (tmp_path / "tar").mkdir()
    with tarfile.open(tmp_path / "tar" / "LA.tar", "w") as tar:
        tar.add(root, "LA")
    return tmp_path


def trees(base: Path, inner: str = "") -> tuple[Tree, Tree, Tree]:
    folder, tar = base / "folder" / "LA", base / "tar" / "LA.tar"
    return open_tree(folder / inner), open_tree(tar.with_suffix("") / inner), open_tree(tar / inner)


@pytest.mark.parametrize("inner", ["", "train", "train/flac"])
def test_a_tar_and_a_folder_are_the_same_tree(base, inner):
    folder, *tars = trees(base, inner)
    assert type(folder) is Tree
    for tar in tars:
        assert type(tar) is PlaceTree and tar.root == base / "tar" / "LA.tar" / inner
        for under in ("", "train", "train/flac", "flac", "nothing", "tra"):
            assert tar.files(under) == folder.files(under)
        names = ("train", "train/flac", "tra", "a.flac", "flac/a.flac", "train/protocol.txt", "x")
        for name in ("", AUDIO[0], *names):
            assert tar.exists(name) == folder.exists(name)
    if inner == "":
        assert folder.files() == sorted([*AUDIO, "train-old/y.flac", "train/protocol.txt"])
    for name in folder.files():
        if name.endswith("a.flac"):
            assert np.array_equal(read_audio(tars[0].path(name)), read_audio(folder.path(name)))


def test_texts(base):
    for tree in trees(base):
        assert list(tree.lines("train/protocol.txt")) == [(1, "S a - - bonafide")]
        with pytest.raises(AsdfError, match=r"there is no file .*LA.*none\.txt"):
            list(tree.lines("train/none.txt"))
        with pytest.raises(AsdfError, match=r"this is not UTF-8 text|a NUL character"):
            list(tree.lines(AUDIO[0]))


def test_the_folder_counts_where_both_are_there(base):
    (base / "tar" / "LA").mkdir()
    assert open_tree(base / "tar" / "LA").files() == []


def test_a_tar_in_a_folder_is_the_folder_of_its_name(base):
    """One that lies next to its folder is not: the folder counts."""
    root = base / "folder" / "LA"
    before = Tree(root).files()
    for folder in ("train", "train-old"):
        with tarfile.open(root / f"{folder}.tar", "w") as tar:
            tar.add(root / folder, folder)
    assert [name for name in Tree(root).files() if not name.endswith((".tar", ".index"))] == before
    (root / "train").rename(base / "elsewhere")
    assert [name for name in Tree(root).files() if not name.endswith((".tar", ".index"))] == before
    assert len(read_audio(root / "train/flac/b.flac")) == 4000


def test_where_a_user_may_not_look_is_reported(base):
    with pytest.raises(AsdfError, match=r"cannot look for .*: File name too long"):
        Tree(base).exists("x" * 300)


def test_what_does_not_exist(base):
    for path in (base / "none", base / "tar" / "LA" / "none", base / "tar" / "LA.tar" / "none"):
        with pytest.raises(AsdfError, match=f"there is no folder {path}"):
            open_tree(path)


def test_a_tree_is_sent_to_another_process(base):
    tree = pickle.loads(pickle.dumps(open_tree(base / "tar" / "LA")))
    assert tree.files("train/flac") == sorted(AUDIO)


@pytest.fixture
def lists(base: Path):
    """One list, its recordings below 'folder' and below 'tar'; ids begin with 'LA/'."""
    lines = [f"LA/{name} {index % 2}\n" for index, name in enumerate(AUDIO)]
    (base / "list.txt").write_text("".join(lines))
    return [read_list(base / "list.txt", base / kind, "mine") for kind in ("folder", "tar")]


def test_recordings_are_found_and_missed_alike(base, lists):
    check_files(lists)
    (base / "more.txt").write_text(
        f"LA/{AUDIO[0]} 1\nLA/train/flac/c.flac 0\nLA/none/a.flac 0\nLA/train/flac 0\n"
    )
    messages = []
    for kind in ("folder", "tar"):
        with pytest.raises(AsdfError) as caught:
            check_files([read_list(base / "more.txt", base / kind, "mine").select(np.arange(3))])
        messages.append(str(caught.value).replace(f"{base / kind}", "BASE"))
    assert messages[0] == messages[1] and "2 of the 3 files of mine are not in BASE" in messages[0]
    # Ids as `tar -t` shows them.
    inside = read_list(base / "list.txt", base / "tar" / "LA.tar", "mine")
    check_files([inside])
    assert np.array_equal(read_audio(inside.path(0)), read_audio(lists[0].path(0)))


def test_lengths_measured_in_a_folder_serve_for_its_tar(base, lists):
    names = {lengths_file(base, utterances, OFF) for utterances in lists}
    assert len(names) == 1
    assert measure_lengths(lists[1], OFF, base / "sad", World()).tolist() == [4000, 4001, 4002]
    (base / "folder" / "LA" / AUDIO[0]).unlink()
    assert lengths_file(base, lists[0], OFF) not in names


def _as_it_is(clip: Clip) -> Clip:
    return clip


@pytest.mark.slow_but("fork")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_any_start_method_read_archives(base, lists, method):
    keys = [(index % 3, 5000) for index in range(12)]
    folder, tar = (WholeUtterances(utterances, OFF) for utterances in lists)
    read_audio(lists[1].path(0))  # forked workers have the open archive, spawned ones do not
    workers = {"num_workers": 2, "multiprocessing_context": method}
    loader = DataLoader(tar, batch_size=None, sampler=keys, collate_fn=_as_it_is, **workers)
    read = [clip.samples for clip in loader]
    assert len(read) == 12
    for samples, key in zip(read, keys, strict=True):
        assert np.array_equal(samples, folder[key].samples)
