"""Diseases, symptoms and adverse effects: listed where they are common, composed where they are many."""

from __future__ import annotations

from collections.abc import Iterator

from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.terms import Lexicon, Term, listed, terms

__all__ = ["ORGANS", "problem_lists"]

# organ, adjective, root of its Latin and Greek names, and the endings that root takes
_ORGAN_TABLE = """
    kidney=renal=nephr=itis opathy osis osclerosis; liver=hepatic=hepat=itis opathy osis; stomach=gastric=gastr=itis
    opathy; lung=pulmonary=pneumon=itis opathy; heart=cardiac=cardi=tis opathy; bladder=vesical=cyst=itis;
    pancreas=pancreatic=pancreat=itis opathy; colon=colonic=col=itis opathy; knee joint=articular=arthr=itis opathy
    osis; skin=cutaneous=dermat=itis osis; brain=cerebral=encephal=itis opathy; nerve root=radicular=neur=itis
    opathy; muscle=muscular=my=ositis opathy; femur=femoral=oste=itis osclerosis; thyroid=thyroid=thyroid=itis; leg
    veins=venous=phleb=itis osclerosis; carotid artery=carotid=arter=itis iosclerosis; eye=orbital=ophthalm=itis
    opathy; middle ear=aural=ot=itis osclerosis; throat=pharyngeal=pharyng=itis; larynx=laryngeal=laryng=itis;
    adrenal gland=adrenal=aden=itis opathy; prostate=prostatic=prostat=itis; ovary=ovarian=oophor=itis;
    gallbladder=biliary=cholecyst=itis; oesophagus=oesophageal=oesophag=itis; spine=spinal=spondyl=itis osis opathy;
    Achilles tendon=tendinous=tendin=itis osis opathy; womb=uterine=endometr=itis iosis; retina=retinal=retin=itis
    opathy; tongue=lingual=gloss=itis; jaw=mandibular=gnath=itis; rectum=rectal=proct=itis opathy;
    aorta=aortic=aort=itis opathy; nose=nasal=rhin=itis; testis=testicular=orch=itis; breast=mammary=mast=itis
    opathy; peritoneum=peritoneal=periton=itis; pleura=pleural=pleur=itis; duodenum=duodenal=duoden=itis opathy;
    ileum=ileal=ile=itis; cornea=corneal=kerat=itis opathy; spleen=splenic=splen=itis; cervix=cervical=cervic=itis;
    spinal cord=medullary=myel=itis opathy; lymph nodes=nodal=lymphaden=itis opathy; gums=gingival=gingiv=itis;
    eyelid=palpebral=blephar=itis
"""
_ORGAN_ROWS = tuple(tuple(row.split("=")) for row in listed(_ORGAN_TABLE))
ORGANS: tuple[tuple[str, str, str], ...] = tuple((row[0], row[1], row[2]) for row in _ORGAN_ROWS)

_COURSES = listed(
    """acute; chronic; recurrent; autoimmune; ischaemic; bacterial; viral; eosinophilic; idiopathic; granulomatous;
    familial; sclerosing; atrophic; necrotising; ulcerative; early-onset; end-stage; lymphocytic; post-infectious"""
)
_STATES = listed(
    "infarction; haemorrhage; fibrosis; tuberculosis; sarcoidosis; ischaemia; atrophy; dysplasia; amyloidosis; failure"
)
_LESIONS = listed(
    "abscess; cyst; carcinoma; tumour; haemangioma; metastasis; haematoma; lymphoma; sarcoma; malformation"
)

# name, jotted form, what patients say; the last two may be empty
_COMMON_DISEASES = """
    hypertension=htn=high blood pressure; type 2 diabetes=t2dm=diabetes; chronic obstructive pulmonary
    disease=copd=; atrial fibrillation=af=; chronic kidney disease=ckd=bad kidneys; ischaemic heart
    disease=ihd=heart disease; asthma==; gout==; epilepsy==; depression==; anxiety==; psoriasis==; eczema==;
    migraine==; pneumonia==chest infection; osteoporosis=op=thin bones; hypothyroidism==underactive thyroid;
    gastro-oesophageal reflux disease=gord=acid reflux; urinary tract infection=uti=water infection; deep vein
    thrombosis=dvt=clot in the leg; pulmonary embolism=pe=; rheumatoid arthritis=ra=; osteoarthritis=oa=wear and
    tear; multiple sclerosis=ms=; irritable bowel syndrome=ibs=; benign prostatic hyperplasia=bph=; congestive
    cardiac failure=ccf=heart failure; bipolar disorder=bpad=; iron deficiency anaemia=ida=anaemia; transient
    ischaemic attack=tia=mini stroke; stroke=cva=; sepsis==; cellulitis==; shingles==; tonsillitis==;
    diverticulitis==; cirrhosis==; coeliac disease==; polymyalgia rheumatica=pmr=; restless legs syndrome=rls=;
    peripheral vascular disease=pvd=; acute kidney injury=aki=; tuberculosis=tb=; obstructive sleep apnoea=osa=sleep
    apnoea; generalised anxiety disorder=gad=; post-traumatic stress disorder=ptsd=
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

# what is felt, and where it can be
_SENSATION_TABLE = """
    pain=chest abdominal epigastric back neck shoulder knee hip calf jaw facial pelvic flank groin wrist ankle thigh
    ear throat heel rib elbow hand foot leg eye tooth breast testicular; cramps=abdominal calf stomach leg foot hand
    thigh; discomfort=chest abdominal epigastric pelvic flank groin throat bladder rectal hip; tightness=chest
    throat calf neck jaw; swelling=ankle knee facial eyelid lip tongue leg hand foot calf scrotal wrist neck;
    numbness=facial hand foot leg lip finger arm scalp perianal; stiffness=neck back shoulder knee hip finger
    morning jaw; twitching=eyelid facial muscle calf; weakness=leg arm facial muscle grip hand shoulder;
    itching=scalp eyelid ear anal skin vulval palm; redness=eye facial palm eyelid skin ear; burning=tongue foot
    stomach throat bladder eye mouth; tenderness=breast calf scalp rib abdominal shin wrist; spasms=back bladder
    muscle neck calf oesophageal; bruising=arm leg thigh shin facial
"""
_SEEN_TOO = ("swelling", "weakness", "bruising", "redness", "tenderness", "stiffness")  # by the doctor, as a finding
_COMPLAINTS = """
    arthralgia; myalgia; dysphagia; dysuria; haematuria; haemoptysis; epistaxis; melaena; pruritus; palpitations;
    syncope; vertigo; tinnitus; paraesthesia; diplopia; photophobia; polyuria; nocturia; anorexia; lethargy;
    malaise; insomnia; nausea; vomiting; diarrhoea; constipation; dizziness; drowsiness; confusion;
    hoarseness; sweating; night sweats; weight loss; weight gain; loss of appetite; loss of taste; blurred vision;
    dry mouth; hair loss; breathlessness on exertion; orthopnoea; urinary frequency; urinary retention; hot flushes;
    flatulence; hiccups; irritability; agitation; low mood; nightmares; hallucinations; memory loss; poor
    concentration; dyspepsia; bloating; regurgitation; rectal bleeding; easy bruising; bleeding gums; mouth ulcers;
    thirst; rigors; chills; unsteadiness; slurred speech; loss of libido; excessive sleepiness; muscle wasting;
    peeling skin; flushing
"""
_COUNTABLE_COMPLAINTS = """
    rash; fever; cough; tremor; wheeze; dry cough; metallic taste; sore throat; stiff neck; productive
    cough; burning sensation; fainting episode; itchy rash; bitter taste; nosebleed; panic attack; persistent cough
"""
_SHORT_COMPLAINTS = """
    breathlessness=sob=being out of breath; diarrhoea and vomiting=d&v=tummy upset; chest pain=cp=; headache=ha=;
    nausea and vomiting=n&v=feeling sick; loss of consciousness=loc=blacking out; abdominal pain=abdo pain=belly
    ache; dyspnoea=doe=being short of breath; fatigue=tatt=feeling wiped out; swelling of ankles=soa=fat ankles
"""
# what a body part is like, and which
_LAY_TABLE = """
    sore=eyes lips hands feet knees gums ankles fingers shoulders arms throat tongue ribs; itchy=eyes hands feet
    legs arms scalp skin ears palms nose; numb=lips hands feet fingers toes legs face tongue arms; swollen=eyes lips
    hands feet knees gums ankles fingers face legs glands; heavy=legs arms eyes head eyelids; burning=eyes feet
    tongue lips skin throat ears; aching=legs knees shoulders arms hips calves hands bones joints muscles jaw;
    tingling=hands feet lips fingers toes face arms legs; stiff=knees fingers shoulders hips neck hands back;
    puffy=eyes face hands ankles cheeks feet; blotchy=skin face arms cheeks chest legs; clammy=hands skin feet
    palms; shaky=hands legs arms knees; restless=legs feet nights; tender=gums breasts shins ribs belly;
    twitchy=eyelids fingers legs muscles; freezing=hands feet toes fingers; dry=eyes lips mouth skin throat nose;
    cracked=lips heels hands skin; bleeding=gums nose; flaky=skin scalp; blurry=eyes eyesight; thumping=head heart;
    racing=heart mind thoughts; bloated=belly stomach tummy; gurgling=stomach
"""
_LAY_COMPLAINTS = """
    pins and needles; brain fog; the shakes; weird dreams; vivid dreams; mood swings; ringing in my ears; the runs;
    crushing tiredness; pounding chest; cotton mouth; upset stomach; jelly legs; sleepless nights; the sweats;
    dizzy spells; foggy head; blinding headaches; dodgy tummy; double vision; spots on my back; bruises everywhere;
    raging thirst; cramps at night; sick stomach; crying fits; hot sweats; bad wind; heartburn; the jitters; hair
    falling out; butterflies; acne on my back; stinking headaches; night terrors; the hiccups; zaps in my head;
    water retention; banging headaches
"""
_FEELINGS = """
    feeling sick; feeling faint; throwing up; feeling like a zombie; crying for no reason; waking up at 3am; feeling
    spaced out; seeing double; losing my hair; feeling flat; feeling on edge; peeing all night; sweating buckets;
    snapping at everyone; forgetting words; falling asleep at my desk; bumping into things; shaking like a leaf;
    feeling drunk; breaking out in hives; scratching all night; gasping for air; bruising like a peach; tossing and
    turning
"""

_TOXIC = """
    agranulocytosis; hepatotoxicity; nephrotoxicity; ototoxicity; cardiotoxicity; neurotoxicity; QT prolongation;
    torsades de pointes; angioedema; anaphylaxis; urticaria; toxic epidermal necrolysis; rhabdomyolysis; priapism;
    serotonin syndrome; lactic acidosis; gum hyperplasia; tardive dyskinesia; akathisia; gynaecomastia;
    galactorrhoea; photosensitivity; drug fever; cholestasis; acute interstitial nephritis; optic neuritis;
    osteonecrosis of the jaw; red man syndrome; acute dystonia; hirsutism; skin necrosis; oculogyric crisis;
    bronchospasm; acute pancreatitis
"""
_ELECTROLYTES = listed(
    "kal; natr; calc; magnes; phosphat; glyc; uric; lipid; ammon; bilirubin; triglycerid; prolactin; albumin"
)
_BLOOD_COUNTS = """
    neutropenia; lymphopenia; leukopenia; thrombocytopenia; pancytopenia; granulocytopenia; monocytopenia; eosinopenia;
    leukocytosis; lymphocytosis; thrombocytosis; monocytosis; granulocytosis; erythrocytosis; eosinophilia; basophilia
"""
_ERUPTIONS = listed(
    """bullous; maculopapular; lichenoid; pustular; fixed; morbilliform; psoriasiform; eczematous; acneiform; purpuric;
    vesicular; scaly; confluent; pruritic"""
)


def problem_lists() -> Lexicon:
    """The lists Disease, Symptom and ADE mentions are drawn from; complaints serve the last two alike."""
    complaints = terms([*_composed(_SENSATION_TABLE, "{1} {0}"), *listed(_COMPLAINTS)])
    complaints += (*terms(listed(_COUNTABLE_COMPLAINTS), countable=True), *_with_forms(_SHORT_COMPLAINTS))
    lay = terms([*_composed(_LAY_TABLE, "{0} {1}"), *listed(_LAY_COMPLAINTS)])
    toxic = terms([*listed(_TOXIC), *_blood_disorders(), *_toxicities()])
    eruptions = terms((f"{kind} {noun}" for kind in _ERUPTIONS for noun in ("eruption", "rash")), countable=True)
    return {
        "Disease": (*_with_forms(_COMMON_DISEASES), *_diseases()),
        "nested": terms(_nested_diseases()),
        "Symptom": complaints,
        "lay": lay,
        "feeling": terms(listed(_FEELINGS)),
        "toxic": (*toxic, *eruptions),
        "eruption": eruptions,
        "blood_disorder": terms(_blood_disorders()),
        "visible": terms(text for text in _composed(_SENSATION_TABLE, "{1} {0}") if text.split()[-1] in _SEEN_TOO),
        "poisoning": terms(f"{drug} toxicity" for drug in _DRUGS_INSIDE if drug not in {"latex", "penicillin"}),
        "ADE": (*complaints, *toxic, *eruptions),
    }


def _with_forms(table: str) -> tuple[Term, ...]:
    rows = [row.split("=") for row in listed(table)]
    return tuple(
        Term(text, forms=tuple((name, form) for name, form in (("short", short), ("lay", lay)) if form))
        for text, short, lay in rows
    )


def _diseases() -> Iterator[Term]:
    """Composed ones: `granulomatous nephritis`, `splenic infarction`, `cyst of the ileum`, `Orme-Rusk palsy`."""
    stream = Stream("invented", "diseases")
    for organ, adjective, root, endings in _ORGAN_ROWS:
        for ending in endings.split():
            yield from (Term(f"{course} {root}{ending}") for course in stream.shuffled(_COURSES)[:2])
            yield Term(root + ending)
        for state in stream.shuffled(_STATES)[:3]:
            yield Term(f"{adjective} {state}")
        for lesion in stream.shuffled(_LESIONS)[:3]:
            yield Term(f"{lesion} of the {organ}" if stream.chance(0.4) else f"{adjective} {lesion}", countable=True)
    for first, second in zip(_SURNAMES, stream.shuffled(_SURNAMES), strict=True):
        noun = stream.choice(_EPONYM_NOUNS)
        yield Term(f"{first}-{second} {noun}" if first != second and stream.chance(0.4) else f"{first}'s {noun}")


def _nested_diseases() -> list[str]:
    """Names with a drug inside, of which only the whole is a mention."""
    patterns = listed(
        """{} allergy; {} intolerance; {}-dependent diabetes; {}-induced lupus; {}-resistant hypertension;
        {} hypersensitivity; {}-sensitive asthma; {} dependence; {}-associated nephropathy"""
    )
    stream = Stream("invented", "nested")
    return [pattern.format(drug) for drug in _DRUGS_INSIDE for pattern in stream.shuffled(patterns)[:5]]


def _composed(table: str, order: str) -> list[str]:
    rows = [row.split("=") for row in listed(table)]
    return [order.format(head, part) for head, parts in rows for part in parts.split()]


def _blood_disorders() -> list[str]:
    salts = [f"{direction}{salt}aemia" for direction in ("hyper", "hypo") for salt in _ELECTROLYTES]
    return salts + listed(_BLOOD_COUNTS)


def _toxicities() -> list[str]:
    inflammations = [f"drug-induced {root}itis" for _, _, root in ORGANS[::2] if root[-1] not in "iy"]
    return inflammations + [f"{adjective} toxicity" for _, adjective, _ in ORGANS[::3]]
