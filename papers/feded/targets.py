"""Targets of the FedED measurement, and the paper's claims beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from statistics import median

from papers.common.cells import NOTHING, Bar, bootstrap_interval, claims_table
from papers.feded.measured import BASE, Measured, ratio_of
from papers.feded.studies import FEDED, FEDERATED
from papers.feded.tables import (
    CORPORA,
    MORE_SITES,
    MORE_WORK,
    PRECISIONS,
    RACERS,
    TITLES,
    Races,
    by_participation,
    races_of,
)

from wardround.text.plain_text import size_text

__all__ = ["all_met", "bars", "best_claim", "claims", "extreme_claim", "fewer_claim", "types_claim"]

_FEWEST_SEEDS = 5
_LARGEST, _LARGEST_AT_BEST = 25_000, 6_000  # bytes


def bars(measured: Measured) -> list[Bar]:
    """Return all targets; with too few seeds, a target is neither met nor missed."""
    both = [bar for method in FEDED for bar in (_score_bar(measured, method), _rounds_bar(measured, method))]
    return [*_upload_bars(measured), *both]


def all_met(measured: Measured) -> bool:
    """Return whether uploads are small, and one FedED is as good as FedAvg in half of its rounds."""
    as_good = [_score_bar(measured, method).met and _rounds_bar(measured, method).met for method in FEDED]
    return all(bar.met for bar in _upload_bars(measured)) and any(as_good)


def _upload_bars(measured: Measured) -> list[Bar]:
    found = {precision: measured.upload("gad", f"feded-{precision}") for precision in PRECISIONS}
    known = {precision: size for precision, size in found.items() if size is not None}
    whole, best = found["float32"], min(known, key=lambda precision: known[precision], default="")
    small = any(size <= _LARGEST_AT_BEST for size in known.values())
    return [
        Bar(
            f"a site uploads at most {size_text(_LARGEST)} in a round on GAD, float32",
            NOTHING if whole is None else size_text(round(whole)),
            None if whole is None else whole <= _LARGEST,
        ),
        Bar(
            f"at best, at most {size_text(_LARGEST_AT_BEST)}",
            f"{size_text(round(known[best]))}, {best}" if known else NOTHING,
            small if small or len(known) == len(PRECISIONS) else None,  # another precision might be smaller
        ),
    ]


def _score_bar(measured: Measured, method: str) -> Bar:
    target = f"{TITLES[method]}: its median F1 on GAD is at least FedAvg's, over {_FEWEST_SEEDS} seeds or more"
    studies = [f"gad-{name}" for name in (method, "fedavg")]
    if not (seeds := measured.seeds(*studies)):
        return Bar(target, NOTHING, None)
    ours, theirs = (measured.f1(study, seeds=seeds) for study in studies)
    gains = [one - other for one, other in zip(ours, theirs, strict=True)]
    low, high = bootstrap_interval(lambda picks: median(gains[pick] for pick in picks), len(gains))
    text = (
        f"{100 * median(ours):.1f} and {100 * median(theirs):.1f} over {len(seeds)} seeds; on the same draw it has "
        f"{100 * median(gains):+.1f} (95% of the median: {100 * low:+.1f} to {100 * high:+.1f})"
    )
    return Bar(target, text, median(ours) >= median(theirs) if len(seeds) >= _FEWEST_SEEDS else None)


def _rounds_bar(measured: Measured, method: str) -> Bar:
    target = f"{TITLES[method]}: reaches the target on GAD in at most half of FedAvg's rounds"
    ours, theirs = measured.base_pair(method)
    ratio, seeds = measured.base_ratio(method), len(ours.by_seed)
    if ratio is None:
        return Bar(target, NOTHING, None)

    def drawn_ratio(picks: Sequence[int]) -> float:
        drawn = [[rounds.values[pick] for pick in picks] for rounds in (ours, theirs)]
        return ratio_of(*drawn, limit=measured.limit).value

    ends = ["not reached" if end == inf else f"{end:.2f}" for end in bootstrap_interval(drawn_ratio, seeds)]
    text = f"{ours} and {theirs} rounds over {seeds} seeds, {ratio} (95%: {' to '.join(ends)})"
    return Bar(target, text, ratio.value <= 0.5 if seeds >= _FEWEST_SEEDS else None)


# Claims.


def claims(measured: Measured) -> str:
    """Return what the paper says beside what was measured."""
    third = "[Tables 3 to 5](#table-3-gad)"
    return claims_table(
        [
            ("FedED's F1 is above FedAtt's and FedAvg's", third, best_claim(measured)),
            (
                "central training is above every federated one",
                "[Tables 3 and 4](#table-3-gad)",
                extreme_claim(measured, "central", max),
            ),
            (
                "training on the public set alone is below all of them",
                third,
                extreme_claim(measured, "public", min),
            ),
            (
                "FedED gains in every relation type, the others in frequent ones",
                "[Table 6](#table-6-by-type)",
                types_claim(measured),
            ),
            ("a site uploads 5 KB in place of 423 MB", "[Table 7](#table-7-uploads)", _bytes_claim(measured)),
            (
                "FedED needs a third to a half of FedAvg's rounds",
                "[Rounds](#rounds-to-the-target)",
                fewer_claim(measured),
            ),
            (
                "more sites in a round, fewer rounds",
                "[Figure 2](#figure-2-more-sites-in-a-round)",
                _ends_claim(by_participation(measured), f"C = {BASE:g}", list(MORE_SITES)[-1]),
            ),
            (
                "more work in a round, fewer rounds",
                "[Table 8](#table-8-more-work-in-a-round)",
                _ends_claim(races_of(measured, MORE_WORK), "B = 16, E = 1", "B = 2, E = 3"),
            ),
        ]
    )


def _by_corpus(measured: Measured, judge: Callable[[dict[str, float]], str], needed: Sequence[str]) -> str:
    """Judge each corpus that has one of the needed methods, by medians over the seeds that all methods have."""
    texts = []
    for corpus, title in CORPORA.items():
        methods = [name for name in dict.fromkeys((*FEDERATED, *needed)) if measured.has(f"{corpus}-{name}")]
        seeds = measured.seeds(*(f"{corpus}-{name}" for name in methods)) if methods else []
        if seeds and "fedavg" in methods and any(name in methods for name in needed):
            medians = {name: median(measured.f1(f"{corpus}-{name}", seeds=seeds)) for name in methods}
            figures = "; ".join(f"{TITLES[name]} {100 * f1:.1f}" for name, f1 in medians.items())
            texts.append(f"{title}, {len(seeds)} seed{'s' * (len(seeds) > 1)}: {judge(medians)} ({figures})")
    return ". ".join(texts)


def best_claim(measured: Measured) -> str:
    """Return which FedEDs have the highest F1, by corpus."""

    def judge(f1: dict[str, float]) -> str:
        others = max(score for method, score in f1.items() if method not in FEDED)
        above = [TITLES[method] for method in FEDED if f1.get(method, 0.0) > others]
        return "yes, " + " and ".join(above) if above else "no"

    return _by_corpus(measured, judge, list(FEDED))


def extreme_claim(measured: Measured, method: str, extreme: Callable[..., str]) -> str:
    """Return whether a method has the highest or lowest F1, by corpus."""
    return _by_corpus(measured, lambda f1: "yes" if extreme(f1, key=lambda n: f1[n]) == method else "no", [method])


def types_claim(measured: Measured) -> str:
    """Return at how many types each method is better than the public set alone."""
    studies = measured.known({TITLES[method]: f"biored-{method}" for method in FEDERATED})
    alone = measured.type_f1("biored-public") if measured.has("biored-public") else {}
    scores = {title: own for title, study in studies.items() if (own := measured.type_f1(study))}
    if not studies or not alone:
        return ""
    better = {title: sum(own.get(name, 0.0) > f1 for name, f1 in alone.items()) for title, own in scores.items()}
    figures = "; ".join(f"{title} {count}" for title, count in better.items())
    return f"better than the public set alone, of {len(alone)} types of BioRED: {figures}"


def _bytes_claim(measured: Measured) -> str:
    sizes = [measured.upload("gad", way) for way in ("feded-float32", "feded-float16", "fedavg-plain")]
    if None in sizes:
        return ""
    whole, half, update = (size_text(round(size or 0)) for size in sizes)
    return f"GAD: {whole} in float32, {half} in float16, where FedAvg sends {update}"


def fewer_claim(measured: Measured) -> str:
    """Return the ratios of rounds, beside the rounds of the public set alone."""
    ratios = {method: measured.base_ratio(method) for method in FEDED}
    texts = [f"{TITLES[method]} {ratio}" for method, ratio in ratios.items() if ratio is not None]
    if not texts:
        return ""
    alone, theirs = (measured.base_rounds(method) for method in ("public", "fedavg"))
    return f"{'; '.join(texts)}. Rounds of the public set alone, without a site: {alone}; of FedAvg: {theirs}"


def _ends_claim(races: Races, before: str, after: str) -> str:
    pairs = {method: (races[before][method], races[after][method]) for method in RACERS} if races else {}
    texts = [f"{TITLES[m]} {one} and {other}" for m, (one, other) in pairs.items() if one.values and other.values]
    return f"rounds with {before} and with {after}: {'; '.join(texts)}" if texts else ""
