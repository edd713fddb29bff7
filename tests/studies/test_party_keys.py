from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.processes import open_files
from tests.secure_aggregation.authority import Authority
from tests.secure_aggregation.cohort import buffers, code_of, secret_of
from tests.studies.tiny_studies import Onlooker, tiny
from tests.studies.toy_federation import ToyFederation

from wardround.algorithms.algorithm import Payload
from wardround.errors import FederationError, KeyMaterialError, MessageError, UsageError
from wardround.federation.site_runtime import PublicSet
from wardround.secure_aggregation import mechanisms
from wardround.secure_aggregation.identities import Identity, check_public_keys
from wardround.secure_aggregation.keys.material import PublicParameters, SealingSecret, find_secrets
from wardround.secure_aggregation.keys.party import CoordinatorKeys
from wardround.secure_aggregation.keys.peers import PartyFiles
from wardround.secure_aggregation.server import SecureAggregationServer
from wardround.secure_aggregation.submission import Submission
from wardround.studies.aggregation_setup import client_of, payload_of, server_of
from wardround.studies.assemble import common_task
from wardround.studies.party_keys import InMemoryKeys, PartyKeys
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import Study, digest_of
from wardround.studies.study_run import EngineSettings, StudyRun
from wardround.studies.worker_spec import PartySpec

SEALED = {"mechanism": "sealed", "minimum_sites": 2}


@pytest.fixture(scope="module")
def study() -> Study:
    return tiny(privacy=SEALED)


@pytest.fixture(scope="module")
def masked() -> Study:
    third = {"lakeside": {"built_in": "lakeside-0003", "types": ["Drug"]}}
    return tiny(sites=third, privacy={"mechanism": "masked", "minimum_sites": 3})


def form(study: Study) -> Payload:
    """What a site of it gives."""
    return payload_of(study, common_task(study), PublicSet())


@pytest.mark.parametrize("missing", ["cryptography", "tenseal"])
def test_what_is_not_installed_is_named_before_anything_is_asked(
    study: Study, masked: Study, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mechanisms, "find_spec", lambda name: None if name == missing else object())
    with pytest.raises(UsageError, match=rf"^\[privacy\] sealed needs {missing}: install wardround\[sealed\]$"):
        server_of(study, form(study), PartyKeys())
    tiny().privacy.protection.check_installed()
    if missing == "tenseal":
        masked.privacy.protection.check_installed()
    else:
        with pytest.raises(UsageError, match="masked needs cryptography"):
            masked.privacy.protection.check_installed()


def party_of(files: PartyFiles, service: str = "") -> PartySpec:
    return PartySpec(str(files.folder), str(files.key), str(files.certificate), str(files.root), service)


def party(folder: Path, name: str, number: int) -> PartySpec:
    """Whom the study's authority knows under this name."""
    return party_of(Authority().party(folder / name, name, number))


# A rehearsal: both ends in one hand


def test_every_rehearsal_has_a_secret_of_its_own() -> None:
    first, second = InMemoryKeys.new("bfv-standard"), InMemoryKeys.new("bfv-standard")
    assert first.secret(1).id != second.secret(1).id
    assert (first.secret(1).epoch, first.secret(1).scheme) == (1, "bfv-standard")
    assert first.parameters("5e" * 32) == PublicParameters("5e" * 32, 1, "bfv-standard", first.secret(1).id)


def test_workers_read_the_secret_from_memory_and_not_from_a_disk() -> None:
    rehearsal = InMemoryKeys.new("bfv-compact")
    path = rehearsal.path_for_workers()
    assert rehearsal.path_for_workers() == path  # one file, however many ask
    assert os.readlink(path).startswith("/memfd:")
    assert rehearsal.descriptors() == (int(path.rpartition("/")[2]),)
    assert InMemoryKeys.read(path).secret(1) == rehearsal.secret(1)
    assert InMemoryKeys.read(path).secret(1) == rehearsal.secret(1)  # each worker from its beginning
    descriptor = int(path.rpartition("/")[2])
    assert not os.get_inheritable(descriptor)
    assert stat.S_ISREG(os.stat(path).st_mode)
    rehearsal.close()
    with pytest.raises(OSError):
        os.fstat(descriptor)
    assert rehearsal.descriptors() == ()
    rehearsal.close()


def test_without_workers_no_file_descriptor_is_opened() -> None:
    before = open_files()
    InMemoryKeys.new("bfv-standard").close()
    assert open_files() <= before


def test_an_invalid_secret_is_refused() -> None:
    with pytest.raises(MessageError):
        InMemoryKeys(b"secret")


# A party's means


def test_a_site_keeps_its_keys_while_the_process_lives() -> None:
    protection = PartyKeys()
    harbour = protection.identity("harbour")
    assert protection.identity("harbour") is harbour
    assert protection.identity("hillside").public_keys.signing != harbour.public_keys.signing
    assert PartyKeys().identity("harbour").public_keys.signing != harbour.public_keys.signing
    assert "identit" not in repr(protection)


def test_the_public_keys_of_a_hospital_are_signed_by_its_certificate(masked: Study, tmp_path: Path) -> None:
    sites = {name: PartyKeys.of_site(masked, party(tmp_path, name, n)) for n, name in enumerate(masked.sites, 1)}
    lead = PartyKeys.of_coordinator(masked, party(tmp_path, "coordinator", 5))
    assert (lead.parameters, lead.secrets) == (None, None)
    keys = sites["harbour"].identity("harbour").public_keys
    for other in (lead, sites["hillside"]):
        check_public_keys(keys, "harbour", other.certifier)
        assert code_of(check_public_keys, keys, "hillside", other.certifier) == "public-keys"
        assert (
            code_of(check_public_keys, Identity.new("harbour", None).public_keys, "harbour", other.certifier)
            == "certificate"
        )
    # One's own certificate does not vouch for another's name.
    forged = sites["hillside"].identity("harbour").public_keys
    assert code_of(check_public_keys, forged, "harbour", lead.certifier) == "certificate"


def test_a_site_without_a_key_says_so(study: Study, tmp_path: Path) -> None:
    protection = PartyKeys.of_site(study, party(tmp_path, "harbour", 1))
    assert protection.secrets is not None and protection.parameters is None
    assert code_of(protection.secrets.secret, 1) == "epoch"


def lead_of(study: Study, folder: Path, secret: SealingSecret) -> tuple[PartyKeys, PartySpec]:
    """A coordinator that was told the parameters of a secret, offline."""
    files = Authority().party(folder / "coordinator", "coordinator", 5)
    CoordinatorKeys(files, study=digest_of(study)).import_parameters(secret.public(digest_of(study)))
    return PartyKeys.of_coordinator(study, party_of(files)), party_of(files)


def test_a_coordinator_knows_only_the_public_parameters_of_the_key(study: Study, tmp_path: Path) -> None:
    secret = secret_of("bfv-standard")
    protection, spec = lead_of(study, tmp_path, secret)
    assert protection.secrets is None
    assert protection.parameters is not None
    assert protection.parameters() == secret.public(digest_of(study))
    assert list(find_secrets(Path(spec.folder), own=Path(spec.key))) == []


def test_a_coordinator_without_key_parameters_cannot_start_a_round(study: Study, tmp_path: Path) -> None:
    protection = PartyKeys.of_coordinator(study, party(tmp_path, "coordinator", 5))
    aggregator = server_of(study, form(study), protection)
    assert isinstance(aggregator, SecureAggregationServer)
    clips = dict.fromkeys(aggregator.mechanism.layer_groups, 1.0)
    with pytest.raises(FederationError, match=r"^the current sealing key is not known \(no-keys\)$"):
        aggregator.exchange(round_number=1, step="gradient", weights={"harbour": 1.0, "hillside": 2.0}, clips=clips)


@pytest.mark.parametrize("mechanism", ["sealed", "masked"])
@pytest.mark.parametrize("what", ["marked", "bare", "buried", "another's key"])
def test_a_coordinator_that_finds_a_secret_stops(
    what: str, mechanism: str, study: Study, masked: Study, tmp_path: Path
) -> None:
    spec, secret = party(tmp_path, "coordinator", 5), secret_of("bfv-standard")
    found = {
        "marked": secret.to_bytes(),
        "bare": secret.secret,
        "buried": b"x" * 9000 + secret.to_bytes(),
        "another's key": Path(party(tmp_path, "hillside", 2).key).read_bytes(),
    }[what]
    place = Path(spec.folder) / "run" / "left.bin"
    place.parent.mkdir()
    place.write_bytes(found)
    with pytest.raises(KeyMaterialError, match=r"^run/left\.bin is a .*; remove it, and have the keys rotated$"):
        PartyKeys.of_coordinator(study if mechanism == "sealed" else masked, spec)
    place.unlink()
    PartyKeys.of_coordinator(study if mechanism == "sealed" else masked, spec)


def test_no_object_of_a_coordinators_run_holds_the_secret(study: Study, tmp_path: Path) -> None:
    secret = secret_of("bfv-standard")
    protection, _ = lead_of(study, tmp_path, secret)
    run = StudyRun(
        study,
        ToyFederation(tuple(study.sites)),  # sites that are elsewhere: nothing of theirs hangs on it
        RunFolder(tmp_path / "run"),
        engine=EngineSettings(checkpoint_every=1, sites_save=True),
        watcher=Onlooker(),
        party_keys=protection,
    )
    assert isinstance(run._aggregator, SecureAggregationServer)
    clips = dict.fromkeys(run._aggregator.mechanism.layer_groups, 1.0)
    weights = {"harbour": 1.0, "hillside": 2.0}
    exchange = run._aggregator.exchange(round_number=1, step="gradient", weights=weights, clips=clips)
    total = run._aggregator.total(exchange, {})
    found = list(buffers((vars(run), run._aggregator, protection, exchange, total)))
    assert any(secret.id.encode() in part for part in found)  # the search sees what is there
    hidden = secret.secret[200:264]
    for needle in (hidden, secret.group_key, secret.group_key.hex().encode(), secret.to_bytes()):
        assert not any(needle in part for part in found)
    assert any(hidden in part for part in buffers((vars(run), secret)))  # and would see the secret


def test_both_ends_of_a_study_agree(study: Study, tmp_path: Path) -> None:
    rehearsal = InMemoryKeys.new("bfv-standard")
    protection = PartyKeys(secrets=rehearsal, parameters=lambda: rehearsal.parameters(digest_of(study)))
    given = form(study)
    aggregator = server_of(study, given, protection)
    own = client_of(study, "harbour", given, folder=tmp_path / "own", party_keys=protection)
    assert isinstance(aggregator, SecureAggregationServer)
    clips = dict.fromkeys(aggregator.mechanism.layer_groups, 1.0)
    weights = {"harbour": 1.0, "hillside": 2.0}
    assert isinstance(own, Submission)
    own.client.check_exchange(aggregator.exchange(round_number=1, step="gradient", weights=weights, clips=clips))
    assert aggregator.mechanism.layer_groups == ("words", "word_cnn")
    other = tiny(privacy=SEALED, study={"seed": 8})
    foreign = client_of(other, "harbour", given, folder=tmp_path / "foreign", party_keys=protection)
    assert isinstance(foreign, Submission)
    asked = aggregator.exchange(round_number=1, step="gradient", weights=weights, clips=clips)
    assert code_of(foreign.client.check_exchange, asked) == "study"
