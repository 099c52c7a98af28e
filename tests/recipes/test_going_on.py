"""A run that goes on in a folder: what it removes, what it reports, and what it records."""

import json
import shutil
import sys

import pytest
import soundfile

from asdf.__main__ import main
from asdf.settings import Settings

TRAIN = ("debug", "recipe.end_stage=1")


def test_of_two_checkpoints_the_newer_is_gone_on_from(recipe, capsys):
    recipe.call(capsys, *TRAIN, "network.max_epochs=2").ok()
    networks = recipe.system() / "networks"
    # As a kill between the writing of epoch.2.pt and the removal of resume.pt leaves it.
    shutil.copy(networks / "epoch.1.pt", networks / "resume.pt")
    outcome = recipe.call(capsys, *TRAIN, "network.max_epochs=2").ok()
    assert "going on from epoch.2.pt" in outcome.output
    assert sorted(path.name for path in networks.glob("*.pt")) == ["epoch.1.pt", "epoch.2.pt"]
    # A newer one inside an epoch stays.
    (networks / "epoch.2.pt").rename(networks / "resume.pt")
    outcome = recipe.call(capsys, *TRAIN, "network.max_epochs=2")
    assert "going on from resume.pt" in outcome.output
    assert sorted(path.name for path in networks.glob("*.pt")) == ["epoch.1.pt", "resume.pt"]


def record_of(recipe) -> list[dict]:
    return json.loads((recipe.system() / "environment.json").read_text())


def notes_of(settings) -> list[str]:
    """Return what settings.py says of earlier steps."""
    _, _, notes = settings.read_text().partition("\n# Other values of earlier steps:\n")
    return [line.removeprefix("# ") for line in notes.splitlines()]


def test_other_settings_are_reported_once_each_and_those_of_each_start_are_saved(recipe, capsys):
    words = ("network.initial_learning_rate=0.003", "network.max_epochs=1")
    recipe.call(capsys, *TRAIN, *words).ok()
    system = recipe.system()
    first = (system / "settings.py").read_text()
    words = ("network.initial_learning_rate=0.01", "network.minibatch_size=6")
    words += ("network.max_epochs=2", "computing.threads=2")
    outcome = recipe.call(capsys, *TRAIN, *words).ok()
    lines = outcome.output.splitlines()
    going_on = lines.index("going on from epoch.1.pt: epoch 1, step 7")
    changes = [
        "warning: network.minibatch_size was 4 up to step 7, is 6 from here",
        "warning: network.initial_learning_rate was 0.003 up to step 7, is 0.01 from here",
        "network.max_epochs was 1 up to step 7, is 2 from here",
    ]
    assert sorted(notes_of(system / "settings.py")) == sorted(
        line.removeprefix("warning: ") for line in changes
    )
    # Settings that change no result are no line, as computing.threads.
    assert sorted(lines[going_on + 1 : going_on + 4]) == sorted(changes)
    assert outcome.output.count(" up to step 7") == 3
    log = (system / "log.txt").read_text()
    assert all(change in log for change in changes)
    assert (system / "starts" / "1" / "settings.py").read_text() == first
    assert notes_of(system / "starts" / "1" / "settings.py") == []
    assert "0.01" in (system / "settings.py").read_text()
    start, other = record_of(recipe)
    assert (start["trained_from"], other["trained_from"]) == (0, 7)
    assert start["changes"] == []
    warnings = [line.removeprefix("warning: ") for line in changes[:2]]
    assert sorted(other["changes"]) == sorted(warnings)
    assert other["planned_changes"] == changes[2:]
    assert not (system / "starts" / "1" / "code").exists()
    recipe.call(capsys, "debug", "network.max_epochs=2", "recipe.start_stage=2").ok()
    # A start that trains nothing still says how the network was trained.
    assert sorted(notes_of(system / "settings.py")) == sorted([*warnings, changes[2]])
    assert Settings(system / "settings.py").network.minibatch_size == 4
    page = (system / "results" / "report.html").read_text()
    assert all(sentence in page for sentence in warnings) and changes[2] not in page
    assert main(["compare", str(system), str(system), "--replicates", "20"]) == 0
    assert f"\n   {other['changes'][0]}\n" in capsys.readouterr().out


def test_a_longer_training_says_how_its_schedule_is_stretched(recipe, capsys):
    """A cosine is .5 after a half and .655 after .4; its last steps begin at 24/26 and 50/52."""
    words = (*TRAIN, "network.schedule='cosine'", "network.warmup_steps=0")
    recipe.call(capsys, *words, "network.max_epochs=1").ok()
    outcome = recipe.call(capsys, *words, "network.max_epochs=2")
    stretched = "the schedule 'cosine' is stretched to the new length: the rate goes from {} back "
    stretched += "to {}"
    assert stretched.format("4.36e-05", 0.0015) in outcome.output.splitlines()
    outcome = recipe.call(capsys, *words, "network.max_epochs=5", "network.max_steps=42")
    assert stretched.format("1.09e-05", 0.00196) in outcome.output.splitlines()
    assert "network.max_steps was None up to step 14, is 42 from here\n" in outcome.output
    # The same length again, and another schedule that is longer.
    assert "the schedule" not in recipe.call(capsys, *words, "network.max_epochs=5").output
    outcome = recipe.call(capsys, *TRAIN, "network.schedule='step'", "network.max_epochs=6")
    assert " up to step 35, is 6 from here\n" in outcome.output
    assert "the schedule" not in outcome.output


@pytest.mark.slow
def test_the_same_settings_again_are_neither_reported_nor_saved_twice(recipe, capsys):
    for epochs in (1, 1, 2, 2):
        outcome = recipe.call(capsys, *TRAIN, f"network.max_epochs={epochs}").ok()
    assert "warning: network" not in outcome.output and " up to step" not in outcome.output
    assert [path.name for path in (recipe.system() / "starts").iterdir()] == ["2"]


@pytest.mark.slow
def test_changes_are_those_since_the_start_that_trained_the_steps_before(recipe, capsys):
    """A start with other settings that ended before it had saved a step counts for nothing."""
    rate = "network.initial_learning_rate"
    recipe.call(capsys, *TRAIN, f"{rate}=0.003", "network.max_epochs=1").ok()
    # Nothing is trained: the epochs are done.
    outcome = recipe.call(capsys, *TRAIN, f"{rate}=0.01", "network.max_epochs=1")
    assert f"{rate} was 0.003 up to step 7, is 0.01 from here" in outcome.output
    outcome = recipe.call(capsys, *TRAIN, f"{rate}=0.02", "network.max_epochs=2")
    assert f"{rate} was 0.003 up to step 7, is 0.02 from here" in outcome.output
    outcome = recipe.call(capsys, *TRAIN, f"{rate}=0.003", "network.max_epochs=3")
    assert f"{rate} was 0.02 up to step 14, is 0.003 from here" in outcome.output
    assert [start["trained_from"] for start in record_of(recipe)] == [0, 7, 7, 14]
    for number, value in ((1, "0.003"), (2, "0.01"), (3, "0.02")):
        text = (recipe.system() / "starts" / str(number) / "settings.py").read_text()
        assert f"\n{rate} = {value} " in text
    of_rate = [note for note in notes_of(recipe.system() / "settings.py") if rate in note]
    assert of_rate == [
        f"{rate} was 0.003 up to step 7, is 0.02 from here",
        f"{rate} was 0.02 up to step 14, is 0.003 from here",
    ]


@pytest.mark.slow
def test_own_code_that_was_edited_is_reported_and_both_versions_are_saved(trained, capsys):
    recipe = trained
    code = recipe.folder / "small_networks.py"
    before = code.read_bytes()
    code.write_bytes(before + b"\n# edited\n")
    sys.modules.pop("small_networks", None)
    outcome = recipe.call(capsys, *TRAIN, "network.max_epochs=2")
    saved = "starts/1/code/small_networks.py"
    sentence = f"small_networks.py differs from the code of the steps up to 7 ({saved})"
    assert f"warning: {sentence}\n" in outcome.output
    assert (recipe.system() / saved).read_bytes() == before
    assert (recipe.system() / "code" / "small_networks.py").read_bytes() == code.read_bytes()
    assert sentence in record_of(recipe)[1]["changes"]


def test_other_versions_are_reported(trained, capsys):
    path = trained.system() / "environment.json"
    starts = json.loads(path.read_text())
    now = starts[0]["versions"]["torch"]
    starts[0]["versions"]["torch"] = "2.1.0"
    starts[0]["python"] = "3.10.1"
    path.write_text(json.dumps(starts))
    outcome = trained.call(capsys, *TRAIN, "network.max_epochs=2")
    assert f"warning: torch was 2.1.0 up to step 7, is {now} from here\n" in outcome.output
    assert "warning: Python was 3.10.1 up to step 7, is " in outcome.output


def replace_recording(corpus, name: str) -> None:
    """Let the first recording of a list be another one of the same length."""
    line = (corpus / f"{name}_list.txt").read_text().splitlines()[0]
    path = corpus / line.rpartition(" ")[0]
    samples, rate = soundfile.read(path)
    soundfile.write(path, samples[::-1], rate)


def test_training_recordings_that_were_replaced_are_reported(trained, corpus, capsys, tmp_path):
    own = shutil.copytree(corpus, tmp_path / "corpus")
    words = (*TRAIN, f"paths.database_folder={own}")
    replace_recording(own, "train")
    outcome = trained.call(capsys, *words, "network.max_epochs=2").ok()
    differ = "warning: recordings of demo-train differ from those of the steps up to 7: files of"
    assert f"{differ} the same names have another size or content\n" in outcome.output
    # A copy of the corpus elsewhere, with other times, is the same corpus.
    shutil.copytree(own, tmp_path / "copy", copy_function=shutil.copyfile)
    words = (*TRAIN, f"paths.database_folder={tmp_path / 'copy'}")
    outcome = trained.call(capsys, *words, "network.max_epochs=3").ok()
    assert "recordings of demo-train differ" not in outcome.output


def test_evaluations_of_replaced_recordings_are_stale_and_choose_nothing(
    recipe, corpus, capsys, tmp_path
):
    own = shutil.copytree(corpus, tmp_path / "corpus")
    words = ("debug", f"paths.database_folder={own}", "recipe.selected_epochs=('best',)")
    recipe.call(capsys, *words, "network.max_epochs=2").ok()
    evaluations = recipe.system() / "networks" / "evaluations.json"
    records = json.loads(evaluations.read_text())
    # Whatever the first epochs reached, none of them can be the best on other recordings.
    for record in records:
        record["eer"]["demo-dev"] = 0.0
    evaluations.write_text(json.dumps(records))
    replace_recording(own, "dev")
    outcome = recipe.call(capsys, *words, "network.max_epochs=3").ok()
    sentence = "recordings of demo-dev have been replaced since the validation of epoch.1, epoch.2"
    sentence += (
        ", which is stale: its results are not compared with those of the present recordings"
    )
    assert f"warning: {sentence}\n" in outcome.output
    records = json.loads(evaluations.read_text())
    assert [record.get("stale") for record in records] == [["demo-dev"], ["demo-dev"], None]
    assert len({record["recordings"]["demo-dev"] for record in records}) == 2
    assert {row["epoch"] for row in recipe.results()} == {"epoch.3"}
    page = (recipe.system() / "results" / "report.html").read_text()
    assert sentence in page
    assert page.count("of recordings that were replaced since") == 2


@pytest.mark.slow
def test_of_several_processes_the_main_one_reports(recipe):
    rate = "network.initial_learning_rate"
    words = (*TRAIN, "network.global_minibatch_size=4")
    outcome = recipe.run(*words, f"{rate}=0.003", "network.max_epochs=1", processes=2).ok()
    outcome = recipe.run(*words, f"{rate}=0.01", "network.max_epochs=2", processes=2).ok()
    assert outcome.output.count(f"{rate} was 0.003 up to step 7, is 0.01 from here") == 1
    assert [start["trained_from"] for start in record_of(recipe)] == [0, 7]


def test_numbers_of_starts_go_on_where_their_record_was_removed(trained, capsys):
    rate = "network.initial_learning_rate"
    for value in (0.01, 0.02):
        trained.call(capsys, *TRAIN, f"{rate}={value}", "network.max_epochs=1").ok()
        if value == 0.01:
            (trained.system() / "environment.json").unlink()
    starts = trained.system() / "starts"
    assert sorted(path.name for path in starts.iterdir()) == ["1", "2"]
    assert [start["start"] for start in record_of(trained)] == [3]
    for number, value in ((1, "0.003"), (2, "0.01")):
        assert f"{rate} = {value} " in (starts / str(number) / "settings.py").read_text()


def test_scoring_replaced_recordings_marks_their_evaluations(trained, corpus, capsys, tmp_path):
    own = shutil.copytree(corpus, tmp_path / "corpus")
    replace_recording(own, "dev")
    words = ("debug", f"paths.database_folder={own}", "network.max_epochs=1")
    outcome = trained.call(capsys, *words, "recipe.start_stage=2").ok()
    assert "recordings of demo-dev have been replaced since the validation" in outcome.output
    (record,) = trained.evaluations()
    assert record["stale"] == ["demo-dev"]
