"""Which GPUs a launch uses, and that none is assigned twice."""

import pytest

from asdf.errors import UsageError
from asdf.launcher.processes import Slots, choose_gpus


@pytest.mark.parametrize(
    ("requested", "visible", "shown", "names"),
    [
        (None, 2, None, ("0", "1")),
        ("1,0", 2, None, ("1", "0")),
        # A scheduler's choice: numbers count within it, as computing.gpu_ids does.
        ("0,2", 3, "4,GPU-6b2e,7", ("4", "7")),
        (None, 2, "4,GPU-6b2e", ("4", "GPU-6b2e")),
    ],
)
def test_gpus_are_counted_within_what_is_visible(requested, visible, shown, names):
    assert choose_gpus(requested, visible, shown) == names


@pytest.mark.parametrize(
    ("requested", "visible", "shown", "message"),
    [
        ("0,2", 2, None, "GPU 2 does not exist: 2 visible"),
        ("0", 0, "", "--slots N uses the CPU"),
        ("1", 1, "5", "CUDA_VISIBLE_DEVICES is '5'"),
        ("0,00", 2, None, "named twice"),
        ("all", 2, None, "numbers separated by commas"),
        ("0,,1", 2, None, "numbers separated by commas"),
    ],
)
def test_a_wrong_choice_says_what_is_there(requested, visible, shown, message):
    with pytest.raises(UsageError, match=f"--gpus {requested}: .*{message.replace('(', '[(]')}"):
        choose_gpus(requested, visible, shown)


def test_gpus_go_to_one_holder_at_a_time():
    slots = Slots(["4", "5", "7"], are_gpus=True)
    assert slots.needed(2) == 2
    first = slots.take(2)
    assert first == ("4", "5") and slots.take(2) is None
    assert slots.visible_devices(first) == "4,5" and slots.describe(first) == "GPU 4,5"
    assert slots.take(1) == ("7",)
    slots.give_back(("5",))
    assert slots.take(1) == ("5",) and slots.take(1) is None


def test_a_run_on_the_cpu_takes_one_slot_and_sees_no_gpu():
    slots = Slots(["0", "1"], are_gpus=False)
    assert slots.needed(8) == 1
    assert slots.visible_devices(("1",)) == ""
