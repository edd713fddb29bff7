"""Two hospitals for de-identification whose notes are full of names, dates and numbers.

The source is large and writes discharge summaries with headings. The target is small and writes free nursing notes with
other formats for dates, telephone numbers and record numbers. All people are fictitious: names are composed, telephone
numbers come from ranges reserved for fiction, and mail domains from those reserved for examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from wardround.corpora.synthetic.formal_styles import COMMON, MONTHS
from wardround.corpora.synthetic.lexicon import Term, WordLists, divide, person, phi_lexicon
from wardround.corpora.synthetic.notes import (
    SYNTHETIC,
    Section,
    Splits,
    Style,
    SyntheticSite,
    Typing,
    patient_facts,
    write_note,
)
from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.templates import Grammar, NoteBuilder, SentenceWriter
from wardround.errors import UsageError
from wardround.text.document import Document

__all__ = ["NURSING", "PHI_TYPES", "SUMMARIES", "PhiConfig", "phi_hospitals"]

PHI_TYPES = (
    "PATIENT",
    "DOCTOR",
    "HOSPITAL",
    "DATE",
    "AGE",
    "PHONE",
    "EMAIL",
    "ID",
    "STREET",
    "CITY",
    "STATE",
    "ZIP",
    "PROFESSION",
)


def _american(*, day: str, two: str, month: str) -> str:
    return f"""
        {{{two}}}/{{{day}}}/{{year}} / {{{two}}}/{{{day}}}/{{short_year}} / {{{month}}} {{{day}}}, {{year}}
        {{year}}-{{{two}}}-{{{day}}} / {{{two}}}-{{{day}}}-{{year}} / {{{day}}} {{{month}}} {{year}}
    """


_SHARED = {
    "month": COMMON["month"],
    "span": COMMON["span"],
    "pressure": COMMON["pressure"],
    "pulse": COMMON["pulse"],
    "heat": COMMON["heat"],
    "level": COMMON["level"],
    "two": "0{#1-9} / {#10-12}",
    "day": "{#10-28}",
    "early": "0{#1-9}",
    "letter": "A / B / C / D / E / H / K / M / P / R / T / W",
    "EMAIL": """
        {mail_name}@{domain} / {mail_name}.{mail_name}@{domain} / {mail_name}{#10-99}@{domain}
        {letter}.{mail_name}@{domain}
    """,
    "domain": "example.org / example.com / mail.example / post.example / clinic.example / home.example",
    # Both hospitals use these sentences: this is what a model can transfer.
    "either": """
        Seen by Dr[.|] {DOCTOR.last}, who {thinks} {eponym}.
        {his} {kin_named} can be reached at {PHONE}.
        {he} lives with {his} {kin} on {STREET} in {CITY}.
        {he} {works} as a(n) {PROFESSION} in {CITY}.
        Dr[.|] {DOCTOR.last} was told on {DATE} and will review.
        {PATIENT.first:patient} was transferred from {HOSPITAL} on {DATE}.
        {title}[.|] {PATIENT.last:patient} has {problem} and {complaint}.
        {he} is {AGE/age} and has {eponym}.
        {PATIENT:patient} was told to call {PHONE} if {complaint} returns.
        Discussed with {DOCTOR} of {HOSPITAL.short}.
        Record {ID} checked against {PATIENT:patient}.
        {his} address is {STREET/numbered_street}, {CITY} {ZIP}.
    """,
    "thinks": "thought of / suspected / found no / wondered about / diagnosed",
    "clock": "{#0-9}:{#10-59} / 1{#0-9}:{#10-59} / 2{#0-3}:{#10-59}",
    "she_kin": "daughter / sister / niece / neighbour / friend / granddaughter",
    "he_kin": "son / brother / nephew / neighbour / friend / grandson",
    "kin": "{she_kin} / {he_kin}",
    "kin_named": "{she_kin} {PATIENT/she_person} / {he_kin} {PATIENT/he_person}",
    "kin_by_first": "{she_kin} {PATIENT/she_person.first} / {he_kin} {PATIENT/he_person.first}",
}

_SUMMARY_RULES = {
    **_SHARED,
    "DATE": _american(day="day", two="two", month="month"),
    "admission": _american(day="early", two="this_two", month="this_month"),
    "departure": _american(day="day", two="this_two", month="this_month"),
    "later": _american(day="day", two="next_two", month="next_month"),
    "birth": "{two}/{day}/{birth_year} / {month} {day}, {birth_year} / {birth_year}-{two}-{day}",
    "PHONE": """
        ({#201-989}) 555-01{#10-99} / {#201-989}-555-01{#10-99} / {#201-989}.555.01{#10-99} / 555-01{#10-99}
        +1 {#201-989} 555 01{#10-99}
    """,
    "ID": """
        {#100-999}-{#10-99}-{#10-99} / MR{#100000-999999} / {#1000000-9999999} / {letter}{#10000-99999}
        {#10-99}-{#10000-99999}
    """,
    "account": "ACC-{#100000-999999} / {#100-999}/{#1000-9999}{letter} / {#10000000-99999999}",
    "ZIP": "{#10000-99999} / {#10000-99999}-{#1000-9999}",
    "numbered_street": "{#1-999} {STREET} / {#1-99}{letter} {STREET} / {#1-999} {STREET}, Apt {#1-30}",
    "name_line": """
        Patient: {PATIENT.reversed:patient}
        Patient Name: {PATIENT:patient}
        NAME: {PATIENT.capitals:patient}
        Re: {PATIENT:patient}, record {ID:record}
        {PATIENT.capitals:patient} MRN: {ID:record}
    """,
    "number_line": """
        MRN: {ID:record} / Medical Record Number: {ID:record} / Unit No: {ID:record} / Account: {ID/account}
        Record {ID:record}, account {ID/account} / DOB: {DATE/birth} MRN: {ID:record}
    """,
    "stay_line": """
        Admitted: {DATE/admission:admitted} Discharged: {DATE/departure:left}
        Date of Admission: {DATE/admission:admitted}
        Admission Date: {DATE/admission:admitted}, Discharge Date: {DATE/departure:left}
        Date of Discharge: {DATE/departure:left}
    """,
    "who_line": """
        Age: {AGE/age} Sex: {sex}
        DOB: {DATE/birth} Age: {AGE/age}
        Occupation: {PROFESSION}
        Attending: Dr. {DOCTOR:doctor}
        Attending Physician: {DOCTOR:doctor}, MD
        Facility: {HOSPITAL:hospital}
        Service: Medicine, {HOSPITAL:hospital}
        Address: {STREET/numbered_street}, {CITY}, {STATE} {ZIP}
        Home address: {STREET/numbered_street}, {CITY} {ZIP}
        Phone: {PHONE}
        Contact: [{PATIENT/she_person}, {she_kin}|{PATIENT/he_person} ({he_kin})], {PHONE}
        E-mail: {EMAIL}
        Referring physician: Dr. {DOCTOR.initial}, {CITY}
        PCP: {DOCTOR.reversed} Tel: {PHONE}
    """,
    "history": """
        HISTORY: The patient is a(n) {AGE/age}-year-old {PROFESSION} with {problem} and {complaint}.
        HISTORY: {title}. {PATIENT.last:patient} is a(n) {AGE/age} year old {man} with {eponym} and {problem}.
        HPI: {PATIENT.first:patient} is a(n) {AGE/age}-year-old {retired}{PROFESSION} from {CITY}, {STATE}.
        PRESENT ILLNESS: This {AGE/age}-year-old was transferred from {HOSPITAL} on {DATE/admission:admitted}.
        HISTORY: Admitted from clinic on {DATE/admission:admitted} with {complaint} and a history of {eponym}.
        HPI: The patient, who {works} as a(n) {PROFESSION}, was well until {DATE}, with {complaint} since.
    """,
    "course": """
        {either}
        {either}
        {either}
        {either}
        {either}
        On {DATE} {he} underwent surgery under the care of Dr. {DOCTOR.last:doctor}.
        The blood pressure was {pressure}, the pulse {pulse} and the creatinine {#50-300} micromol/L.
        Records from {HOSPITAL} in {CITY} dated {DATE} were reviewed.
        There was {eponymous_sign}, and Dr. {DOCTOR.last} thought of {eponym}.
        Specimen {ID/account} was sent on {DATE} and showed no growth.
        {he} {works} as a(n) {PROFESSION} and does not smoke.
        {PATIENT.first:patient} did well and walked 50 feet in the hall by day {#2-6}.
        Please page the covering physician if {complaint} recurs.
        The ward was closed to visitors in {DATE/month} because of a cold going round.
        Physical therapy was started for {complaint}, with good results.
        {he} moved here from {STATE} in {DATE/past_year} and is followed at {HOSPITAL.short} for {problem}.
        Consent was given by {his} {kin_named}, a(n) {PROFESSION}.
        {he} was given {#10-90} mg in {#2-4} divided doses, 01/02 of the usual amount.
        Dr. {DOCTOR.last} and Dr. {DOCTOR.last} discussed the films with the family.
        A grace period was agreed with the insurer, policy {ID/account}.
    """,
    "follow": """
        FOLLOW-UP: Dr. {DOCTOR.last:doctor} at {HOSPITAL:hospital} on {DATE/later}.
        FOLLOW-UP: Call {PHONE} to arrange an appointment in {span}.
        PLAN: Return to {HOSPITAL.short:hospital} on {DATE/later} for repeat {problem} screening.
        PLAN: Results will be sent to {EMAIL} and to Dr. {DOCTOR.last} in {CITY}.
        FOLLOW-UP: With {DOCTOR}, MD, in {span}; the number is {PHONE}.
        PLAN: Home to {STREET/numbered_street}, {CITY}; visiting nurse from {HOSPITAL.short}.
    """,
    "sign": """
        Dictated by: {DOCTOR:doctor}, MD {DATE/departure:left}
        Electronically signed by {DOCTOR.initial:doctor} on {DATE/departure:left}
        cc: Dr. {DOCTOR}, {STREET/numbered_street}, {CITY}, {STATE} {ZIP}
        D: {DATE/departure:left} T: {DATE} Job: {ID/account}
        {DOCTOR.capitals:doctor}
    """,
}

_NURSING_RULES = {
    **_SHARED,
    "DATE": """
        {#1-28}.{#1-12} / {#1-28}.{#1-12}.{short_year} / {#1-28}/{#1-12} / the {#4-19}th of {month} / {#1-28} {month}
        {month} / {month} '{short_year}
    """,
    "PHONE": """
        01632 960{#100-999} / 07700 900{#100-999} / 07700-900-{#100-999}
        (01632) 960 {#100-999} / +44 7700 900{#100-999}
    """,
    "ID": """
        NN{#100-999}/{#10-99} / {letter}{letter}-{#1000-9999}
        {#100-999} {#100-999} {#1000-9999} / {#10000-99999}{letter}
    """,
    "account": "W{#100-999}-{#10-99} / {#10-99}{letter}{#100-999}",
    "ZIP": "{area}{#1-20} {#1-9}{letter}{letter}",
    "area": "QX / QV / ZQ / XJ",
    "numbered_street": "{#1-200} {STREET} / {STREET} {#1-99} / flat {#1-30}, {STREET} / {STREET}",
    "first_line": """
        {PATIENT.first:patient} slept well, obs stable, BP {pressure}.
        {clock} pt {PATIENT.last:patient} c/o {complaint}, Dr {DOCTOR.last:doctor} bleeped.
        {PATIENT:patient}, {AGE/age} y, moved to bed {#1-30} from {HOSPITAL.short}.
        Took over care of {title} {PATIENT.last:patient} at {clock}.
        {DATE} {clock}: {title} {PATIENT.last:patient} settled, nil {complaint}.
        Pt {PATIENT.initials:patient} ({ID}) awake most of the night with {complaint}.
        {AGE/age} yr old {PROFESSION}, admitted {DATE} via {HOSPITAL}.
        Received {PATIENT.first:patient} from theatre {clock}, drowsy but rousable.
    """,
    "line": """
        {either}
        {either}
        {either}
        {either}
        {either}
        {either}
        {kin_by_first} rang from {PHONE} asking about discharge.
        {his} {kin_by_first} will bring in clothes on {DATE}.
        dr {DOCTOR.last:doctor} aware, says may go home {DATE}.
        Seen by {DOCTOR} from physio re {complaint}.
        Catheter changed, a Foley size 14, next due {DATE}.
        Known {eponym}, walks with a frame.
        Noted {eponymous_sign}, skin intact.
        Weight {#48-110}.{#1-9}, temp {heat}, pulse {pulse}, bloods {level}.
        Told me {he} used to be a(n) {PROFESSION} in {CITY}.
        Lives alone at {STREET/numbered_street}, {CITY}, {ZIP}.
        Wristband checked, number {ID}.
        {PATIENT.first:patient} tearful, chatted about {his} time as a(n) {PROFESSION}.
        Social worker {DOCTOR} to call {PHONE} tomorrow.
        {PATIENT.first:patient} ate half of lunch, bowels open, type 4.
        Transport to {HOSPITAL} booked for {clock} on {DATE}.
        Next of kin is {kin_named}, {PHONE}, {EMAIL}.
        Handed over to {DOCTOR.first} at {clock}, for review by Dr {DOCTOR.last} mane.
        May need a hoist, will ask on the ward round.
        District nurse in {CITY} informed, ref {ID/account}.
        {DOCTOR.last} on call, not happy about the long wait.
        {title} {PATIENT.last:patient} turned {AGE/age} on {DATE}, cake brought by {his} {kin_by_first}.
        Has {problem} and {problem}, both stable since {DATE}.
        Chaplain from {HOSPITAL.short} visited, prayed for grace and mercy.
        Rash on both arms, Dr {DOCTOR.last:doctor} to look, please page.
        Buzzer in reach, side rails up, hourly rounds.
    """,
    "last_line": """
        Plan: recheck at {clock}, bleep {DOCTOR.last:doctor} if {complaint}.
        {DOCTOR:nurse}, RN
        Signed {DOCTOR.initials:nurse} {DATE}
        Home {DATE} with {kin}, tel {PHONE}.
        Will monitor, {DOCTOR.first:nurse} (night staff).
        N/N {DOCTOR.last:nurse} {clock}
    """,
}

SUMMARIES = Style(
    name="headed discharge summaries",
    rules=_SUMMARY_RULES,
    sections=(
        Section("name_line", 1, 1, opens=""),
        Section("number_line", 1, 1, opens="\n"),
        Section("stay_line", 1, 1, opens="\n"),
        Section("who_line", 2, 4, opens="\n", between="\n"),
        Section("history", 1, 1, opens="\n\n"),
        Section("course", 1, 3),
        Section("follow", 0, 1, opens="\n\n"),
        Section("sign", 1, 1, opens="\n\n"),
    ),
    typing=Typing(slips=0.002),
)
NURSING = Style(
    name="nursing notes",
    rules=_NURSING_RULES,
    sections=(
        Section("first_line", 1, 1, opens=""),
        Section("line", 2, 6),
        Section("last_line", 1, 1),
    ),
    typing=Typing(slips=0.012, small_letters=0.12),
)

_VERY_OLD_RATE = 0.08  # share of patients over 89, an age that HIPAA regards as identifying


@dataclass(frozen=True, slots=True)
class PhiConfig:
    """Number of notes of the two hospitals, and how many names are new in the test notes."""

    source_notes: tuple[int, int, int] = (600, 60, 140)  # train, dev, test
    target_notes: tuple[int, int, int] = (70, 20, 60)
    scale: float = 1.0  # multiplies all numbers of notes
    trained_share: float = 0.6  # of each list of names, used in training notes; the rest is kept for dev and test
    site_share: float = 0.5  # of the training names, used in one hospital's training notes
    withheld_rate: float = 0.5  # probability that a dev or test note uses a name outside all training notes
    phrasing_share: float = 0.8  # of each rule's templates, used in a hospital's training notes

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise UsageError(f"scale is {self.scale}: use a number above 0")


DEFAULT = PhiConfig()


def phi_hospitals(seed: int = 0, *, config: PhiConfig = DEFAULT) -> tuple[SyntheticSite, SyntheticSite]:
    """Return the large source and the small target; every note is annotated with all `PHI_TYPES`."""
    source = _hospital("northgate", SUMMARIES, config.source_notes, config=config, seed=seed)
    target = _hospital("southmere", NURSING, config.target_notes, config=config, seed=seed)
    return source, target


def _hospital(name: str, style: Style, notes: tuple[int, int, int], *, config: PhiConfig, seed: int) -> SyntheticSite:
    train, dev, test = (
        tuple(islice(_notes(name, style, split, config=config, seed=seed), max(1, round(number * config.scale))))
        for split, number in zip(("train", "dev", "test"), notes, strict=True)
    )
    return SyntheticSite.annotating(PHI_TYPES, Splits(train, dev, test), name=name, style=style.name)


def _notes(name: str, style: Style, split: str, *, config: PhiConfig, seed: int) -> Iterator[Document]:
    words = WordLists(
        divide(phi_lexicon(), config.trained_share, seed),
        split,
        names=(seed, "site", name),
        share=config.site_share,
        withheld_rate=config.withheld_rate,
    )
    grammar = Grammar.parse(style.rules)
    if split == "train":
        grammar = grammar.narrowed(config.phrasing_share, seed, name)
    for number in count(1):
        stream = Stream(seed, "note", name, split, number)
        facts = _facts(stream)
        vocabulary = _Names(words, patient="her_name" if facts["sex"] == "F" else "his_name")
        writer = SentenceWriter(grammar, vocabulary, facts=facts, stream=stream)
        builder = NoteBuilder({})
        write_note(builder, style, writer, typing=style.typing, stream=stream)
        yield builder.document(f"{name}-{split}-{number:04d}", (*SYNTHETIC, ("style", style.name)))


@dataclass(frozen=True, slots=True)
class _Names:
    """Compose people from first and last names; draw everything else from its list."""

    words: WordLists
    patient: str  # the list of first names for the patient
    lookalike_rate: float = 0.0

    def draw(self, source: str, stream: Stream) -> Term:
        any_name = stream.choice(("her_name", "his_name"))
        people = {"PATIENT": self.patient, "DOCTOR": any_name, "she_person": "her_name", "he_person": "his_name"}
        if source not in people:
            return self.words.draw(source, stream)
        first = self.words.draw(people[source], stream)
        return person(first.text, self.words.draw("surname", stream).text)

    def say(self, term: Term, form: str, stream: Stream) -> str:
        return term.form(form)


def _facts(stream: Stream) -> dict[str, str]:
    """Return facts about the patient and the stay; the year is far ahead, so that no date can be real."""
    facts = patient_facts(stream)
    if stream.chance(_VERY_OLD_RATE):
        facts["age"] = str(stream.between(90, 104))
    year, month = stream.between(2061, 2099), stream.below(11)
    return {
        **facts,
        "title": "Mr" if facts["sex"] == "M" else "Mrs",
        "year": str(year),
        "short_year": str(year)[2:],
        "birth_year": str(year - int(facts["age"])),
        "past_year": str(year - stream.between(2, 15)),
        "this_month": MONTHS[month],
        "this_two": f"{month + 1:02d}",
        "next_month": MONTHS[month + 1],
        "next_two": f"{month + 2:02d}",
    }
