"""Discharge letters: full sentences from the ward to the family doctor."""

from __future__ import annotations

from wardround.corpora.synthetic.style import Hand, Section, Style
from wardround.corpora.synthetic.style_common import COMMON

__all__ = ["LETTERS"]

_RULES = {
    **COMMON,
    "Dosage": """
        {amount} {how_often} / {amount} {how_often} / {amount} {how_often} / {amount} / {number}mg {latin}
        one tablet {how_often} / two tablets {how_often} / {amount} by mouth {how_often} / half a tablet {how_often}
        two puffs {how_often} / {amount} {how_often} for {#3-14} days / {number} mg reducing by {#1-5} mg weekly
    """,
    "tablets": "one tablet {how_often} / two tablets {how_often} / {#2-9}00 mg {how_often}",
    "injected": "{amount} every {#4-12} hours / {amount} daily / {amount} over {#2-8} hours / {#1-9} mg/kg / {amount}",
    "ward": """
        the medical assessment unit / the short stay ward / the surgical ward / the stroke unit / ward {#1-30}
    """,
    "opening": """
        This {age}-year-old {job} was admitted [to {ward}|from clinic] on {date} with {symptoms}.
        Thank you for referring this pleasant {age}-year-old {man}, who presented with {symptoms}.
        This {age}-year-old {man} came in on {date} for treatment of {+Disease:main}.
        Your patient, a(n) {age}-year-old {job}, was transferred from {town} on {date} with {+maybe Disease:main?}.
        Diagnosis: {Disease:main}[; {Disease}][; {Disease}].
        Principal diagnosis {Disease:main}, with {+Disease} as a secondary problem.
        We looked after this {age}-year-old {man} on {ward} from {date} after [a fall at home|{+Symptom} at work].
        {he} was admitted electively for {procedure} on a background of {+Disease:main}.
        Many thanks for seeing this {age}-year-old {job} after [a short|{his} recent] admission with {+Disease:main}.
        This {age}-year-old {man} was brought in by ambulance with {symptoms}, and {+Disease:main} was confirmed.
        Reason for admission: {+Disease~procedure}.
        I write to let you know that {he} was discharged on {date} after an admission for {+Disease~procedure}.
    """,
    "past": """
        {his} past history includes {background}.
        There is a history of {background}.
        {he} is known to have {+Disease}[ and {Disease/nested}|, {+Disease} and {+Disease}].
        Past medical history: {background}.
        {he} has lived with {Disease<a} since {his} {#2-6}0s and takes {Drug:a} for it.
        {his} father had {+Disease}, and {he} {himself} has {background}.
        {he} has had {Disease=depression} [since {month}|for years|in the past] and works in [coal|cold storage].
        Of note, {he} is allergic to {Drug} and has [{Disease/nested}|{+Disease}].
        {he} has a documented {Disease/nested}.
        {he} has never had {Disease!} or {Disease!}, but gives a history of {background}.
        There was no history of {Disease!}[, {Disease!}] or {past_event}.
        {he} {works} as a(n) {trade} for {firm}, admits to {habit} and has {+Disease}.
        {he} is followed up in {town} for {+Disease~procedure}.
        Background of {background}.
        {his} {Disease} had been well controlled until this year.
    """,
    "story": """
        On arrival {he} described {symptoms}, but no {no_symptoms}.
        {he} complained of {+Symptom~worry} and {+Symptom~worry}.
        {he} told us: "{own_words}."
        In {his} own words, "{own_words}", with no {Symptom!}.
        {he} spoke of "{Symptom/lay}" and "{Symptom/lay}" [for {span}|since {month}].
        {he} denied {no_symptoms}.
        {his} blood pressure was {pressure}, the pulse {pulse} and the temperature {heat}.
        On examination there was {examined}.
        Bloods showed {Finding/laboratory} and {Finding/laboratory}, with normal {analyte} and {analyte}.
        {analyte} was {level}, {analyte} {level}, and the chest film showed {filmed}.
        An ultrasound [of the abdomen|done on {date}|that morning] showed {scanned}.
        {his} weight on admission was {weight}, {#2-9} kg less than in {month}.
        {procedure} showed {scanned}, in keeping with {+Disease:main}.
        There had been {+degree Symptom} [since {date}|over {span}], without {no_symptoms}.
        The ECG showed {Finding/tracing}[ and {Finding/tracing}] and there was a fall in {his} {analyte} to {level}.
        {his} hands were cold on arrival, and there was {Symptom=purulent discharge} from the [left|right] ear.
        {he} had [a cold|a cold and {+Symptom}] last week, but no ear {Symptom=discharge!} since.
        {he} reported {+Symptom=chest pressure} although {his} blood pressure was {pressure}.
        CT excluded {Disease!} and {Disease!}.
        {he} was worried about {+Symptom~worry}, and had noticed {symptoms}.
    """,
    "course": """
        {he} was treated with {Drug:a} {Dosage<a}[ and {Drug:b} {Dosage<b}] for {+Disease<a}.
        We started {Drug:a} {Dosage<a} for {+Disease<a}, with good effect.
        {he} was given {Drug~care} and {Drug~care}, and {his} {Symptom} settled[ within {span}].
        {Drug:a} was increased from {Dosage<a} to {Dosage<a} because {his} {Disease<a} remained active.
        {Drug:a} was stopped as {he} {developed} {effects}.
        {his} {Disease:main<a} responded to {Drug:a} {Dosage<a} over {span}.
        Treatment with {Drug~care} and {Drug~care} was begun on {date}.
        {his} stay was prolonged by {+Disease~worry}, and {he} received {Drug:a}.
        After {span} on {Drug:a} {he} {developed} {effects}, which resolved on withdrawal.
        The {Drug/drug_class:a} was switched to {Drug:b} in view of {effects}.
        "{blames}", {he} said, and we stopped it on {date}.
        {he} explained that "{blames}", so we offered {Drug~care} instead.
        {he} had not got on with {Drug~gadget} or {Drug~gadget} in the past.
        {Drug~gadget} was tried first and abandoned after {span}.
        {he} declined {Drug~care} and preferred {care}.
        Because of {his} {Disease/nested} we avoided {Drug~procedure} and chose {Drug}.
        {he} was seen by the team from {firm}, who supplied {care} and advised on {care}.
        {he} needed {Drug/mineral:a} {Dosage/tablets<a} until the {analyte} had recovered.
        Intravenous {Drug:a} {Dosage/injected<a} was followed by oral {Drug:b} {Dosage<b}.
        As the serum iron was {level} we gave {Drug=iron:a} {Dosage/tablets<a} for {+Disease<a}.
        {he} went into {Disease=shock} on {date}, [which came as a shock to the family|and needed {Drug}].
        [A|A small|{his}] {Disease=pressure sore} was dressed [twice daily|daily with {care}] until discharge.
        {procedure} on {date} was uneventful, and {+Disease~past_event} was ruled out.
        {he} walked {#1-4} km daily with the physiotherapist and was weighed twice daily.
        The {Drug:a} level was {level}, and the dose was halved to {Dosage<a}.
        Cover for {+Disease~procedure} was given with {Drug:a} {Dosage<a}.
        Blood cultures were negative and {Drug} was discontinued after {span}.
    """,
    "medication": """
        {he} now takes {Drug:a} {Dosage<a}[ for {Disease<a}], {Drug:b} {Dosage<b} and {Drug:c} {Dosage<c}.
        Medication on discharge: {Drug:a} {Dosage<a}[ for {+Disease<a}]; {Drug:b} {Dosage<b}[{two_more}|].
        {he} goes home on {Drug:a} {Dosage<a}[ for {+Disease<a}| and {Drug:b} {Dosage<b}].
        New: {Drug:a} {Dosage<a} for {+Disease<a}.
        Please continue {Drug:a} at {Dosage<a} and stop {Drug} after {span}.
        {Drug:a} {Dosage<a} continues unchanged, as does {Drug}.
        We have asked {him} to take {Drug:a} {Dosage<a} for {his} {Disease<a}, and to use {Drug~care}.
        Stopped on discharge: {Drug}[ ({+ADE})][, {Drug}] and {Drug}.
        {he} was given {Drug:a} {Dosage<a}, {care} and {care} to take home.
        Regular {Drug:a} was restarted at a lower dose of {Dosage<a}.
    """,
    "two_more": "; {Drug:c} {Dosage<c} / ; {Drug:c} {Dosage<c}; {Drug:d} {Dosage<d}",
    "plan": """
        Please check {his} {analyte} and {analyte} in {span}.
        We would be grateful if you could titrate {Drug:a} to {Dosage<a} as tolerated.
        {he} will be seen in the {ward_clinic} in {span} to review {his} {Disease:main}.
        If {+Disease?} recurs, please consider {Drug~care}.
        {he} has been advised to return in case of {symptoms}.
        {he} may drive again after {span} and has been given advice about {past_event}.
        A follow-up {procedure} has been booked in {town} for {month}.
        {his} wife asked about {care}, and we have no objection.
        {he} is fit for discharge and will have {Drug~care} at home.
        District nurses will visit twice daily for dressings and {Drug~care}.
        We plan to exclude {Disease?} by {procedure} as an outpatient.
        Please do not supply {Drug~gadget} or {Drug~gadget} again.
        In view of {his} {Disease:main}, please avoid {Drug} and {Drug}.
        Kindly arrange {care} for {his} {Disease}.
        {he} was told to cut down on {habit} and to weigh {himself} once a week.
    """,
    "ward_clinic": "renal clinic / chest clinic / heart failure clinic / memory clinic / day unit / joint clinic",
}

LETTERS = Style(
    name="discharge letters",
    rules=_RULES,
    sections=(
        Section("opening", 1, 1, opens=""),
        Section("past", 1, 2),
        Section("story", 1, 2, opens="\n\n"),
        Section("course", 1, 3, opens="\n\n"),
        Section("medication", 1, 2, opens="\n\n"),
        Section("plan", 0, 2),
    ),
    hand=Hand(slips=0.004, short=0.1, lay=0.0),
)
