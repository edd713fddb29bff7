"""What was to be reached, and what the paper says, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from statistics import median

from papers.common.page import NOTHING, Bar, resampled, table
from papers.feded.figures import (
    BASE,
    TITLES,
    Rounds,
    base_pair,
    base_ratio,
    base_rounds,
    of_raced_seeds,
    race,
)
from papers.feded.measured import Measured, ratio_of
from papers.feded.variations import CORPORA, FEDED, FEDERATED, FRACTIONS, PRECISIONS, RACERS, WORK

from wardround.reports.plain_text import size_text

_CORPUS = "gad"
_FEWEST_SEEDS = 5
_LARGEST, _LARGEST_AT_BEST = 25_000, 6_000  # bytes
_HALF = 0.5


def bars(measured: Measured) -> list[Bar]:
    """All of them."""
    scored = [bar for method in FEDED for bar in (_scores(measured, method), _rounds(measured, method))]
    return [*_uploads(measured), *scored]


def all_met(measured: Measured) -> bool:
    """Whether uploads are small, and one and the same FedED is as good as FedAvg in half of its rounds."""
    as_good = [_scores(measured, method).met and _rounds(measured, method).met for method in FEDED]
    return all(bar.met for bar in _uploads(measured)) and any(as_good)


def bars_table(measured: Measured) -> str:
    """For the page."""
    return table(["wanted", "measured", ""], [[bar.wanted, bar.measured, bar.verdict] for bar in bars(measured)])


def upload(measured: Measured, corpus: str, way: str) -> float | None:
    """Bytes from a site in a round, where they were counted."""
    study = f"weigh-{corpus}-{way}"
    return measured.upload(study) if measured.has(study) else None


def _uploads(measured: Measured) -> list[Bar]:
    found = {precision: upload(measured, _CORPUS, f"feded-{precision}") for precision in PRECISIONS}
    known = {precision: size for precision, size in found.items() if size is not None}
    whole = found["float32"]
    best = min(known, key=lambda precision: known[precision]) if known else ""
    return [
        Bar(
            f"a site uploads at most {size_text(_LARGEST)} in a round on GAD, float32",
            NOTHING if whole is None else size_text(round(whole)),
            None if whole is None else whole <= _LARGEST,
        ),
        Bar(
            f"at best, at most {size_text(_LARGEST_AT_BEST)}",
            f"{size_text(round(known[best]))}, {best}" if known else NOTHING,
            _small_at_best(known),
        ),
    ]


def _small_at_best(known: Mapping[str, float]) -> bool | None:
    """A precision that was not weighed might be smaller."""
    if any(size <= _LARGEST_AT_BEST for size in known.values()):
        return True
    return False if len(known) == len(PRECISIONS) else None


def _scores(measured: Measured, method: str) -> Bar:
    wanted = f"{TITLES[method]}: its median F1 on GAD is at least FedAvg's, over {_FEWEST_SEEDS} seeds or more"
    studies = [f"{_CORPUS}-{name}" for name in (method, "fedavg")]
    seeds = measured.seeds(*studies)
    if not seeds:
        return Bar(wanted, NOTHING, None)
    ours, theirs = (measured.f1(study, seeds=seeds) for study in studies)
    gains = [one - other for one, other in zip(ours, theirs, strict=True)]
    low, high = resampled(lambda picks: median(gains[pick] for pick in picks), len(gains))
    said = (
        f"{100 * median(ours):.1f} and {100 * median(theirs):.1f} over {len(seeds)} seeds; on the same draw it has "
        f"{100 * median(gains):+.1f} (95% of the median: {100 * low:+.1f} to {100 * high:+.1f})"
    )
    return Bar(wanted, said, _judged(seeds, median(ours) >= median(theirs)))


def _rounds(measured: Measured, method: str) -> Bar:
    wanted = f"{TITLES[method]}: reaches the target on GAD in at most half of FedAvg's rounds"
    ours, theirs = base_pair(measured, method)
    ratio, seeds = base_ratio(measured, method), sorted(ours.by_seed)
    if ratio is None:
        return Bar(wanted, NOTHING, None)
    low, high = resampled(
        lambda picks: (
            ratio_of(
                [ours.values[pick] for pick in picks], [theirs.values[pick] for pick in picks], limit=measured.limit
            ).value
        ),
        len(seeds),
    )
    said = f"{ours} and {theirs} rounds over {len(seeds)} seeds, {ratio} (95%: {_share(low)} to {_share(high)})"
    return Bar(wanted, said, _judged(seeds, ratio.value <= _HALF))


def _judged(seeds: Sequence[int], met: bool) -> bool | None:
    """With too few seeds nothing is met or missed."""
    return met if len(seeds) >= _FEWEST_SEEDS else None


def _share(value: float) -> str:
    return "not reached" if value == inf else f"{value:.2f}"


# What the paper says.


def claims_table(measured: Measured) -> str:
    """Each claim with where it is measured and what was found."""
    found = [(says, where, here(measured)) for says, where, here in CLAIMS]
    return table(["the paper says", "measured in", "here"], [list(row) for row in found])


def _by_corpus(measured: Measured, judge: Callable[[dict[str, float]], str], needed: Sequence[str]) -> str:
    """A verdict for each corpus that has one of the needed methods, by medians over the seeds that all methods have."""
    said = []
    for corpus in CORPORA:
        methods = [name for name in dict.fromkeys((*FEDERATED, *needed)) if measured.has(f"{corpus}-{name}")]
        seeds = measured.seeds(*(f"{corpus}-{name}" for name in methods)) if methods else []
        if seeds and "fedavg" in methods and any(name in methods for name in needed):
            medians = {name: median(measured.f1(f"{corpus}-{name}", seeds=seeds)) for name in methods}
            figures = "; ".join(f"{TITLES[name]} {100 * f1:.1f}" for name, f1 in medians.items())
            said.append(f"{TITLES[corpus]}, {len(seeds)} seed{'s' * (len(seeds) > 1)}: {judge(medians)} ({figures})")
    return ". ".join(said) or "not measured"


def _best(measured: Measured) -> str:
    def judge(f1: dict[str, float]) -> str:
        others = max(score for method, score in f1.items() if method not in FEDED)
        above = [TITLES[method] for method in FEDED if f1.get(method, 0.0) > others]
        return "yes, " + " and ".join(above) if above else "no"

    return _by_corpus(measured, judge, list(FEDED))


def _central(measured: Measured) -> str:
    return _by_corpus(measured, lambda f1: _yes(max(f1, key=lambda name: f1[name]) == "central"), ["central"])


def _public(measured: Measured) -> str:
    return _by_corpus(measured, lambda f1: _yes(min(f1, key=lambda name: f1[name]) == "public"), ["public"])


def _yes(found: bool) -> str:
    return "yes" if found else "no"


def _types(measured: Measured) -> str:
    """How many types each method is better at than the public set alone."""
    studies = {method: name for method in FEDERATED if measured.has(name := f"biored-{method}")}
    if not studies or not measured.has("biored-public"):
        return "not measured"
    alone = type_f1(measured, "biored-public")
    if not alone:
        return "not measured"
    scores = {method: own for method, study in studies.items() if (own := type_f1(measured, study))}
    better = {method: sum(own.get(name, 0.0) > f1 for name, f1 in alone.items()) for method, own in scores.items()}
    found = "; ".join(f"{TITLES[method]} {count}" for method, count in better.items())
    return f"better than the public set alone, of {len(alone)} types of BioRED: {found}"


def type_f1(measured: Measured, study: str) -> dict[str, float]:
    """F1 of each type, the median over seeds."""
    return {name: median(own.f1 for own in counts) for name, counts in measured.by_type(study).items() if counts}


def _bytes(measured: Measured) -> str:
    sizes = {way: upload(measured, _CORPUS, way) for way in ("feded-float32", "feded-float16", "fedavg-plain")}
    if None in sizes.values():
        return "not measured"
    whole, half, update = (size_text(round(size or 0)) for size in sizes.values())
    return f"GAD: {whole} in float32, {half} in float16, where FedAvg sends {update}"


def _fewer(measured: Measured) -> str:
    ratios = {method: base_ratio(measured, method) for method in FEDED}
    said = [f"{TITLES[method]} {ratio}" for method, ratio in ratios.items() if ratio is not None]
    if not said:
        return "not measured"
    alone, theirs = (base_rounds(measured, method) for method in ("public", "fedavg"))
    return f"{'; '.join(said)}. Rounds of the public set alone, without a site: {alone}; of FedAvg: {theirs}"


def _parallel(measured: Measured) -> str:
    last = FRACTIONS[-1]
    ends = {method: (of_raced_seeds(measured, method), race(measured, f"race-{method}-c{last}")) for method in RACERS}
    return _ends(ends, f"C = {BASE:g}", f"C = {last:g}")


def _work(measured: Measured) -> str:
    sizes, epochs = sorted({size for _, size in WORK}), sorted({number for number, _ in WORK})
    little, much = (sizes[-1], epochs[0]), (sizes[0], epochs[-1])
    ends = {
        method: tuple(race(measured, f"race-{method}-b{size}-e{number}") for size, number in (little, much))
        for method in RACERS
    }
    named = [f"B = {size}, E = {number}" for size, number in (little, much)]
    return _ends({method: (one, other) for method, (one, other) in ends.items()}, *named)


def _ends(ends: dict[str, tuple[Rounds, Rounds]], before: str, after: str) -> str:
    said = [
        f"{TITLES[method]} {one} and {other}" for method, (one, other) in ends.items() if one.values and other.values
    ]
    return f"rounds with {before} and with {after}: {'; '.join(said)}" if said else "not measured"


CLAIMS: Sequence[tuple[str, str, Callable[[Measured], str]]] = (
    ("FedED's F1 is above FedAtt's and FedAvg's", "[Tables 3 to 5](#table-3-gad)", _best),
    ("central training is above every federated one", "[Tables 3 and 4](#table-3-gad)", _central),
    ("what learns on the public set alone is below all of them", "[Tables 3 to 5](#table-3-gad)", _public),
    (
        "FedED gains in every relation type, the others in frequent ones",
        "[Table 6](#table-6-by-type)",
        _types,
    ),
    ("a site uploads 5 KB in place of 423 MB", "[Table 7](#table-7-uploads)", _bytes),
    ("FedED needs a third to a half of FedAvg's rounds", "[Rounds](#rounds-to-the-target)", _fewer),
    ("more sites in a round, fewer rounds", "[Figure 2](#figure-2-more-sites-in-a-round)", _parallel),
    ("more work in a round, fewer rounds", "[Table 8](#table-8-more-work-in-a-round)", _work),
)
