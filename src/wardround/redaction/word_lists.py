"""Word lists: surrogate names, places and professions, words that are kept, months and weekdays."""

from __future__ import annotations

__all__ = [
    "FIRST_NAMES",
    "GENERIC",
    "KIN",
    "MONTH_NAMES",
    "PARTICLES",
    "PERSONS",
    "PLACES",
    "PROFESSIONS",
    "SURNAMES",
    "TITLES",
    "WEEKDAY_NAMES",
]


def _word_list(words: str) -> tuple[str, ...]:
    return tuple(" ".join(word.split()) for word in words.split(";"))


# By language and gender; "" is for names of either.
FIRST_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "en": {
        "F": _word_list(
            """Abigail; Alice; Amanda; Amy; Andrea; Angela; Anna; Anne; Audrey; Barbara; Beatrice; Bethany; Bridget;
            Caroline; Catherine; Charlotte; Chloe; Christine; Clara; Claire; Cynthia; Deborah; Diana; Dorothy; Edith;
            Eleanor; Elizabeth; Ellen; Emily; Emma; Esther; Florence; Frances; Gillian; Grace; Hannah; Harriet;
            Heather; Helen; Irene; Isabel; Jane; Janet; Jennifer; Jessica; Joan; Judith; Julia; Karen; Kate; Laura;
            Linda; Louise; Lucy; Margaret; Martha; Mary; Megan; Miriam; Monica; Nancy; Naomi; Nora; Olivia; Pamela;
            Patricia; Paula; Rachel; Rebecca; Rose; Ruth; Sandra; Sarah; Sharon; Sophie; Susan; Sylvia; Teresa;
            Ursula; Valerie; Vera; Victoria; Wendy; Zoe"""
        ),
        "M": _word_list(
            """Aaron; Adam; Adrian; Alan; Albert; Andrew; Anthony; Arthur; Benjamin; Bernard; Brian; Charles;
            Christopher; Colin; Daniel; David; Dennis; Derek; Donald; Douglas; Edward; Eric; Ernest; Felix; Francis;
            Frank; Gareth; Gary; George; Gerald; Graham; Gregory; Harold; Harry; Henry; Howard; Hugh; Ian; Jack; Jacob;
            James; Jeremy; John; Jonathan; Joseph; Keith; Kenneth; Kevin; Lawrence; Leonard; Lewis; Louis; Malcolm;
            Mark; Martin; Matthew; Michael; Nathan; Neil; Nicholas; Nigel; Oliver; Oscar; Patrick; Paul; Peter; Philip;
            Ralph; Raymond; Richard; Robert; Roger; Roland; Samuel; Simon; Stephen; Stuart; Thomas; Timothy; Victor;
            Vincent; Walter; William"""
        ),
        "": _word_list(
            """Alex; Ashley; Avery; Blair; Cameron; Casey; Charlie; Dana; Drew; Emerson; Frankie; Harper; Hayden;
            Jamie; Jordan; Kelly; Kim; Lee; Logan; Morgan; Parker; Quinn; Reese; Riley; Robin; Rowan; Sam; Sidney;
            Taylor; Terry; Tracy; Val"""
        ),
    },
    "es": {
        "F": _word_list(
            """Adela; Alba; Alicia; Amparo; Ana; Andrea; Ángela; Antonia; Araceli; Aurora; Beatriz; Begoña; Blanca;
            Carla; Carmen; Carolina; Catalina; Cecilia; Celia; Clara; Concepción; Consuelo; Cristina; Dolores; Elena;
            Elisa; Emilia; Encarnación; Esperanza; Esther; Eugenia; Eva; Fátima; Francisca; Gloria; Inés; Irene;
            Isabel; Josefa; Juana; Julia; Laura; Leonor; Lidia; Lola; Lorena; Lourdes; Lucía; Luisa; Magdalena;
            Manuela; Margarita; María; Marina; Marta; Matilde; Mercedes; Miriam; Mónica; Natalia; Noelia; Nuria;
            Olga; Patricia; Paula; Pilar; Raquel; Remedios; Rocío; Rosa; Rosario; Sandra; Sara; Silvia; Sofía;
            Soledad; Sonia; Susana; Teresa; Verónica; Victoria; Virginia; Yolanda"""
        ),
        "M": _word_list(
            """Adrián; Agustín; Alberto; Alejandro; Alfonso; Alfredo; Álvaro; Andrés; Ángel; Antonio; Arturo; Benito;
            Bernardo; Carlos; César; Cristóbal; Daniel; David; Diego; Domingo; Eduardo; Emilio; Enrique; Ernesto;
            Esteban; Eugenio; Federico; Felipe; Félix; Fernando; Francisco; Gabriel; Gerardo; Gonzalo; Gregorio;
            Guillermo; Gustavo; Héctor; Hugo; Ignacio; Íñigo; Iván; Jaime; Javier; Jesús; Joaquín; Jorge; José; Juan;
            Julián; Julio; Leandro; Lorenzo; Lucas; Luis; Manuel; Marcos; Mariano; Mario; Martín; Mateo; Mauricio;
            Miguel; Nicolás; Óscar; Pablo; Pascual; Pedro; Rafael; Ramón; Raúl; Ricardo; Roberto; Rodrigo; Salvador;
            Samuel; Santiago; Sebastián; Sergio; Tomás; Vicente; Víctor"""
        ),
        "": _word_list(
            """Ariel; Cruz; Denis; Guadalupe; Noa; Patro; Reyes; Sacramento; Sol; Trinidad; Zoel; Akira; Alexis;
            Amor; Andy; Cameron; Jael; Yael; Paris; Robin"""
        ),
    },
}
SURNAMES: dict[str, tuple[str, ...]] = {
    "en": _word_list(
        """Abbott; Adler; Alcott; Ashby; Atwood; Barlow; Barton; Beckett; Bennett; Blackwell; Bolton; Bradshaw; Briggs;
        Burton; Calloway; Carver; Chapman; Clayton; Colby; Conway; Cooper; Crawford; Dalton; Davenport; Dawson; Denton;
        Dixon; Draper; Eaton; Ellison; Everett; Fairfax; Farrell; Fletcher; Forsyth; Garner; Gibbs; Goddard; Granger;
        Greer; Hale; Harding; Hartley; Hayward; Holloway; Hobbs; Hughes; Ingram; Jarvis; Jennings; Keating; Kendall;
        Kirby; Lambert; Langley; Lawson; Lockwood; Mallory; Marsh; Maynard; Merritt; Milton; Morley; Nash; Newell;
        Norton; Oakley; Osborne; Palmer; Pearson; Pickett; Preston; Quincy; Ramsey; Redmond; Rhodes; Rowley; Sawyer;
        Shelton; Sinclair; Spencer; Stanton; Sutton; Tate; Thornton; Tilley; Underwood; Vance; Wakefield; Walton;
        Watkins; Weston; Whitaker; Wilcox; Winslow; Woodward; Wyatt; Yates"""
    ),
    "es": _word_list(
        """Abad; Acosta; Aguirre; Alarcón; Alonso; Aranda; Arias; Arroyo; Ávila; Ballester; Barrera; Bautista; Benítez;
        Bermejo; Blasco; Bravo; Caballero; Calvo; Campos; Cano; Carrasco; Castaño; Cordero; Corral; Cortés; Crespo;
        Delgado; Domínguez; Durán; Escudero; Espinosa; Esteve; Ferrer; Figueroa; Fuentes; Gallardo; Garrido; Gil;
        Guerrero; Herrero; Hidalgo; Ibarra; Iglesias; Izquierdo; Lara; León; Linares; Lorenzo; Lozano; Luna; Marín;
        Medina; Méndez; Merino; Miranda; Molina; Montoya; Mora; Moya; Nieto; Núñez; Olmos; Ortega; Pardo; Pascual;
        Pastor; Peña; Ponce; Prieto; Quintana; Redondo; Rey; Robledo; Rojas; Roldán; Román; Rubio; Salas; Salazar;
        Sancho; Santana; Serrano; Soler; Soto; Suárez; Tejada; Toledo; Trujillo; Valero; Vargas; Vega; Velasco;
        Vidal; Villar; Zamora; Zapata"""
    ),
}
PLACES: dict[str, tuple[str, ...]] = {
    "en": _word_list(
        """Alderbrook; Ashcombe; Barrowfield; Beechcroft; Birchmere; Bramley; Briarwood; Brookvale; Calderstone;
        Cedarholm; Claybourne; Coldwater; Copperhill; Cranfield; Dunmore; Eastwick; Elmhurst; Fairhaven; Fernleigh;
        Foxhollow; Glenbrook; Granby; Greystone; Halewood; Hazelmere; Heronsgate; Highfield; Hollowell; Kestrel;
        Kingsmere; Lakeview; Larkfield; Longmoor; Maplewood; Marlow; Millbrook; Northcote; Oakhurst; Oldbridge;
        Pinecrest; Ravensworth; Redcliff; Riverton; Rookwood; Sandhurst; Silverdale; Springvale; Stonehaven; Swanmore;
        Thornbury; Underhill; Valebrook; Westbourne; Whitcombe; Wildwood; Willowby; Windmere; Woodstock"""
    ),
    "es": _word_list(
        """Aldeanueva; Almendral; Altamira; Arroyofrío; Barranco; Belmonte; Buenavista; Camporreal; Canteras;
        Carrascal; Castilblanco; Cerezo; Cerrillo; Encinar; Fontanar; Fresneda; Fuenteclara; Hontanar; Hornillo;
        Jaral; Labrada; Lagunilla; Llanura; Madroñal; Manzanera; Mirador; Moraleda; Navalta; Nogales; Olivares;
        Olmeda; Palomar; Pedregal; Peñablanca; Pinares; Piedrahita; Pozohondo; Quejigal; Retamar; Ribera; Robledal;
        Romeral; Sauceda; Serrezuela; Sotillo; Tamarindo; Tejares; Torreblanca; Valdehierro; Valleverde; Vegas;
        Villaclara; Villarrubia; Zarzal"""
    ),
}
PROFESSIONS: dict[str, tuple[str, ...]] = {
    "en": _word_list(
        """accountant; archivist; baker; bookbinder; bricklayer; bus driver; carpenter; cashier; clerk; cook; dentist;
        draughtsman; electrician; farmer; fisher; gardener; glazier; grocer; joiner; librarian; locksmith; mechanic;
        musician; painter; plumber; postal worker; printer; roofer; salesperson; secretary; surveyor; tailor; teacher;
        technician; translator; waiter; watchmaker; welder"""
    ),
    "es": _word_list(
        """administrativo; agricultor; albañil; archivero; bibliotecario; camarero; carpintero; cerrajero; cocinero;
        comerciante; conductor; contable; electricista; encuadernador; fontanero; ganadero; impresor; jardinero;
        joyero; maestro; mecánico; músico; panadero; pescador; pintor; relojero; sastre; soldador; traductor;
        vendedor"""
    ),
}
PERSONS = {"en": ("person", "individual"), "es": ("persona", "individuo")}
KIN = {"en": ("relative", "kinsperson"), "es": ("familiar", "pariente")}

PARTICLES = frozenset("de del la las los el y e i van von der den da do dos di al of the and".split())
# Titles with the gender they imply.
TITLES = {
    **dict.fromkeys(("mrs", "ms", "miss", "madam", "sra", "srta", "señora", "señorita", "doña", "dña", "dra"), "F"),
    **dict.fromkeys(("mr", "sir", "sr", "señor", "don", "d"), "M"),
    **dict.fromkeys(("dr", "doctor", "prof", "md", "rn", "jr"), ""),
}
# Words that many addresses and institutions share.
GENERIC = frozenset(
    """street st road rd avenue ave lane drive court close terrace way boulevard square place apt apartment flat
    suite floor box po unit ward north south east west hospital clinic infirmary center centre medical memorial general
    community cottage university rehabilitation nursing home health department school college company inc ltd
    calle c avenida avda av plaza pza paseo carretera ctra camino ronda travesía apartado correos piso puerta izq dcha
    izquierda derecha bajo escalera número s n nº hospital clínica centro salud complejo hospitalario universitario
    universitaria general comarcal provincial regional instituto fundación servicio departamento facultad
    universidad""".split()
)


# Months and weekdays in lower case, in full and abbreviated.


def _numbered(words: str) -> list[tuple[str, int]]:
    return [(name, number) for number, names in enumerate(words.split(), start=1) for name in names.split("/")]


# Names with the number of the month; the first is the full name, the last the shortest.
MONTH_NAMES: dict[str, list[tuple[str, int]]] = {
    "en": _numbered(
        "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sept/sep "
        "october/oct november/nov december/dec"
    ),
    "es": _numbered(
        "enero/ene febrero/feb marzo/mar abril/abr mayo/may junio/jun julio/jul agosto/ago "
        "septiembre/setiembre/sept/sep octubre/oct noviembre/nov diciembre/dic"
    ),
}
# Names with the number of the day; Monday is 1.
WEEKDAY_NAMES: dict[str, list[tuple[str, int]]] = {
    "en": _numbered(
        "monday/mon tuesday/tues/tue wednesday/weds/wed thursday/thurs/thur/thu friday/fri saturday/sat sunday/sun"
    ),
    "es": _numbered("lunes martes miércoles/miercoles jueves viernes sábado/sabado domingo"),
}
