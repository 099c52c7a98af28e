"""Corpora on small trees laid out as they are distributed: a row a tree, a line a trial."""

import re
from collections.abc import Iterator
from itertools import product

import pytest

from asdf.corpora import KNOWN, choose, differences, find_tree
from asdf.corpora.command import compare_with_disk
from asdf.errors import AsdfError
from asdf.recipe.declared_corpora import set_parts
from asdf.segments import COLUMN
from asdf.trials.lists import check_files, open_tree
from tests.unit.corpora.conftest import move_into_tar
from tests.unit.corpora.test_protocols import ASVSPOOF5, CELEB, DF21, LA19, LA21, WILD

ADD22 = "ADD_T_00000000.wav genuine\nADD_T_00000001.wav fake\n"
TRACK1 = "ADD_E1_00000000.wav fake\nADD_E1_00000001.wav genuine\n"
ADD23 = "ADD2023_T1.2R2_E_00000003.wav genuine\nADD2023_T1.2R2_E_00000004.wav fake\n"
CODECFAKE = "SSB1.wav real 0\nF01_SSB1.wav fake 1\nF07_SSB1.wav fake 7\n"
DECRO = "unknown 20032123 - baidu spoof\nG0019 T0055G0019S0420 - aidatatang bonafide\n"
CTRSVDD = (
    "m4singer CtrSVDD_0110 CtrSVDD_0110_D_0015416 - - bonafide\n"
    "jvsmusic CtrSVDD_0097 CtrSVDD_0097_D_0010993 - A06 deepfake\n"
)
DIFFSSD = """filename,method_name,target,set
generated_speech/your_tts/speaker_1487/sentence_449.wav,your_tts,1,test
generated_speech/grad_tts/speaker_1487/sentence_449.wav,grad_tts,1,train
real_speech/librispeech/dev-clean/84/121123/84-121123-0000.flac,librispeech,0,test
real_speech/ljspeech/LJ001-0001.wav,ljspeech,0,test
"""
DEEPFAKE_EVAL = """Filename,Language,Ground Truth,Finetuning Set
1.mp3,en,Fake,Train
2.m4a,en,Real,Test
3.wav,de,Fake,Test
4.dat,de,Unknown,Test
"""
ESDD2 = """audio_path,label,speech_path,env_path
development/mix/1.wav,original,-,-
development/mix/2.wav,bonafide_bonafide,a.wav,b.wav
development/mix/3.wav,bonafide_spoof,a.wav,b.wav
development/mix/4.wav,spoof_bonafide,a.wav,b.wav
development/mix/5.wav,spoof_spoof,a.wav,b.wav
development/mix/6.wav,-,-,-
"""
PA19 = "PA_0079 PA_T_0000001 aaa - bonafide\nPA_0079 PA_T_0005401 aaa AA spoof\n"
PA21 = """PA_0010 PA_E_1000001 R3 M3 d4 r1 m1 s4 c4 spoof notrim eval
PA_0011 PA_E_1000002 R1 M1 D2 - - - - bonafide notrim eval
PA_0011 PA_E_1000003 R1 M1 D2 - - - - bonafide trim hidden
"""
HAD = """HAD_train_fake_1 0.00-1.43-T/1.43-2.02-F/2.02-4.03-T 0
HAD_train_fake_2 0.00-2.50-F 0
HAD_train_real_1 0.00-3.10-T 1
"""
LA_KEYS = (
    *("keys/LA/CM/", "ASVspoof2021_LA_eval/keys/LA/CM/", "LA-keys-full/keys/LA/CM/"),
    *("LA-keys-stage-1/keys/CM/", "ASVspoof2021_LA_eval/CM/", "ASVspoof2021_LA_eval/"),
)
DFADD = """
0|DATASET_MatchaTTS/test/p226_002.wav|MatchaTTS|test|p226
0|DATASET_PflowTTS/train/p345_251_pflow.wav|PflowTTS|train|p345
1|DATASET_VCTK_BONAFIDE/test/p226_001_mic1.flac|-|test|p226
1|DATASET_VCTK_BONAFIDE/train/p225_001_mic1.flac|-|train|p225"""
FAKEAVCELEB = """
0|FakeAVCeleb/FakeVideo-FakeAudio/Asian (East)/women/id1/y.mp4|Fake|Asian (East)|women|id1
1|FakeAVCeleb/FakeVideo-RealAudio/Asian (East)/women/id1/x.mp4|Fake|Asian (East)|women|id1
0|FakeAVCeleb/RealVideo-FakeAudio/African/men/id76/9_fake.mp4|Real|African|men|id76
1|FakeAVCeleb/RealVideo-RealAudio/African/men/id76/9.mp4|Real|African|men|id76"""
# The systems of WaveFake, with what follows from their names.
WAVEFAKE = """
0|{}common_voices_prompts_from_conformer_fastspeech2_pwg_ljspeech/gen 1.wav|ljspeech\
|common_voices_prompts_from_conformer_fastspeech2_pwg_ljspeech\
|common_voices_prompts_from_conformer_fastspeech2_pwg|ljspeech|en
0|{}jsut_multi_band_melgan/gen 1.wav|jsut|jsut_multi_band_melgan|multi_band_melgan|jsut|ja
0|{}ljspeech_full_band_melgan/gen 1.wav|ljspeech|ljspeech_full_band_melgan|full_band_melgan\
|ljspeech|en"""


def only(lines: str, part: str) -> str:
    """Return the trials in which a text occurs."""
    return "\n".join(line for line in lines.splitlines() if part in line)


# A tree a block: its name and columns, then a line a trial; {} stands for one of PLACES.
TREES = """
asvspoof19:train|speaker attack
1|LA/ASVspoof2019_LA_train/flac/LA_T_1.flac|LA_0079|-
0|LA/ASVspoof2019_LA_train/flac/LA_T_2.flac|LA_0080|A01

asvspoof19-pa:train|speaker environment attack
1|PA/ASVspoof2019_PA_train/flac/PA_T_0000001.flac|PA_0079|aaa|-
0|PA/ASVspoof2019_PA_train/flac/PA_T_0005401.flac|PA_0079|aaa|AA

asvspoof21-la:all|speaker codec transmission attack trim subset
0|ASVspoof2021_LA_eval/flac/LA_E_1.flac|LA_0009|alaw|ita_tx|A07|notrim|eval
1|ASVspoof2021_LA_eval/flac/LA_E_2.flac|LA_0010|none|loc_tx|-|notrim|progress
1|ASVspoof2021_LA_eval/flac/LA_E_3.flac|LA_0011|gsm|mad_tx|-|trim|hidden

asvspoof5:dev|speaker gender codec codec_q codec_seed attack_tag attack
0|{1}/D_1.flac|D_4461|F|-|-|-|AC1|A14
1|{1}/D_2.flac|D_0461|M|-|-|-|-|-
0|{1}/E_3.flac|E_1607|M|C05|2|E_0009486171|AC1|A26

in-the-wild|speaker
0|{0}0.wav|Alec Guinness
1|{0}1.wav|Guinness, Alec

spoofceleb:dev|speaker attack
1|{0}flac/{1}/a00/id10318/Y-1.flac|id10318|-
0|{0}flac/{1}/a06/id10318/Y-1.flac|id10318|a06

add22:train|
1|ADD_train_dev/train/ADD_T_00000000.wav
0|ADD_train_dev/train/ADD_T_00000001.wav

add22:track1|
0|track1test/ADD_E1_00000000.wav
1|track1test/ADD_E1_00000001.wav

add22:track3-r2|
0|ADD2022track3.2_eval_R2/wav/ADD_E1_00000000.wav
1|ADD2022track3.2_eval_R2/wav/ADD_E1_00000001.wav

add23:test-r2|
1|Track1.2/testR2/wav/ADD2023_T1.2R2_E_00000003.wav
0|Track1.2/testR2/wav/ADD2023_T1.2R2_E_00000004.wav

add23-track3:test|attack
1|test/wav/ADD2023_T3_E_1.wav|-
0|test/wav/ADD2023_T3_E_2.wav|algorithm-7

codecfake-xie:{0}|attack
1|{1}/SSB1.wav|-
0|{1}/F01_SSB1.wav|F01
0|{1}/F07_SSB1.wav|F07

decro:ch_dev|speaker attack
0|petrichorwq-DECRO-dataset-6fc9884/ch_dev/20032123.wav|unknown|baidu
1|petrichorwq-DECRO-dataset-6fc9884/ch_dev/T0055G0019S0420.wav|G0019|-

ctrsvdd:dev|source speaker attack
1|dev_set/CtrSVDD_0110_D_0015416.flac|m4singer|CtrSVDD_0110|-
0|dev_set/CtrSVDD_0097_D_0010993.flac|jvsmusic|CtrSVDD_0097|A06

diffssd:test|attack subset
0|generated_speech/your_tts/speaker_1487/sentence_449.wav|your_tts|test
1|real_speech/LibriSpeech/dev-clean/84/121123/84-121123-0000.flac|-|test
1|real_speech/LJSpeech-1.1/wavs/LJ001-0001.wav|-|test

deepfake-eval-2024:test|subset
1|audio-data/2.mp4|Test
0|audio-data/3.wav|Test

at-add-track1:train|
1|T1/train/a.wav
0|T1/train/b.wav

at-add-track2:train|type
1|T2/train/a.wav|music
0|T2/train/b.wav|music

esdd2:train|component speech environment
1|development/mix/1.wav|original|bonafide|bonafide
1|development/mix/2.wav|bonafide_bonafide|bonafide|bonafide
0|development/mix/3.wav|bonafide_spoof|bonafide|spoof
0|development/mix/4.wav|spoof_bonafide|spoof|bonafide
0|development/mix/5.wav|spoof_spoof|spoof|spoof

had:train|{2}
0|{0}HAD_train/{1}/HAD_train_fake_1.wav|1.43-2.02
0|{0}HAD_train/{1}/HAD_train_fake_2.wav|0-2.5
1|{0}HAD_train/{1}/HAD_train_real_1.wav|-

{0}:testing|subset variant
1|{1}testing/real/a.WAV|testing|{2}
1|{1}testing/real/b.wav_norm.wav|testing|{2}
0|{1}testing/fake/c.mp3|testing|{2}

cfad:clean-train|version part attack source
0|CFAD/clean_version/train_clean/fake_clean/gl/SSB00050001_gl.wav|clean|train|gl|
1|CFAD/clean_version/train_clean/real_clean/aishell1/BAC009.wav|clean|train|-|aishell1

cfad:clean-test_seen|version part attack source
0|CFAD/clean_version/test_seen_clean/fake_clean/gl/SSB07800001_gl.wav|clean|test_seen|gl|

cfad:noisy-dev|version part attack source
1|CFAD/noisy_version/dev_noise/real_noise/thchs30/a.wav|noisy|dev|-|thchs30

cfad:codec-test_seen|version part attack source
0|CFAD/codec_version/test_seen_codec/fake_codec/lpcnet/SSB.wav|codec|test_seen|lpcnet|

odss|attack source speaker
0|odss/fastpitch-hifigan/vctk/p234/b.wav|fastpitch-hifigan|vctk|p234
1|odss/natural/vctk/p234/p234_344.wav|-|vctk|p234
0|odss/vits/hui/Hokuspokus/a.wav|vits|hui|Hokuspokus

habla|attack accent speaker language
0|FinalDataset_16khz/CycleGAN/Venezuela-Argentina/vem_02484-arm_01523/C.wav|CycleGAN\
|Venezuela-Argentina|vem_02484-arm_01523|es
1|FinalDataset_16khz/Real/Chile/clf_07508/clf_07508_00799857148.wav|-|Chile|clf_07508|es
0|FinalDataset_16khz/TTS/Peru/TTS-pef_1_2.wav|TTS|Peru||es

librisevoc|attack speaker language
1|LibriSeVoc/gt/27_123349_000006_000000.wav|-|27|en
0|LibriSeVoc/parallel_wave_gan/3526_1_gen.wav|parallel_wave_gan|3526|en

sonar|attack
0|SONAR_dataset/AudioGen/3.wav|AudioGen
0|SONAR_dataset/VALLE/2.wav|VALLE
1|SONAR_dataset/real_samples/1.wav|-

codecfake-wu|attack speaker language
0|processed/dac_16k+s5_001.wav|dac_16k|s5|en
0|processed/encodec_24khz+p272_103.wav|encodec_24khz|p272|en

pyara|attack language
0|Fake/alg_1_0.wav|alg_1|ru
0|Fake/alg_5_3.wav|alg_5|ru
1|Real/real_1.wav|-|ru

xmad|language source
0|de/masc/fake/1.wav|de|masc
1|de/masc/real/1.wav|de|masc

cvoicefake|language attack
1|de/Bonafide/1.mp3|de|-
0|de/world_generated/1.mp3|de|world_generated

deep-voice|
0|KAGGLE/AUDIO/FAKE/a-to-b.wav
1|KAGGLE/AUDIO/REAL/obama.wav

ljspeech|speaker language
1|wavs/LJ001-0001.wav|LJ|en
"""
LABEL_FILES = {
    "asvspoof19:train": ("LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm.train.trn.txt", LA19),
    "asvspoof19-pa:train": (
        "PA/ASVspoof2019_PA_cm_protocols/ASVspoof2019.PA.cm.train.trn.txt",
        PA19,
    ),
    "asvspoof21-la:all": ("{0}trial_metadata.txt", LA21),
    "asvspoof5:dev": ("{0}ASVspoof5.dev.track_1.tsv", ASVSPOOF5),
    "in-the-wild": ("{0}meta.csv", WILD),
    "spoofceleb:dev": ("{0}metadata/{1}.csv", CELEB),
    "add22:train": ("ADD_train_dev/label/train_label.txt", ADD22),
    "add22:track1": ("eval_track1/label.txt", TRACK1),
    "add22:track3-r2": ("ADD2022track3.2_eval_R2/track3_R2_label.txt", TRACK1),
    "add23:test-r2": ("Track1.2/testR2/label.txt", ADD23),
    "add23-track3:test": ("test/label.txt", "ADD2023_T3_E_1.wav 0\nADD2023_T3_E_2.wav 7\n"),
    "codecfake-xie:{0}": ("label/{0}.txt", CODECFAKE),
    "decro:ch_dev": ("petrichorwq-DECRO-dataset-6fc9884/ch_dev.txt", DECRO),
    "ctrsvdd:dev": ("dev.txt", CTRSVDD),
    "diffssd:test": ("train_val_test_splits.csv", DIFFSSD),
    # A suffix on the disk may be another one than in the table.
    "deepfake-eval-2024:test": ("audio-metadata-publish.csv", DEEPFAKE_EVAL),
    "at-add-track1:train": ("T1/label/train.csv", "\ufeffname,label\na.wav,real\nb.wav,fake\n"),
    "at-add-track2:train": (
        "T2/label/train.csv",
        "\ufeffname,type,label\na.wav,music,real\nb.wav,music,fake\n",
    ),
    "esdd2:train": ("development/metadata/train.csv", ESDD2),
    "had:train": ("{0}HAD_train/HAD_train_label.txt", HAD),
}
PLACES = {
    "asvspoof21-la:all": [(home,) for home in LA_KEYS],
    "asvspoof5:dev": [
        *(("", "flac_D"), ("ASVspoof5_protocols/", "flac_D")),
        ("ASVspoof5_protocols/", "ASVspoof5_dev/flac_D"),
    ],
    "in-the-wild": [("",), ("release_in_the_wild/",)],
    "spoofceleb:dev": [("", "development"), ("spoofceleb/", "dev")],
    "codecfake-xie:{0}": [("train", "train"), ("C7", "test/C7")],
    "had:train": [*product(("", "HAD/"), ("conbine", "train/conbine"), (COLUMN,))],
    "{0}:testing": [
        *(("for", home, "for-norm") for home in ("for-norm/", "for-norm/for-norm/")),
        ("for-2sec", "for-2sec/for-2seconds/", "for-2sec"),
        ("for-rerec", "for-rerecorded/", "for-rerec"),
        ("for-original", "for-original/", "for-original"),
    ],
}


def all_trees() -> Iterator[tuple[str, dict[str, str], str, str]]:
    """Yield the name, the label files, the columns and the trials of each tree in each place."""
    for block in TREES.strip().split("\n\n"):
        name, columns, trials = re.fullmatch(r"(.*)\|(.*)\n([\s\S]*)", block).groups()
        path, text = LABEL_FILES.get(name, ("", ""))
        for place in PLACES.get(name, [()]):
            files = {path.format(*place): text} if path else {}
            yield name.format(*place), files, columns.format(*place), trials.format(*place)
    for home in ("generated_audio/", ""):
        columns = "speaker attack vocoder source language"
        yield "wavefake", {}, columns, WAVEFAKE.replace("{}", home)
    for subset in ("train", "test"):
        yield f"dfadd:{subset}", {}, "attack subset speaker", only(DFADD, f"|{subset}|")
    yield "fakeavceleb:real-video", {}, "video race gender speaker", only(FAKEAVCELEB, "|Real|")


@pytest.mark.parametrize(
    ("name", "files", "columns", "trials"),
    list(all_trees()),
    ids=[f"{number} {tree[0]}" for number, tree in enumerate(all_trees())],
)
def test_a_corpus_as_it_is_distributed(lay, read, name, files, columns, trials):
    rows = [line.split("|") for line in trials.strip().splitlines()]
    ids = [row[1] for row in rows]
    # What other systems add is no recording.
    hidden = "/._".join(ids[0].rsplit("/", 1)) if "/" in ids[0] else f"._{ids[0]}"
    corpus = choose(name).corpus
    folder = corpus.folders[0]
    base = lay(files, "\n".join([*ids, hidden]), folder=folder or "base")
    base = base.parent if folder else base
    tree = find_tree(corpus, base)
    assert tree.root == base / folder
    # The path of its own folder instead of the one around it.
    assert find_tree(corpus, base / folder, itself=True).root == base / folder
    utterances, reading = read(name, tree.root)
    assert list(utterances.ids) == ids
    assert utterances.labels.tolist() == [int(row[0]) for row in rows]
    values = zip(*(row[2:] for row in rows), strict=True)
    assert utterances.columns == {
        column: list(cells) for column, cells in zip(columns.split(), values, strict=True)
    }
    check_files([utterances])
    assert compare_with_disk(reading, tree) == ([], [])


def test_subsets_of_one_label_file(lay, read):
    root = lay(
        {"keys/LA/CM/trial_metadata.txt": LA21, "audio-metadata-publish.csv": DEEPFAKE_EVAL},
        "\n".join(f"ASVspoof2021_LA_eval/flac/LA_E_{number}.flac" for number in (1, 2, 3)),
    )
    utterances, reading = read("asvspoof21-la:eval", root)
    assert utterances.ids == ["ASVspoof2021_LA_eval/flac/LA_E_1.flac"] and not reading.notes
    assert reading.others == {f"ASVspoof2021_LA_eval/flac/LA_E_{number}.flac" for number in (2, 3)}
    assert read("asvspoof21-la:all", root)[1].notes == [
        "these are all trials, of eval, progress and hidden; published numbers are of subset eval "
        "only"
    ]
    _, reading = read("deepfake-eval-2024:test", root)
    assert reading.notes == ["lines of neither class, left out: 1, such as 4.dat"]
    assert len(read("deepfake-eval-2024:all", root)[0]) == 3


def test_words_and_names_outside_of_a_subset_say_nothing_of_it(lay, read):
    lines = "Filename,Ground Truth,Finetuning Set\n1.mp3,Real,Test\n2.mp3,,Train\n"
    root = lay({"audio-metadata-publish.csv": lines})
    assert read("deepfake-eval-2024:test", root)[0].ids == ["audio-data/1.mp3"]
    for subset in ("all", "train"):
        with pytest.raises(AsdfError, match="line 3: '' means neither bona fide nor spoof"):
            read(f"deepfake-eval-2024:{subset}", root)


@pytest.mark.parametrize(
    ("name", "labels", "text", "audio"),
    [
        ("decro:en_dev", "DECRO-dataset/en_dev.txt", DECRO, "en_dev/{}"),
        ("decro:en_dev", "en_dev.txt", DECRO, "DECRO-dataset/en_dev/{}"),
        ("at-add-track1:dev", "label/dev.csv", "name,label\na.wav,real\n", "T1/dev/{}"),
        ("codecfake-xie:C1", "label/C1.txt", "a.wav real 0\n", "Codecfake/test/C1/{}"),
    ],
)
def test_labels_and_recordings_may_be_unpacked_into_different_folders(
    lay, read, name, labels, text, audio
):
    listed, _ = read(name, lay({labels: text}, folder="a"))
    paths = [audio.format(path.rpartition("/")[2]) for path in listed.ids]
    utterances, _ = read(name, lay({labels: text}, "\n".join(paths), folder="b"))
    assert utterances.ids == paths


def test_keys_of_the_other_track_are_not_taken_for_its_own(lay, read):
    root = lay({"keys/CM/trial_metadata.txt": DF21}, "ASVspoof2021_LA_eval/flac/LA_E_1.flac")
    with pytest.raises(AsdfError, match=r"no keys/LA/CM/trial_metadata.txt.*LA-keys-full\.tar\.gz"):
        read("asvspoof21-la:eval", root)
    lay({"trial_metadata.txt": LA21})
    assert read("asvspoof21-la:eval", root)[0].ids == ["ASVspoof2021_LA_eval/flac/LA_E_1.flac"]


@pytest.mark.parametrize(
    ("name", "keys", "ids"),
    [
        ("asvspoof21-df:eval", {"DF-keys-full/keys/DF/CM/trial_metadata.txt": DF21}, "DF_E_"),
        ("asvspoof21-pa:eval", {"PA-keys-full/keys/PA/CM/trial_metadata.txt": PA21}, "PA_E_100000"),
    ],
)
def test_the_parts_of_2021_are_one_corpus_however_they_were_unpacked(lay, read, name, keys, ids):
    whole = f"ASVspoof2021_{ids[:2]}_eval"
    parts = [
        f"{whole}_part{part:02d}/{whole}/flac/{ids}{number}.flac"
        for number, part in ((1, 0), (2, 3), (3, 6))
    ]
    apart = lay(keys, "\n".join(parts), folder="apart")
    utterances, reading = read(name, apart)
    check_files([utterances])
    assert set(utterances.ids) | reading.others == set(parts)
    assert compare_with_disk(reading, open_tree(apart)) == ([], [])
    joined = [f"{whole}/flac/{ids}{number}.flac" for number in (1, 2)]
    # One part was left behind, and one not yet moved.
    both = lay(keys, "\n".join([*joined, *parts[1:]]), folder="whole")
    utterances, reading = read(name, both)
    check_files([utterances])
    assert set(utterances.ids) | reading.others == {*joined, parts[2]}


def test_the_tars_of_asvspoof_5_may_stay_as_they_are(lay, read):
    """Each of them unpacks into the same folder, which would count if it were there."""
    root = lay({"ASVspoof5.eval.track_1.tsv": ASVSPOOF5}, "a/D_1.flac\na/D_2.flac\nj/E_3.flac")
    for part in "aj":
        move_into_tar(root / part, root / f"flac_E_a{part}.tar", "flac_E_eval")
    utterances, reading = read("asvspoof5:eval", root)
    assert utterances.ids == [
        *("flac_E_aa/flac_E_eval/D_1.flac", "flac_E_aa/flac_E_eval/D_2.flac"),
        "flac_E_aj/flac_E_eval/E_3.flac",
    ]
    assert compare_with_disk(reading, open_tree(root)) == ([], [])
    # An unpacked folder counts alone: an index of a tar takes minutes, if it can be read at all.
    lay(empty="flac_E_eval/D_1.flac")
    (root / "flac_E_ab.tar").write_bytes(b"no tar")
    assert read("asvspoof5:eval", root)[1].audio == ("flac_E_eval",)


def test_recordings_of_several_methods_with_one_file_name(lay, read):
    end = "tts/speaker_1487/sentence_449.wav"
    paths = [f"generated_speech/your_{end}", f"generated_speech/grad_{end}"]
    root = lay({"train_val_test_splits.csv": DIFFSSD}, "\n".join(paths))
    assert read("diffssd:train", root)[0].ids == [paths[1]]


def test_recordings_that_are_missing_are_named_where_the_distribution_has_them(lay, read):
    utterances, _ = read("ctrsvdd:dev", lay({"dev.txt": CTRSVDD}))
    assert utterances.ids[0] == "dev_set/CtrSVDD_0110_D_0015416.flac"
    with pytest.raises(AsdfError, match="2 of the 2 files of ctrsvdd:dev are not in"):
        check_files([utterances])


def test_the_folder_of_a_variant_of_fake_or_real(lay, read):
    trials, _ = read("for:testing", lay(empty="testing/real/a.wav\ntesting/fake/b.wav"))
    assert trials.ids == ["testing/real/a.wav", "testing/fake/b.wav"]


def test_one_system_and_what_the_vocoders_were_trained_on(lay, read):
    ids = [line.split("|")[1] for line in WAVEFAKE.replace("{}", "").strip().splitlines()]
    root = lay(empty="\n".join(ids))
    melgan, _ = read("wavefake:jsut_multi_band_melgan", root)
    assert melgan.ids == ids[1:2] and melgan.columns["language"] == ["ja"]
    lay(empty="LJSpeech-1.1/wavs/LJ001.wav\njsut_ver1.1/basic5000/wav/B.wav")
    assert read("wavefake", root)[0].ids == ids


def test_the_sound_of_all_videos_and_sound_next_to_its_video(lay, read):
    root = lay(empty="\n".join(line.split("|")[1] for line in FAKEAVCELEB.strip().splitlines()))
    everything, _ = read("fakeavceleb", root)
    assert everything.columns["video"] == ["Fake", "Fake", "Real", "Real"]
    assert everything.labels.tolist() == [0, 1, 0, 1]
    sound = "FakeAVCeleb/RealVideo-RealAudio/African/men/id76/9.wav"
    lay(empty=sound)
    again, _ = read("fakeavceleb", root)
    assert len(again) == 4 and sound in again.ids


def test_a_corpus_in_a_tar(lay, read, tmp_path):
    paths = "\n".join(line.split("|")[1] for line in DFADD.strip().splitlines())
    folder = lay(empty=paths, folder="DFADD")
    unpacked, _ = read("dfadd:train", folder)
    move_into_tar(folder, tmp_path / "DFADD.tar", "DFADD")
    packed, reading = read("dfadd:train", tmp_path / "DFADD")
    assert packed.ids == unpacked.ids
    assert compare_with_disk(reading, open_tree(tmp_path / "DFADD")) == ([], [])


def test_what_does_not_fit_is_left_out_with_a_note(lay, read):
    root = lay(empty="LibriSeVoc/gt/27_1.wav\nLibriSeVoc/hifigan/27_1_2_3.wav")
    utterances, reading = read("librisevoc", root)
    assert len(utterances) == 1
    assert list(reading.notes) == [
        "recordings outside the corpus's layout, left out: 1, such as "
        "LibriSeVoc/hifigan/27_1_2_3.wav"
    ]


EVAL_2024 = ("deepfake-eval-2024:test", "audio-metadata-publish.csv")
COLUMNS_2024 = "Filename,Ground Truth,Finetuning Set"
ESDD2_TRAIN = ("esdd2:train", "development/metadata/train.csv")
UNCLOSED = "a quoted value is not closed by line 3"
ELSEWHERE = "CFAD/clean_version/train_clean/x.wav"
NOT_HIDDEN = "".join(line for line in LA21.splitlines(True) if "hidden" not in line)


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("decro:en_dev", "en_dev.txt", "a b c\n", "line 1: expected 'SPEAKER UTTERANCE - ATTACK K"),
        ("decro:en_dev", "en_dev.txt", "a b - c fale\n", "line 1: 'fale' means neither bona fide"),
        ("ctrsvdd:dev", "test.txt", CTRSVDD, "there is no dev.txt. It comes next to th"),
        (
            "diffssd:test",
            "train_val_test_splits.csv",
            "filename,method_name,set\n",
            "line 1: it has no column label, target, but filename, method_name, set",
        ),
        (*EVAL_2024, f"{COLUMNS_2024}\n1.mp3,Fake\n", "line 2: it has 2 cells, but the first line"),
        (*ESDD2_TRAIN, ESDD2.replace("original", "mixed"), "line 2: 'mixed' means neither bona fi"),
        # A class alone does not say which component is spoofed, or which algorithm made it.
        (*ESDD2_TRAIN, ESDD2.replace("spoof_spoof", "spoof"), "line 6: 'spoof' means neither bona"),
        ("add23-track3:dev", "dev/label.txt", "a.wav 0\nb.wav fake\n", "line 2: 'fake' means nei"),
        (
            "at-add-track1:dev",
            "label/dev.csv",
            "name,label\na,real\nb,fake,x\n",
            "3: it has 3 cells",
        ),
        ("esdd2:val", "development/metadata/val.csv", "audio_path,label\n,-\n", "2: it names no r"),
        *(
            (
                *EVAL_2024,
                f'{COLUMNS_2024},Text\n1.mp3,Fake,Test,"x\n2.mp3,Real,Test,{last}\n',
                UNCLOSED,
            )
            for last in ("y", '"y"')
        ),
        (
            "asvspoof21-la:hidden",
            "trial_metadata.txt",
            NOT_HIDDEN,
            "no trial of a subset 'hidden'.",
        ),
        ("at-add-track1:eval", "x", "", "no T1/label/eval.csv. Labels are in T1/label: train.csv"),
        ("asvspoof5:train", "x", "", "no ASVspoof5.train.tsv. Nor is it in ASVspoof5_protocols."),
        ("spoofceleb:eval", "x", "", "no metadata/evaluation.csv"),
        ("had:test", "x", "", "no HAD_test/HAD_test_label.txt"),
        ("had:dev", "HAD_dev/HAD_dev_label.txt", "", "no trials found"),
        ("for-2sec:training", "for-norm/training/real/a.wav", "", "no folder for-2sec/training"),
        ("wavefake:jsut", "jsut_melgan/a.wav", "", "no recordings of subset 'jsut' found"),
        (
            "cfad:clean-dev",
            ELSEWHERE,
            "",
            f"; recordings elsewhere: 1, such as {ELSEWHERE}. Was it",
        ),
    ],
)
def test_what_does_not_fit_is_named(lay, read, name, file, text, message):
    root = lay({file: text})
    with pytest.raises(AsdfError) as caught:
        read(name, root)
    assert str(root) in str(caught.value) and message in str(caught.value)


def test_wavefake_and_ljspeech_are_a_set(lay, read):
    assert set_parts("wavefake+ljspeech", {}) == ["wavefake", "ljspeech"]
    trials, _ = read("ljspeech", lay(empty="wavs/LJ001-0001.wav"))
    assert differences(choose("ljspeech"), trials.labels) == [
        "ljspeech has 1 trials, published 13,100: 13,099 bona fide missing"
    ]
    assert KNOWN["ljspeech"].subsets == ()
