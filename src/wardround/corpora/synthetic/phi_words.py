"""Names, places and professions of people who never lived, many of them words that mean something else too."""

from __future__ import annotations

from wardround.corpora.synthetic.terms import Lexicon, Term, listed, terms
from wardround.corpora.synthetic.words_drugs import invented_names
from wardround.corpora.synthetic.words_problems import problem_lists

__all__ = ["person", "phi_lists"]

_HER_NAMES = """
    Alice; Amina; Beatrice; Carmen; Clara; Dorothy; Elena; Esther; Fatima; Florence; Greta; Hannah; Ingrid; Irene;
    Julia; Karin; Leila; Louise; Margaret; Maria; Miriam; Nadia; Nora; Olga; Pauline; Rachel; Rosa; Ruth; Sofia;
    Teresa; Ursula; Vera; Yasmin; Zoe; Grace; Hope; Joy; April; June; May; Virginia; Georgia; Carolina; Mercy;
    Faith; Ivy; Rose; Daisy
"""
_HIS_NAMES = """
    Adam; Ahmed; Albert; Boris; Carlos; Daniel; Dennis; Edward; Felix; Francis; George; Harold; Henry; Hugo; Ivan;
    Jacob; James; Karl; Leon; Lewis; Martin; Mohamed; Nathan; Oscar; Patrick; Paul; Peter; Ravi; Robert; Samuel;
    Stefan; Thomas; Victor; Walter; Yusuf; Mark; Will; Bill; Drew; August; Chance; Rusty; Dale; Cliff; Forest; Gene;
    Miles; Rich
"""
_COMMON_SURNAMES = """
    Smith; Jones; Garcia; Nguyen; Patel; Kim; Kowalski; Schmidt; Rossi; Silva; Novak; Ivanov; Hansen; Murray;
    Okafor; Haddad; Tanaka; Singh; Cohen; Lopez; Martin; Weber; Dubois; Jansen; Andersson; Papadakis; Yilmaz; Chen;
    Ali; Costa; Horvat
"""
# Words, months, places, and the names of diseases and signs.
_AMBIGUOUS_SURNAMES = """
    May; Page; Ward; Young; Long; Day; March; Price; Banks; Rivers; Field; Church; Hall; Wells; Bloom; Brown; Green;
    White; Cook; Baker; Bishop; Carpenter; Fisher; Gardener; Mason; Parker; Porter; Shepherd; Parkinson; Graves;
    Addison; Bell; Down; Cushing; Hodgkin; Paget; Murphy; Foley; Babinski; Romberg; Glasgow; Bristol; Waterlow;
    Virginia; Mercy; English; Early; Small; Strong; Sharp; Swift; Savage; Cross; Rose; Lake; Stone; Winter; Summers;
    Noon; Moon; Frost; Rash; Chill
"""
_SURNAME_ENDINGS = listed(
    "son; man; ley; ford; berg; escu; ova; ini; sen; well; worth; wick; ström; ez; ides; akis; ton; ard; oux; ling"
)
_TOWN_ENDINGS = listed("ton; ford; mouth; bury; ham; wick; stead; haven; field; dale; port; wood; bridge; stoke")
_HOSPITAL_KINDS = listed(
    """General Hospital; Infirmary; Memorial Hospital; Medical Center; Community Hospital; Cottage Hospital; Clinic;
    Mercy Hospital; University Hospital; Rehabilitation Unit; Nursing Home"""
)
_SAINTS = listed("St. Brannoc's; St. Odile's; St. Wendreda's; Mercy; Good Shepherd; Sacred Heart; Providence; Grace")
_STREET_NAMES = listed(
    """Orchard; Mill; Chapel; Station; Willow; Harbour; Church; Quarry; Linden; Meadow; Castle; Poplar; Foundry; Weaver;
    Bridge; Fountain; Abbey; Larch; Market; Tannery; Windmill; Priory; Canal; Heather; Juniper; Cooper"""
)
_STREET_KINDS = listed("Street; Road; Avenue; Lane; Drive; Court; Close; Terrace; Way; Boulevard")
_STATES = listed(
    "Virginia; Georgia; Montana; Carolina; Maine; Nevada; Ohio; Washington; Florida; Dakota; Texas; Oregon"
)
_PROFESSIONS = """
    teacher; bus driver; farmer; nurse; electrician; chef; builder; librarian; postal worker; carpenter; shop
    manager; music teacher; cleaner; accountant; gardener; plumber; receptionist; tailor; welder; pilot; baker;
    fisherman; judge; software developer; firefighter; police officer; barber; florist; crane operator; bank clerk;
    dentist; violinist; factory foreman; night porter; translator; geologist; beekeeper; seamstress; taxi driver;
    truck driver; priest; school caretaker; warehouse worker; hairdresser; optician; mechanic; roofer; surveyor;
    train conductor; typist
"""
# Named after people, and no people.
_EPONYMS = """
    Parkinson's disease; Graves' disease; Addison's disease; Bell's palsy; Down syndrome; Cushing's syndrome;
    Hodgkin's lymphoma; Paget's disease; Baker's cyst; Crohn's disease; Alzheimer's disease; Raynaud's phenomenon;
    Barrett's oesophagus; Dupuytren's contracture; Hashimoto's thyroiditis; Sjogren's syndrome; Wilson's disease
"""
_EPONYMOUS_SIGNS = """
    a Foley catheter; a positive Murphy sign; a negative Romberg test; a Glasgow coma score of 14; a Waterlow score
    of 18; a Hickman line; an upgoing Babinski; a Thomas splint; Kerley B lines; a May-Thurner stent; a Bristol type
    4 stool; a Doppler signal; a Young scale of 2; a Barthel index of 60; Cheyne-Stokes breathing; a Page kidney;
    Heberden nodes
"""


def phi_lists() -> Lexicon:
    """The lists that identifying mentions, and the words around them, are drawn from."""
    surnames = [name.capitalize() for name in invented_names("surnames", 380, endings=_SURNAME_ENDINGS)]
    invented_her = [
        name.capitalize() for name in invented_names("her names", 90, endings=listed("a; ina; elle; ia; y"))
    ]
    invented_his = [name.capitalize() for name in invented_names("his names", 90, endings=listed("o; an; in; us; ek"))]
    towns = [name.capitalize() for name in invented_names("phi towns", 260, endings=_TOWN_ENDINGS, middles=0)]
    problems = problem_lists()
    return {
        "her_name": terms([*listed(_HER_NAMES), *invented_her]),
        "his_name": terms([*listed(_HIS_NAMES), *invented_his]),
        "surname": terms([*listed(_AMBIGUOUS_SURNAMES), *listed(_COMMON_SURNAMES), *surnames]),
        "mail_name": terms(name.lower() for name in surnames[::3] if name.isascii()),
        "CITY": terms(towns),
        "HOSPITAL": tuple(_hospitals(towns)),
        "STREET": terms(f"{name} {kind}" for name in _STREET_NAMES for kind in _STREET_KINDS),
        "STATE": terms(_STATES),
        "PROFESSION": terms(listed(_PROFESSIONS)),
        "eponym": terms(listed(_EPONYMS)),
        "eponymous_sign": terms(listed(_EPONYMOUS_SIGNS)),
        "problem": tuple(Term(term.text) for term in problems["Disease"]),
        "complaint": tuple(Term(term.text) for term in problems["Symptom"]),
    }


def person(first: str, last: str) -> Term:
    """Somebody, by full name and in the other ways a note may name them."""
    forms = {
        "first": first,
        "last": last,
        "reversed": f"{last}, {first}",
        "capitals": f"{last.upper()}, {first.upper()}",
        "initial": f"{first[0]}. {last}",
        "initials": first[0] + last[0],
    }
    return Term(f"{first} {last}", forms=tuple(forms.items()))


def _hospitals(towns: list[str]) -> list[Term]:
    named = [f"{town} {_HOSPITAL_KINDS[at % len(_HOSPITAL_KINDS)]}" for at, town in enumerate(towns[::2])]
    holy = [f"{saint} {kind}" for saint in _SAINTS for kind in _HOSPITAL_KINDS[:6] if saint not in kind]
    return [Term(name, forms=(("short", name.rsplit(" ", 1)[0]),)) for name in (*named, *holy)]
