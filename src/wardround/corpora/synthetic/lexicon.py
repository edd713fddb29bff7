"""The vocabulary of the synthetic notes: terms, the word lists they come from, and how sites share the lists.

The lists are in `data/*.toml`. Where a type needs hundreds of terms, they are composed here from parts in those files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from wardround.corpora.synthetic.stream import Stream, portion
from wardround.errors import TextError
from wardround.parsing import parse_toml

__all__ = [
    "DividedLexicon",
    "Lexicon",
    "Term",
    "WordLists",
    "clinical_lexicon",
    "divide",
    "invented_names",
    "person",
    "phi_lexicon",
    "terms",
]

_MINIMUM_TERMS = 6  # a site gets at least this many terms of a short list, even for a small share
_GENERIC_NAMES = 620
# All trade names come from one sequence, so that no drug shares its name with a gadget.
_BRANDS = {"drugs": range(0, 260), "gadgets": range(260, 460), "firms": range(460, 600), "goods": range(600, 740)}


@dataclass(frozen=True, slots=True)
class Term:
    """Something that a note can mention, and the forms in which it can be written."""

    text: str
    countable: bool = False  # takes `a` or `an`
    forms: tuple[tuple[str, str], ...] = ()  # other forms by name: `short`, `lay`, `last`

    def form(self, name: str) -> str:
        """Return the form with this name, or the plain text if the term does not have it."""
        return dict(self.forms).get(name, self.text)


Lexicon = Mapping[str, tuple[Term, ...]]  # list name → terms
DividedLexicon = Mapping[str, Mapping[str, tuple[Term, ...]]]  # list name → split → terms


def terms(texts: Iterable[str], *, countable: bool = False) -> tuple[Term, ...]:
    """Return a term for each different text, in order."""
    return tuple(Term(text, countable) for text in dict.fromkeys(texts))


def divide(lexicon: Lexicon, trained_share: float, seed: int) -> DividedLexicon:
    """Divide each list: `trained_share` of it may occur in training, half of the rest in dev and half in test.

    The text of a term decides, not its list: a complaint that is withheld as a symptom is also withheld as an adverse
    effect.
    """

    def split_of(text: str) -> str:
        position = portion(seed, "split", text)
        if position < trained_share:
            return "train"
        return "dev" if position < (1 + trained_share) / 2 else "test"

    lists: dict[str, dict[str, tuple[Term, ...]]] = {}
    for name, entries in lexicon.items():
        placed = [(split_of(term.text), term) for term in entries]
        parts = {split: tuple(term for place, term in placed if place == split) for split in ("train", "dev", "test")}
        lists[name] = {**parts, "train": parts["train"] or entries}
    return lists


class WordLists:
    """The lists that one site draws from in one of its splits.

    In training, it has a `share` of the training terms, selected by `names`. In dev and test it has all training terms,
    and with probability `withheld_rate` it draws a term that no site's training notes contain.
    """

    def __init__(
        self, lists: DividedLexicon, split: str, *, names: tuple[str | int, ...], share: float, withheld_rate: float
    ) -> None:
        self._rate = 0.0 if split == "train" else withheld_rate
        self._known = {name: parts["train"] for name, parts in lists.items()}
        self._withheld = {name: parts[split] for name, parts in lists.items()}
        if split == "train":
            for name, entries in self._known.items():
                ranked = sorted(entries, key=lambda term: portion(*names, term.text))
                self._known[name] = tuple(ranked[: max(_MINIMUM_TERMS, round(share * len(entries)))])

    def draw(self, name: str, stream: Stream) -> Term:
        """Draw a term from the list `name`."""
        if name not in self._known:
            raise TextError(f"{name!r} is neither a rule nor a word list; correct the template")
        use_withheld = stream.chance(self._rate)
        withheld = self._withheld[name]
        return stream.choice(withheld if use_withheld and withheld else self._known[name])


@cache
def _data(name: str) -> dict[str, Any]:
    source = files("wardround.corpora.synthetic").joinpath("data", f"{name}.toml")
    return parse_toml(source.read_text(encoding="utf-8"))


# Invented names.


def invented_names(purpose: str, count: int, *, endings: Sequence[str], middles: int = 1) -> list[str]:
    """Return names of two or more syllables, different for each purpose."""
    data = _data("drugs")
    stream = Stream("invented", purpose)
    names: dict[str, None] = {}
    while len(names) < count:
        inner = "".join(stream.choice(data["middles"]) for _ in range(stream.between(0, middles)))
        start, ending = stream.choice(data["openings"]) + inner, stream.choice(endings)
        link = stream.choice("dlmnrtvz") if start[-1] in "aeiou" and ending[0] in "aeiou" else ""
        names[start + link + ending] = None
    return list(names)


def _capitalised_names(purpose: str, count: int, endings: Sequence[str], *, middles: int = 1) -> list[str]:
    return [name.capitalize() for name in invented_names(purpose, count, endings=endings, middles=middles)]


def _brand_names(purpose: str) -> list[str]:
    """Return trade names; those of drugs and of other goods sound similar."""
    names = _capitalised_names("brands", max(_BRANDS["goods"]) + 1, _data("drugs")["brand_endings"])
    return [names[at] for at in _BRANDS[purpose]]


# Clinical notes.


def clinical_lexicon() -> Lexicon:
    """Return all lists of the clinical notes."""
    problems = _problem_lists()
    return {**_drug_lists(), **problems, **_finding_lists(problems), **_lookalike_lists()}


def _drug_lists() -> Lexicon:
    """Return the lists for Drug mentions: generic and trade names together, classes, and minerals."""
    data = _data("drugs")
    short = data["short_names"]
    known = [Term(name, forms=(("short", short[name]),) if name in short else ()) for name in data["well_known"]]
    stream = Stream("invented", "salts")
    generic = terms(
        f"{name} {stream.choice(data['salts'])}" if stream.chance(0.08) else name
        for name in invented_names("generic names", _GENERIC_NAMES, endings=data["generic_endings"])
    )
    return {
        "Drug": (*known, *generic, *terms(_brand_names("drugs"))),
        "drug_class": terms(data["classes"], countable=True),
        "mineral": terms(data["minerals"]),
    }


def _problem_lists() -> Lexicon:
    """Return the lists for Disease, Symptom and ADE mentions; complaints serve both Symptom and ADE."""
    data = _data("problems")
    sensations = [f"{place} {sensation}" for sensation, places in data["sensations"].items() for place in places]
    lay_sensations = [f"{feeling} {part}" for feeling, parts in data["lay_sensations"].items() for part in parts]
    complaints = terms([*sensations, *data["complaints"]])
    complaints += terms(data["countable_complaints"], countable=True)
    complaints += _terms_with_forms(data["abbreviated_complaints"])
    blood_disorders = [f"{way}{substance}aemia" for way in ("hyper", "hypo") for substance in data["blood_substances"]]
    blood_disorders += data["blood_counts"]
    organs = data["organs"]
    toxicities = [f"drug-induced {organ['root']}itis" for organ in organs[::2] if organ["root"][-1] not in "iy"]
    toxicities += [f"{organ['adjective']} toxicity" for organ in organs[::3]]
    toxic = terms([*data["toxic_effects"], *blood_disorders, *toxicities])
    eruptions = terms((f"{kind} {noun}" for kind in data["eruptions"] for noun in ("eruption", "rash")), countable=True)
    # Names that contain a drug; only the complete name is a mention.
    stream = Stream("invented", "nested")
    nested = [
        pattern.format(drug)
        for drug in data["nested_drugs"]
        for pattern in stream.shuffled(data["nested_patterns"])[:5]
    ]
    poisonings = (f"{drug} toxicity" for drug in data["nested_drugs"] if drug not in {"latex", "penicillin"})
    return {
        "Disease": (*_terms_with_forms(data["common_diseases"]), *_composed_diseases()),
        "nested": terms(nested),
        "Symptom": complaints,
        "lay": terms([*lay_sensations, *data["lay_complaints"]]),
        "feeling": terms(data["feelings"]),
        "toxic": (*toxic, *eruptions),
        "eruption": eruptions,
        "blood_disorder": terms(blood_disorders),
        "visible": terms(text for text in sensations if text.split()[-1] in data["visible_sensations"]),
        "poisoning": terms(poisonings),
        "ADE": (*complaints, *toxic, *eruptions),
    }


def _terms_with_forms(rows: Iterable[Mapping[str, str]]) -> tuple[Term, ...]:
    return tuple(
        Term(row["text"], forms=tuple((name, row[name]) for name in ("short", "lay") if name in row)) for row in rows
    )


def _composed_diseases() -> Iterator[Term]:
    """Yield names such as `granulomatous nephritis`, `splenic infarction`, `cyst of the ileum`, `Orme-Rusk palsy`."""
    data = _data("problems")
    stream = Stream("invented", "diseases")
    for row in data["organs"]:
        organ, adjective, root = row["organ"], row["adjective"], row["root"]
        for ending in row["endings"]:
            yield from (Term(f"{course} {root}{ending}") for course in stream.shuffled(data["courses"])[:2])
            yield Term(root + ending)
        for state in stream.shuffled(data["states"])[:3]:
            yield Term(f"{adjective} {state}")
        for lesion in stream.shuffled(data["lesions"])[:3]:
            yield Term(f"{lesion} of the {organ}" if stream.chance(0.4) else f"{adjective} {lesion}", countable=True)
    for first, second in zip(data["eponyms"], stream.shuffled(data["eponyms"]), strict=True):
        noun = stream.choice(data["eponym_nouns"])
        yield Term(f"{first}-{second} {noun}" if first != second and stream.chance(0.4) else f"{first}'s {noun}")


def _finding_lists(problems: Lexicon) -> Lexicon:
    """Return the lists for Finding mentions; some of the terms are symptoms or adverse effects elsewhere."""
    data = _data("findings")
    stream = Stream("invented", "findings")
    laboratory = [f"{way} {analyte}" for analyte in data["analytes"] for way in stream.shuffled(data["directions"])[:4]]
    shadows = [f"{place} {shadow}" for place in data["chest_places"] for shadow in stream.shuffled(data["shadows"])[:6]]
    organs = [f"{change} {part}" for part in data["structures"] for change in stream.shuffled(data["changes"])[:6]]
    signs = (*terms(data["signs"]), *terms(data["countable_signs"], countable=True))
    lists = {
        "laboratory": (*terms(laboratory), *problems["blood_disorder"]),
        "chest": (*terms(shadows), *terms(data["chest_films"], countable=True)),
        "sign": (*signs, *problems["eruption"], *problems["visible"]),
        "tracing": terms(data["tracings"]),
        "organ": terms(organs, countable=True),
    }
    return {**lists, "Finding": tuple(term for entries in lists.values() for term in entries)}


def _lookalike_lists() -> Lexicon:
    """Return words that take the place of mentions, or sound like them, but are not mentions.

    The sentence decides between `a` and `an` for `a(n)`.
    """
    data = _data("findings")
    stream = Stream("invented", "look-alikes")
    unchanged = [f"a(n) {stream.choice(data['unchanged'])} {part}" for part in data["structures"] for _ in range(3)]
    roots = (organ["root"] for organ in _data("problems")["organs"])
    procedures = [root + ending for root in roots for ending in stream.shuffled(data["procedure_endings"])[:3]]
    goods = [f"a(n) {name} {stream.choice(data['goods'])}" for name in _brand_names("goods")]
    return {
        "analyte": terms(data["analytes"]),
        "benign": terms(data["benign_signs"]),
        "normal_image": terms([*data["benign_images"], *unchanged]),
        "care": terms([*data["care"], *goods]),
        "worry": terms(data["worries"]),
        "past_event": terms([*data["past_events"], *(f"a previous {name}" for name in procedures[::2])]),
        "procedure": terms(procedures),
        "town": terms(_capitalised_names("towns", 120, data["town_endings"], middles=0)),
        "firm": terms(_brand_names("firms")),
        "gadget": terms(_brand_names("gadgets")),
    }


# Notes for de-identification.


def phi_lexicon() -> Lexicon:
    """Return the lists for identifying mentions and the words around them."""
    data = _data("phi")
    surnames = _capitalised_names("surnames", 380, data["surname_endings"])
    towns = _capitalised_names("phi towns", 260, data["town_endings"], middles=0)
    problems = _problem_lists()
    kinds = data["hospital_kinds"]
    hospitals = [f"{town} {kinds[at % len(kinds)]}" for at, town in enumerate(towns[::2])]
    hospitals += [f"{saint} {kind}" for saint in data["saints"] for kind in kinds[:6] if saint not in kind]
    return {
        "her_name": terms([*data["female_names"], *_capitalised_names("her names", 90, data["female_endings"])]),
        "his_name": terms([*data["male_names"], *_capitalised_names("his names", 90, data["male_endings"])]),
        "surname": terms([*data["ambiguous_surnames"], *data["common_surnames"], *surnames]),
        "mail_name": terms(name.lower() for name in surnames[::3] if name.isascii()),
        "CITY": terms(towns),
        "HOSPITAL": tuple(Term(name, forms=(("short", name.rsplit(" ", 1)[0]),)) for name in hospitals),
        "STREET": terms(f"{name} {kind}" for name in data["street_names"] for kind in data["street_kinds"]),
        "STATE": terms(data["states"]),
        "PROFESSION": terms(data["professions"]),
        "eponym": terms(data["eponyms"]),
        "eponymous_sign": terms(data["eponymous_signs"]),
        "problem": tuple(Term(term.text) for term in problems["Disease"]),
        "complaint": tuple(Term(term.text) for term in problems["Symptom"]),
    }


def person(first: str, last: str) -> Term:
    """Return a person by full name, with the other forms in which a note may write the name."""
    forms = {
        "first": first,
        "last": last,
        "reversed": f"{last}, {first}",
        "capitals": f"{last.upper()}, {first.upper()}",
        "initial": f"{first[0]}. {last}",
        "initials": first[0] + last[0],
    }
    return Term(f"{first} {last}", forms=tuple(forms.items()))
