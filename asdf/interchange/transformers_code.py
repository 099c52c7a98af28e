"""The common code of all folders in transformers' layout: configuration and model.

Invariant: the code does not import ASDF; it is read and executed by users of the folder.
"""

from __future__ import annotations

_NOTICE = "# SPDX-License-Identifier: MIT (LICENSE.code)\n"

CONFIGURATION = f'''{_NOTICE}"""Configuration of a detector of ASDF for transformers."""

from transformers import PretrainedConfig


class AsdfDetectorConfig(PretrainedConfig):
    """How recordings are heard and scored; the network itself is in network_asdf.py.

    Attributes:
        min_samples: Samples at 16 kHz up to which shorter recordings are repeated from their start.
        max_samples: Samples at which longer ones are cut.
        score: 'bona_fide', the logit of bona fide, else that less the logit of spoof.
        threshold: Score from which on speech is called bona fide; None: not known.
        calibration: Map from scores to natural-log likelihood ratios; None: not calibrated.
    """

    model_type = "asdf_detector"

    def __init__(
        self,
        sampling_rate=16000,
        min_samples=64600,
        max_samples=64600,
        score="bona_fide",
        threshold=None,
        calibration=None,
        **kwargs,
    ):
        self.sampling_rate = sampling_rate
        self.min_samples = min_samples
        self.max_samples = max_samples
        self.score = score
        self.threshold = threshold
        self.calibration = calibration
        super().__init__(**kwargs)
'''

MODELING = f'''{_NOTICE}"""A detector of ASDF as a model of transformers."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from .configuration_asdf import AsdfDetectorConfig
from .network_asdf import build_network


@dataclass
class DetectorOutput(ModelOutput):
    """What a detector gives for a batch of recordings.

    Attributes:
        loss: Cross-entropy of the logits, where labels are given.
        logits: (batch, 2), spoof and bona fide.
        scores: (batch,), the higher, the more bona fide: the scores of ASDF before calibration.
        llrs: (batch,), natural-log likelihood ratios of a calibrated detector; else None.
        embeddings: (batch, values).
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    scores: torch.FloatTensor | None = None
    llrs: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None


class AsdfDetector(PreTrainedModel):
    """Tells bona fide speech (label 1) from spoofed speech (label 0)."""

    config_class = AsdfDetectorConfig
    main_input_name = "input_values"

    def __init__(self, config):
        super().__init__(config)
        self.network = build_network()
        self.post_init()

    def _init_weights(self, module):
        """Leave numbers as they are: all of them are loaded."""

    def forward(self, input_values, attention_mask=None, labels=None, **kwargs):
        """Score recordings at 16 kHz, each heard by itself: nothing is padded.

        Args:
            input_values: (batch, samples), with a full scale of 1.
            attention_mask: (batch, samples), 1 where there is a sample; None: everywhere.
            labels: (batch,), 1 bona fide, 0 spoof.
        """
        heard = self._heard(input_values, attention_mask)
        by_length = {{}}
        for number, waveform in enumerate(heard):
            by_length.setdefault(len(waveform), []).append(number)
        embeddings = [None] * len(heard)
        logits = [None] * len(heard)
        for numbers in by_length.values():
            outputs = self.network(torch.stack([heard[number] for number in numbers]))
            for number, embedding, logit in zip(numbers, *outputs):
                embeddings[number] = embedding
                logits[number] = logit.float()
        logits = torch.stack(logits)
        scores = logits[:, 1]
        if self.config.score != "bona_fide":
            scores = logits[:, 1] - logits[:, 0]
        loss = None if labels is None else cross_entropy(logits, labels)
        return DetectorOutput(loss, logits, scores, self._llrs(scores), torch.stack(embeddings))

    def _heard(self, input_values, attention_mask):
        """Return the samples that each recording is scored from, cut or repeated."""
        heard = []
        for number, waveform in enumerate(input_values):
            if attention_mask is not None:
                waveform = waveform[: int(attention_mask[number].sum())]
            if len(waveform) == 0:
                raise ValueError("a recording without samples has no score")
            repeats = -(-self.config.min_samples // len(waveform))
            if repeats > 1:
                waveform = waveform.repeat(repeats)[: self.config.min_samples]
            heard.append(waveform[: self.config.max_samples])
        return heard

    def _llrs(self, scores):
        """Return the likelihood ratios of scores, within the bounds of the calibration."""
        known = self.config.calibration
        if known is None:
            return None
        values = scores.detach().double().cpu().numpy()
        llrs = known["scale"] * values + known["offset"]
        knots = known.get("map_scores")
        if knots:
            beyond = values - values.clip(knots[0], knots[-1])
            llrs = np.interp(values, knots, known["map_llrs"]) + known["scale"] * beyond
        if known.get("lowest_llr") is not None and known.get("highest_llr") is not None:
            llrs = llrs.clip(known["lowest_llr"], known["highest_llr"])
        return torch.from_numpy(llrs).to(scores.device)
'''

LICENCE = """The code in this folder (*.py) was generated by ASDF, the Artificial Speech Detection
Framework. The licence of the weights is another matter: README.md has it.

MIT License

Copyright (c) 2026 The ASDF authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
