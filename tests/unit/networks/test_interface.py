"""The interface: what training and scoring ask networks for, also those that do not answer."""

from __future__ import annotations

import pytest
import torch

from asdf.errors import AsdfError
from asdf.networks import DetectorNetwork, front_end_parameters, scoring_length
from asdf.networks.interface import repeat_short, unused_parameters
from asdf.settings.sections import Sections


def test_defaults_are_the_same_with_and_without_the_base_class():
    class Network(DetectorNetwork):
        def forward(self, waveforms_BT):
            return waveforms_BT, waveforms_BT[:, :2]

    for network in (torch.nn.Linear(2, 2), Network(Sections())):
        assert scoring_length(network, 12345) == 12345
        assert front_end_parameters(network) == []
        assert unused_parameters(network) == []


@pytest.mark.parametrize("answer", [0, -1, 1001, 3.0, None, True])
def test_a_scoring_length_that_cannot_be_is_reported(answer):
    class Network(torch.nn.Module):
        def scoring_length(self, samples):
            return answer

    with pytest.raises(AsdfError, match=r"scoring_length\(1000\) gave"):
        scoring_length(Network(), 1000)


def test_a_network_is_called_through_distributed_data_parallel(tmp_path):
    class Network(torch.nn.Linear):
        def scoring_length(self, samples):
            return samples - 1

        def front_end_parameters(self):
            return [self.weight]

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        network = Network(2, 2)
        parallel = torch.nn.parallel.DistributedDataParallel(network)
        assert scoring_length(parallel, 10) == 9
        (parameter,) = front_end_parameters(parallel)
        assert parameter is network.weight
    finally:
        torch.distributed.destroy_process_group()


def test_short_waveforms_are_repeated_from_their_start():
    short = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert repeat_short(short, 5).tolist() == [[1, 2, 3, 1, 2], [4, 5, 6, 4, 5]]
    long = torch.ones(2, 5)
    assert repeat_short(long, 5) is long


def test_an_empty_waveform_is_reported():
    with pytest.raises(AsdfError, match="without samples"):
        repeat_short(torch.zeros(2, 0), 5)
