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
