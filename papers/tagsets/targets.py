"""Targets of the measurement on heterogeneous tag sets, and the paper's claims beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product

from papers.common.cells import NOTHING, Bar, claims_table, percent, points, table
from papers.tagsets.make_sites import SAMPLINGS
from papers.tagsets.measured import CORPORA, FAMILIES, FLOAT, METHODS, Measured, study_name
from papers.tagsets.studies import ADVERSARIAL, VARIATIONS

__all__ = [
    "BY_EPOCHS",
    "BY_SIZE",
    "PROTECTED",
    "above_claim",
    "bars",
    "claims",
    "gains_claim",
    "recovered_table",
    "weighing",
]

_FIGURE3 = [v for v in VARIATIONS.values() if "figure3a" in v.tables]
# The studies of Figure 3 and the values that they vary.
BY_SIZE: Mapping[str, str] = {
    v.name: f"{v.prompt_hidden}, rate × 48 / {v.prompt_hidden}" if v.slower < 1 else str(v.prompt_hidden)
    for v in _FIGURE3
}
BY_EPOCHS: Mapping[str, str] = {v.name: str(v.local_epochs) for v in VARIATIONS.values() if "figure3b" in v.tables}
PROTECTED = ("masked", "sealed", "sealed+masked")

_GROUPS = (("synthetic",), ("gum", "bio"))  # corpora of one target: one of them must reach it
_OURS = (
    *("full", "raw-weight", "no-weight", "partial", "partial-outside"),
    *("posterior", "posterior-tuned", "posterior-outside"),
)
_WHOLE = ("pooled", "pooled-tuned")
_GAIN = 0.10
_RECOVERED = 0.85
_UPLOADS: Mapping[str, float] = {"light-ner": 0.08, "lora": 0.02, "prompt": 0.02}  # of the network
_ROWS = 10  # weighting may exchange so many times the hidden size
_ENVELOPE = 256  # bytes around these numbers: a name and a shape


def weighing(family: str, mechanism: str) -> str:
    """Return the name of the study that counts bytes under a mechanism."""
    return f"weigh-{family}-{mechanism.replace('+', '-')}"


def bars(measured: Measured) -> list[Bar]:
    """Return all targets."""
    gains = [bar for corpora in _GROUPS for bar in (_gain_bar(measured, corpora), _order_bar(measured, corpora))]
    recovered = [_recovered_bar(measured, corpora) for corpora in _GROUPS]
    return [*gains, *recovered, *(_upload_bar(measured, family) for family in _UPLOADS), _weighting_bar(measured)]


def _gain_bar(measured: Measured, corpora: Sequence[str]) -> Bar:
    target = (
        f"{_where(corpora)}: the paper's method has {100 * _GAIN:.0f} points of macro-F1 over types not annotated at a "
        f"site more than FedAvg, {SAMPLINGS} samplings"
    )
    texts, met = [], []
    for corpus in corpora:
        if (best := measured.best([corpus], "fedavg")) is None:
            continue
        studies = [study_name(*best, method) for method in ("full", "fedavg")]
        gain = measured.gain(*studies)
        assert gain is not None, "both were measured"
        scores = " and ".join(percent(measured.spread(study, "missing").mean) for study in studies)
        texts.append(f"{CORPORA[corpus]}, {FAMILIES[best[1]]}: {points(gain)} ({scores})")
        met.append(_judged(measured, studies, gain.mean >= _GAIN))
    return Bar(target, "; ".join(texts) or NOTHING, _any(met))


def _order_bar(measured: Measured, corpora: Sequence[str]) -> Bar:
    target = f"{_where(corpora)}: weighted ≥ not weighted ≥ not distilled, in the mean over {SAMPLINGS} samplings"
    texts, met = [], []
    for corpus in corpora:
        if (best := measured.best([corpus], "no-weight", "neither")) is None:
            continue
        studies = [study_name(*best, method) for method in ("full", "no-weight", "neither")]
        seeds = measured.seeds(*studies)
        means = [measured.spread(study, "missing", seeds=seeds).mean for study in studies]
        weighting, distilling = (points(measured.gain(one, other)) for one, other in pairwise(studies))
        texts.append(
            f"{CORPORA[corpus]}, {FAMILIES[best[1]]}: {', '.join(map(percent, means))}; weighting {weighting}, "
            f"distillation {distilling}"
        )
        met.append(_judged(measured, studies, means[0] >= means[1] >= means[2]))
    return Bar(target, "; ".join(texts) or NOTHING, _any(met))


def _recovered_bar(measured: Measured, corpora: Sequence[str]) -> Bar:
    target = f"{_where(corpora)}: the best family has {100 * _RECOVERED:.0f}% of the macro-F1 of all notes in one place"
    texts, met = [], []
    for corpus in corpora:
        best, top = (_highest(measured, corpus, list(FAMILIES), methods) for methods in (_OURS, _WHOLE))
        if best and top:
            share = _share(measured, best, top)
            scores = ", ".join(f"{name} {percent(measured.spread(name, 'all').mean)}" for name in (best, top))
            texts.append(f"{100 * share:.0f}%: {scores}")
            met.append(_judged(measured, [best, top], share >= _RECOVERED))
    return Bar(target, "; ".join(texts) or NOTHING, _any(met))


def _upload_bar(measured: Measured, family: str) -> Bar:
    target = f"{FAMILIES[family]}: a site uploads at most {100 * _UPLOADS[family]:.0f}% of the network in a round"
    studies = {title: study_name(corpus, family, "full") for corpus, title in CORPORA.items()}
    studies |= {way: weighing(family, way) for way in PROTECTED}
    shares = {title: measured.upload_share(study) for title, study in measured.known(studies).items()}
    text = ", ".join(f"{title} {100 * share:.2f}%" for title, share in shares.items())
    return Bar(target, text or NOTHING, max(shares.values()) <= _UPLOADS[family] if shares else None)


def _weighting_bar(measured: Measured) -> Bar:
    target = f"weighting exchanges at most {_ROWS} × the hidden size numbers in a round"
    texts, met = [], []
    for family, corpus in measured.first_corpora("full", "no-weight").items():
        full = study_name(corpus, family, "full")
        numbers, hidden = measured.weighting_numbers(full), int(measured.studies[full]["network"]["probe"][-1])
        added = measured.weighting_bytes(corpus, family)
        texts.append(f"{FAMILIES[family]} {numbers / hidden:g} × {hidden}, {added:,.0f} bytes")
        met.append(numbers <= _ROWS * hidden and added <= FLOAT * numbers + _ENVELOPE)
    return Bar(target, "; ".join(texts) or NOTHING, all(met) if met else None)


def _where(corpora: Sequence[str]) -> str:
    return " or ".join(CORPORA[corpus] for corpus in corpora)


def _judged(measured: Measured, studies: Sequence[str], met: bool) -> bool | None:
    """With too few samplings, a target is neither met nor missed."""
    return met if len(measured.seeds(*studies)) >= SAMPLINGS else None


def _any(met: Sequence[bool | None]) -> bool | None:
    """One corpus must reach the target; it stays open if another might still do so."""
    if any(met):
        return True
    return False if met and None not in met else None


def recovered_table(measured: Measured) -> str:
    """Return the share of its macro-F1 in one place that each family has: in the mean, and by sampling."""
    rows = []
    for corpus, family in product(CORPORA, FAMILIES):
        paper, best, top = (_highest(measured, corpus, [family], methods) for methods in (("full",), _OURS, _WHOLE))
        if paper and best and top:
            by_seed = [_share(measured, best, top, seeds=[seed]) for seed in measured.seeds(best, top)]
            shares = [_share(measured, paper, top), _share(measured, best, top), *by_seed]
            cells = [f"{100 * share:.0f}%" for share in shares] + [NOTHING] * (SAMPLINGS - len(by_seed))
            method = METHODS[best.removeprefix(study_name(corpus, family, ""))]
            rows.append([CORPORA[corpus], FAMILIES[family], cells[0], method, *cells[1:]])
    head = ["corpus", "family", "the paper's method", "the best", "its share"]
    return table([*head, *(f"sampling {number}" for number in range(SAMPLINGS))], rows)


def _highest(measured: Measured, corpus: str, families: Sequence[str], methods: Sequence[str]) -> str:
    """Return the study with the highest macro-F1; empty if none was measured."""
    names = [study_name(corpus, family, method) for family, method in product(families, methods)]
    return max(filter(measured.has, names), key=lambda name: measured.spread(name, "all").mean, default="")


def _share(measured: Measured, ours: str, whole: str, *, seeds: Sequence[int] | None = None) -> float:
    own, top = (measured.spread(study, "all", seeds=seeds).mean for study in (ours, whole))
    return own / top if top else 0.0


# Claims.


def claims(measured: Measured) -> str:
    """Return what the paper says beside what was measured."""
    tables, ablations, figure = (
        "[Tables 1 and 2](#table-1-six-genres)",
        "[Ablations](#ablations)",
        "[Figure 3](#figure-3)",
    )
    size, epochs = (
        "; ".join(
            f"{x}: {percent(measured.spread(name, 'micro').mean)}" for name, x in studies.items() if measured.has(name)
        )
        for studies in (BY_SIZE, BY_EPOCHS)
    )
    return claims_table(
        [
            ("its F1 is above the adversarial methods'", tables, above_claim(measured, ADVERSARIAL)),
            ("distillation adds 9 to 18 points of F1", ablations, gains_claim(measured, "no-weight", "neither")),
            ("weighting adds 2 to 4 points", ablations, gains_claim(measured, "full", "no-weight")),
            ("weighting costs less than discriminators", "[Bytes](#bytes)", bytes_claim(measured)),
            ("more trained numbers help up to a tenth of the network", figure, size),
            ("longer local training helps up to two epochs", figure, epochs),
        ]
    )


def above_claim(measured: Measured, others: Sequence[str]) -> str:
    """Return whether the paper's method has the highest micro-F1, by corpus and family."""
    texts = []
    for corpus, title in CORPORA.items():
        for family in measured.families(corpus, "full"):
            known = measured.known({method: study_name(corpus, family, method) for method in ("full", *others)})
            scores = {method: measured.spread(name, "micro").mean for method, name in known.items()}
            if len(scores) > 1:
                verdict = "yes" if scores["full"] == max(scores.values()) else "no"
                figures = "; ".join(f"{METHODS[method]} {percent(f1)}" for method, f1 in scores.items())
                texts.append(f"{title}, {FAMILIES[family]}: {verdict} ({figures})")
    return ". ".join(texts)


def gains_claim(measured: Measured, one: str, other: str) -> str:
    """Return a gain by corpus and family, in points over types that are not annotated."""
    texts = []
    for corpus, title in CORPORA.items():
        for family in measured.families(corpus, one, other):
            gain = measured.gain(study_name(corpus, family, one), study_name(corpus, family, other))
            texts.append(f"{title}, {FAMILIES[family]} {points(gain)}")
    return "; ".join(texts)


def bytes_claim(measured: Measured) -> str:
    """Return the bytes that weighting adds, beside those of discriminators."""
    texts = []
    for family, corpus in measured.first_corpora("full", "no-weight").items():
        more = measured.discriminator_bytes(corpus, family)
        beside = "" if more is None else f" (discriminators {more:,.0f})"
        texts.append(f"{FAMILIES[family]} {measured.weighting_bytes(corpus, family):,.0f}{beside}")
    return f"bytes that weighting adds: {', '.join(texts)}" if texts else ""
