"""MLAAD, its protocols for source tracing, and M-AILABS."""

import pytest

from asdf.corpora.command import compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files, open_tree
from tests.unit.corpora.conftest import move_into_tar

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
    assert utterances.ids == [f"{first}/a.wav", f"{first}/b.WAV", f"{second}/c.wav"]
    assert not utterances.labels.any()
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
    assert english.ids == [f"{second}/c.wav"]
    assert compare_with_disk(reading, open_tree(root)) == ([], [])
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
    lay({"fake/de/x/meta.csv": f"{table}2.5|./fake/de/x/b.wav|facebook|mms\n"})
    with pytest.raises(AsdfError, match=r"meta\.csv, line 4: it has 4 cells, but"):
        read("mlaad", root)


def test_languages_in_tars_of_their_own_are_a_part_of_mlaad(lay, read):
    root = lay(empty="fake/de/x/a.wav\nfake/en/y/b.wav")
    move_into_tar(root / "fake/de", root / "fake/de.tar", "de")
    utterances, _ = read("mlaad", root)
    assert utterances.ids == ["fake/de/x/a.wav", "fake/en/y/b.wav"]
    assert utterances.columns["language"] == ["de", "en"]
    assert read("mlaad:de", root)[0].ids == ["fake/de/x/a.wav"]
    check_files([utterances])


FIRST, SECOND = "fake/de/facebook_mms-tts-deu", "fake/zh-cn/tts_models_zh_vits"
COLUMNS = "path,language,model_name,transcript\n"
TRAIN = (
    COLUMNS
    + f'./{FIRST}/a.wav,de,facebook/mms-tts-deu,"Ja, gut"\n'
    + "./fake/zh/tts_models_zh_vits/b.wav,zh,tts_models/zh/vits,x\n"
    # The same line again, and a transcript of two lines.
    + f'./{FIRST}/a.wav,de,facebook/mms-tts-deu,"Ja, gut"\n'
    + f'{FIRST}/c.wav,de,facebook/mms-tts-deu,"eins\nzwei"\n'
)


def test_the_protocols_name_models_and_count_a_recording_once(lay, read):
    audio = f"{FIRST}/a.wav\n{FIRST}/c.wav\n{FIRST}/other.wav\n{SECOND}/b.wav"
    root = lay({"mlaad4sourcetracing/train.csv": TRAIN}, audio)
    trials, reading = read("mlaad-source-tracing:train", root)
    assert trials.ids == [f"{FIRST}/a.wav", f"{SECOND}/b.wav", f"{FIRST}/c.wav"]
    assert not trials.labels.any()
    assert trials.columns == {
        "attack": ["facebook_mms-tts-deu", "tts_models_zh_vits", "facebook_mms-tts-deu"],
        "model": ["facebook/mms-tts-deu", "tts_models/zh/vits", "facebook/mms-tts-deu"],
        "language": ["de", "zh", "de"],
    }
    assert list(reading.notes) == [
        "mlaad4sourcetracing/train.csv repeats 1 lines, which count once"
    ]
    check_files([trials])
    on_disk = compare_with_disk(reading, open_tree(root))
    assert on_disk == ([], [f"{FIRST}/other.wav"])
    with pytest.raises(AsdfError, match=r"no mlaad4sourcetracing/dev\.csv"):
        read("mlaad-source-tracing:dev", root)


def test_protocols_and_recordings_may_lie_next_to_each_other(lay, read):
    root = lay(
        {"MLAADv5_for_sourcetracing/eval.csv": "\ufeff" + COLUMNS + f"./{FIRST}/a.wav,de,mms,x\n"},
        f"MLAADv5/{FIRST}/a.wav",
    )
    trials, _ = read("mlaad-source-tracing:eval", root)
    assert trials.ids == [f"MLAADv5/{FIRST}/a.wav"]
    check_files([trials])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,model\nx,y\n", "line 1: it has no column model_name, but path, model"),
        (COLUMNS + "x.wav,de,mms,x\n", "line 2: expected a path fake/"),
        (COLUMNS + f"{FIRST}/a.wav,de,,x\n", "line 2: expected a path fake/"),
        (COLUMNS + f"{FIRST}/a.wav,de,mms\n", "line 2: it has 3 cells, but the first line has 4"),
        (COLUMNS + f"{FIRST}/a.wav,de,mms,x, y\n", "line 2: it has 5 cells, but"),
        (COLUMNS, "no trials found"),
        (
            COLUMNS + f'{FIRST}/a.wav,de,mms,"x\n' + ("y" * 99 + "\n") * 1400,
            r"dev\.csv: a quoted value is not closed by line \d+ .*Is a quote missing above",
        ),
    ],
)
def test_a_damaged_protocol_is_refused(lay, read, text, message):
    root = lay({"mlaad4sourcetracing/dev.csv": text}, f"{FIRST}/a.wav")
    with pytest.raises(AsdfError, match=message):
        read("mlaad-source-tracing:dev", root)


def test_m_ailabs(lay, read):
    book = "en_US/by_book/male/elliot_miller/hunters_space"
    elliot = f"{book}/wavs"
    mix, deep = "de_DE/by_book/mix/sagen/wavs", "de_DE/by_book/mix/mix/various/wavs"
    root = lay(
        {f"{book}/metadata.csv": "h_1|One|One\nh_2|Two|Two\n"},
        f"{elliot}/h_1.wav\n{elliot}/._h_1.wav\n{mix}/s.wav\n{deep}/v.wav\n"
        "en_US/by_book/male/elliot_miller/info.txt",
    )
    utterances, reading = read("m-ailabs", root)
    assert utterances.ids == [f"{deep}/v.wav", f"{mix}/s.wav", f"{elliot}/h_1.wav"]
    assert utterances.labels.all()
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
