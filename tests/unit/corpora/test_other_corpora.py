"""Corpora whose labels are in a csv, or in the names of folders."""

from __future__ import annotations

import shutil
import tarfile

import pytest

from asdf.corpora.checking import OnDisk, compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files
from asdf.trials.trees import open_tree
from tests.unit.corpora.conftest import Lay, Read
from tests.unit.corpora.test_protocols import CELEB, WILD


@pytest.mark.parametrize("inside", ["", "release_in_the_wild/"])
def test_in_the_wild(lay: Lay, read: Read, inside: str) -> None:
    root = lay({f"{inside}meta.csv": WILD}, f"{inside}0.wav\n{inside}1.wav")
    utterances, _ = read("in-the-wild", root)
    assert utterances.ids == [
        f"{inside}0.wav",
        f"{inside}1.wav",
    ] and utterances.labels.tolist() == [0, 1]
    assert utterances.columns == {"speaker": ["Alec Guinness", "Guinness, Alec"]}
    check_files([utterances])


@pytest.mark.parametrize(("home", "file"), [("", "development"), ("spoofceleb/", "dev")])
def test_spoofceleb(lay: Lay, read: Read, home: str, file: str) -> None:
    audio = f"{home}flac/{file}"
    root = lay(
        {f"{home}metadata/{file}.csv": CELEB},
        f"{audio}/a00/id10318/Y-1.flac\n{audio}/a06/id10318/Y-1.flac",
    )
    utterances, _ = read("spoofceleb:dev", root)
    assert utterances.ids == [f"{audio}/a00/id10318/Y-1.flac", f"{audio}/a06/id10318/Y-1.flac"]
    assert utterances.columns == {"speaker": ["id10318"] * 2, "attack": ["-", "a06"]}
    check_files([utterances])
    with pytest.raises(AsdfError, match=r"no metadata/evaluation\.csv"):
        read("spoofceleb:eval", root)


@pytest.mark.parametrize(
    ("name", "home", "variant"),
    [
        ("for:testing", "", "for-norm"),
        ("for:testing", "for-norm/", "for-norm"),
        ("for:testing", "for-norm/for-norm/", "for-norm"),
        ("for-2sec:testing", "for-2sec/for-2seconds/", "for-2sec"),
        ("for-rerec:testing", "for-rerecorded/", "for-rerec"),
        ("for-original:testing", "for-original/", "for-original"),
    ],
)
def test_fake_or_real(lay: Lay, read: Read, name: str, home: str, variant: str) -> None:
    real, fake = f"{home}testing/real", f"{home}testing/fake"
    root = lay(
        empty=f"{real}/b.wav_norm.wav\n{real}/a.WAV\n{real}/._a.WAV\n{fake}/c.mp3\n{fake}/notes.txt"
    )
    lay(empty=f"{home}training/real/other.wav")
    utterances, _ = read(name, root)
    assert utterances.ids == [f"{real}/a.WAV", f"{real}/b.wav_norm.wav", f"{fake}/c.mp3"]
    assert utterances.labels.tolist() == [1, 1, 0]
    assert utterances.columns == {"subset": ["testing"] * 3, "variant": [variant] * 3}


def test_a_variant_of_fake_or_real_is_not_taken_for_another(lay: Lay, read: Read) -> None:
    root = lay(empty="for-norm/training/real/a.wav")
    with pytest.raises(AsdfError, match="there is no folder for-2sec/training"):
        read("for-2sec:training", root)


SYSTEMS = {
    "ljspeech_full_band_melgan": ("ljspeech", "full_band_melgan", "en"),
    "jsut_multi_band_melgan": ("jsut", "multi_band_melgan", "ja"),
    "common_voices_prompts_from_conformer_fastspeech2_pwg_ljspeech": (
        "ljspeech",
        "common_voices_prompts_from_conformer_fastspeech2_pwg",
        "en",
    ),
}


@pytest.mark.parametrize("home", ["generated_audio/", ""])
def test_wavefake(lay: Lay, read: Read, home: str) -> None:
    root = lay(
        empty="".join(
            f"{home}{name}/gen 1.wav\n{home}{name}/._gen 1.wav\n" for name in SYSTEMS
        ).strip()
    )
    utterances, _ = read("wavefake", root)
    systems = sorted(SYSTEMS)
    assert (
        utterances.ids == [f"{home}{name}/gen 1.wav" for name in systems]
        and not utterances.labels.any()
    )
    assert utterances.columns == {
        "speaker": [SYSTEMS[name][0] for name in systems],
        "attack": systems,
        "vocoder": [SYSTEMS[name][1] for name in systems],
        "source": [SYSTEMS[name][0] for name in systems],
        "language": [SYSTEMS[name][2] for name in systems],
    }
    one, _ = read("wavefake:jsut_multi_band_melgan", root)
    assert one.ids == [f"{home}jsut_multi_band_melgan/gen 1.wav"] and one.columns["language"] == [
        "ja"
    ]
    with pytest.raises(AsdfError, match="no recordings of a system 'jsut'"):
        read("wavefake:jsut", root)
    # What the vocoders were trained on is no spoof.
    lay(empty=f"{home}LJSpeech-1.1/wavs/LJ001.wav\n{home}jsut_ver1.1/basic5000/wav/B.wav")
    assert read("wavefake", root)[0].ids == utterances.ids


HEADER = (
    "path|original_file|language|is_original_language|duration|training_data|model_name|"
    "architecture|transcript\n"
)


def test_mlaad_is_what_lies_on_disk_with_what_its_tables_say(lay: Lay, read: Read) -> None:
    one, two = "fake/de/facebook_mms-tts-deu", "fake/en/tts models vits"
    root = lay(
        {
            f"{one}/meta.csv": HEADER
            # A path of another system, a quote without an end, a recording that does not exist.
            + "./fake/en/elsewhere/a.wav|de_DE/by_book/x.wav|de|False|1.5|MMS|facebook/mms|VITS|"
            + '"Ja\n'
            + "./fake/de/facebook_mms-tts-deu/gone.wav|y.wav|de|False|1.5|MMS|facebook/mms|VITS|"
            + "Nein\n"
        },
        f"{one}/a.wav\n{one}/._a.wav\n{one}/b.WAV\n{two}/c.wav",
    )
    utterances, reading = read("mlaad", root)
    assert (
        utterances.ids == [f"{one}/a.wav", f"{one}/b.WAV", f"{two}/c.wav"]
        and not utterances.labels.any()
    )
    assert utterances.columns == {
        "attack": ["facebook_mms-tts-deu"] * 2 + ["tts models vits"],
        "language": ["de", "de", "en"],
        "source": ["de_DE/by_book/x.wav", "", ""],
        "original_language": ["False", "", ""],
        "training_data": ["MMS", "", ""],
        "model": ["facebook/mms", "", ""],
        "architecture": ["VITS", "", ""],
    }
    assert list(reading.notes) == [
        f"{one}/meta.csv names recordings that are not there: 1, such as gone.wav",
        f"{one}/meta.csv says nothing of recordings that are there: 1, such as b.WAV",
        f"{two} has no meta.csv, so no columns from it; recordings: 1",
    ]
    english, reading = read("mlaad:en", root)
    assert english.ids == [f"{two}/c.wav"] and compare_with_disk(
        reading, open_tree(root)
    ) == OnDisk([], [])
    with pytest.raises(AsdfError, match="no recordings of a language 'fr'"):
        read("mlaad:fr", root)


def test_languages_in_tars_of_their_own_are_a_part_of_mlaad(lay: Lay, read: Read) -> None:
    root = lay(empty="fake/de/x/a.wav\nfake/en/y/b.wav")
    with tarfile.open(root / "fake/de.tar", "w") as tar:
        tar.add(root / "fake/de", "de")
    shutil.rmtree(root / "fake/de")
    utterances, _ = read("mlaad", root)
    assert utterances.ids == ["fake/de/x/a.wav", "fake/en/y/b.wav"] and utterances.columns[
        "language"
    ] == ["de", "en"]
    assert read("mlaad:de", root)[0].ids == ["fake/de/x/a.wav"]
    check_files([utterances])


def test_m_ailabs(lay: Lay, read: Read) -> None:
    book = "en_US/by_book/male/elliot_miller/hunters_space"
    elliot = f"{book}/wavs"
    mix, deep = "de_DE/by_book/mix/sagen/wavs", "de_DE/by_book/mix/mix/various/wavs"
    root = lay(
        {f"{book}/metadata.csv": "h_1|One|One\nh_2|Two|Two\n"},
        f"{elliot}/h_1.wav\n{elliot}/._h_1.wav\n{mix}/s.wav\n{deep}/v.wav\nen_US/by_book/male/elliot_miller/info.txt",
    )
    utterances, reading = read("m-ailabs", root)
    assert (
        utterances.ids == [f"{deep}/v.wav", f"{mix}/s.wav", f"{elliot}/h_1.wav"]
        and utterances.labels.all()
    )
    assert utterances.columns == {
        "speaker": ["", "", "elliot_miller"],
        "attack": ["-", "-", "-"],
        "language": ["de_DE", "de_DE", "en_US"],
        "gender": ["mix", "mix", "male"],
        "book": ["various", "sagen", "hunters_space"],
    }
    assert list(reading.notes) == [
        f"{book}/metadata.csv names recordings that are not there: 1, such as h_2"
    ]
    assert read("m-ailabs:en_US", root)[0].ids == [f"{elliot}/h_1.wav"]
    with pytest.raises(AsdfError, match=r"no recordings fr_FR/by_book"):
        read("m-ailabs:fr_FR", root)
