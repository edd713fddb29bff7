"""Named networks: FedNER's, every baseline of its Table 2, and the transfer paper's."""

from __future__ import annotations

from wardround.errors import ModelError
from wardround.models.word_tagger import WordTaggerConfig
from wardround.settings import did_you_mean

__all__ = ["PRESETS", "preset"]

PRESETS: dict[str, WordTaggerConfig] = {
    # FedNER (Ge 2020) without its language model; the sizes are those of its Section 4.1.
    "fedner": WordTaggerConfig(),
    # The same with the language model: the paper's ELMoNER row, MiniLM in ELMo's place.
    "elmoner": WordTaggerConfig(contextual="minilm"),
    # The baselines of Table 2, as the paper describes them in one line each.
    "cnn-crf": WordTaggerConfig(character_layer="none", lstm=0),
    "lstm-crf": WordTaggerConfig(character_layer="none", word_cnn=0),
    "gram-cnn": WordTaggerConfig(lstm=0),
    "cnn-lstm-crf": WordTaggerConfig(word_cnn=0),
    "s-lstm-crf": WordTaggerConfig(character_layer="none", word_cnn=0, lstm_layers=2),
    "cnn-clstm-crf": WordTaggerConfig(),
    # Lee 2017: character LSTM, token LSTM, fully connected, sequence optimisation; dropout before the token LSTM.
    # The paper gives no sizes; these are the defaults of NeuroNER, the tool it was made with.
    "transfer": WordTaggerConfig(
        character_layer="lstm",
        character_dimension=25,
        character_width=25,
        word_cnn=0,
        lstm=100,
        dense=100,
        input_dropout=0.5,
        dropout=0.0,
        scheme="BIOES",
        shared=("words", "characters", "lstm"),
    ),
}


def preset(name: str) -> WordTaggerConfig:
    """The configuration called `name`."""
    if name in PRESETS:
        return PRESETS[name]
    raise ModelError(f"no preset is called {name!r}{did_you_mean(name, PRESETS)}; there are {', '.join(PRESETS)}")
