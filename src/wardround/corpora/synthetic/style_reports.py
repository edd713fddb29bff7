"""Case reports: published prose about one unusual reaction."""

from __future__ import annotations

from wardround.corpora.synthetic.style import Hand, Section, Style
from wardround.corpora.synthetic.style_common import COMMON

__all__ = ["REPORTS"]

_RULES = {
    **COMMON,
    "Dosage": """
        {amount} {how_often} / {amount} {how_often} / {number} mg/day / {#1-9} mg/kg/day / {amount} every {#2-4} weeks
        {amount} / {number} mg/m2 every {#2-4} weeks / {amount} intravenously {how_often} / {#1-4} g/day
        {#1-4}00 to {#5-9}00 mg per day / {amount} orally {how_often}
    """,
    "tablets": "{#2-9}00 mg {how_often} / {#2-9}00 mg/day / one tablet {how_often}",
    "title": """
        {ADE/toxic:effect<culprit} associated with {Drug:culprit}: a case report.
        {Drug:culprit}-induced {ADE/toxic:effect<culprit}: report of a case.
        {ADE/toxic:effect<culprit} after {Drug:culprit} in a patient with {Disease:main}.
        A case of {ADE/toxic:effect<culprit} during treatment with {Drug:culprit}.
        {ADE:effect<culprit} as a complication of {Drug:culprit} therapy.
        Is {Drug:culprit} a cause of {ADE/toxic:effect<culprit?}?
        Two patients with {ADE/toxic:effect<culprit} while taking {Drug:culprit}.
        Recovery from {ADE/toxic:effect<culprit} despite continued {Drug:culprit}.
        {procedure} in a patient taking {Drug:culprit} and {Drug}: unexpected {ADE:effect<culprit}.
        Rapid onset of {ADE/toxic:effect<culprit} with {Drug:culprit} and {Drug:a}.
    """,
    "case": """
        a(n) {age}-year-old {man} with {+Disease:main} was admitted in [{town}|{month}] with {symptoms}.
        a(n) {age}-year-old {job} presented {span} after starting {Drug:culprit} for {Disease:main<culprit}.
        We report a(n) {age}-year-old {man} in whom {ADE:effect<culprit} followed treatment with {Drug:culprit}.
        {Drug:culprit} ({Dosage<culprit}) had been prescribed for {Disease:main<culprit} {span} earlier.
        The patient, a(n) {age}-year-old {man}, had received {Drug:culprit} {Dosage<culprit} for {Disease:main<culprit}.
        a(n) {age}-year-old {job} with a history of {background} was referred for {procedure}.
        {his} medical history was notable for {background}.
        {he} used {Drug~gadget} and {Drug~gadget} daily, both bought in {town}.
        Medical history included {background}, treated with {Drug} and {Drug~care}.
        A healthy {job} aged {age} was given {Drug:culprit} because of {Symptom<culprit} and {Symptom<culprit}.
        {he} had taken {Drug}, {Drug} and {Drug:culprit} regularly for {span}.
        {he} was a(n) {age}-year-old {job} without {Disease!} or {Disease!}, who used {Drug~care} only occasionally.
        Concomitant medication consisted of {Drug:a} {Dosage<a} and {Drug:b} {Dosage<b}.
    """,
    "onset": """
        Within {span} of the first dose of {Drug:culprit}, {he} {developed} {+ADE:effect<culprit} and {+ADE<culprit}.
        {span} into treatment with {Drug:a}, {he} {developed} {effects}.
        {Drug:a} {led_to} {effects}.
        {he} had {effects} {because_of} {Drug:a}.
        {+degree ADE:effect<culprit} {because_of} {Drug:culprit} was suspected.
        {his} {Symptom} had begun before {Drug} was given and was unrelated to it.
        {he} {developed} {+Symptom~worry} {span} before admission, at a time when no drug had been taken.
        After {Drug:culprit} had been added to {Drug}, {+ADE<culprit} and {+ADE<culprit} appeared.
        Rechallenge with {Drug:a} {led_to} recurrence of {ADE:effect<a}.
        The dose of {Drug:culprit} was raised to {Dosage<culprit}, and {he} {developed} {+ADE<culprit}.
        {his} state resembled {ADE/poisoning?}, although {analyte} was {level} and {he} took {Drug} only.
        {he} had survived {ADE/poisoning} in {month}, and was troubled by {+Symptom~worry} ever since.
        {he} reported: "{blames}."
        "{blames}", {he} recalled at follow-up.
        {he} stated that "{own_words}", but that this was not new.
        {he} tolerated {Drug} well, without {ADE!} or {ADE/toxic!}.
        The {Symptom} for which {he} took {Drug:a} persisted, and {+ADE<a} was added to it.
        {he} blamed {Drug~gadget} for "{ADE/lay<a}", but had taken {Drug:a} that day.
        On day {#2-14} {he} had {+Symptom} due to {+Disease}, unlike the {ADE<b} seen with {Drug:b}.
        {ADE/toxic<a} was noted {span} after {Drug:a} and resolved {span} after its withdrawal.
        A relation between {Drug:a} and {ADE<a?} could not be excluded.
        {he} complained of {symptoms}, but {he} had not yet started {Drug}.
        {symptoms} prompted {procedure}, after which {Drug:a} was given and {+ADE<a} occurred.
    """,
    "tests": """
        Physical examination revealed {examined}.
        On examination {he} had {examined}.
        Laboratory tests showed {Finding/laboratory}, {Finding/laboratory} and a normal {analyte}.
        Laboratory studies disclosed {Finding/laboratory}; {analyte} and {analyte} were within normal limits.
        {procedure} demonstrated {scanned}.
        Computed tomography of the chest revealed {filmed}.
        {analyte} was {level}, and {analyte} had risen to {level}.
        The electrocardiogram showed {Finding/tracing}[, {Finding/tracing}] and {Finding/tracing}.
        There was no {Finding/sign!} or {Finding/sign!}.
        Examination was remarkable for {examined}[, without {Finding/sign!}].
        {procedure} and {procedure} were unremarkable apart from {+Finding/organ~normal_image}.
        Neurological examination showed {benign}, and magnetic resonance imaging revealed {scanned}.
        Blood tests were repeated in {town} and confirmed {Finding/laboratory}.
        {his} {analyte} fell from {#40-90} to {#4-39} U/L within {span}.
        There was {Finding=ST depression} on the tracing, whereas {his} {Disease=depression} was in remission.
        There was {+Finding=serous discharge} from the drain, and discharge from hospital was postponed.
        A fall in {analyte} was followed by {+Finding=low serum iron}.
        Ultrasonography revealed {scanned}, and {his} haemoglobin was {#80-150} g/L.
    """,
    "management": """
        {Drug:culprit} was discontinued and {Drug:a} {Dosage<a} was begun.
        {he} was treated with {Drug:a} {Dosage<a} for {+Disease<a}, and with {Drug~care}.
        {Drug:culprit} was replaced by {Drug}, and {his} {ADE:effect<culprit} resolved within {span}.
        The {ADE:effect} was treated with {Drug~care} and {Drug~care}.
        Symptoms resolved after {care}, and {he} was discharged on {Drug}.
        A course of {Drug:a} ({Dosage<a}) controlled the {Symptom<a}.
        {Drug~gadget} was tried for {span} without success.
        {he} improved on {Drug~care}, and {his} {analyte} returned to normal in {span}.
        Intravenous {Drug:a} was given for {Disease<a}, without {ADE!}.
        {he} received {Drug/mineral:a} {Dosage/tablets<a} for {Disease<a}, since {his} {analyte} was {level}.
        The {Drug/drug_class} was withdrawn, and {procedure} was performed.
        {he} refused {Drug~care} and was lost to follow-up in {town}.
        At follow-up {he} had no {ADE:effect!} and remained on {Drug}.
    """,
    "discussion": """
        To our knowledge this is the first report of {ADE/toxic:effect<culprit} with {Drug:culprit}.
        {Drug:a} has been reported to cause {ADE<a}, {ADE<a} and {ADE/toxic<a}.
        {ADE/toxic<a} is a rare but serious adverse effect of {Drug:a}.
        Clinicians should be aware of {ADE/toxic<a} in patients receiving {Drug:a}.
        {Disease} itself may present with {symptoms}, and no drug need be involved.
        {Disease:main<a} is usually treated with {Drug:a} or {procedure}.
        The temporal relation suggests that {Drug:culprit} {led_to} {ADE:effect<culprit}.
        Unlike {Drug}, {Drug:a} may induce {ADE<a}.
        {Drug} is marketed by {firm} for {Disease}.
        The mechanism by which {Drug:a} causes {ADE/toxic<a} is unknown.
        {ADE<a} {because_of} {Drug:a} is usually dose dependent.
        Patients with {Disease/nested} appear to be at greater risk of {ADE/toxic?}.
        {Finding/laboratory} may be the only sign of {Disease}.
        No interaction of {Drug} with {Drug} has been described.
    """,
}

REPORTS = Style(
    name="case reports",
    rules=_RULES,
    sections=(
        Section("title", 1, 1, opens=""),
        Section("case", 1, 2, opens="\n\n"),
        Section("onset", 1, 3),
        Section("tests", 1, 2),
        Section("management", 1, 2),
        Section("discussion", 0, 2, opens="\n\n"),
    ),
    hand=Hand(slips=0.002, short=0.02),
)
