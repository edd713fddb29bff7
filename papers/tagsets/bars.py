"""What was to be reached, and what the paper says, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product

from papers.common.page import NOTHING, Bar, table
from papers.common.spread import percent, points
from papers.tagsets.figures import (
    FLOAT,
    TITLES,
    discriminator_bytes,
    families_of,
    study_name,
    upload_share,
    weighting_bytes,
    weighting_numbers,
)
from papers.tagsets.make_sites import SAMPLINGS
from papers.tagsets.measured import Measured
from papers.tagsets.variations import ADVERSARIAL, BY_EPOCHS, BY_SIZE, CORPORA, FAMILIES, PROTECTED, weighing

REAL = ("gum", "bio")
# What knows that a type was not looked for.
_SOFT = ("posterior", "posterior-tuned", "posterior-outside")
_OURS = ("full", "raw-weight", "no-weight", "partial", "partial-outside", *_SOFT)
_WHOLE = ("pooled", "pooled-tuned")
_GAIN = 0.10
_RECOVERED = 0.85
_UPLOADS: Mapping[str, float] = {"light-ner": 0.08, "lora": 0.02, "prompt": 0.02}  # of the network
_ROWS = 10  # of the hidden size: numbers that weighting may exchange
_ENVELOPE = 256  # bytes around them: a name and a shape


def bars(measured: Measured) -> list[Bar]:
    """All of them."""
    gains = [bar for corpora in (("synthetic",), REAL) for bar in (_gain(measured, corpora), _order(measured, corpora))]
    recovered = [_recovered(measured, corpora) for corpora in (("synthetic",), REAL)]
    return [*gains, *recovered, *(_upload(measured, family) for family in _UPLOADS), _weighting(measured)]


def all_met(measured: Measured) -> bool:
    """Whether nothing is missed or left open."""
    return all(bar.met for bar in bars(measured))


def bars_table(measured: Measured) -> str:
    """For the page."""
    return table(["wanted", "measured", ""], [[bar.wanted, bar.measured, bar.verdict] for bar in bars(measured)])


def best_of(measured: Measured, corpora: Sequence[str], *methods: str) -> tuple[str, str] | None:
    """Corpus and family with the highest F1 under the paper's method, of those that have all these methods."""
    found = [(corpus, family) for corpus in corpora for family in families_of(measured, corpus, "full", *methods)]
    return max(found, key=lambda at: measured.spread(study_name(at[0], at[1], "full"), "missing").mean, default=None)


def _gain(measured: Measured, corpora: Sequence[str]) -> Bar:
    wanted = (
        f"{_where(corpora)}: the paper's method has {100 * _GAIN:.0f} points of macro-F1 over types not annotated at a "
        f"site more than FedAvg, {SAMPLINGS} samplings"
    )
    told, met = [], []
    for corpus in corpora:
        if (best := best_of(measured, [corpus], "fedavg")) is None:
            continue
        ours, theirs = (study_name(*best, method) for method in ("full", "fedavg"))
        gain = measured.gain(ours, theirs)
        assert gain is not None, "both were measured"
        scores = " and ".join(percent(measured.spread(study, "missing").mean) for study in (ours, theirs))
        told.append(f"{TITLES[corpus]}, {TITLES[best[1]]}: {points(gain)} ({scores})")
        met.append(_judged(measured, [ours, theirs], gain.mean >= _GAIN))
    return Bar(wanted, "; ".join(told) or NOTHING, _any(met))


def _order(measured: Measured, corpora: Sequence[str]) -> Bar:
    wanted = f"{_where(corpora)}: weighted ≥ not weighted ≥ not distilled, in the mean over {SAMPLINGS} samplings"
    told, met = [], []
    for corpus in corpora:
        if (best := best_of(measured, [corpus], "no-weight", "neither")) is None:
            continue
        studies = [study_name(*best, method) for method in ("full", "no-weight", "neither")]
        seeds = measured.seeds(*studies)
        means = [measured.spread(study, "missing", seeds=seeds).mean for study in studies]
        weighting, distilling = (measured.gain(one, other) for one, other in pairwise(studies))
        told.append(
            f"{TITLES[corpus]}, {TITLES[best[1]]}: {', '.join(map(percent, means))}; weighting {points(weighting)}, "
            f"distillation {points(distilling)}"
        )
        met.append(_judged(measured, studies, means[0] >= means[1] >= means[2]))
    return Bar(wanted, "; ".join(told) or NOTHING, _any(met))


def _recovered(measured: Measured, corpora: Sequence[str]) -> Bar:
    wanted = f"{_where(corpora)}: the best family has {100 * _RECOVERED:.0f}% of the macro-F1 of all notes in one place"
    told, met = [], []
    for corpus in corpora:
        best, top = (_highest(measured, corpus, FAMILIES, methods) for methods in (_OURS, _WHOLE))
        if not best or not top:
            continue
        share = _share(measured, best, top)
        scores = ", ".join(f"{name} {percent(_macro(measured, name))}" for name in (best, top))
        told.append(f"{100 * share:.0f}%: {scores}")
        met.append(_judged(measured, [best, top], share >= _RECOVERED))
    return Bar(wanted, "; ".join(told) or NOTHING, _any(met))


def recovered_table(measured: Measured) -> str:
    """What each family has, in macro-F1, of its own training in one place: in the mean, and sampling by sampling."""
    rows = []
    for corpus, family in product(CORPORA, FAMILIES):
        paper, best, top = (_highest(measured, corpus, [family], methods) for methods in (("full",), _OURS, _WHOLE))
        if paper and best and top:
            seeds = measured.seeds(best, top)
            single = [_share(measured, best, top, seeds=[seed]) for seed in seeds]
            method = best.removeprefix(study_name(corpus, family, ""))
            shares = [_share(measured, paper, top), _share(measured, best, top), *single]
            told = [f"{100 * share:.0f}%" for share in shares]
            told += [NOTHING] * (SAMPLINGS - len(single))
            rows.append([TITLES[corpus], TITLES[family], told[0], TITLES[method], *told[1:]])
    head = ["corpus", "family", "the paper's method", "the best", "its share"]
    return table([*head, *(f"sampling {number}" for number in range(SAMPLINGS))], rows) if rows else ""


def _highest(measured: Measured, corpus: str, families: Sequence[str], methods: Sequence[str]) -> str:
    """The study with the highest macro-F1 of those that were measured; none is empty."""
    names = [study_name(corpus, family, method) for family, method in product(families, methods)]
    return max(filter(measured.has, names), key=lambda name: _macro(measured, name), default="")


def _share(measured: Measured, ours: str, whole: str, *, seeds: Sequence[int] | None = None) -> float:
    """Of the macro-F1 in one place."""
    top = _macro(measured, whole, seeds=seeds)
    return _macro(measured, ours, seeds=seeds) / top if top else 0.0


def _macro(measured: Measured, study: str, *, seeds: Sequence[int] | None = None) -> float:
    return measured.spread(study, "all", seeds=seeds).mean


def _upload(measured: Measured, family: str) -> Bar:
    largest = _UPLOADS[family]
    wanted = f"{TITLES[family]}: a site uploads at most {100 * largest:.0f}% of the network in a round"
    studies = {TITLES[corpus]: study_name(corpus, family, "full") for corpus in CORPORA}
    studies |= {way: weighing(family, way) for way in PROTECTED}
    shares = {title: upload_share(measured, study) for title, study in studies.items() if measured.has(study)}
    told = ", ".join(f"{title} {100 * share:.2f}%" for title, share in shares.items())
    return Bar(wanted, told or NOTHING, max(shares.values()) <= largest if shares else None)


def _weighting(measured: Measured) -> Bar:
    wanted = f"weighting exchanges at most {_ROWS} × the hidden size numbers in a round"
    told, met = [], []
    for family in FAMILIES:
        for corpus in [c for c in CORPORA if family in families_of(measured, c, "full", "no-weight")][:1]:
            full = study_name(corpus, family, "full")
            numbers, hidden = weighting_numbers(measured, full), int(measured.network(full)["probe"][-1])
            added = weighting_bytes(measured, corpus, family)
            told.append(f"{TITLES[family]} {numbers / hidden:g} × {hidden}, {added:,.0f} bytes")
            met.append(numbers <= _ROWS * hidden and added <= FLOAT * numbers + _ENVELOPE)
    return Bar(wanted, "; ".join(told) or NOTHING, all(met) if met else None)


def _where(corpora: Sequence[str]) -> str:
    return " or ".join(TITLES[corpus] for corpus in corpora)


def _judged(measured: Measured, studies: Sequence[str], met: bool) -> bool | None:
    """With too few samplings nothing is met or missed."""
    return met if len(measured.seeds(*studies)) >= SAMPLINGS else None


def _any(met: Sequence[bool | None]) -> bool | None:
    """On one corpus at least; open, where another might still do it."""
    if any(met):
        return True
    return False if met and None not in met else None


# Claims.


def claims_table(measured: Measured) -> str:
    """What the paper says, where it is measured, and what came out."""
    rows = [[claim, place, judge(measured) or "not measured"] for claim, (place, judge) in _CLAIMS.items()]
    return table(["the paper says", "measured in", "here"], rows)


def _against(measured: Measured, others: Sequence[str]) -> str:
    """The paper's method beside others, in micro-F1 as the paper has it, by corpus and family."""
    told = []
    for corpus in CORPORA:
        for family in families_of(measured, corpus, "full"):
            scores = {
                method: measured.spread(name, "micro").mean
                for method in ("full", *others)
                if measured.has(name := study_name(corpus, family, method))
            }
            if len(scores) > 1:
                said = "yes" if scores["full"] == max(scores.values()) else "no"
                figures = "; ".join(f"{TITLES[method]} {percent(f1)}" for method, f1 in scores.items())
                told.append(f"{TITLES[corpus]}, {TITLES[family]}: {said} ({figures})")
    return ". ".join(told)


def _gains(measured: Measured, one: str, other: str) -> str:
    """By corpus and family, in points over types that are not annotated."""
    told = []
    for corpus in CORPORA:
        for family in families_of(measured, corpus, one, other):
            gain = measured.gain(study_name(corpus, family, one), study_name(corpus, family, other))
            told.append(f"{TITLES[corpus]}, {TITLES[family]} {points(gain)}")
    return "; ".join(told)


def _cheaper(measured: Measured) -> str:
    told = []
    for family in FAMILIES:
        for corpus in [c for c in CORPORA if family in families_of(measured, c, "full", "no-weight")][:1]:
            more = discriminator_bytes(measured, corpus, family)
            beside = "" if more is None else f" (discriminators {more:,.0f})"
            told.append(f"{TITLES[family]} {weighting_bytes(measured, corpus, family):,.0f}{beside}")
    return f"bytes that weighting adds: {', '.join(told)}" if told else ""


def _curve(measured: Measured, studies: Mapping[str, str]) -> str:
    found = {x: measured.spread(name, "micro").mean for name, x in studies.items() if measured.has(name)}
    return "; ".join(f"{x}: {percent(f1)}" for x, f1 in found.items())


_CLAIMS: Mapping[str, tuple[str, Callable[[Measured], str]]] = {
    "its F1 is above the adversarial methods'": (
        "[Tables 1 and 2](#table-1-six-genres)",
        lambda measured: _against(measured, ADVERSARIAL),
    ),
    "distillation adds 9 to 18 points of F1": (
        "[Ablations](#ablations)",
        lambda measured: _gains(measured, "no-weight", "neither"),
    ),
    "weighting adds 2 to 4 points": ("[Ablations](#ablations)", lambda measured: _gains(measured, "full", "no-weight")),
    "weighting costs less than discriminators": ("[Bytes](#bytes)", _cheaper),
    "more trained numbers help up to a tenth of the network": (
        "[Figure 3](#figure-3)",
        lambda measured: _curve(measured, BY_SIZE),
    ),
    "longer local training helps up to two epochs": (
        "[Figure 3](#figure-3)",
        lambda measured: _curve(measured, BY_EPOCHS),
    ),
}
