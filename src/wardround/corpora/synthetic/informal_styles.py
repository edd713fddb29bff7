"""Two clinical styles in informal language: posts on a patients' forum and notes jotted down on the ward round."""

from __future__ import annotations

from wardround.corpora.synthetic.formal_styles import COMMON
from wardround.corpora.synthetic.notes import Section, Style, Typing

__all__ = ["JOTTINGS", "POSTS"]

_POST_RULES = {
    **COMMON,
    "Dosage": """
        {number}mg / {number}mg a day / {number} mg {lay_often} / one {lay_often} / two {lay_often} / half a tablet
        {number}mg {lay_often} / {#4-60} units {lay_often} / one tablet {lay_often} / {number} mg
    """,
    "lay_often": """
        a day / at night / twice a day / every morning / at bedtime / before food / 3x a day / every other day / a week
    """,
    "exclaim": ". / . / . / . / . / ! / !! / ... / , ugh. / , honestly. / , lol. / , tbh.",
    "relative": "my husband / my mum / my wife / my sister / my dad / my best mate / my daughter / my nan",
    "adverb": "really / so / super / totally / constantly / absolutely / a bit / properly",
    "since": "ever since / since last {month} / for {span} now / since the weekend / from day one / for about {span}",
    "greeting": """
        Hi all, new here, I was put on {Drug:culprit} {Dosage<culprit} for {Disease:main<culprit}{exclaim}
        Hello everyone, anyone else on {Drug:culprit}?
        Just got diagnosed with {Disease:main} and started {Drug:culprit}{exclaim}
        So I have been taking {Drug:culprit} for {span} now[ for my {Disease:main<culprit}]{exclaim}
        Long time lurker, first post, and it is about {Drug:culprit}{exclaim}
        Day {#2-30} on {Drug:culprit} {Dosage<culprit} and not sure what to think{exclaim}
        Has anybody swapped from {Drug~gadget} to {Drug~gadget}?
        Anyone tried {Drug~gadget}?
        My doctor in {town} wants me on {Drug:culprit} because of {complaint}{exclaim}
        Bit of background, I am {age} and have had {Disease:main} for years{exclaim}
        Not sure if this is the right place but here goes{exclaim}
        {relative} has {Disease:main} and was given {Drug:culprit} {Dosage<culprit}{exclaim}
        Can anyone recommend something for {complaint}?
        Update for those who asked, I am still on {Drug:culprit}{exclaim}
        Morning all from a rainy {town}{exclaim}
    """,
    "suffering": """
        {blames}{exclaim}
        {blames}{exclaim}
        [So|Well|Ok so|Honestly,] {blames}{exclaim}
        {blames}, and {own_words}{exclaim}
        Just to say {blames}[, anyone else?|{exclaim}]
        I know everyone is different but {blames}{exclaim}
        {blames}, never again{exclaim}
        It gave me {side_effect_culprit}{exclaim}
        I have had {side_effect_culprit} ever since I started {Drug:culprit}{exclaim}
        The {ADE/lay:effect<culprit} from {Drug:culprit} got {adverb} bad{exclaim}
        Is {ADE/lay<a?} normal on {Drug:a}?
        Could the {ADE/Symptom<a?} be from the {Drug:a}?
        On {Drug:a} I get {side_effect}, on {Drug:b} nothing{exclaim}
        Upping {Drug:a} to {Dosage<a} brought on {side_effect}{exclaim}
        Anyone else {ADE/feeling<a} on {Drug:a}?
        Is it the {Drug:a} or am I just {Symptom/feeling} because of {worry}?
        {relative} took {Drug:a} and ended up with {side_effect}{exclaim}
        The {Drug/drug_class:a} left me with {side_effect}{exclaim}
    """,
    "side_effect_culprit": """
        {ADE/lay:effect<culprit} / {ADE/Symptom<culprit} / {ADE/Symptom<culprit} and {ADE/lay<culprit}
        {adverb} bad {ADE/lay<culprit}
    """,
    "living": """
        {own_words}{exclaim}
        {own_words}[, which is no fun|, so there|, go figure]{exclaim}
        [For what it is worth|As for me|Me too,] {own_words}{exclaim}
        {own_words} but {own_words}{exclaim}
        I take it for {complaint_culprit}{exclaim}
        Before the meds I had {complaint} [and|plus] {complaint} {since}{exclaim}
        I went to the doctor with {complaint}{exclaim}
        Still got {complaint} and {Symptom~worry} is not helping{exclaim}
        Woke up with {complaint} after a bad night, probably {worry}{exclaim}
        No {Symptom/lay!} or {Symptom!} so far, touch wood{exclaim}
        {Drug:a} really helped the {Symptom<a} but not the {Symptom/lay}{exclaim}
        I use {Drug~care} for my {Symptom<a} and {Drug:a} when it is bad{exclaim}
        With {Disease} I always get {complaint}{exclaim}
        I tried {Drug~care} and {Drug~care} with no luck{exclaim}
        The worst thing about {Disease} is {Symptom~worry}{exclaim}
        I never had {ADE/Symptom!} or {ADE/lay!} on {Drug}{exclaim}
        My {firm} plan does not cover {Drug~gadget} or {Drug~gadget}{exclaim}
        {Drug~gadget} did nothing for me, {Drug~gadget} was better{exclaim}
        Swear by {Drug~care} for {complaint}{exclaim}
        My bloods showed {Finding/laboratory} and my doctor muttered about {Disease?}{exclaim}
        They checked my {analyte} and {analyte} and all was fine{exclaim}
        Had a(n) {procedure} on {date} and was told I have {+Finding/organ~normal_image}{exclaim}
        I just bought a(n) {firm} gadget and {Drug~care}, fingers crossed{exclaim}
        Doc says it might be {Disease?} because of the {Symptom/lay}{exclaim}
        Was {Symptom/feeling} well before they gave me {Drug}{exclaim}
        Caught a cold at work and now I have {complaint}{exclaim}
        It is cold here and I have my {Symptom/lay} back, plus {Disease=depression} does not help{exclaim}
        Got my discharge papers but still have {Symptom=smelly discharge} from the wound{exclaim}
        I had a fall last week, nothing to do with the {Drug}{exclaim}
        Iron was low on the test so I take {Drug=iron:a} {Dosage<a}{exclaim}
        Too much pressure at work gives me {complaint}{exclaim}
        {relative} gets {complaint} from the heat, no drugs involved{exclaim}
    """,
    "complaint_culprit": "{Symptom<culprit} / {Symptom/lay<culprit} / {Symptom/lay<culprit} and {Symptom<culprit}",
    "asking": """
        Has anyone else had this on {Drug:culprit}?
        Does {Drug~care} help with the {ADE/lay:effect<culprit}?
        How long did the {ADE/lay:effect} last for you?
        Should I ask for {Drug~care} instead of {Drug:culprit}?
        Would {Drug~care} be any better?
        Thinking of going down to {Dosage<culprit} of {Drug:culprit}{exclaim}
        I am allergic to {Drug} so that is out{exclaim}
        Any tips welcome, {worry} is driving me mad{exclaim}
        My pharmacist in {town} said to try {Drug~care}{exclaim}
        Is it safe with {Drug} or with {Disease/nested}?
        Thanks for reading, hope you are all well{exclaim}
        Sending hugs to everyone with {Disease}{exclaim}
        Appointment is on {date} so wish me luck{exclaim}
        I would rather live with {complaint} than with {Drug:culprit}{exclaim}
        Do I just put up with {side_effect_culprit} or stop {Drug:culprit}?
    """,
}

POSTS = Style(
    name="patient posts",
    rules=_POST_RULES,
    sections=(
        Section("greeting", 1, 2, opens=""),
        Section("suffering", 1, 3),
        Section("living", 1, 4),
        Section("asking", 1, 2),
    ),
    typing=Typing(slips=0.05, short=0.05, lay=0.7, small_letters=0.35),
)

_JOTTING_RULES = {
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
    rules=_JOTTING_RULES,
    sections=(
        Section("start", 1, 1, opens="", between="\n"),
        Section("said", 1, 3, opens="\n", between="\n"),
        Section("checked", 1, 3, opens="\n", between="\n"),
        Section("thought", 0, 2, opens="\n", between="\n"),
        Section("plan", 1, 3, opens="\n", between="\n"),
    ),
    typing=Typing(slips=0.02, short=0.8, small_letters=0.3, capitals=False),
)
