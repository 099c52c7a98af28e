"""What ends a run is reported, whatever becomes of the record of its end."""

import json

import pytest

from asdf.distributed import gpus
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.recipe.starts import Starts, describe_peaks, end_recorded, note_changes
from asdf.runs.layout import Layout
from asdf.runs.log import LOG


def end_in(folder, world=None):
    (folder / "environment.json").write_text('[{"started": "earlier"}, {"started": "now"}]')
    return end_recorded(Layout(folder), world or World())


def records(folder):
    return json.loads((folder / "environment.json").read_text())


def test_a_device_that_answers_no_more_does_not_hide_the_failure(tmp_path, monkeypatch):
    def fail(device):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(gpus, "peak_memory_mb", fail)
    with pytest.raises(AsdfError, match="the recording is gone"), end_in(tmp_path):
        raise AsdfError("the recording is gone")
    assert records(tmp_path) == [{"started": "earlier"}, {"started": "now"}]


def test_the_main_process_records_the_end_for_all(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(LOG, "propagate", True)
    caplog.set_level("INFO")
    with end_in(tmp_path):
        pass
    *_, last = records(tmp_path)
    assert list(last) == ["started", "ended", "finished", "peak_memory_mb"]
    assert last["finished"] is True and list(last["peak_memory_mb"]) == ["rank 0"]
    host = last["peak_memory_mb"]["rank 0"]["host"]
    assert caplog.messages == [f"peak memory: host {host / 1000:.2f} GB"]
    with pytest.raises(KeyboardInterrupt), end_in(tmp_path, World(rank=1, size=2)):
        raise KeyboardInterrupt
    assert "ended" not in records(tmp_path)[-1]


def test_the_log_names_the_process_that_took_the_most():
    peaks = [{"host": 5100.0, "gpu": 8700.0}, {"host": 2000.0, "gpu": 9310.5}]
    assert describe_peaks(peaks) == "GPU 9.31 GB (rank 1), host 5.10 GB (rank 0)"
    assert describe_peaks(peaks[:1]) == "GPU 8.70 GB, host 5.10 GB"


CE, BCE = "network.loss was 'ce' ...", "network.loss was 'bce' ..."


@pytest.mark.parametrize(
    ("began", "changes", "noted"),
    [
        ((0,), ("",), []),
        ((0, 20), ("", "network.loss was 'ce' up to step 20, is 'focal' from here"), [1]),
        # The second start's steps after 10 are not in the network.
        ((0, 20, 10), ("", CE, BCE), [2]),
        ((0, 20, 0), ("", CE, ""), []),
        ((0, 20, 40), ("", CE, BCE), [1, 2]),
        ((0, 20, None), ("", CE, ""), [1]),
        # The second start was killed before it saved a step.
        ((0, 20, 20), ("", CE, BCE), [2]),
        ((0, 20), ("", "networks.py differs from the code of the steps up to 20"), []),
        ((0, 20), ("", "network.gone was 3 up to step 20, is no setting from here"), []),
    ],
)
def test_settings_say_which_values_earlier_steps_of_the_network_had(
    tmp_path, began, changes, noted
):
    layout = Layout(tmp_path)
    text = "network.loss = 'focal'  # default\n"
    layout.settings.write_text(f"\n{text}")
    records = []
    for number, (step, change) in enumerate(zip(began, changes, strict=True), 1):
        trained = {} if step is None else {"trained_from": step}
        records.append({"start": number, "changes": [change] * bool(change), **trained})
    layout.environment.write_text(json.dumps(records))
    for _ in range(2):
        note_changes(layout)
        notes = "".join(f"# {changes[index]}\n" for index in noted)
        heading = "\n# Other values of earlier steps:\n" if noted else ""
        assert layout.settings.read_text() == f"\n{text}{heading}{notes}"
    # Training that begins anew has no earlier steps.
    records.append({"start": len(records) + 1, "changes": [], "trained_from": 0})
    layout.environment.write_text(json.dumps(records))
    note_changes(layout)
    assert layout.settings.read_text() == f"\n{text}"


def test_settings_that_have_left_are_a_change_if_they_changed_something(tmp_path):
    layout = Layout(tmp_path)
    layout.settings.write_text("\nnetwork.loss = 'focal'  # default\n")
    layout.start_settings(1).parent.mkdir(parents=True)
    layout.start_settings(1).write_text(
        "\nnetwork.loss = 'focal'  # default\nloss.easy_margin = False  # default\n"
        "augmentation.mixup_alpha = 0.2  # config\nlanguage_model.prompt = 'x'  # config\n"
    )
    records = [{"start": 1, "trained_from": 0}, {"start": 2, "trained_from": 20}]
    layout.environment.write_text(json.dumps(records))
    assert list(Starts(layout).changes(20)) == [
        ("augmentation.mixup_alpha was 0.2 up to step 20, is no setting from here", True)
    ]


@pytest.mark.parametrize(
    ("began", "step", "before"),
    [
        ((0, 7, 14), 14, 2),
        # Of those that began at the step, none had saved it.
        ((0, 7, 7, 7), 7, 1),
        ((0, 7, None, 9), 9, 2),
        ((0, 7, 0), 7, 1),
        ((0, 0), 0, None),
        # An earlier version did not record where training began.
        ((None, None, 7), 7, 2),
        ((None, "failed", 7), 7, 1),
        ((7,), 7, None),
    ],
)
def test_the_start_that_trained_the_steps_before(tmp_path, began, step, before):
    kinds = {None: {}, "failed": {"start": 2}}
    records = [kinds.get(start, {"trained_from": start}) for start in began]
    layout = Layout(tmp_path)
    layout.environment.write_text(json.dumps(records))
    assert Starts(layout).before(step) == before
