from __future__ import annotations

import re
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.studies.tiny_studies import of_algorithm, text_of, tiny

from wardround.algorithms.algorithm import SharedLayers
from wardround.algorithms.fedatt import FedAttConfig
from wardround.algorithms.fedavg import FedAvgConfig
from wardround.algorithms.feded import FedEdConfig
from wardround.algorithms.fedner import FedNerConfig
from wardround.algorithms.fedprox import FedProxConfig
from wardround.errors import StudyError
from wardround.settings import OldNameWarning
from wardround.studies.catalogue import ALGORITHMS
from wardround.studies.study_file import (
    AlgorithmSection,
    EvaluationSection,
    FederationSection,
    ModelSection,
    PrivacySection,
    SiteSection,
    Study,
    StudySection,
    TaskSection,
    digest_of,
    key_scheme,
    parse_study,
    read_study,
    study_for_kits,
    to_toml,
)
from wardround.training.training_config import RoundTrainingConfig

RESERVED = ("admin", "client", "coordinator", "server")
WHOLE = """
[study]
name = "adverse-effects"
seed = 9
description = "All that can be said."

[task]
kind = "ner"

[model]
preset = "transfer"
vectors = "glove.npz"
shared = ["words", "lstm"]
lstm = 12
train_words = false

[algorithm]
name = "fedprox"
rounds = 12
participation = 0.5
local_steps = 3
server_rate = 0.5
proximal = 1

[training]
batch_size = 5
learning_rate = 0.01
output_learning_rate = 0.02
weight_decay = 0.1
schedule = "constant"
clip = 1

[privacy]
mechanism = "plain"
minimum_sites = 1
smallest_batch = 3

[evaluation]
every = 4
patience = 2

[federation]
deadline = 30
wait = 90
checkpoint_every = 6

[sites.harbour]
data = "data/harbour"
format = "conll"
options = { column = 3, strict = true }
types = ["Drug", "ADE"]
scheme = "IOB1"

[sites.hillside-2]
built_in = "hillside"
"""


def test_every_section_and_every_setting(tmp_path: Path) -> None:
    assert parse_study(WHOLE, folder=tmp_path) == Study(
        study=StudySection("adverse-effects", 9, "All that can be said."),
        task=TaskSection("ner"),
        model=ModelSection(
            "transfer", "", tmp_path / "glove.npz", ("words", "lstm"), {"lstm": 12, "train_words": False}
        ),
        algorithm=AlgorithmSection("fedprox", FedProxConfig(12, 0.5, 1, 3, server_rate=0.5, proximal=1.0)),
        training=RoundTrainingConfig(5, 0.01, 0.02, 0.1, "constant", 1.0),
        privacy=PrivacySection("plain", 1, 3),
        evaluation=EvaluationSection(4, 2),
        federation=FederationSection(30.0, 90.0, 6),
        sites={
            "harbour": SiteSection(
                tmp_path / "data" / "harbour",
                "conll",
                {"column": "3", "strict": "true"},
                types=("Drug", "ADE"),
                scheme="IOB1",
            ),
            "hillside-2": SiteSection(built_in="hillside"),
        },
    )


def test_the_smallest_valid_study() -> None:
    study = parse_study('[study]\nname = "s"\n[sites.harbour]\n')
    assert study == Study(StudySection("s"), {"harbour": SiteSection()})
    assert (study.algorithm.name, study.algorithm.config) == ("fedner", FedNerConfig())
    assert study.types == ()


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("fedner", FedNerConfig(7)),
        ("pooled", FedNerConfig(7)),
        ("fedavg", FedAvgConfig(7)),
        ("single", FedAvgConfig(7)),
        ("fedprox", FedProxConfig(7)),
        ("fedatt", FedAttConfig(7)),
    ],
)
def test_an_algorithm_brings_its_settings_and_its_training(name: str, config: object) -> None:
    study = tiny(model={"shared": None}, algorithm={"name": name, "rounds": 7}, training={"batch_size": None})
    assert study.algorithm.config == config
    assert type(study.algorithm.config) is type(config)
    assert study.algorithm.kind is ALGORITHMS[name]
    assert study.training.batch_size == ALGORITHMS[name].training.batch_size


def refused(said: str, **sections: Any) -> None:
    with pytest.raises(StudyError, match=said):
        tiny(**sections)


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    refused(r"^\[algorihtm\] is not a section – did you mean 'algorithm'\?; there are algorithm,", algorihtm={"a": 1})
    refused(r"^\[algorithm\] 'roudns' is not a setting – did you mean 'rounds'\?", algorithm={"roudns": 3})
    refused(
        r"^\[algorithm\] name: 'fedavgg' is not an algorithm – did you mean 'fedavg'\?", algorithm={"name": "fedavgg"}
    )
    refused(r"^\[algorithm\] name: \['fedavg'\] is not an algorithm", algorithm={"name": ["fedavg"]})
    refused(r"^\[algorithm\] name: 3 is not an algorithm; there are fedner,", algorithm={"name": 3})
    refused(r"^\[privacy\] mechanism is 'plian' – did you mean 'plain'\?", privacy={"mechanism": "plian"})
    refused(
        r"^\[task\] kind is 'nre' – did you mean 'ner'\?; it can be ner, relations, joint, deidentify$",
        task={"kind": "nre"},
    )
    refused(
        r"^\[sites.harbour\] scheme is 'BIOE' – did you mean 'BIOES'\?; it can be BIO, BIOES, IOB1$",
        sites={"harbour": {"scheme": "BIOE"}},
    )
    refused(r"^\[sites.harbour\] 'typs' is not a setting – did you mean 'types'\?", sites={"harbour": {"typs": []}})
    refused(r"^\[training\] schedule is 'liner' – did you mean 'linear'\?", training={"schedule": "liner"})
    refused(r"^\[study\] 'sed' is not a setting – did you mean 'seed'\?", study={"sed": 3})


def test_a_setting_of_another_algorithm_is_refused() -> None:
    refused(r"^\[algorithm\] 'proximal' is not a setting", algorithm={"proximal": 0.1})
    refused(r"^\[algorithm\] 'server_rate' is not a setting", algorithm={"name": "fedner", "server_rate": 1.0})


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("study", "seed", "7", "seed is '7'; it must be a whole number"),
        ("study", "seed", True, "seed is True; it must be a whole number"),
        ("study", "name", 7, "name is 7; it must be text"),
        ("algorithm", "rounds", "many", "rounds is 'many'; it must be a whole number"),
        ("algorithm", "rounds", 3.0, "rounds is 3.0; it must be a whole number"),
        ("algorithm", "rounds", 0, "rounds is 0; it must be above zero"),
        ("algorithm", "local_steps", 0, "local_steps is 0; it must be above zero"),
        ("algorithm", "participation", 1.5, "participation is 1.5; it is a fraction of the sites, up to 1"),
        ("algorithm", "participation", 0, "participation is 0.0; it is a fraction of the sites, up to 1"),
        ("training", "learning_rate", "fast", "learning_rate is 'fast'; it must be a number"),
        ("training", "learning_rate", 0, "learning_rate is 0.0; it must be above zero"),
        ("training", "learning_rate", float("nan"), "learning_rate is nan; it must be above zero"),
        ("training", "clip", -1, "clip is -1.0; it must be zero or above"),
        ("privacy", "smallest_batch", -1, "smallest_batch is -1; it must be above zero, or 0 for the default"),
        ("privacy", "largest_share", 0.0, "largest_share is 0.0; it must be a share of a mean, above 0 and up to 1"),
        ("privacy", "largest_share", 1.5, "largest_share is 1.5; it must be a share of a mean, above 0 and up to 1"),
        ("evaluation", "every", -1, "every is -1; it must be zero or above"),
        ("evaluation", "patience", -1, "patience is -1; it must be zero or above"),
        ("federation", "deadline", 0, "deadline is 0.0; it must be above zero"),
        ("federation", "wait", -1, "wait is -1.0; it must be above zero"),
        ("federation", "checkpoint_every", 0, "checkpoint_every is 0; it must be above zero"),
        ("model", "shared", "words", "shared must be a list of names"),
        ("model", "preset", 3, "preset is 3; it must be text"),
    ],
)
def test_invalid_values_are_refused(section: str, key: str, value: object, said: str) -> None:
    refused(rf"^\[{section}\] {said}$", **{section: {key: value}})


def test_a_study_has_a_name() -> None:
    refused(r"^\[study\] needs a name$", study={"name": None})
    with pytest.raises(StudyError, match=r"^\[study\] needs a name$"):
        parse_study("[sites.harbour]")


@pytest.mark.parametrize("name", ["", " a", "a/b", "[bold]", "a\nb", "n" * 64])
def test_invalid_names_of_studies_are_refused(name: str) -> None:
    refused(r"^\[study\] name must be up to 63 letters, digits, spaces and \. _ -$", study={"name": name})


def test_a_study_has_sites() -> None:
    for text in ('[study]\nname = "s"', '[study]\nname = "s"\n[sites]'):
        with pytest.raises(StudyError, match=r"^the study has no site; name each in a section \[sites.NAME\]$"):
            parse_study(text)


def test_sections_are_sections() -> None:
    for text in ("training = 3", "sites = 3", "sites = ['harbour']", "[sites]\nharbour = 3"):
        with pytest.raises(StudyError, match="must be a section"):
            parse_study(text + '\n[study]\nname = "s"')
    refused(r"^\[sites.harbour\] options must be a table", sites={"harbour": {"options": 3}})


@pytest.mark.parametrize("least", [0, -1, 3])
def test_minimum_sites_above_the_number_of_sites_are_refused(least: int) -> None:
    refused(rf"^\[privacy\] minimum_sites is {least}; the study has 2 sites$", privacy={"minimum_sites": least})


def test_minimum_sites_above_the_sampled_sites_are_refused() -> None:
    said = r"^\[algorithm\] participation asks 1 sites per round; \[privacy\] minimum_sites requires 2$"
    refused(said, algorithm={"participation": 0.5}, privacy={"minimum_sites": 2})
    # A quarter of two sites is none: one is asked.
    assert tiny(algorithm={"participation": 0.25}).privacy.minimum_sites == 1
    assert tiny(algorithm={"participation": 1.0}, privacy={"minimum_sites": 2}).privacy.minimum_sites == 2


@pytest.mark.parametrize(
    "name", ["Harbour", "-harbour", "h" * 64, "a b", "a/b", "..", "a_b", "coordinator", "server", "ä"]
)
def test_invalid_names_of_sites_are_refused(name: str) -> None:
    refused(
        "a site's name is up to 63 lower-case letters, digits and dashes; not admin, client, coordinator, "
        "keys, server$",
        sites={name: {}},
    )


@pytest.mark.parametrize("name", ["h", "h" * 63, "7", "ward-7", "coordinators"])
def test_valid_names_of_sites_are_accepted(name: str) -> None:
    assert name in tiny(sites={name: {}}).sites


def test_the_location_of_notes_is_complete_and_named_once() -> None:
    refused(
        r"^\[sites.harbour\] names a built-in hospital and data; keep one of them$",
        sites={"harbour": {"data": "a", "format": "brat"}},
    )
    refused(r"^\[sites.harbour\] names a built-in hospital and data", sites={"harbour": {"format": "brat"}})
    refused(
        r"^\[sites.harbour\] names data; it needs a format as well$",
        sites={"harbour": {"data": "a", "built_in": None}},
    )


@pytest.mark.parametrize(
    "name", [name for name, kind in ALGORITHMS.items() if kind.shared_layers is not SharedLayers.CONFIGURED]
)
def test_shared_layers_are_refused_if_the_algorithm_decides_them(name: str) -> None:
    with pytest.raises(
        StudyError, match=rf"^\[model\] shared cannot be set for {name}, which decides what is shared; leave it out$"
    ):
        of_algorithm(name, model={"shared": ["words"]})


def test_every_type_once_in_the_order_of_the_file() -> None:
    assert tiny().types == ("Drug", "Disease", "Dosage", "ADE", "Finding")


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (
            {"scored": ["Drug", "Disease", "Dosage", "Bed"]},
            r"scored: no site annotates 'Bed'; there are Drug, Disease,",
        ),
        ({"scored": ["Drug", "Disease", "Dosage", "Ade"]}, r"scored: no site annotates 'Ade' – did you mean 'ADE'\?"),
        ({"scored": ["Drug", "ADE"]}, r"scored leaves out 'Disease', which the site annotates; name it as well$"),
        ({"types": None, "scored": ["Drug"]}, r"scored needs types as well: what the training notes are annotated"),
        ({"types": ["Drug", "Drug"]}, r"types names a type twice$"),
        ({"types": ["Drug"], "scored": ["Drug", "ADE", "ADE"]}, r"scored names a type twice$"),
        ({"scored": "Drug"}, r"scored must be a list of names$"),
        ({"names": 3}, r"names is 3; it must be a path$"),
    ],
)
def test_invalid_types_are_refused(site: dict[str, Any], said: str) -> None:
    refused(rf"^\[sites.harbour\] {said}", sites={"harbour": site})


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("joint", "scored is for a task of kind ner or deidentify; leave it out$"),
        ("relations", "types: a task of kind relations uses given entities"),  # without them there is no scored
    ],
)
def test_only_entities_are_scored_on_more_than_is_learned(kind: str, said: str) -> None:
    task = f'[task]\nkind = "{kind}"\n[task.relations]\nADE = [["Drug", "Effect"]]\n'
    with pytest.raises(StudyError, match=rf"^\[sites.a\] {said}"):
        parse_study(f'[study]\nname = "s"\n{task}[sites.a]\ntypes = ["Drug"]\nscored = ["Drug", "Effect"]\n')


def test_what_test_notes_are_annotated_with(tmp_path: Path) -> None:
    study = tiny(sites={"harbour": {"scored": ["Drug", "Disease", "Dosage", "ADE"]}})
    harbour, hillside = study.sites.values()
    assert harbour.scored_types == ("Drug", "Disease", "Dosage", "ADE")
    assert hillside.scored_types == hillside.types == ("Drug", "ADE", "Finding")
    assert study.types == tiny().types  # who scores a type does not teach it
    # Everybody is told what a site is scored on: it is part of the study.
    assert parse_study(study_for_kits(study).decode()).sites["harbour"].scored == harbour.scored


def test_the_type_names_of_a_hospital_are_not_in_its_kit(tmp_path: Path) -> None:
    study = parse_study(text_of(sites={"harbour": {"names": "ward-nine.toml"}}), folder=tmp_path)
    assert study.sites["harbour"].names == tmp_path / "ward-nine.toml"
    assert parse_study(to_toml(study)) == study
    assert "ward-nine" not in study_for_kits(study).decode()
    assert digest_of(study) == digest_of(tiny())


@pytest.mark.parametrize(
    ("keep", "algorithm", "last"),
    [("", "best", False), ("", "last", True), ("best", "last", False), ("last", "best", True)],
)
def test_which_round_a_study_ends_with(keep: str, algorithm: Any, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {**ALGORITHMS, "fedner": replace(ALGORITHMS["fedner"], keep=algorithm)}
    monkeypatch.setattr("wardround.studies.study_file.ALGORITHMS", kinds)
    study = tiny(evaluation={"keep": keep})
    assert study.keeps_last is last
    assert parse_study(to_toml(study)) == study


def test_an_invalid_round_to_keep_is_refused() -> None:
    refused(r"^\[evaluation\] keep is 'lst' – did you mean 'last'\?; it can be best, last$", evaluation={"keep": "lst"})


def test_paths_are_relative_to_the_folder_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "s.toml").write_text(WHOLE)
    study = read_study(folder / "s.toml")
    assert study.sites["harbour"].data == folder / "data" / "harbour"
    assert study.model.vectors == folder / "glove.npz"
    (folder / "s.toml").write_text(WHOLE.replace("data/harbour", "/somewhere/else"))
    assert read_study(folder / "s.toml").sites["harbour"].data == Path("/somewhere/else")


def test_files_that_are_not_a_study_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(StudyError, match=r"^s.toml cannot be read as text: UnicodeDecodeError$"):
        read_study(tmp_path / "s.toml")
    with pytest.raises(StudyError, match=r"^none.toml cannot be read as text: FileNotFoundError$"):
        read_study(tmp_path / "none.toml")
    with pytest.raises(StudyError, match=r"^the study file is no TOML: .*at line 2, column"):
        parse_study("[study]\nname = s")


def test_the_location_of_notes_is_removed_for_others(tmp_path: Path) -> None:
    study = parse_study(WHOLE.replace('vectors = "glove.npz"', ""), folder=tmp_path)
    given = study.for_hospitals()
    text = to_toml(given)
    for word in (str(tmp_path), "data", "conll", "column", "built_in", "/"):
        assert word not in text.replace("All that can be said.", "")
    assert given.sites["harbour"] == SiteSection(types=("Drug", "ADE"), scheme="IOB1")
    assert given.sites["hillside-2"] == SiteSection()
    for section in fields(Study):
        if section.name != "sites":
            assert getattr(given, section.name) == getattr(study, section.name)
    assert parse_study(text) == given


def test_what_participants_of_a_networked_study_are_given(tmp_path: Path) -> None:
    study = parse_study(WHOLE, folder=tmp_path)
    given = study_for_kits(study).decode()
    assert given == to_toml(study.for_hospitals())
    assert 'vectors = "glove.npz"\n' in given and str(tmp_path) not in given
    with pytest.raises(StudyError, match=r"^\[algorithm\] pooled needs all notes in one place"):
        study_for_kits(tiny(algorithm={"name": "pooled"}, model={"shared": None}))


def test_written_out_it_is_the_same_study(tmp_path: Path) -> None:
    for text in (WHOLE, text_of()):
        study = parse_study(text, folder=tmp_path)
        written = to_toml(study)
        assert parse_study(written, folder=Path("/elsewhere")) == study
        assert to_toml(parse_study(written)) == written


def test_written_out_it_has_every_default() -> None:
    written = to_toml(parse_study('[study]\nname = "s"\n[sites.harbour]\n'))
    for line in ("seed = 0", "rounds = 400", "local_steps = 1", "batch_size = 64", "minimum_sites = 1", "every = 0"):
        assert f"{line}\n" in written


NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,10}", fullmatch=True).filter(lambda name: name not in RESERVED)
STUDY_NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,9}", fullmatch=True)
SITES = st.fixed_dictionaries(
    {},
    optional={
        "types": st.lists(st.text(min_size=1, max_size=5), max_size=3, unique=True),
        "scheme": st.sampled_from(["BIO", "BIOES", "IOB1"]),
    },
)
PLACES = st.one_of(
    st.just({}),
    st.builds(lambda name: {"built_in": name}, st.text(min_size=1, max_size=5)),
    st.builds(lambda column: {"data": "a/b", "format": "conll", "options": {"column": column}}, st.integers()),
    st.just({"data": "a/b", "format": "brat", "names": "a/names.toml"}),
)


def algorithm_tables(name: str) -> st.SearchStrategy[dict[str, Any]]:
    # A study that ends before its model is trusted is refused.
    least = getattr(ALGORITHMS[name].config, "trusted_after", 0) + 1
    return st.fixed_dictionaries(
        {"name": st.just(name), "rounds": st.integers(least, 10**6)}, optional={"participation": st.floats(0.01, 1)}
    )


TABLES = st.fixed_dictionaries(
    {
        "study": st.fixed_dictionaries(
            {"name": STUDY_NAMES, "description": st.text(max_size=9), "seed": st.integers(0, 2**40)}
        ),
        "sites": st.dictionaries(NAMES, st.builds(lambda a, b: a | b, SITES, PLACES), min_size=1, max_size=4),
        "algorithm": st.sampled_from(list(ALGORITHMS)).flatmap(algorithm_tables),
        "model": st.dictionaries(st.sampled_from(["lstm", "dropout", "x y"]), st.integers() | st.booleans()),
    },
    optional={
        "training": st.fixed_dictionaries({"learning_rate": st.floats(1e-9, 1e9) | st.integers(1, 9)}),
        "federation": st.fixed_dictionaries({"deadline": st.floats(1e-3, allow_nan=False, allow_infinity=False)}),
        "task": st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["relations", "joint"]),
                "relations": st.dictionaries(
                    st.text("RSTU", min_size=1, max_size=3),
                    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)).map(list), max_size=2),
                    min_size=1,
                    max_size=3,
                ),
            },
            optional={"directed": st.booleans(), "negatives": st.floats(0, 9) | st.integers(0, 9)},
        ),
    },
)
PUBLICS = st.builds(
    lambda place, more: place | more,
    PLACES.filter(lambda place: bool(place) and "names" not in place),
    st.fixed_dictionaries({}, optional={"labelled": st.booleans(), "sha256": st.text("0123456789abcdef")}),
)


@settings(max_examples=60, deadline=None)
@given(TABLES, PUBLICS)
def test_any_study_written_out_reads_back(table: dict[str, Any], public: dict[str, Any]) -> None:
    kind = ALGORITHMS[table["algorithm"]["name"]]
    named: dict[str, Any] = {"public": public} if kind.needs_public_set else {}
    if table.get("task", {}).get("kind", "ner") not in kind.tasks:
        table = {name: section for name, section in table.items() if name != "task"}
    if table.get("task", {}).get("kind") == "relations":  # whose sites tag nothing
        bare = {
            name: {k: v for k, v in s.items() if k not in ("types", "scheme")} for name, s in table["sites"].items()
        }
        named["sites"] = bare
    study = parse_study(tomli_w.dumps(table | named), folder=Path("/notes"))
    assert parse_study(to_toml(study)) == study
    given, again = study.for_hospitals(), parse_study(to_toml(study.for_hospitals()), folder=Path("/kit"))
    # Of the path of a public set its name is given; it begins where the file then lies.
    assert given.public.data in (None, Path("b")) and again.public.data in (None, Path("/kit/b"))
    assert again == replace(given, public=replace(given.public, data=again.public.data))
    assert digest_of(again) == digest_of(study)


@pytest.mark.parametrize("setting", ["encoder", "contextual"])
def test_an_encoder_that_only_this_machine_has_is_in_no_kit(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    for place in (str(tmp_path / "models" / "tiny"), "models/tiny", str(tmp_path / "gone" / "tiny")):
        with pytest.raises(
            StudyError, match=rf"^\[model\] {setting}: 'tiny' is a folder on this machine; name a Hugging"
        ):
            study_for_kits(tiny(model={setting: place}))
    for name in ("prajjwal1/bert-tiny", "minilm", "models"):
        assert f'{setting} = "{name}"\n' in study_for_kits(tiny(model={setting: name})).decode()


THREE = {"lakeside": {"built_in": "lakeside-0003", "types": ["Drug"]}}


@pytest.mark.parametrize(
    ("mechanism", "fewest"), [("masked", 3), ("sealed", 2), ("sealed+masked", 3)], ids=["masked", "sealed", "both"]
)
def test_an_update_is_hidden_among_others_or_not_at_all(mechanism: str, fewest: int) -> None:
    for least in range(1, fewest):
        said = rf"^\[privacy\] minimum_sites is {least}; {re.escape(mechanism)} hides .* among {fewest} or more$"
        refused(said, sites=THREE, privacy={"mechanism": mechanism, "minimum_sites": least})
    study = tiny(sites=THREE, privacy={"mechanism": mechanism, "minimum_sites": fewest})
    assert study.privacy.protection.seals == mechanism.startswith("sealed")
    assert study.privacy.protection.masks == mechanism.endswith("masked")
    assert parse_study(to_toml(study)) == study


def test_a_plain_study_may_be_of_one_site() -> None:
    privacy = tiny(privacy={"mechanism": "plain", "minimum_sites": 1}).privacy
    assert (privacy.protection.seals, privacy.protection.masks) == (False, False)


@pytest.mark.parametrize("mechanism", ["masked", "sealed", "sealed+masked"])
def test_an_algorithm_that_must_see_each_update_runs_plain_alone(mechanism: str) -> None:
    said = r"^\[algorithm\] fedatt needs more of each site's update than the sum of all; it runs with .* plain, not "
    privacy = {"mechanism": mechanism, "minimum_sites": 3}
    refused(said + re.escape(mechanism) + "$", sites=THREE, algorithm={"name": "fedatt"}, privacy=privacy)
    for name in ("fedner", "fedavg", "fedprox"):
        assert tiny(sites=THREE, algorithm={"name": name}, privacy=privacy).algorithm.name == name


@pytest.mark.parametrize(
    ("privacy", "said"),
    [
        ({"mechanism": "sealed+masked", "scheme": "ckks"}, r"scheme ckks adds .*; sealed\+masked needs bfv$"),
        ({"mechanism": "masked", "scheme": "ckks"}, "scheme belongs to a mechanism that encrypts; masked does not$"),
        ({"mechanism": "masked", "packing": "compact"}, "packing compact belongs to bfv, in a mechanism that encrypts"),
        (
            {"mechanism": "sealed", "scheme": "ckks", "packing": "compact"},
            "packing compact belongs to bfv, in a mechanism that encrypts",
        ),
        ({"mechanism": "seald"}, "mechanism is 'seald' – did you mean 'sealed'"),
        ({"mechanism": "sealed", "scheme": "bgv"}, "scheme is 'bgv'.*; it can be bfv, ckks"),
        ({"mechanism": "sealed", "packing": "loose"}, "packing is 'loose'.*; it can be standard, compact"),
        ({"mechanism": "sealed", "error_feedback": "yes"}, "error_feedback is 'yes'; it must be true or false"),
        ({"value_bounds": {"words": 0}}, r"value_bounds of words is 0.0; it must be above zero"),
        ({"value_bounds": {"words": -1.5}}, r"value_bounds of words is -1.5; it must be above zero"),
        ({"value_bounds": {"words": float("inf")}}, "value_bounds of words is inf; it must be above zero"),
        ({"value_bounds": {"words": float("nan")}}, "value_bounds of words is nan; it must be above zero"),
        ({"value_bounds": {"words": "wide"}}, "value_bounds.words is 'wide'; it must be a number"),
        ({"value_bounds": 3}, "value_bounds must be a table of numbers by name"),
    ],
)
def test_invalid_settings_of_a_mechanism_are_refused(privacy: dict[str, Any], said: str) -> None:
    refused(rf"^\[privacy\] {said}", sites=THREE, privacy={"minimum_sites": 3, **privacy})


def test_a_protected_study_written_out_is_the_same() -> None:
    settings = {
        "mechanism": "sealed",
        "minimum_sites": 2,
        "packing": "compact",
        "value_bounds": {"words": 0.5, "word_cnn": 2},
        "error_feedback": True,
    }
    study = tiny(privacy=settings)
    assert study.privacy == PrivacySection("sealed", 2, 0, "bfv", "compact", {"words": 0.5, "word_cnn": 2.0}, True)
    assert parse_study(to_toml(study)) == study
    assert digest_of(parse_study(to_toml(study.for_hospitals()))) == digest_of(study)


def test_the_key_that_a_study_needs() -> None:
    sealed: dict[str, Any] = {"mechanism": "sealed", "minimum_sites": 2}
    assert key_scheme(tiny(privacy=sealed)) == "bfv-standard"
    assert key_scheme(tiny(privacy=sealed | {"packing": "compact"})) == "bfv-compact"
    assert key_scheme(tiny(privacy=sealed | {"scheme": "ckks"})) == "ckks"


def test_the_digest_of_a_study_does_not_depend_on_paths(tmp_path: Path) -> None:
    here, there = (parse_study(WHOLE, folder=tmp_path / name) for name in ("here", "there"))
    assert here != there
    assert digest_of(here) == digest_of(there)
    assert digest_of(here) != digest_of(parse_study(WHOLE.replace("rounds = 12", "rounds = 13"), folder=tmp_path))


DISTILLED = """
[study]
name = "adverse-effects"
[task]
kind = "relations"
directed = false
negatives = 3.0
[task.relations]
ADE = [["Drug", "Effect"], ["Dose", "Effect"]]
any = []
[public]
data = "open/public.jsonl"
format = "jsonl"
options = { shape = "wardround" }
labelled = false
[model]
encoder = "minilm"
[algorithm]
name = "feded"
rounds = 30
participation = 0.5
local_epochs = 3
site_models = "own"
predictions = "logits"
temperature = 2
distillation_epochs = 4
label_weight = 0
teacher_weight = 0.5
[sites.harbour]
encoder = "bert-tiny"
[sites.hillside]
"""


def test_a_study_of_predictions(tmp_path: Path) -> None:
    study = parse_study(DISTILLED, folder=tmp_path)
    assert study.task.relations == {"ADE": (("Drug", "Effect"), ("Dose", "Effect")), "any": ()}
    assert study.public.data == (tmp_path / "open" / "public.jsonl").resolve()
    assert not study.public.labelled
    assert study.algorithm.config == FedEdConfig(
        rounds=30,
        participation=0.5,
        local_epochs=3,
        site_models="own",
        predictions="logits",
        temperature=2.0,
        distillation_epochs=4,
        label_weight=0.0,
        teacher_weight=0.5,
    )
    assert study.training.batch_size == 16
    assert study.types == ("Drug", "Effect", "Dose")
    assert not study.shared_at_sites
    assert [site.encoder for site in study.sites.values()] == ["bert-tiny", ""]
    assert parse_study(to_toml(study), folder=Path("/elsewhere")) == study


def test_kits_have_only_the_name_of_a_public_set(tmp_path: Path) -> None:
    here, there = (parse_study(DISTILLED, folder=tmp_path / name) for name in ("here", "there"))
    given = study_for_kits(here).decode()
    assert 'data = "public.jsonl"\n' in given
    assert str(tmp_path) not in given and "open" not in given
    assert given == study_for_kits(there).decode()
    assert digest_of(here) == digest_of(there)
    assert parse_study(given).task == here.task


def test_an_encoder_of_a_site_that_only_this_machine_has_is_in_no_kit(tmp_path: Path) -> None:
    own = DISTILLED.replace('encoder = "bert-tiny"', f'encoder = "{tmp_path / "models" / "tiny"}"')
    with pytest.raises(StudyError, match=r"^\[sites.harbour\] encoder: 'tiny' is a folder on this machine"):
        study_for_kits(parse_study(own, folder=tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('data = "open/public.jsonl"\nformat = "jsonl"', "", r"\[algorithm\] feded needs notes that all sites may"),
        ('name = "feded"', 'name = "public"', r"\[algorithm\] 'local_epochs' is not a setting"),
        (
            'site_models = "own"',
            'site_models = "central"',
            r"\[sites.harbour\] encoder: sites with encoders of their own cannot",
        ),
        (
            'predictions = "logits"',
            'predictions = "labels"',
            r"\[algorithm\] predictions is 'labels'.*; it can be prob",
        ),
        (
            'predictions = "logits"',
            'precision = "float8"',
            r"\[algorithm\] precision is 'float8' – did you mean 'float",
        ),
        ("temperature = 2", "temprature = 2", r"\[algorithm\] 'temprature' is not a setting – did you mean 'temp"),
        ("teacher_weight = 0.5", "teacher_weight = 0", r"\[algorithm\] teacher_weight is 0.0; it must be above zero"),
        ("labelled = false", "labeled = false", r"\[public\] 'labeled' is not a setting – did you mean 'labelled'"),
        ('kind = "relations"', 'kind = "ner"', r"\[task\] relations are for a task of kind relations or joint$"),
        ("any = []", 'any = ["Drug"]', r"\[task.relations\] any must be a list of pairs of entity types, as \[\["),
        ("negatives = 3.0", "negatives = -3.0", r"\[task\] negatives is -3.0; it must be zero or above$"),
    ],
    ids=lambda value: value if len(value) < 30 else "",
)
def test_invalid_studies_of_predictions_are_refused(old: str, new: str, said: str) -> None:
    assert old in DISTILLED
    with pytest.raises(StudyError, match=f"^{said}"):
        parse_study(DISTILLED.replace(old, new))


@pytest.mark.parametrize("section", ["", "labelled = true\n", 'sha256 = "0"\n', "options = { column = 3 }\n"])
@pytest.mark.parametrize("algorithm", ["fedavg", "fedner", "single"])
def test_a_public_section_that_names_no_notes_is_refused(section: str, algorithm: str) -> None:
    study = f'[study]\nname = "s"\n[sites.a]\n[algorithm]\nname = "{algorithm}"\n'
    assert not parse_study(study).public.exists
    with pytest.raises(
        StudyError, match=r"^\[public\] names no notes: it needs data and format, or built_in; or leave"
    ):
        parse_study(study + "[public]\n" + section)


@pytest.mark.parametrize("mechanism", ["masked", "sealed", "sealed+masked"])
@pytest.mark.parametrize("precision", ["float16", "top-k"])
def test_a_precision_is_refused_under_a_mechanism(mechanism: str, precision: str) -> None:
    sealed = f'[sites.lakeside]\n[privacy]\nmechanism = "{mechanism}"\nminimum_sites = 3\n'
    text = DISTILLED.replace("participation = 0.5\n", "").replace('"logits"', '"probabilities"') + sealed
    assert parse_study(text).privacy.mechanism == mechanism
    with pytest.raises(StudyError, match=rf"^\[algorithm\] precision {precision} needs mechanism plain; under "):
        parse_study(text.replace("temperature = 2", f'precision = "{precision}"'))
    if mechanism == "sealed":
        with pytest.raises(StudyError, match=r"^\[privacy\] scheme ckks .* feded needs bfv$"):
            parse_study(text + 'scheme = "ckks"\n')


# Files of version 0.1.

OLD = """
[study]
name = "old"
[algorithm]
name = "feded"
start = "own"
exchange = "logits"
[public]
built_in = "hillside"
[privacy]
clip = { tags = 2.0 }
[sites.harbour]
types = ["Drug"]
"""


def read_old(text: str) -> Study:
    with pytest.warns(OldNameWarning):
        return parse_study(text)


def test_old_names_of_settings_are_read_with_a_warning_that_names_the_new_one() -> None:
    with pytest.warns(OldNameWarning) as found:
        study = parse_study(OLD)
    assert sorted(str(warning.message) for warning in found) == [
        "[algorithm] exchange is now called predictions; rename it",
        "[algorithm] start is now called site_models; rename it",
        "[privacy] clip is now called value_bounds; rename it",
    ]
    new = OLD.replace("start =", "site_models =").replace("exchange =", "predictions =").replace("clip", "value_bounds")
    assert study == parse_study(new)


def test_old_names_in_a_file_that_wardround_wrote_cause_no_warning() -> None:
    assert parse_study(OLD, generated=True) == read_old(OLD)


def test_a_study_with_old_names_is_written_with_them_so_that_its_digest_stays() -> None:
    study = read_old(OLD)
    text = to_toml(study)
    assert 'start = "own"' in text and "[privacy.clip]" in text and "site_models" not in text
    assert to_toml(read_old(text)) == text
    assert digest_of(read_old(text)) == digest_of(study)
    kit = study_for_kits(replace(study, public=replace(study.public, sha256="")))
    assert sha256(kit).hexdigest() == digest_of(read_old(kit.decode()))


def test_the_digest_of_a_study_of_version_0_1_is_what_it_was() -> None:
    text = '[study]\nname = "d"\n[privacy]\nclip = { words = 0.5 }\n[sites.harbour]\ntypes = ["Drug"]\n'
    assert digest_of(read_old(text)) == "3d58fde6168996cabbf820d7abc9f804e49bda1a7c4ed7049b245379bb0180f7"


def test_both_names_of_one_setting_are_refused() -> None:
    said = r"^\[privacy\] clip and value_bounds are the same setting; keep value_bounds$"
    with pytest.raises(StudyError, match=said):
        tiny(privacy={"clip": {"words": 1.0}, "value_bounds": {"words": 1.0}})
