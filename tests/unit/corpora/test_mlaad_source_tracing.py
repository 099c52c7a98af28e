"""MLAAD's protocols for source tracing: repeated lines, folders called otherwise, transcripts."""

from __future__ import annotations

import pytest

from asdf.corpora.checking import OnDisk, compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files, open_tree

FIRST, SECOND = "fake/de/facebook_mms-tts-deu", "fake/zh-cn/tts_models_zh_vits"
HEADER = "path,language,model_name,transcript\n"
TRAIN = (
    HEADER
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
    assert on_disk == OnDisk([], [f"{FIRST}/other.wav"])
    with pytest.raises(AsdfError, match=r"no mlaad4sourcetracing/dev\.csv"):
        read("mlaad-source-tracing:dev", root)


def test_protocols_and_recordings_may_lie_next_to_each_other(lay, read):
    root = lay(
        {"MLAADv5_for_sourcetracing/eval.csv": "\ufeff" + HEADER + f"./{FIRST}/a.wav,de,mms,x\n"},
        f"MLAADv5/{FIRST}/a.wav",
    )
    trials, _ = read("mlaad-source-tracing:eval", root)
    assert trials.ids == [f"MLAADv5/{FIRST}/a.wav"]
    check_files([trials])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,model\nx,y\n", "line 1: it has no column model_name, but path, model"),
        (HEADER + "x.wav,de,mms,x\n", "line 2: expected a path fake/"),
        (HEADER + f"{FIRST}/a.wav,de,,x\n", "line 2: expected a path fake/"),
        (HEADER + f"{FIRST}/a.wav,de,mms\n", "line 2: it has 3 columns, fewer than the header"),
        (HEADER, "no trials found"),
        (
            HEADER + f'{FIRST}/a.wav,de,mms,"x\n' + ("y" * 99 + "\n") * 1400,
            r"dev\.csv: a quoted value is not closed by line \d+ .*Is a quote missing above",
        ),
    ],
)
def test_a_damaged_protocol_is_refused(lay, read, text, message):
    root = lay({"mlaad4sourcetracing/dev.csv": text}, f"{FIRST}/a.wav")
    with pytest.raises(AsdfError, match=message):
        read("mlaad-source-tracing:dev", root)
