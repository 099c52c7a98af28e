"""A detector of ASDF as a model of transformers, loaded from folders of `export`.

Invariant: the class with the larger logit is the verdict of `asdf.Detector.score_whole`, as far as
it is bona fide or spoof.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from asdf.audio import cut_to_speech
from asdf.audio.channels import is_silent
from asdf.audio.speech import repeat_to
from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import MODEL_TYPE
from asdf.interchange import read_detector
from asdf.metrics.calibration import read_calibration
from asdf.scoring.scorer import scored_length_of
from asdf.scoring.whole_recording import cut_windows

# Between equal logits a pipeline would choose by their order, but a threshold belongs to bona fide.
_MARGIN = 1e-6


class AsdfDetectorConfig(PretrainedConfig):
    """Configuration of the folder; `asdf` is ASDF's description of the network."""

    model_type = MODEL_TYPE


class AsdfDetector(PreTrainedModel):
    """Tells bona fide speech (label 1) from spoofed speech (label 0)."""

    config_class = AsdfDetectorConfig
    main_input_name = "input_values"

    def __init__(self, config: AsdfDetectorConfig, network: nn.Module, file: NetworkFile) -> None:
        super().__init__(config)
        self.network = network
        self._settings = file.to_sections()
        self._length = scored_length_of(network, self._settings.network, self._settings.audio)
        self._calibration = read_calibration(file.calibration, "the network")
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the weights as they were read."""

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, name: Any, *_: Any, config: Any = None, **given: Any
    ) -> Any:
        """Read the network as ASDF does, from a folder or a repository on the hub."""
        if not Path(name).is_dir():
            name = f"hub:{name}@{given.get('revision') or 'main'}"
        return cls(config, *read_detector(name)).eval()

    def forward(
        self, input_values: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> SequenceClassifierOutput:
        """Score whole recordings, each by itself.

        The difference of the logits of a calibrated network is its log-likelihood ratio beyond the
        threshold; those of a network without calibration stay as they are.

        Args:
            input_values: (batch, samples) at the network's rate, with a full scale of 1.
            attention_mask: (batch, samples), 1 where there is a sample; None: everywhere.
        """
        logits = []
        for number, waveform in enumerate(input_values):
            if attention_mask is not None:
                waveform = waveform[: int(attention_mask[number].sum())]
            mean = self._mean_logits(waveform.float().cpu().numpy())
            if self._calibration is not None:
                is_logit = self._settings.network.score == "bona_fide"
                score = float(mean[1] if is_logit else mean[1] - mean[0])
                # The range of a calibration changes no decision.
                llr = float(self._calibration.unbounded_llr(score))
                beyond = llr - self._calibration.threshold
                if 0 <= beyond < _MARGIN:
                    beyond = _MARGIN
                mean = torch.tensor([0.0, beyond], device=mean.device)
            logits.append(mean)
        return SequenceClassifierOutput(logits=torch.stack(logits))

    def _mean_logits(self, waveform: np.ndarray) -> Tensor:
        """Return the mean of the logits of a recording's windows, (2,)."""
        assert self._length.max_samples is not None  # settings always have a limit
        speech = cut_to_speech(waveform, self._settings.sad, self._length.sample_rate)
        window = self._length.max_samples
        windows = [waveform for _, waveform in cut_windows([speech], window, window)]
        # Digital silence does not count, unless there is nothing else.
        heard = [each for each in windows if not is_silent(each)] or windows
        rows = []
        for each in heard:
            repeated = torch.from_numpy(repeat_to(each, self._length.min_samples))
            rows.append(self.network(repeated[None].to(self.device))[1][0].float())
        return torch.stack(rows).mean(dim=0)
