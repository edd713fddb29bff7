"""Drug names, most of them invented from the affixes that real ones are made of."""

from __future__ import annotations

from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.terms import Lexicon, Term, listed, terms

__all__ = ["brand_names", "drug_lists", "invented_names"]

_GENERIC_COUNT = 620
# Trade names are cut from one row, so that a drug's is never also a gadget's.
_BRANDS = {"drugs": range(0, 260), "gadgets": range(260, 460), "firms": range(460, 600), "goods": range(600, 740)}

_VOWELS = "aeiou"
_OPENINGS = """
    al am ar ba be bel bri ca car cel cla cor da dal de dex do dul el em en er fa fel fi flu fo ga gel go hal he il
    im in ja ke la lam le lin lo lu ma mel mi mo na ne ni nor o ol or pa pe per pi pra pro qui ra re ri ro sa sel si
    so su ta te ti to tra tri u ul va ve vi vo xa xi za ze zi zo
""".split()
_MIDDLES = """
    ba ce cla co da de di do fa fe fi ga go la le li lo lu ma me mi mo na ne ni no pa pe pi ra re ri ro sa se si so
    ta te ti to va ve vi xa xi za
""".split()
_STEMS = """
    pril sartan olol dipine statin azole cillin mycin floxacin mab tinib gliptin glutide prazole tidine setron
    triptan azepam oxetine traline apine idone caine profen coxib thiazide semide xaban gatran parin vir ciclib
    platin rubicin taxel dronate lukast terol asone onide fibrate gliflozin tropium barbital curonium cycline bactam
    pamil zosin stigmine giline capone lamide trexate
""".split()
_BRAND_ENDINGS = """
    vex ril dan tor xa lis nel zyme via lex mune quil dra tec vant cor len pax max tris nova lin san dex vera zen
    fen sta gal mira brel tiva
""".split()
_SALTS = "hydrochloride sodium maleate succinate tartrate besilate mesilate fumarate acetate citrate".split()

_WELL_KNOWN = """
    aspirin; paracetamol; ibuprofen; naproxen; codeine; morphine; tramadol; metformin; gliclazide; insulin; insulin
    glargine; warfarin; heparin; digoxin; amiodarone; furosemide; spironolactone; bendroflumethiazide; ramipril;
    lisinopril; losartan; amlodipine; bisoprolol; atenolol; simvastatin; atorvastatin; omeprazole; lansoprazole;
    ranitidine; salbutamol; prednisolone; dexamethasone; hydrocortisone; amoxicillin; flucloxacillin; penicillin V;
    erythromycin; clarithromycin; doxycycline; ciprofloxacin; trimethoprim; nitrofurantoin; gentamicin; vancomycin;
    metronidazole; fluconazole; aciclovir; lithium carbonate; sodium valproate; carbamazepine; phenytoin;
    lamotrigine; levetiracetam; gabapentin; pregabalin; sertraline; fluoxetine; citalopram; mirtazapine;
    amitriptyline; diazepam; haloperidol; olanzapine; clozapine; levodopa; methotrexate; azathioprine; ciclosporin;
    hydroxychloroquine; allopurinol; colchicine; levothyroxine; carbimazole; alendronic acid; folic acid; ferrous
    sulphate; senna; lactulose; loperamide; cyclizine; ondansetron; metoclopramide; cetirizine; quinine sulphate;
    tamoxifen; cisplatin
"""
# (said in full, jotted down)
_SHORTENED = """
    prednisolone=pred; flucloxacillin=fluclox; bendroflumethiazide=bendro; hydroxychloroquine=hcq; methotrexate=mtx;
    metronidazole=metro; trimethoprim=trim; carbamazepine=cbz; amitriptyline=ami; levothyroxine=thyroxine;
    atorvastatin=atorva; bisoprolol=biso; amoxicillin=amox; clarithromycin=clari; sodium valproate=valproate
"""
_CLASSES = """
    statin; beta blocker; ACE inhibitor; loop diuretic; proton pump inhibitor; antihistamine; calcium channel
    blocker; tricyclic; sulphonylurea; thiazide; anticoagulant; bisphosphonate; antifungal; antiemetic; nitrate;
    opioid; macrolide; cephalosporin; water tablet; blood thinner; sleeping tablet; blood pressure tablet; steroid;
    SSRI
"""
_MINERALS = "iron; potassium; calcium; magnesium; zinc; folate; phosphate; vitamin D"


def drug_lists() -> Lexicon:
    """The lists a Drug mention is drawn from: generic and trade names together, classes, and minerals."""
    short = dict(pair.split("=") for pair in listed(_SHORTENED))
    known = [Term(name, forms=(("short", short[name]),) if name in short else ()) for name in listed(_WELL_KNOWN)]
    generic = terms(_generic_names())
    return {
        "Drug": (*known, *generic, *terms(brand_names("drugs"))),
        "drug_class": terms(listed(_CLASSES), countable=True),
        "mineral": terms(listed(_MINERALS)),
    }


def invented_names(purpose: str, count: int, *, endings: list[str], middles: int = 1) -> list[str]:
    """Names of two or more syllables, different for each purpose."""
    stream = Stream("invented", purpose)
    names: dict[str, None] = {}
    while len(names) < count:
        inner = "".join(stream.choice(_MIDDLES) for _ in range(stream.between(0, middles)))
        start, ending = stream.choice(_OPENINGS) + inner, stream.choice(endings)
        link = stream.choice("dlmnrtvz") if start[-1] in _VOWELS and ending[0] in _VOWELS else ""
        names[start + link + ending] = None
    return list(names)


def brand_names(purpose: str) -> list[str]:
    """Capitalised trade names; those of drugs and of other goods sound alike."""
    names = invented_names("brands", max(_BRANDS["goods"]) + 1, endings=_BRAND_ENDINGS)
    return [names[at].capitalize() for at in _BRANDS[purpose]]


def _generic_names() -> list[str]:
    stream = Stream("invented", "salts")
    names = invented_names("generic names", _GENERIC_COUNT, endings=_STEMS)
    return [f"{name} {stream.choice(_SALTS)}" if stream.chance(0.08) else name for name in names]
