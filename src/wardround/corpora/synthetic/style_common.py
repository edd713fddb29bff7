"""Rules that several styles use: times, causes, doses, the words around a mention."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COMMON", "MONTHS"]

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
    # What is measured or taken and is no dose.
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
    # Causation: the first stands between an effect and the drug, the second between a drug and its effect.
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
    # What patients say, on the forum and to their doctors: complaints, and what drug `a` of the sentence did.
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
    # What drug `a` of the sentence did, as a doctor puts it.
    "effects": """
        {+ADE<a} / {+degree ADE<a} / {+ADE<a} and {+ADE<a} / {+ADE/toxic<a} / {+degree ADE/toxic<a}
        {+ADE<a}, {+ADE<a} and {+ADE<a} / {+ADE/toxic<a} with {+ADE<a} / {maybe} {ADE/toxic<a?} / {+ADE/Disease<a}
    """,
}
