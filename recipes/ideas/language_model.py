"""A language model that reads a recording in place of words, then a question.

Its logits of two answers are those of the network. It needs
`pip install 'asdf-antispoofing[transformers]'`.

    network.network_class = 'language_model.Asked'
    front_end.architecture = 'tiny'
    asked.model = 'Qwen/Qwen2.5-0.5B'
"""

from dataclasses import dataclass

import torch
from torch import nn
from transformers import AutoModelForCausalLM

from asdf.networks import DetectorNetwork, Wav2Vec2FrontEnd
from asdf.settings import OwnSettings, setting


@dataclass
class AskedSettings(OwnSettings, section_name="asked"):
    """The language model, and what it is asked, as its tokenizer's numbers."""

    model: str = setting("Qwen/Qwen2.5-0.5B", "folder or repository of the model")
    question: tuple[int, ...] = setting((2132, 476, 12418, 30), "'real or fake?'")
    spoof: int = setting(12418, "' fake'", at_least=0)
    bona_fide: int = setting(1931, "' real'", at_least=0)


class Asked(DetectorNetwork):
    own_settings = AskedSettings

    def __init__(self, settings):
        super().__init__(settings)
        asked = settings.asked
        self.front_end = Wav2Vec2FrontEnd(settings.front_end)
        self.model = AutoModelForCausalLM.from_pretrained(asked.model)
        self.words = nn.Linear(self.front_end.dimension, self.model.config.hidden_size)
        self.register_buffer("question_Q", torch.tensor(asked.question), persistent=False)
        self.answers = [asked.spoof, asked.bona_fide]

    def forward(self, waveforms_BT):
        heard_BLH = self.words(self.front_end(waveforms_BT))
        question_QH = self.model.get_input_embeddings()(self.question_Q)
        question_BQH = question_QH.expand(len(heard_BLH), -1, -1)
        read_BLH = torch.cat([heard_BLH, question_BQH], dim=1)
        output = self.model(inputs_embeds=read_BLH, output_hidden_states=True, use_cache=False)
        return output.hidden_states[-1][:, -1], output.logits[:, -1, self.answers]

    def front_end_parameters(self):
        return self.front_end.parameters()
