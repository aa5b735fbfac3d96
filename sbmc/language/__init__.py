"""A frozen language model's hidden states, a low-rank adjustment of its output layer, adapters.

states = text_states(text, "folder/of/a/model", cache="folder")
data = sbmc_studies.data.shakespeare.next_token_data(states, classes=2500)
head = LoraHead(data.frozen["output"], rank=50)
"""

from sbmc.language.frozen_model import FrozenModel, Weights, find_weights, load_frozen
from sbmc.language.hidden_states import TextStates, text_states
from sbmc.language.lora import LoraHead, balanced
from sbmc.language.peft_adapters import save_adapters, save_head_adapters

__all__ = [
    "FrozenModel",
    "LoraHead",
    "TextStates",
    "Weights",
    "balanced",
    "find_weights",
    "load_frozen",
    "save_adapters",
    "save_head_adapters",
    "text_states",
]
