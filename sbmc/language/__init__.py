"""A frozen language model's hidden states, and a low-rank adjustment of its output layer.

states = text_states(text, "folder/of/a/model", cache="folder")
data = sbmc_studies.data.shakespeare.next_token_data(states, classes=2500)
head = LoraHead(data.frozen["output"], rank=50)
"""

from sbmc.language.frozen import FrozenModel, Weights, find_weights, load_frozen
from sbmc.language.lora import LoraHead, balanced
from sbmc.language.states import TextStates, text_states

__all__ = [
    "FrozenModel",
    "LoraHead",
    "TextStates",
    "Weights",
    "balanced",
    "find_weights",
    "load_frozen",
    "text_states",
]
