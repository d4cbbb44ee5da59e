"""Model cards: their content, the contribution of each method, and the code that writes them."""

from eventformers.model_cards.card import ModelCard, TrainedOn, card_state, write_card
from eventformers.model_cards.method import MethodCard, Reading, Snippet, load_method_card

__all__ = [
    "MethodCard",
    "ModelCard",
    "Reading",
    "Snippet",
    "TrainedOn",
    "card_state",
    "load_method_card",
    "write_card",
]
