"""Findings of examination, laboratory and imaging, and the look-alikes that are no mention at all."""

from __future__ import annotations

from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.terms import Lexicon, listed, terms
from wardround.corpora.synthetic.words_drugs import brand_names, invented_names
from wardround.corpora.synthetic.words_problems import ORGANS

__all__ = ["finding_lists", "lookalike_lists"]

_ANALYTES = listed(
    """sodium; potassium; calcium; magnesium; phosphate; urea; creatinine; bilirubin; albumin; ferritin; serum iron;
    haemoglobin; CRP; amylase; lipase; troponin; prolactin; cortisol; TSH; lactate; d-dimer; INR; ALT; ALP; urate;
    glucose; vitamin B12; prothrombin; fibrinogen; ammonia; gastrin; calcitonin; insulin; testosterone; transferrin;
    procalcitonin; thyroglobulin; aldolase; renin; ceruloplasmin; digoxin level; lithium level"""
)
_DIRECTIONS = listed("raised; low; elevated; falling; high; reduced; rising; undetectable")
_PLACES_IN_CHEST = listed(
    "bibasal; left basal; right basal; perihilar; patchy; diffuse; bilateral; apical; lingular; right upper lobe"
)
_SHADOWS = listed(
    "consolidation; opacities; atelectasis; nodules; infiltrates; shadowing; crackles; scarring; ground-glass change"
)
_CHANGES = listed(
    "dilated; thickened; enlarged; oedematous; atrophic; echogenic; calcified; irregular; displaced; shrunken; bulky"
)
_STRUCTURES = listed(
    """common bile duct; gallbladder; spleen; liver; left ventricle; right atrium; appendix; aortic root; mitral valve;
    adrenal gland; kidney; thyroid lobe; pancreatic head; optic disc; vocal cord; small bowel; lymph node; ureter;
    left atrium; portal vein; bladder wall; terminal ileum"""
)
_SIGNS = """
    reduced air entry; pitting oedema; abdominal guarding; rebound tenderness; jaundice; pallor; finger clubbing;
    spider naevi; absent ankle jerks; nystagmus; papilloedema; cervical lymphadenopathy; hypotension; tachycardia;
    calf tenderness; neck stiffness; ankle swelling; facial swelling; leg weakness; ataxia; bradykinesia; ptosis;
    hyperreflexia; palmar erythema; free fluid in the pelvis; blast cells on the film; protein in the urine;
    right-sided weakness; dysarthria; muscle wasting; peripheral cyanosis; hepatomegaly; splenomegaly; ascites;
    deranged liver function tests; positive blood cultures; rectal bleeding; tremor; tonsillar exudate; cold
    extremities
"""
_COUNTABLE_SIGNS = """
    systolic murmur; third heart sound; pericardial rub; palpable mass; positive Trendelenburg sign; carotid bruit;
    gallop rhythm; displaced apex beat; renal bruit; perianal ulcer; scaly rash; positive straight leg raise;
    widespread rash; positive faecal occult blood test; mass in the right iliac fossa; flat affect; raised jugular
    venous pressure; cutaneous nodule
"""
_CHEST_FILM = """
    small pleural effusion; left pleural effusion; widened mediastinum; cavitating lesion; raised hemidiaphragm;
    filling defect; prominent hilum; coin lesion; horizontal fissure shift
"""
_TRACING = """
    ST depression; ST elevation; T-wave inversion; left bundle branch block; right bundle branch block; Q waves;
    sinus tachycardia; first degree heart block; complete heart block; right axis deviation; peaked T waves;
    ventricular ectopics; left ventricular hypertrophy; QT interval prolongation; atrial flutter; low voltage
    complexes
"""
_UNCHANGED = listed("normal; unremarkable; normal-looking; normal-sized")
_BENIGN_SIGNS = """
    good air entry; a soft abdomen; equal and reactive pupils; normal power throughout; symmetrical reflexes; a full
    range of movement; warm peripheries; a well-healed scar; good dentition; a steady gait; normal heart sounds; a
    regular pulse; normal bowel sounds; moist mucous membranes; a normal fundus; clear speech; normal tone; a supple
    neck; full pulses
"""
_BENIGN_IMAGES = """
    no change since the last film; good views; an endotracheal tube in place; a pacemaker; surgical clips; old
    suture lines; a well-placed central line; clear costophrenic angles; a hip prosthesis; the expected anatomy
"""

_CARE = """
    physiotherapy; reassurance; a sling; compression stockings; crutches; a leaflet; a food diary; hydrotherapy; a
    splint; counselling; a hearing aid; a walking frame; bed rest; a low-salt diet; a hot water bottle; an ice pack;
    massage; acupuncture; a high-fibre diet; pelvic floor exercises; cognitive behavioural therapy; speech therapy;
    a bandage; a special mattress; orthotics; light therapy; a nicotine-free vape; mindfulness; yoga; pilates; honey
    and lemon; camomile tea; prune juice; a standing desk; dry needling; a TENS machine; breathing exercises; a bath
    board; a weighted blanket; cranberry juice; regular turning; a fluid restriction; warm compresses; foot
    elevation
"""
_WORRIES = """
    the noise at night; the long wait; the food; the parking; the cold room; being moved between wards; the new
    rota; losing a parcel; money; the neighbours; the stairs at home; missing a wedding; the journey in; a broken
    boiler; caring for a grandchild; the paperwork; the waiting list; a lost hearing aid; poor signal; a delayed
    letter; a change of surgery; the visiting hours; the bus strike; the new carers; the lumpy pillow; the early
    starts; exams; an upcoming holiday; a house move; the dog; the heating bill; the lack of privacy; the hospital
    gown; a missed appointment; the queue at the chemist; a difficult manager; night shifts; the weather; the
    commute
"""
_PAST_EVENTS = """
    smoking; foreign travel; military service; blood donation; working with asbestos; two caesarean sections;
    childhood vaccination; keeping pigeons; pipe smoking; competitive rowing; shift work; an office job; heavy
    lifting; a hip replacement; a hernia repair; cataract surgery; a blood transfusion; wisdom tooth extraction;
    keyhole surgery; long-haul flights; adoption as an infant; working in a bakery; contact sports; welding; three
    pregnancies; cosmetic surgery; a pacemaker insertion; living overseas; a vasectomy; attending a support group;
    piano tuning
"""
_TESTS = ("oscopy", "ography", "ectomy", "oplasty", "ostomy")
_TOWN_ENDINGS = listed("ton; ford; mouth; bury; ham; wick; stead; haven; field; dale")
_GOODS = listed("mattress; mask; brace; cushion; blanket; monitor; splint; pillow; walker; thermometer")


def finding_lists(problems: Lexicon) -> Lexicon:
    """The lists a Finding mention is drawn from; some of the words are symptoms or adverse effects elsewhere."""
    stream = Stream("invented", "findings")
    laboratory = [f"{way} {analyte}" for analyte in _ANALYTES for way in stream.shuffled(_DIRECTIONS)[:4]]
    shadows = [f"{place} {shadow}" for place in _PLACES_IN_CHEST for shadow in stream.shuffled(_SHADOWS)[:6]]
    organs = [f"{change} {part}" for part in _STRUCTURES for change in stream.shuffled(_CHANGES)[:6]]
    chest = (*terms(shadows), *terms(listed(_CHEST_FILM), countable=True))
    signs = (*terms(listed(_SIGNS)), *terms(listed(_COUNTABLE_SIGNS), countable=True))
    signs += (*problems["eruption"], *problems["visible"])
    lists = {
        "laboratory": (*terms(laboratory), *problems["blood_disorder"]),
        "chest": chest,
        "sign": signs,
        "tracing": terms(listed(_TRACING)),
    }
    lists["organ"] = terms(organs, countable=True)
    return {**lists, "Finding": tuple(term for entries in lists.values() for term in entries)}


def lookalike_lists() -> Lexicon:
    """Words that stand where mentions stand, or sound like them, and are none; `a(n)` is settled in the sentence."""
    stream = Stream("invented", "look-alikes")
    unchanged = [f"a(n) {stream.choice(_UNCHANGED)} {part}" for part in _STRUCTURES for _ in range(3)]
    procedures = [root + test for _, _, root in ORGANS for test in stream.shuffled(_TESTS)[:3]]
    towns = [name.capitalize() for name in invented_names("towns", 120, endings=_TOWN_ENDINGS, middles=0)]
    goods = [f"a(n) {name} {stream.choice(_GOODS)}" for name in brand_names("goods")]
    return {
        "analyte": terms(_ANALYTES),
        "benign": terms(listed(_BENIGN_SIGNS)),
        "normal_image": terms([*listed(_BENIGN_IMAGES), *unchanged]),
        "care": terms([*listed(_CARE), *goods]),
        "worry": terms(listed(_WORRIES)),
        "past_event": terms([*listed(_PAST_EVENTS), *(f"a previous {name}" for name in procedures[::2])]),
        "procedure": terms(procedures),
        "town": terms(towns),
        "firm": terms(brand_names("firms")),
        "gadget": terms(brand_names("gadgets")),
    }
