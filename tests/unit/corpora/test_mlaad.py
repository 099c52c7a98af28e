"""MLAAD: spoofs by language and system, with their tables."""

from __future__ import annotations

import shutil
import tarfile

import pytest

from asdf.corpora.checking import OnDisk, compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files, open_tree

HEADER = (
    "path|original_file|language|is_original_language|duration|training_data|model_name|"
    "architecture|transcript\n"
)


def test_mlaad_is_what_lies_on_disk_with_what_its_tables_say(lay, read):
    first, second = "fake/de/facebook_mms-tts-deu", "fake/en/tts models vits"
    root = lay(
        {
            f"{first}/meta.csv": HEADER
            # A path of another system, a quote without an end, a recording that does not exist.
            + "./fake/en/elsewhere/a.wav|de_DE/by_book/x.wav|de|False|1.5|MMS|facebook/mms|VITS|"
            + '"Ja\n'
            + "./fake/de/facebook_mms-tts-deu/gone.wav|y.wav|de|False|1.5|MMS|facebook/mms|VITS|"
            + "Nein\n"
        },
        f"{first}/a.wav\n{first}/._a.wav\n{first}/b.WAV\n{second}/c.wav",
    )
    utterances, reading = read("mlaad", root)
    assert (
        utterances.ids == [f"{first}/a.wav", f"{first}/b.WAV", f"{second}/c.wav"]
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
        f"{first}/meta.csv names recordings that are not there: 1, such as gone.wav",
        f"{first}/meta.csv does not name recordings that are there: 1, such as b.WAV",
        f"{second} has no meta.csv, so no columns from it; recordings: 1",
    ]
    english, reading = read("mlaad:en", root)
    assert english.ids == [f"{second}/c.wav"] and compare_with_disk(
        reading, open_tree(root)
    ) == OnDisk([], [])
    with pytest.raises(AsdfError, match="no recordings of a language 'fr'"):
        read("mlaad:fr", root)


def test_a_line_of_a_table_without_its_path_is_noted(lay, read):
    table = "duration|path|model_name\n1.5\n2.5|./fake/de/x/a.wav|facebook/mms\n"
    root = lay({"fake/de/x/meta.csv": table}, "fake/de/x/a.wav")
    utterances, reading = read("mlaad", root)
    assert utterances.columns["model"] == ["facebook/mms"]
    assert list(reading.notes) == [
        "fake/de/x/meta.csv has lines that end before their path, left out: 1, such as line 2"
    ]


def test_languages_in_tars_of_their_own_are_a_part_of_mlaad(lay, read):
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
