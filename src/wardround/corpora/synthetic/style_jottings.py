"""Ward-round jottings: abbreviations, few verbs, a line a thought."""

from __future__ import annotations

from wardround.corpora.synthetic.style import Hand, Section, Style
from wardround.corpora.synthetic.style_common import COMMON

__all__ = ["JOTTINGS"]

_RULES = {
    **COMMON,
    "Dosage": """
        {number}mg {latin} / {number}mg {latin} / {number} mg {latin} / {#1-9}5mcg {latin} / {#1-2}g {latin}
        {number}mg / {#4-60}u sc {latin} / 1 tab {latin} / 2 tabs {latin} / 2 puffs {latin} / {#1-9}mg/kg
        {number}mg iv {latin} / {number}mg po {latin}
    """,
    "duration": "{#1-9}/7 / {#1-6}/52 / {#1-9}/12 / since {month} / o/n / x{#2-7} days",
    "date": "{#1-28}/{#1-12} / {#1-28}.{#1-12} / mon / thurs",
    "start": """
        {age}{sex}, d{#1-12} post {procedure}
        {age}{sex}, bg {Disease:main}, {Disease~past_event}
        {age}{sex} adm w {Symptom} {duration}
        WR d{#2-15}, {his} {Disease:main} better
        PMH {Disease:main}, {Disease}, {Disease}
        pmh: {Disease:main}, {Disease/nested}, nil else
        {age}{sex} from {town}, known {Disease:main}
        Bed {#1-30}, {age}{sex}, imp {Disease:main}
        transferred from {town}, ?{Disease:main?}
        {age}{sex}, {procedure} listed, {Disease:main} on {Drug}
    """,
    "said": """
        c/o {Symptom}, {Symptom} {duration}
        c/o {Symptom~worry}, {Symptom~worry}
        pt reports {Symptom}, nil {Symptom!}
        no {Symptom!}, no {Symptom!}, no {Symptom!}
        denies {Symptom!}, {Symptom!}, {Symptom!}
        c/o {Symptom/lay}, {Symptom/lay}, nil {Symptom!}
        says "{Symptom/lay}" {duration}
        pt: "{own_words}"
        "{own_words}", nil {Symptom!}
        pt: "{blames}"
        "{blames}" so d/c
        {Symptom/lay} w {Drug~gadget}, happier on {Drug~gadget}
        slept poorly, {Symptom~worry}, {Symptom}
        feels better, {Symptom} gone, still {Symptom}
        {ADE<a} w {Drug:a} so omitted
        {Drug:a} d/c 2ry to {ADE<a}
        ++{ADE<a} since {Drug:a} started, {Symptom} predates it
        {Symptom} {duration}, worse o/n, nil {Symptom!}
        family upset re {worry}, pt says {Symptom} only
        eating {habit}, nil {Symptom!}
        {ADE/toxic<a} on {Drug:a} {duration}
        itching ?{Drug:a}, rpt {ADE<a?}
        ?{ADE/poisoning?}, levels sent, {Symptom} o/n
        {Symptom/lay} after lunch, had been for {procedure}
    """,
    "tablets": "1 tab {latin} / 2 tabs {latin} / {#2-9}00mg {latin}",
    "checked": """
        o/e {Finding/sign}, {Finding/sign}
        o/e {Finding/sign~benign}, {Finding/sign~benign}
        obs: bp {pressure}, hr {pulse}, t {heat}
        bloods {Finding/laboratory}, {Finding/laboratory}
        {analyte} {level}, {analyte} {level}, {Finding/laboratory}
        CXR {Finding/chest~normal_image}, nil {Finding/chest!}
        {analyte} fine, {analyte} {level}
        ecg {Finding/tracing}, no {Finding/tracing!}
        {procedure}: {Finding/organ~normal_image}
        chest {Finding/chest~normal_image}, abdo {Finding/organ~normal_image}
        wt {weight}, {Finding}
        usual {analyte}, rpt in {#1-3}/7, {Finding/sign} again
        fall in {analyte}, no {Finding/sign!}
        uss {Finding/organ}, no {Finding/organ!} seen
        wound {Finding=discharge}[, swab sent|, {Finding/sign}], aim discharge [{date}|{#1-3}/7|w {care}]
        {Finding/laboratory} again ?cause
        {Finding/sign} noted by night team, {benign} on repeat
    """,
    "thought": """
        imp: {Disease:main}, ?{Disease?}
        ?{Disease?} ?{Disease?}
        imp {Disease}, unlikely {Disease?}
        likely {Disease?}, r/o {Disease?}
        {Disease:main} settling, nil {Disease!}
        {Disease} on top of {Disease:main}
        no evidence of {Disease!}, {Disease/nested} noted
        mood low, pmh {Disease=depression}, ?{Disease?}
        dx {Disease}, {Disease~past_event}
        {Disease:main} stable
        {Finding} fits w {Disease}
        {Symptom} likely {Disease?}, not {Disease!}
    """,
    "plan": """
        plan: start {Drug:a} {Dosage<a}, stop {Drug}
        {Drug:a} {Dosage<a} + {Drug:b} {Dosage<b}
        cont {Drug:a} {Dosage<a}, {care}
        inc {Drug:a} to {Dosage<a}
        {Drug:a} {Dosage<a} for {Disease<a}
        try {Drug~care} for {Symptom}
        {Drug/mineral:a} {Dosage/tablets<a}, rpt {analyte} am
        {analyte} rpt, {analyte} rpt, {procedure} {date}
        stop {Drug~gadget}, try {Drug~gadget}
        swap {Drug} for {Drug:a} {Dosage<a}
        hold {Drug} till {analyte} back
        refer {firm} team re {care}
        {Drug:a} {Dosage<a} prn {Symptom<a}
        allergic {Drug} so {Drug:a} {Dosage<a}
        {care}, {care}, home {date}
        chase {procedure}, {Drug~care} meanwhile
        wean {Drug:a}, now {Dosage<a}
        weigh bd, obs q4h, {Drug~care}
        discuss {care} w family, r/v {#1-4}/52
    """,
}

JOTTINGS = Style(
    name="ward-round jottings",
    rules=_RULES,
    sections=(
        Section("start", 1, 1, opens="", between="\n"),
        Section("said", 1, 3, opens="\n", between="\n"),
        Section("checked", 1, 3, opens="\n", between="\n"),
        Section("thought", 0, 2, opens="\n", between="\n"),
        Section("plan", 1, 3, opens="\n", between="\n"),
    ),
    hand=Hand(slips=0.02, short=0.8, small_letters=0.3, capitals=False),
)
