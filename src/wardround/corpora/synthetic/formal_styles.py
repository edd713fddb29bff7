"""Two clinical styles in full sentences, discharge letters and case reports, and the rules that all styles share."""

from __future__ import annotations

from collections.abc import Mapping

from wardround.corpora.synthetic.notes import Section, Style, Typing

__all__ = ["COMMON", "LETTERS", "MONTHS", "REPORTS"]

MONTHS = tuple("January February March April May June July August September October November December".split())

COMMON: Mapping[str, str] = {
    "span": """
        two days / {#3-9} days / a week / {#2-8} weeks / several months / {#2-5} months / a fortnight / {#6-72} hours
        ten days / a few days / some weeks / three to four days
    """,
    "degree": """
        mild / moderate / severe / marked / troublesome / intermittent / persistent / worsening / intense / profound
        mild but persistent / increasingly severe / unexplained / new / transient / progressive
    """,
    "month": " / ".join(MONTHS),
    "date": "{#1-28} {month} / the {#4-19}th of {month}",
    "job": "{retired}{trade}",
    "trade": """
        teacher / bus driver / farmer / nurse / engineer / chef / builder / librarian / postal worker / carpenter
        shop manager / music teacher / cleaner / accountant / gardener / plumber / receptionist / tailor / welder
    """,
    "number": "{#1-9} / {#1-9}0 / {#1-9}5 / {#1-8}00 / {#1-4}50 / 0.5 / 2.5 / 7.5 / 12.5",
    "amount": """
        {number} mg / {number} mg / {number} mg / {number} mg / {#1-9}5 micrograms / {#1-4}00 micrograms / {#1-2} g
        1.5 g / {#4-60} units / {#5-20} ml
    """,
    "how_often": """
        once daily / twice daily / three times a day / daily / at night / every {#4-12} hours / in the morning / weekly
        four times a day / as needed / on alternate days / once a week / every morning
    """,
    "latin": "od / bd / tds / qds / qd / prn / nocte / mane / stat / q4h / q6h / q8h",
    # Amounts that are measured or consumed but are not doses.
    "level": """
        {#2-9}.{#1-9} mmol/L / {#20-300} U/L / {#10-400} micromol/L / {#3-90} mg/L / {#80-150} g/L / {#2-9}.{#1-9}
        {#20-600} mg/dl / {#3-40} units per litre
    """,
    "pressure": "{#90-180}/{#50-99} / {#90-180} over {#50-99} / {#90-180}/{#50-99} mmHg",
    "pulse": "{#55-130} / {#55-130} beats per minute",
    "heat": "{#36-39}.{#1-9} / {#36-39}.{#1-9} degrees",
    "weight": "{#48-110} kg / {#48-110}.{#1-9} kg",
    "habit": """
        two pints of beer at weekends / {#5-30} cigarettes a day / a glass of wine at night / four cups of tea a day
        {#3-9} units of alcohol weekly / half a litre of cola daily / five portions of fruit a day / two rolls at night
    """,
    # Causation: `because_of` connects an effect to its drug, `led_to` a drug to its effect.
    "because_of": """
        due to / secondary to / caused by / attributed to / following / after starting / induced by / triggered by
        as a side effect of / related to / in association with / after the second dose of / which we put down to
    """,
    "led_to": """
        caused / was followed by / led to / resulted in / produced / gave rise to / was complicated by / brought on
        was associated with / provoked / was stopped because of / had to be withdrawn owing to
    """,
    "developed": "developed / experienced / went on to have / suffered / was troubled by / noticed / reported",
    "maybe": "possible / probable / suspected / presumed / likely",
    "symptoms": """
        {+degree Symptom} / {+Symptom} / {+Symptom} and {+Symptom} / {+Symptom}, {+Symptom} and {+Symptom}
        {+degree Symptom} and {+Symptom} / {span} of {Symptom} / {+Symptom} for {span} / {+Symptom} with {Symptom}
        {+degree Symptom} for {span} / {+Symptom} followed by {+Symptom}
    """,
    "no_symptoms": """
        {Symptom!} / {Symptom!} or {Symptom!} / {Symptom!}, {Symptom!} or {Symptom!} / recent {Symptom!}
        {Symptom!} and no {Symptom!}
    """,
    "examined": """
        {+Finding/sign} / {+Finding/sign} and {+Finding/sign} / {+Finding/sign~benign} and {+Finding/sign~benign}
        {+Finding/sign}, {+Finding/sign} and {+Finding/sign} / {benign} but {+Finding/sign} / {+degree Finding/sign}
        {+Finding/sign~benign} with {+Finding/sign~benign} / {+Finding/sign} and {benign}
    """,
    "filmed": """
        {+Finding/chest} / {+Finding/chest} and {+Finding/chest~normal_image} / {+Finding/chest~normal_image}
        {normal_image} but {+Finding/chest} / {+Finding/chest~normal_image} with {+Finding/chest}
    """,
    "scanned": """
        {+Finding/organ} / {+Finding/organ} and {+Finding/organ~normal_image} / {+Finding/organ~normal_image}
        {normal_image}, {normal_image} and {+Finding/organ} / {+Finding/organ} with {normal_image}
    """,
    "background": """
        {+Disease~past_event} / {+Disease} and {+Disease~past_event} / {+Disease~past_event}, {+Disease} and {+Disease}
        {Disease/nested} and {+Disease} / {+Disease}, {past_event} and {Disease/nested} / longstanding {Disease}
        {past_event} but not of {Disease!} / {+Disease} for {#2-20} years
    """,
    # The words of patients: complaints, and the effects of drug `a` of the sentence.
    "complaint": "{Symptom} / {Symptom/lay} / {Symptom/lay} / {Symptom.lay} / {Symptom} and {Symptom/lay}",
    "side_effect": """
        {ADE/Symptom<a} / {ADE/lay<a} / {ADE/lay<a} / {ADE/lay<a} and {ADE/Symptom<a} / {ADE/lay<a} plus {ADE/lay<a}
        {ADE/Symptom<a}, {ADE/lay<a} and {ADE/lay<a}
    """,
    "own_words": """
        I have had {complaint} for {span} / I wake up with {complaint} / I keep {Symptom/feeling}
        it began with {complaint} / it comes with {complaint}
        I get {complaint} on and off / I had {complaint} long before any tablets / I put up with {complaint}
        with the heat I get {complaint} / there is no {Symptom/lay!} now / {Drug:a} helps the {Symptom<a}
        I take {Drug:a} for the {Symptom/lay<a} / I get {complaint} whenever {worry} gets to me
        {Drug:a} has sorted my {Symptom/lay<a} / I never had {Symptom/lay!} or {Symptom!}
    """,
    "blames": """
        {Drug:a} gave me {side_effect} / within {span} of taking {Drug:a} I had {side_effect}
        I started {Drug:a} and got {side_effect} / I came off {Drug:a} because of the {side_effect}
        nobody warned me about {side_effect} with {Drug:a} / on {Drug:a} I get {side_effect}
        {Drug:a} makes me feel awful, {side_effect} every single day / I blame {Drug:a} for my {ADE/lay<a}
        first {ADE/Symptom<a}, then {ADE/lay<a}, all thanks to {Drug:a} / {Drug:a} left me {ADE/feeling<a}
        {side_effect} since the switch to {Drug:a} / I had {side_effect} the last time I took {Drug:a}
        I was fine until {Drug:a}, now it is {side_effect} / {Drug:a} and {ADE/feeling<a} go together
    """,
    # The effects of drug `a` of the sentence, in the words of a doctor.
    "effects": """
        {+ADE<a} / {+degree ADE<a} / {+ADE<a} and {+ADE<a} / {+ADE/toxic<a} / {+degree ADE/toxic<a}
        {+ADE<a}, {+ADE<a} and {+ADE<a} / {+ADE/toxic<a} with {+ADE<a} / {maybe} {ADE/toxic<a?} / {+ADE/Disease<a}
    """,
}

_LETTER_RULES = {
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
    rules=_LETTER_RULES,
    sections=(
        Section("opening", 1, 1, opens=""),
        Section("past", 1, 2),
        Section("story", 1, 2, opens="\n\n"),
        Section("course", 1, 3, opens="\n\n"),
        Section("medication", 1, 2, opens="\n\n"),
        Section("plan", 0, 2),
    ),
    typing=Typing(slips=0.004, short=0.1, lay=0.0),
)

_REPORT_RULES = {
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
    rules=_REPORT_RULES,
    sections=(
        Section("title", 1, 1, opens=""),
        Section("case", 1, 2, opens="\n\n"),
        Section("onset", 1, 3),
        Section("tests", 1, 2),
        Section("management", 1, 2),
        Section("discussion", 0, 2, opens="\n\n"),
    ),
    typing=Typing(slips=0.002, short=0.02),
)
