"""What is measured: every family of models with every method on every corpus, as a study each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from papers.common.settings import AS_THE_PAPERS_AVERAGE
from papers.tagsets.make_sites import TUNE, TagSites

CORPORA = ("gum", "bio", "synthetic")
FAMILIES = ("bilstm-crf", "lora", "prompt", "light-ner")
OUTSIDE = 0.05  # how much a word that is left open counts as no mention, where it does; tried on the example alone
# What a word without a local label is taken for, and how sentences are weighted: settings of the algorithm.
COMPLETED: Mapping[str, Mapping[str, Any]] = {
    "full": {"unknown": "pseudo", "weighting": True},
    "raw-weight": {"unknown": "pseudo", "weighting": True, "centred": False},  # Eq. 12 as it stands
    "early": {"unknown": "pseudo", "weighting": True, "trusted_after": 1},
    "no-weight": {"unknown": "pseudo", "weighting": False},
    "neither": {"unknown": "outside", "weighting": False},  # the paper's "w/o distill & weight"
    "partial": {"unknown": "partial", "weighting": False},
    "posterior": {"unknown": "posterior", "weighting": False},
    "partial-outside": {"unknown": "partial", "weighting": False, "outside": OUTSIDE},
    "posterior-outside": {"unknown": "posterior", "weighting": False, "outside": OUTSIDE},
}
ADVERSARIAL = ("ganin", "peng", "hong")
FEDERATED = (*COMPLETED, *ADVERSARIAL, "fedavg")
METHODS = (*FEDERATED, "single", "pooled")
NEED_TAG_SCORES = (
    "partial",
    "posterior",
    "partial-outside",
    "posterior-outside",
)  # which a model that writes mentions has none of
CANDIDATES: Mapping[str, tuple[str, str, str]] = {  # rates
    "bilstm-crf": ("2e-3", "4e-3", "8e-3"),
    "lora": ("2e-3", "5e-3", "1e-2"),
    "prompt": ("2e-3", "5e-3", "1e-2"),
    "light-ner": ("1e-3", "3e-3", "8e-3"),
}
LATE = 12  # rounds before the global model is asked
TUNED_WITH = "full"
# Where each family's rate is chosen. A small BART, which read few texts, tells rates apart on simple notes only.
TUNED_ON = {family: "synthetic" if family == "light-ner" else "gum" for family in FAMILIES}
# With the middle rate another time to ask the model is tried. LightNER, which cannot leave anything open, takes its
# labels as they are until then, and unlearns the other types.
OTHER_TIME = {family: ("early", 1) if family == "light-ner" else ("late", LATE) for family in FAMILIES}
ANALYSED_ON, ANALYSED = "gum", "prompt"  # corpus and family of Figure 3
PROMPT_SIZES = (16, 48, 128, 320, 640)  # h of Figure 3 (a): between 0.5% and 16% of it is trained
TUNED_SIZE = 48  # with which rates are tried
LOCAL_EPOCHS = (1, 2, 3, 4)  # E of Figure 3 (b)
# Studies of Figure 3 and what they vary. A step of Adam moves the prompt the further the larger h is: above the size
# that the rate was chosen with, there is a second study whose rate falls as h grows.
WIDER = {f"hidden-{size}-slower": size for size in PROMPT_SIZES if size > TUNED_SIZE}
BY_SIZE: Mapping[str, str] = {
    **{f"hidden-{size}": str(size) for size in PROMPT_SIZES},
    **{name: f"{size}, rate × {TUNED_SIZE} / {size}" for name, size in WIDER.items()},
}
BY_EPOCHS: Mapping[str, str] = {f"epochs-{number}": str(number) for number in LOCAL_EPOCHS}
WEIGHED_ON = "synthetic"
_WEIGHED_ROUNDS = 2  # in the first one clips are learned
PROTECTED = ("masked", "sealed", "sealed+masked")
HOSPITALS, HOSPITAL_FAMILY = "synthetic", "lora"  # tuned a second time, on hospitals of which no table tells


@dataclass(frozen=True)
class Settings:
    """What the studies of a measurement have in common."""

    encoder: str = "minilm"
    bart: str = ""  # the folder of a small BART; without one, light-ner cannot be measured
    gum_rounds: int = 25
    bio_rounds: int = 25
    synthetic_rounds: int = 25
    local_epochs: int = 1  # E
    batch_size: int = 16
    momentum: float = 0.9  # α
    trusted_after: int = 5  # unless another was chosen for the family
    prompt_hidden: int = TUNED_SIZE  # h over the encoder
    bart_hidden: int = 128  # h over BART
    train_words: bool = False  # of bilstm-crf, whose word vectors are GloVe's
    input_dropout: float = 0.3  # the same
    dropout: float = 0.3  # the same
    pooled_epochs: int = 12  # over all notes in one place
    pooled_batch: int = 64  # sentences of all sites together
    single_epochs: int = 20  # of a site alone
    clip: float = 5.0  # largest norm of a gradient

    def rounds(self, corpus: str) -> int:
        """Of the federated methods on a corpus."""
        return {"gum": self.gum_rounds, "bio": self.bio_rounds, "synthetic": self.synthetic_rounds}[corpus]


@dataclass(frozen=True)
class Chosen:
    """What earlier runs decided for a family."""

    rate: float
    trusted_after: int = 0  # 0 is that of the measurement
    local_epochs: int = 0  # the same
    pooled_epochs: int = 0  # the same


# What is tried on the hospitals, by method: the best of ours, and what it is held against.
HOSPITAL_TRIES: Mapping[str, Sequence[Chosen]] = {
    "posterior": [
        Chosen(float(rate), *more) for rate, *more in product(CANDIDATES[HOSPITAL_FAMILY], (5, LATE), (2, 4))
    ],
    "pooled": [
        Chosen(float(rate), pooled_epochs=epochs) for rate, epochs in product(CANDIDATES[HOSPITAL_FAMILY], (12, 24))
    ],
}
TUNED_METHODS = tuple(f"{method}-tuned" for method in HOSPITAL_TRIES)


@dataclass(frozen=True)
class Variation:
    """One row or point; what is unset is as the measurement has it."""

    name: str
    tables: tuple[str, ...]  # where it is shown
    corpus: str
    family: str
    method: str
    rate: str = ""  # empty is what was chosen for the family
    slower: float = 1.0  # by which that is multiplied
    trusted_after: int = 0  # 0 is what was chosen for it
    prompt_hidden: int = 0
    local_epochs: int = 0
    pooled_epochs: int = 0
    mechanism: str = ""  # under which updates are given; set, nothing but bytes counts
    chosen_for: str = ""  # whose choice it takes; empty is the family's

    @property
    def is_tuning(self) -> bool:
        """Whether a rate is tried, on the sampling that is in no table."""
        return bool(self.rate)

    @property
    def choice(self) -> str:
        """What it is called among what was chosen."""
        return self.chosen_for or self.family


def methods_of(family: str) -> tuple[str, ...]:
    """Those that a family can go."""
    return tuple(m for m in METHODS if family != "light-ner" or m not in NEED_TAG_SCORES)


def _tuning() -> list[Variation]:
    found = []
    for family, rates in CANDIDATES.items():
        tables = ("tune", f"tune-{family}")
        corpus = TUNED_ON[family]
        found += [Variation(f"tune-{family}-{r}", tables, corpus, family, TUNED_WITH, rate=r) for r in rates]
        name, rounds = OTHER_TIME[family]
        found.append(replace(found[-2], name=f"tune-{family}-{name}", trusted_after=rounds))  # of the middle rate
    return found


def tuning_tries(family: str) -> dict[str, str]:
    """What each try of a family is called, and its study."""
    return {name: f"tune-{family}-{name}" for name in (*CANDIDATES[family], OTHER_TIME[family][0])}


def hospital_try(method: str, tried: Chosen) -> str:
    """The name of a study."""
    own = (tried.trusted_after, tried.local_epochs) if method != "pooled" else (tried.pooled_epochs,)
    return "-".join(map(str, ("tune-hospitals", method, f"{tried.rate:g}", *own)))


def _hospitals() -> list[Variation]:
    found = []
    for method, tries in HOSPITAL_TRIES.items():
        tables = (HOSPITALS, f"{HOSPITALS}-{HOSPITAL_FAMILY}")
        tuned = Variation("", tables, HOSPITALS, HOSPITAL_FAMILY, method, chosen_for=f"hospitals-{method}")
        found.append(replace(tuned, name=f"{HOSPITALS}-{HOSPITAL_FAMILY}-{method}-tuned"))
        found += [
            replace(
                tuned,
                name=hospital_try(method, own),
                tables=("tune", "tune-hospitals"),
                rate=f"{own.rate:g}",
                trusted_after=own.trusted_after,
                local_epochs=own.local_epochs,
                pooled_epochs=own.pooled_epochs,
            )
            for own in tries
        ]
    return found


def _main() -> list[Variation]:
    return [
        Variation(f"{corpus}-{family}-{method}", (corpus, f"{corpus}-{family}"), corpus, family, method)
        for corpus, family in product(CORPORA, FAMILIES)
        for method in methods_of(family)
    ]


def _figure3() -> list[Variation]:
    size, length = (Variation("", (table,), ANALYSED_ON, ANALYSED, "full") for table in ("figure3a", "figure3b"))
    sizes = [replace(size, name=f"hidden-{h}", prompt_hidden=h) for h in PROMPT_SIZES]
    slower = [replace(size, name=name, prompt_hidden=h, slower=TUNED_SIZE / h) for name, h in WIDER.items()]
    epochs = [replace(length, name=f"epochs-{number}", local_epochs=number) for number in LOCAL_EPOCHS]
    return [*sizes, *slower, *epochs]


def weighing(family: str, mechanism: str) -> str:
    """The name of the study that counts bytes under a mechanism."""
    return f"weigh-{family}-{mechanism.replace('+', '-')}"


def _weighings() -> list[Variation]:
    return [
        Variation(weighing(family, way), ("bytes",), WEIGHED_ON, family, TUNED_WITH, mechanism=way)
        for family, way in product(FAMILIES, PROTECTED)
    ]


VARIATIONS = {v.name: v for v in [*_tuning(), *_main(), *_hospitals(), *_figure3(), *_weighings()]}
TABLES = tuple(dict.fromkeys(table for variation in VARIATIONS.values() for table in variation.tables))


def sampling_of(variation: Variation, seed: int) -> str:
    """Which tag sets go with a seed."""
    return TUNE if variation.is_tuning else str(seed)


def rate_of(variation: Variation, chosen: Mapping[str, Chosen]) -> float:
    """The one that is tried, or the one that was chosen for the family."""
    if variation.mechanism:
        return 1e-4
    return float(variation.rate) if variation.rate else variation.slower * chosen[variation.choice].rate


def trusted_after(variation: Variation, settings: Settings, chosen: Mapping[str, Chosen]) -> int:
    """Rounds before the global model is asked; never more than half of them."""
    wanted = variation.trusted_after or _known(variation, chosen).trusted_after or settings.trusted_after
    rounds = _WEIGHED_ROUNDS if variation.mechanism else settings.rounds(variation.corpus)
    return min(wanted, max(1, rounds // 2))


def local_epochs(variation: Variation, settings: Settings, chosen: Mapping[str, Chosen]) -> int:
    """Of a round at a site."""
    return variation.local_epochs or _known(variation, chosen).local_epochs or settings.local_epochs


def pooled_epochs(variation: Variation, settings: Settings, chosen: Mapping[str, Chosen]) -> int:
    """Over all notes in one place."""
    return variation.pooled_epochs or _known(variation, chosen).pooled_epochs or settings.pooled_epochs


def _known(variation: Variation, chosen: Mapping[str, Chosen]) -> Chosen:
    """What was chosen; nothing, where that is still being tried."""
    return Chosen(0.0) if variation.is_tuning else chosen.get(variation.choice, Chosen(0.0))


def study_of(
    variation: Variation, seed: int, settings: Settings, *, chosen: Mapping[str, Chosen], sites: TagSites
) -> dict[str, Any]:
    """The study file as tables; `chosen` has what was chosen for each family."""
    rounds, pooled = rounds_of(variation, settings, chosen, sites=sites), variation.method == "pooled"
    return {
        "study": {"name": variation.name, "seed": seed},
        "model": _model(variation, settings, sites),
        "algorithm": {**_algorithm(variation, settings, chosen), "rounds": rounds},
        "training": {
            "batch_size": settings.pooled_batch if pooled else settings.batch_size,
            "learning_rate": rate_of(variation, chosen),
            "schedule": "linear",
            "clip": settings.clip,
        },
        "privacy": _privacy(variation),
        # Nothing is chosen by the development notes: of types that are not annotated at a site they know nothing.
        "evaluation": {"every": rounds, "keep": "last"},
        "federation": {"checkpoint_every": max(1, rounds // 3)},
        "sites": sites.sections(variation.corpus, sampling_of(variation, seed), complete=pooled),
    }


def _model(variation: Variation, settings: Settings, sites: TagSites) -> dict[str, Any]:
    shared = {"shared": ["all"]} if variation.method == "fedavg" else {}
    if variation.family == "bilstm-crf":
        return {
            "preset": "cnn-lstm-crf",
            "vectors": str(sites.vectors(variation.corpus)),
            "train_words": settings.train_words,
            "input_dropout": settings.input_dropout,
            "dropout": settings.dropout,
            **shared,
        }
    if variation.family == "light-ner":
        hidden = variation.prompt_hidden or settings.bart_hidden
        return {"bart": settings.bart, "prompt_hidden": hidden, **shared}
    model: dict[str, Any] = {"encoder": settings.encoder, "adapter": variation.family, **shared}
    if variation.family == "prompt":
        model["prompt_hidden"] = variation.prompt_hidden or settings.prompt_hidden
    return model


def _algorithm(variation: Variation, settings: Settings, chosen: Mapping[str, Chosen]) -> dict[str, Any]:
    epochs, method = local_epochs(variation, settings, chosen), variation.method
    if method == "pooled":
        return {"name": "pooled"}
    if method in ("single", "fedavg"):
        return {"name": method, "local_epochs": epochs}
    if method in ADVERSARIAL:
        own = {"trusted_after": trusted_after(variation, settings, chosen)}
        return {"name": "adversarial", "method": method, "local_epochs": epochs, **own}
    common = {"trusted_after": trusted_after(variation, settings, chosen), "momentum": settings.momentum}
    little = {"local_steps": 1} if variation.mechanism else {}  # bytes hang on no training
    return {"name": "tagsets", "local_epochs": epochs, **common, **COMPLETED[method], **little}


def _privacy(variation: Variation) -> dict[str, Any]:
    mechanism = variation.mechanism or "plain"
    return {"mechanism": mechanism, "minimum_sites": 1 if mechanism == "plain" else 3, **AS_THE_PAPERS_AVERAGE}


def rounds_of(variation: Variation, settings: Settings, chosen: Mapping[str, Chosen], *, sites: TagSites) -> int:
    """As many as all methods of a table have; in one place a round is a mini-batch."""
    if variation.mechanism:
        return _WEIGHED_ROUNDS
    if variation.method == "single":
        return settings.single_epochs
    if variation.method == "pooled":
        batches = sites.sentences(variation.corpus, "train") / settings.pooled_batch
        return max(1, round(pooled_epochs(variation, settings, chosen) * batches))
    return settings.rounds(variation.corpus)


def written_down(settings: Settings) -> dict[str, Any]:
    """Of all runs of a measurement: of the encoder only its name, and no BART, for only some runs have one."""
    found = asdict(settings) | {"encoder": Path(settings.encoder).name}
    del found["bart"]
    return found


# Time.

_STEP = {"bilstm-crf": 0.06, "lora": 0.025, "prompt": 0.025, "light-ner": 0.05}  # seconds of a batch of sixteen
_READ = {"bilstm-crf": 0.0015, "lora": 0.001, "prompt": 0.001, "light-ner": 0.0015}  # seconds of a sentence


def estimate(variation: Variation, settings: Settings, chosen: Mapping[str, Chosen], *, sites: TagSites) -> float:
    """Seconds where sixteen runs share a GPU, roughly: the order in which runs start hangs on it, nothing else."""
    step, read = _STEP[variation.family], _READ[variation.family]
    train, test = (sites.sentences(variation.corpus, part) for part in ("train", "test"))
    rounds, epochs = rounds_of(variation, settings, chosen, sites=sites), local_epochs(variation, settings, chosen)
    if variation.method == "pooled":
        return 30 + rounds * len(sites.names(variation.corpus)) * (step + 0.01) + test * read
    asked = COMPLETED.get(variation.method, {"unknown": "pseudo" if variation.method in ADVERSARIAL else "outside"})
    taught = train * read if asked["unknown"] in ("pseudo", "posterior") else 0.0
    compared = 3 * train * read if asked.get("weighting") else 0.0
    return 30 + rounds * (epochs * train / settings.batch_size * step + taught + compared) + test * read
