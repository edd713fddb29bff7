"""The sizes of the word tagger and its named presets; this module needs no torch, so that listing them is fast.

FedNER's network, every baseline of its Table 2 and the network of the transfer paper are configurations of the tagger.
"""

from __future__ import annotations

from dataclasses import dataclass

from wardround.errors import ModelError
from wardround.models.families import check_choice, check_share, check_size
from wardround.settings import did_you_mean

__all__ = ["GROUPS", "PRESETS", "WordTaggerConfig", "preset"]

GROUPS = ("words", "characters", "contextual", "word_cnn", "lstm", "dense", "output", "crf")  # bottom to top


@dataclass(frozen=True)
class WordTaggerConfig:
    """The sizes of a word tagger; 0 or an empty name leaves a layer out."""

    word_dimension: int = 100  # D_w; FedNER has 300
    word_buckets: int = 16_384  # rows of a learned embedding; pretrained vectors have their own list
    train_words: bool = True
    character_layer: str = "cnn"  # cnn | lstm | none
    character_dimension: int = 100  # D_c
    character_width: int = 200  # filters of the CNN, or hidden states of the LSTM in each direction
    contextual: str = ""  # an encoder: Hugging Face id, folder or "minilm"
    word_cnn: int = 200  # filters
    kernel: int = 3
    lstm: int = 200  # hidden states in each direction
    lstm_layers: int = 1
    dense: int = 0
    decoder: str = "crf"  # crf | softmax
    input_dropout: float = 0.2  # on the whole representation of a word
    dropout: float = 0.2  # above each further layer
    scheme: str = "BIO"
    shared: tuple[str, ...] = ("words", "characters", "contextual", "word_cnn")

    def __post_init__(self) -> None:
        check_choice("character_layer", self.character_layer, ("cnn", "lstm", "none"))
        check_choice("decoder", self.decoder, ("crf", "softmax"))
        for name in ("word_dimension", "word_buckets", "character_dimension", "character_width", "kernel"):
            check_size(name, getattr(self, name), least=1)
        for name in ("word_cnn", "lstm", "dense"):
            check_size(name, getattr(self, name), least=0)
        check_size("lstm_layers", self.lstm_layers, least=1)
        check_share("input_dropout", self.input_dropout)
        check_share("dropout", self.dropout)
        if self.kernel % 2 == 0:
            raise ModelError(
                f"kernel is {self.kernel}; it must be odd, so that it covers as many words on the left as on the right"
            )
        unknown = set(self.shared) - set(GROUPS)
        if unknown:
            raise ModelError(f"no layer group is called {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")


PRESETS: dict[str, WordTaggerConfig] = {
    # FedNER (Ge 2020) without its language model; the sizes are those of its Section 4.1.
    "fedner": WordTaggerConfig(),
    # The same with a language model: the paper's ELMoNER row, with MiniLM instead of ELMo.
    "elmoner": WordTaggerConfig(contextual="minilm"),
    # The baselines of Table 2, as the paper describes them in one line each.
    "cnn-crf": WordTaggerConfig(character_layer="none", lstm=0),
    "lstm-crf": WordTaggerConfig(character_layer="none", word_cnn=0),
    "gram-cnn": WordTaggerConfig(lstm=0),
    "cnn-lstm-crf": WordTaggerConfig(word_cnn=0),
    "s-lstm-crf": WordTaggerConfig(character_layer="none", word_cnn=0, lstm_layers=2),
    "cnn-clstm-crf": WordTaggerConfig(),
    # Lee 2017: character LSTM, token LSTM, fully connected, sequence optimisation; dropout before the token LSTM.
    # The paper gives no sizes; these are the defaults of NeuroNER, the tool it used.
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
    """Return the configuration called `name`."""
    if name in PRESETS:
        return PRESETS[name]
    raise ModelError(f"no preset is called {name!r}{did_you_mean(name, PRESETS)}; there are {', '.join(PRESETS)}")
