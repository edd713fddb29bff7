"""Diseases, symptoms and adverse effects: listed where they are common, composed where they are many."""

from __future__ import annotations

from collections.abc import Iterator

from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.terms import Lexicon, Term, listed, terms

__all__ = ["ORGANS", "problem_lists"]

# organ; adjective; the root its Latin and Greek names are built on
_ORGAN_TABLE = """
    kidney=renal=nephr; liver=hepatic=hepat; stomach=gastric=gastr; lung=pulmonary=pneumon; heart=cardiac=cardi;
    bladder=vesical=cyst; pancreas=pancreatic=pancreat; colon=colonic=col; knee joint=articular=arthr;
    skin=cutaneous=dermat; brain=cerebral=encephal; nerve root=radicular=neur; muscle=muscular=my; femur=femoral=oste;
    thyroid=thyroid=thyroid; leg veins=venous=phleb; carotid artery=carotid=arter; eye=orbital=ophthalm;
    middle ear=aural=ot; throat=pharyngeal=pharyng; larynx=laryngeal=laryng; adrenal gland=adrenal=aden;
    prostate=prostatic=prostat; ovary=ovarian=oophor; gallbladder=biliary=cholecyst; oesophagus=oesophageal=oesophag;
    spine=spinal=spondyl; Achilles tendon=tendinous=tendin; womb=uterine=endometr; retina=retinal=retin;
    tongue=lingual=gloss; jaw=mandibular=gnath; rectum=rectal=proct; aorta=aortic=aort; nose=nasal=rhin;
    testis=testicular=orch; breast=mammary=mast; peritoneum=peritoneal=periton; pleura=pleural=pleur;
    duodenum=duodenal=duoden; ileum=ileal=ile; cornea=corneal=kerat; spleen=splenic=splen; cervix=cervical=cervic
"""
ORGANS: tuple[tuple[str, str, str], ...] = tuple(
    (organ, adjective, root) for organ, adjective, root in (row.split("=") for row in listed(_ORGAN_TABLE))
)

_COURSES = listed(
    """acute; chronic; recurrent; alcoholic; autoimmune; ischaemic; bacterial; viral; eosinophilic; idiopathic;
    granulomatous; familial; sclerosing; atrophic; necrotising; ulcerative; early-onset; end-stage; lymphocytic"""
)
_SUFFIXES = ("itis", "itis", "opathy", "osis", "osclerosis")
_STATES = listed(
    "failure; insufficiency; infarction; thrombosis; fibrosis; haemorrhage; dysplasia; amyloidosis; embolism; ischaemia"
)
_LESIONS = listed("abscess; cyst; adenoma; stricture; ulcer; carcinoma; sarcoma; polyp; aneurysm; fistula; lymphoma")

# name, jotted form, what patients say; the last two may be empty
_COMMON_DISEASES = """
    hypertension=htn=high blood pressure; type 2 diabetes=t2dm=diabetes; chronic obstructive pulmonary disease=copd=;
    atrial fibrillation=af=; chronic kidney disease=ckd=bad kidneys; ischaemic heart disease=ihd=heart disease;
    asthma==; gout==; epilepsy==; depression==; anxiety==; psoriasis==; eczema==; migraine==; pneumonia==chest infection;
    osteoporosis=op=thin bones; hypothyroidism==underactive thyroid; gastro-oesophageal reflux disease=gord=acid reflux;
    urinary tract infection=uti=water infection; deep vein thrombosis=dvt=clot in the leg; pulmonary embolism=pe=;
    rheumatoid arthritis=ra=; osteoarthritis=oa=wear and tear; multiple sclerosis=ms=; irritable bowel syndrome=ibs=;
    benign prostatic hyperplasia=bph=; congestive cardiac failure=ccf=heart failure; bipolar disorder=bpad=;
    iron deficiency anaemia=ida=anaemia; transient ischaemic attack=tia=mini stroke; stroke=cva=; sepsis==;
    cellulitis==; shingles==; tonsillitis==; diverticulitis==; cirrhosis==; coeliac disease==; polymyalgia rheumatica=pmr=;
    restless legs syndrome=rls=; peripheral vascular disease=pvd=; acute kidney injury=aki=; tuberculosis=tb=;
    obstructive sleep apnoea=osa=sleep apnoea; generalised anxiety disorder=gad=; post-traumatic stress disorder=ptsd=
"""
_SURNAMES = listed(
    """Harwick; Vance; Ollery; Tessmer; Braddon; Quillin; Marwood; Lindqvar; Ostrander; Pell; Corvane; Dunsmoor;
    Eskild; Farrow; Gaunt; Hollis; Ivarsen; Jessop; Kestrel; Lomax; Mortlake; Nyland; Orme; Penhale; Rusk; Silverdale;
    Thorne; Ulverton; Whitlock; Yarrow"""
)
_EPONYM_NOUNS = ("disease", "syndrome", "palsy", "anaemia", "dystrophy", "lymphoma")
_DRUGS_INSIDE = listed(
    "insulin; penicillin; methotrexate; aspirin; heparin; lithium; warfarin; steroid; opioid; latex; amiodarone; "
    "carbamazepine; trimethoprim; codeine; gentamicin; statin; iodine; morphine; erythromycin; ibuprofen"
)

_REGIONS = listed(
    """chest; abdominal; epigastric; back; neck; shoulder; knee; hip; calf; jaw; facial; pelvic; flank; groin; wrist;
    ankle; thigh; scalp; ear; throat; heel; rib; elbow; hand; foot; leg; tongue; eyelid; stomach; muscle"""
)
_SENSATIONS = listed(
    "pain; discomfort; tightness; swelling; numbness; stiffness; cramps; weakness; itching; burning; twitching; redness"
)
_COMPLAINTS = """
    arthralgia; myalgia; dysphagia; dysuria; haematuria; haemoptysis; epistaxis; melaena; pruritus; palpitations;
    syncope; vertigo; tinnitus; paraesthesia; diplopia; photophobia; polyuria; nocturia; anorexia; lethargy; malaise;
    insomnia; nausea; vomiting; diarrhoea; constipation; dizziness; fatigue; drowsiness; confusion; hoarseness;
    sweating; night sweats; weight loss; weight gain; loss of appetite; loss of taste; blurred vision; dry mouth;
    hair loss; breathlessness on exertion; orthopnoea; urinary frequency; urinary retention; hot flushes; flatulence;
    hiccups; irritability; agitation; low mood; nightmares; hallucinations; memory loss; poor concentration;
    dyspepsia; bloating; regurgitation; rectal bleeding; easy bruising; bleeding gums; mouth ulcers; thirst; rigors;
    chills; unsteadiness; slurred speech; loss of libido; excessive sleepiness; muscle wasting; peeling skin; flushing
"""
_COUNTABLE_COMPLAINTS = """
    headache; rash; fever; cough; tremor; wheeze; dry cough; metallic taste; sore throat; stiff neck; productive cough;
    burning sensation; fainting episode; itchy rash; bitter taste; nosebleed; panic attack; persistent cough
"""
_SHORT_COMPLAINTS = """
    breathlessness=sob=being out of breath; diarrhoea and vomiting=d&v=tummy upset; chest pain=cp=; headache=ha=;
    nausea and vomiting=n&v=feeling sick; loss of consciousness=loc=blacking out; abdominal pain=abdo pain=belly ache;
    dyspnoea=doe=being short of breath; fatigue=tatt=feeling wiped out; swelling of ankles=soa=fat ankles
"""
_QUALITIES = listed(
    """sore; itchy; numb; swollen; heavy; burning; aching; tingling; stiff; puffy; blotchy; throbbing; clammy; shaky;
    restless; tender; twitchy; freezing"""
)
_PARTS = listed(
    "eyes; lips; hands; feet; legs; knees; gums; ankles; fingers; toes; shoulders; arms; cheeks; hips; elbows; calves"
)
_LAY_COMPLAINTS = """
    pins and needles; brain fog; the shakes; feeling sick; feeling faint; throwing up; weird dreams; vivid dreams;
    mood swings; ringing in my ears; the runs; crushing tiredness; feeling like a zombie; crying for no reason;
    waking up at 3am; pounding in my chest; feeling spaced out; no energy; cotton mouth; upset stomach; jelly legs;
    sleepless nights; the sweats; stomach in knots; foggy head; racing heart; blinding headaches; jittery feeling;
    thumping head; dodgy tummy; seeing double; losing my hair; spots on my back; bruises everywhere; raging thirst;
    constant peeing; feeling flat; feeling on edge; zero appetite; wobbly feeling; cramps at night; sick feeling
"""

_TOXIC = """
    agranulocytosis; hepatotoxicity; nephrotoxicity; ototoxicity; cardiotoxicity; neurotoxicity; QT prolongation;
    torsades de pointes; angioedema; anaphylaxis; urticaria; toxic epidermal necrolysis; rhabdomyolysis; priapism;
    serotonin syndrome; lactic acidosis; gum hyperplasia; tardive dyskinesia; akathisia; gynaecomastia; galactorrhoea;
    photosensitivity; drug fever; cholestasis; acute interstitial nephritis; optic neuritis; osteonecrosis of the jaw;
    red man syndrome; acute dystonia; hirsutism; skin necrosis; oculogyric crisis; bronchospasm; acute pancreatitis
"""
_ELECTROLYTES = listed(
    "kal; natr; calc; magnes; phosphat; glyc; uric; lipid; ammon; bilirubin; triglycerid; prolactin; album"
)
_CELLS = listed("neutro; lympho; leuko; thrombocyto; pancyto; mono; granulocyto; erythro")
_ERUPTIONS = listed(
    """bullous; maculopapular; lichenoid; pustular; fixed; morbilliform; psoriasiform; eczematous; acneiform; purpuric;
    vesicular; scaly; confluent; pruritic"""
)


def problem_lists() -> Lexicon:
    """The lists Disease, Symptom and ADE mentions are drawn from; complaints serve the last two alike."""
    complaints = (*terms(_composed_complaints()), *terms(listed(_COMPLAINTS)))
    complaints += (*terms(listed(_COUNTABLE_COMPLAINTS), countable=True), *_with_forms(_SHORT_COMPLAINTS))
    lay = (*terms(_lay_complaints()), *terms(listed(_LAY_COMPLAINTS)))
    toxic = terms([*listed(_TOXIC), *_blood_disorders(), *_toxicities()])
    eruptions = terms((f"{kind} {noun}" for kind in _ERUPTIONS for noun in ("eruption", "rash")), countable=True)
    return {
        "Disease": (*_with_forms(_COMMON_DISEASES), *_diseases()),
        "nested": terms(_nested_diseases()),
        "Symptom": complaints,
        "lay": lay,
        "toxic": (*toxic, *eruptions),
        "ADE": (*complaints, *toxic, *eruptions),
    }


def _with_forms(table: str) -> tuple[Term, ...]:
    rows = [row.split("=") for row in listed(table)]
    return tuple(
        Term(text, forms=tuple((name, form) for name, form in (("short", short), ("lay", lay)) if form))
        for text, short, lay in rows
    )


def _diseases() -> Iterator[Term]:
    """Composed ones: `granulomatous nephritis`, `splenic infarction`, `stricture of the ileum`, `Orme-Rusk palsy`."""
    stream = Stream("invented", "diseases")
    for organ, adjective, root in ORGANS:
        for suffix in dict.fromkeys(_SUFFIXES):
            course = f"{stream.choice(_COURSES)} " if stream.chance(0.6) else ""
            yield Term(course + root + suffix)
        for state in stream.shuffled(_STATES)[:3]:
            yield Term(f"{adjective} {state}")
        for lesion in stream.shuffled(_LESIONS)[:3]:
            yield Term(f"{lesion} of the {organ}" if stream.chance(0.4) else f"{adjective} {lesion}", countable=True)
    for first, second in zip(_SURNAMES, stream.shuffled(_SURNAMES), strict=True):
        noun = stream.choice(_EPONYM_NOUNS)
        yield Term(f"{first}-{second} {noun}" if first != second and stream.chance(0.4) else f"{first}'s {noun}")


def _nested_diseases() -> list[str]:
    """Names with a drug inside, of which only the whole is a mention."""
    patterns = (
        "{} allergy",
        "{} intolerance",
        "{}-dependent diabetes",
        "{}-induced lupus",
        "{}-resistant hypertension",
    )
    patterns += ("{} hypersensitivity", "{}-sensitive asthma", "{} dependence", "{}-associated nephropathy")
    stream = Stream("invented", "nested")
    return [pattern.format(drug) for drug in _DRUGS_INSIDE for pattern in stream.shuffled(patterns)[:5]]


def _composed_complaints() -> list[str]:
    stream = Stream("invented", "complaints")
    return [f"{region} {feeling}" for region in _REGIONS for feeling in stream.shuffled(_SENSATIONS)[:7]]


def _lay_complaints() -> list[str]:
    stream = Stream("invented", "lay complaints")
    return [f"{quality} {part}" for quality in _QUALITIES for part in stream.shuffled(_PARTS)[:8]]


def _blood_disorders() -> list[str]:
    salts = [f"{direction}{salt}aemia" for direction in ("hyper", "hypo") for salt in _ELECTROLYTES]
    return salts + [f"{cell}{ending}" for cell in _CELLS for ending in ("penia", "cytosis")]


def _toxicities() -> list[str]:
    organs = [f"drug-induced {root}itis" for _, _, root in ORGANS[::2]] + [f"{a} toxicity" for _, a, _ in ORGANS[::3]]
    return organs + [f"{drug} toxicity" for drug in _DRUGS_INSIDE if drug not in {"latex", "penicillin"}]
