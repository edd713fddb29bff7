"""What `papers/README.md` says of the FedED paper, from `expected.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean, median
from typing import Any

from papers.common.overview import DRAWING, Found, Item, Paper, Way, listed
from papers.feded import published
from papers.feded.bars import CLAIMS, upload
from papers.feded.figures import BASE, DISTILLED, TITLES, Rounds, of_raced_seeds, race
from papers.feded.joint import CORPORA as JOINT_CORPORA
from papers.feded.joint import METHODS
from papers.feded.measured import Measured
from papers.feded.summarise import measured_of
from papers.feded.variations import CORPORA, FEDERATED, FRACTIONS, PRECISIONS, RACERS, WORK

from wardround.evaluation.counts import SpanCounts
from wardround.reports.plain_text import size_text

_ROWS = ("central", "public", *FEDERATED)
_ENCODER = "MiniLM in place of BERT-base"
_CLAIMS = {says: judge for says, _, judge in CLAIMS}


def _claim(measured: Measured, begins: str) -> str:
    """What was found of the claim that begins so."""
    (judge,) = (judge for says, judge in _CLAIMS.items() if says.startswith(begins))
    return judge(measured)


def _scores(corpus: str) -> Callable[[Mapping[str, Any]], Found]:
    def found(expected: Mapping[str, Any]) -> Found:
        measured = measured_of(expected)
        known = {method: name for method in _ROWS if measured.has(name := f"{corpus}-{method}")}
        if not known:
            return Found()
        scores = {TITLES[method]: 100 * median(measured.f1(name)) for method, name in known.items()}
        seeds = [len(measured.studies[name]["seed"]) for name in known.values()]
        return Found(f"median F1: {listed(scores)}", seeds, _best(scores))

    return found


def _best(scores: Mapping[str, float]) -> str:
    """FedED beside FedAvg; central training is no competitor."""
    ours = {title: f1 for title, f1 in scores.items() if title.startswith("FedED")}
    if not ours or "FedAvg" not in scores:
        return ""
    best = max(ours, key=lambda title: ours[title])
    return f"The best FedED, {best}, is {ours[best] - scores['FedAvg']:+.1f} points from FedAvg."


def _published(corpus: str) -> str:
    theirs = {TITLES[method]: scores[-1] for method, scores in published.SCORES[corpus].items()}
    return f"{corpus if corpus == 'i2b2' else TITLES[corpus]}, F1: {listed(theirs, digits=2)}"


def _table6(expected: Mapping[str, Any]) -> Found:
    measured = measured_of(expected)
    told = _claim(measured, "FedED gains in every relation type")
    studies = [own for name, own in measured.studies.items() if name.startswith("biored-")]
    return Found(told, [len(own["seed"]) for own in studies]) if told != "not measured" else Found()


def _table7(expected: Mapping[str, Any]) -> Found:
    measured = measured_of(expected)
    ways = {"FedAvg": "fedavg-plain", **{f"FedED, {precision}": f"feded-{precision}" for precision in PRECISIONS}}
    sizes = {title: size for title, way in ways.items() if (size := upload(measured, "gad", way)) is not None}
    told = "; ".join(f"{title} {size_text(round(size))}" for title, size in sizes.items())
    if not sizes:
        return Found()
    ours = [size for title, size in sizes.items() if title != "FedAvg"]
    both = ours and "FedAvg" in sizes
    less = f"At best a site sends {sizes['FedAvg'] / min(ours):,.0f} times less than with FedAvg." if both else ""
    return Found(f"GAD, a site in a round: {told}", shows=less)


def _figure2(expected: Mapping[str, Any]) -> Found:
    measured = measured_of(expected)
    more = [fraction for fraction in FRACTIONS if fraction != BASE]
    if not any(measured.has(f"race-{method}-c{fraction}") for method in RACERS for fraction in more):
        return Found()
    cells = {f"C = {BASE:g}": {method: of_raced_seeds(measured, method) for method in RACERS}}
    cells |= {f"C = {f:g}": {method: race(measured, f"race-{method}-c{f}") for method in RACERS} for f in more}
    return _raced(cells)


def _table8(expected: Mapping[str, Any]) -> Found:
    measured = measured_of(expected)
    names = {f"B = {size}, E = {epochs}": f"b{size}-e{epochs}" for epochs, size in WORK}
    return _raced(
        {title: {method: race(measured, f"race-{method}-{at}") for method in RACERS} for title, at in names.items()}
    )


def _raced(cells: Mapping[str, Mapping[str, Rounds]]) -> Found:
    """Rounds to the target by setting and method."""
    told, seeds, fewer = [], list[int](), list[bool]()
    for title, runs in cells.items():
        known = {method: rounds for method, rounds in runs.items() if rounds.values}
        if known:
            told.append(f"{title}: {', '.join(f'{TITLES[method]} {rounds}' for method, rounds in known.items())}")
            seeds += [len(rounds.values) for rounds in known.values()]
        if known.keys() >= {"fedavg", DISTILLED}:
            fewer.append(median(known[DISTILLED].values) < median(known["fedavg"].values))
    shows = f"{TITLES[DISTILLED]} needs fewer rounds than FedAvg in {sum(fewer)} of {len(fewer)} settings."
    return Found(f"rounds to the target, median: {'; '.join(told)}", seeds, shows) if told else Found()


def _joint(expected: Mapping[str, Any]) -> Found:
    told, seeds = [], list[int]()
    for corpus, methods in expected.get("joint", {}).items():
        runs = {method: found["relations"] for method, found in methods.items() if found["relations"]}
        scores = {
            METHODS[method]: 100 * mean(SpanCounts(*counts).f1 for counts in by_seed.values())
            for method, by_seed in runs.items()
        }
        told += [f"{JOINT_CORPORA[corpus]}: {listed(scores)}"] if scores else []
        seeds += [len(by_seed) for by_seed in runs.values()]
    return Found(f"strict F1 of relations, {'; '.join(told)}", seeds) if told else Found()


def _published8() -> str:
    theirs = {at: found for at, found in published.ROUNDS.items() if found["fedavg"] and found["feded"]}
    told = [f"B = {size}, E = {epochs}: {own['fedavg']} and {own['feded']}" for (size, epochs), own in theirs.items()]
    return f"i2b2, rounds of FedAvg and FedED: {'; '.join(told)}"


def _published6() -> str:
    best = [scores[-1] == max(scores) for _, scores in published.CLASSES.values()]
    return f"i2b2: FedED is best in {sum(best)} of {len(best)} types"


def _published7() -> str:
    return f"GAD: FedAvg {published.UPLOADS['fedavg']['gad']}, FedED {published.UPLOADS['feded']['gad']}"


def _sizes(expected: Mapping[str, Any]) -> Found:
    told = []
    for corpus in CORPORA:
        draw = expected.get("sites", {}).get(corpus, {}).get("seed-0")
        if draw:
            told.append(f"{TITLES[corpus]} {draw['train']['pairs']:,} / {draw['test']['pairs']:,}")
    return Found(f"pairs for training / for testing: {', '.join(told)}") if told else Found()


def _table(number: int, corpus: str, theirs: str, data: str, differs: str) -> Item:
    title = TITLES[corpus]
    anchor = {3: "table-3-gad", 4: "table-4-eu-adr", 5: "table-5-a-corpus-of-eight-relations"}[number]
    name = f"table{number}"
    way = Way(only=(name,))
    return Item(
        name, f"Table {number}: {title}", data, _published(theirs), differs, anchor, (name,), way, _scores(corpus)
    )


PAPER = Paper(
    "feded",
    "FedED (Sui 2020)",
    (
        Item(
            "table1",
            "Tables 1 and 2: corpora",
            "GAD, EU-ADR, BioRED",
            "GAD 4,797 / 533 pairs, EU-ADR 320 / 35, i2b2 with eight relations",
            "BioRED stands for i2b2 2010, which cannot be redistributed",
            "sites",
            ("setup",),
            found=_sizes,
        ),
        Item("figure1", "Figure 1: architecture", differs=DRAWING),
        _table(3, "gad", "gad", "GAD among 50 sites", _ENCODER),
        _table(4, "euadr", "euadr", "EU-ADR among 50 sites", f"{_ENCODER}; a test part of 35 to 37 pairs"),
        _table(5, "biored", "i2b2", "BioRED among 100 sites", f"{_ENCODER}; BioRED in place of i2b2"),
        Item(
            "table6",
            "Table 6: by type",
            "BioRED among 100 sites",
            _published6(),
            f"{_ENCODER}; BioRED in place of i2b2",
            "table-6-by-type",
            ("table6", "published6"),
            Way(only=("table5",)),
            _table6,
        ),
        Item(
            "table7",
            "Table 7: uploads",
            "GAD, EU-ADR, BioRED",
            _published7(),
            f"{_ENCODER}; counted at a site's door with everything around the numbers",
            "table-7-uploads",
            ("table7",),
            Way(only=("table7",), option="--weighed"),
            _table7,
        ),
        Item(
            "figure2",
            "Figure 2: more sites in a round",
            "GAD among 50 sites",
            "a figure without numbers",
            f"{_ENCODER}; GAD in place of i2b2",
            "figure-2-more-sites-in-a-round",
            ("figure2",),
            Way(only=("figure2",)),
            _figure2,
        ),
        Item(
            "table8",
            "Table 8: more work in a round",
            "GAD among 50 sites",
            _published8(),
            f"{_ENCODER}; GAD in place of i2b2",
            "table-8-more-work-in-a-round",
            ("table8",),
            Way(only=("table8",)),
            _table8,
        ),
        Item(
            "joint",
            "Future work: entities and relations together",
            "ADE and BioRED among three sites",
            differs="the paper has none; `python -m papers.feded.joint` measures it",
            anchor="entities-and-relations-together",
            markers=("joint",),
            found=_joint,
        ),
    ),
    beside=("joint",),
)
