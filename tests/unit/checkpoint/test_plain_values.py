"""The plain values of a file: all that a long training writes, and nothing without bounds."""

import pytest
import torch

from asdf.checkpoint.weights_file import check_plain, read_weights_file


def test_a_checkpoint_of_many_evaluations_can_be_read_again(tmp_path):
    evaluations = [
        {
            "step": step,
            "epoch": step / 7,
            "network": f"epoch.{step}.pt",
            "eer": {"a": 0.1, "b": 0.2},
        }
        for step in range(10_000)
    ]
    torch.save({"progress": {"evaluations": evaluations}}, tmp_path / "net.pt")
    assert read_weights_file(tmp_path / "net.pt") == {"progress": {"evaluations": evaluations}}


def test_lists_that_hold_each_other_are_counted_as_often_as_they_appear():
    values = ["x"]
    for _ in range(40):
        values = [values, values]
    with pytest.raises(ValueError, match="more than 200,000 values"):
        check_plain(values, file_size=1000)


def nested(levels: int) -> list:
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("most", "more", "said"),
    [
        (2**1024 - 1, 2**1024, "it holds a number of 1,025 binary digits"),
        (["x" * 10**7], {"y": "x" * 10**7}, "strings of more than 10,000,000 characters"),
        ([b"x" * 10**7], (b"x" * 10**7, b"y"), "strings of more than 10,000,000 characters"),
        ([0] * 299_999, {0} | {*range(300_000)}, "more than 300,000 values, or"),
        (dict.fromkeys(range(149_999)), dict.fromkeys(range(150_000)), "more than 300,000 values"),
        (nested(101), nested(102), "or more than 100 inside each other; shared ones are counted"),
    ],
)
def test_limits_are_exact(most, more, said):
    check_plain(most, file_size=1_200_003)
    with pytest.raises(ValueError, match=said):
        check_plain(more, file_size=1_200_003)
