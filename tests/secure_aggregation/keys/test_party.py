"""Keys at the parties: a site's memory, vault and service, in that order, and the coordinator's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.secure_aggregation.authority import PASSPHRASE, STUDY, lock, rsa_key
from tests.secure_aggregation.keys.serving import Served, code, new, prepared, service

from wardround.errors import KeyMaterialError, MessageError
from wardround.secure_aggregation.keys.copies import SealedCopy
from wardround.secure_aggregation.keys.key_service import KeyService
from wardround.secure_aggregation.keys.material import SealingSecret, refuse_secrets
from wardround.secure_aggregation.keys.party import CoordinatorKeys, SiteKeys
from wardround.secure_aggregation.keys.passphrase import FILE_VARIABLE, VARIABLE
from wardround.secure_aggregation.keys.peers import fingerprint_of
from wardround.secure_aggregation.keys.vault import Vault


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (VARIABLE, FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return prepared(tmp_path)


@pytest.fixture
def running(served: Served) -> Iterator[KeyService]:
    with service(served) as made:
        served.port = made.port
        yield made


def site(served: Served, clock: Clock, name: str = "h1", **more: object) -> SiteKeys:
    files = served.parties[name]
    return SiteKeys(files, study=STUDY, service=served.place, clock=clock, **more)  # type: ignore[arg-type]


def asked(served: Served, what: str = "secret") -> int:
    return sum(line.asked == what for line in served.log)


# A site with a service


def test_a_secret_is_requested_once(served: Served, running: KeyService, clock: Clock) -> None:
    keys = site(served, clock)
    assert keys.secret(1) == keys.secret(1) == served.epochs.current()
    assert asked(served) == 1 and not served.parties["h1"].vault.exists()


def test_with_a_passphrase_a_secret_survives_process_and_service(
    served: Served, running: KeyService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, PASSPHRASE)
    secret = site(served, clock).secret(1)
    assert b"SECRET" not in served.parties["h1"].vault.read_bytes()
    assert site(served, clock).secret(1) == secret
    assert asked(served) == 1
    served.port = 1  # where nobody is
    assert site(served, clock).secret(1) == secret
    assert code(lambda: site(served, clock).secret(2)) == "keys-unreachable"


def test_a_vault_without_its_passphrase_is_an_error_with_a_remedy(
    served: Served, running: KeyService, clock: Clock
) -> None:
    Vault.create(served.parties["h1"].vault, lock())
    with pytest.raises(KeyMaterialError, match="set WARDROUND_PASSPHRASE"):
        site(served, clock).secret(1)
    assert asked(served) == 0


def test_a_rotation_leaves_the_epoch_before_in_use(served: Served, running: KeyService, clock: Clock) -> None:
    keys = site(served, clock)
    keys.secret(1)
    served.epochs.rotate(new)
    clock.now = 100
    assert [keys.secret(epoch).epoch for epoch in (1, 2)] == [1, 2]


def test_after_a_revocation_keys_of_the_revoked_site_are_not_used(
    served: Served, running: KeyService, clock: Clock
) -> None:
    keys, out = site(served, clock, "h2"), site(served, clock, "h1")
    keys.secret(1)
    out.secret(1)
    served.epochs.revoke("h1", new)
    assert keys.secret(1).epoch == 1  # it has not looked yet
    clock.now = 60
    assert code(lambda: keys.secret(1)) == "epoch"
    assert keys.secret(2).epoch == 2
    assert code(lambda: out.secret(1)) == "revoked"
    assert code(lambda: out.secret(2)) == "revoked"


def test_while_the_service_is_unreachable_known_secrets_are_used(served: Served, clock: Clock) -> None:
    with service(served) as made:
        served.port = made.port
        keys = site(served, clock)
        keys.secret(1)
    clock.now = 100
    assert keys.secret(1).epoch == 1
    assert code(lambda: keys.secret(2)) == "keys-unreachable"


def test_the_first_certificate_of_the_service_is_pinned(served: Served, clock: Clock) -> None:
    with service(served) as made:
        served.port = made.port
        site(served, clock).secret(1)
    own = fingerprint_of(served.parties["keys"].certificate.read_bytes())
    assert served.parties["h1"].service.read_text() == own + "\n"
    # Whoever holds the authority makes itself a service, which knows what it gives out.
    served.parties["keys"] = served.party("keys", 6)
    with service(served) as forged:
        served.port = forged.port
        assert code(lambda: site(served, clock).secret(1)) == "keys-certificate"
        served.parties["h1"].service.unlink()
        assert site(served, clock).secret(1).epoch == 1


def test_an_empty_fingerprint_file_does_not_accept_any_service(
    served: Served, running: KeyService, clock: Clock
) -> None:
    served.parties["h1"].service.write_text("\n")
    with pytest.raises(KeyMaterialError, match=r"^keys\.fingerprint is empty; .* --new-service"):
        site(served, clock).secret(1)
    assert served.log == []


def test_the_current_epoch_is_the_one_the_service_names(served: Served, running: KeyService, clock: Clock) -> None:
    served.epochs.rotate(new)
    parameters, secret = site(served, clock).current()
    assert (parameters.epoch, parameters.id) == (2, secret.id)


def test_a_vault_with_another_secret_than_the_service_names_is_refused(
    served: Served, running: KeyService, clock: Clock
) -> None:
    other = SealingSecret(1, "ckks", bytes(32))
    Vault.create(served.parties["h1"].vault, lock(), {"epoch-1": other.to_bytes()})
    assert code(lambda: site(served, clock, lock=lock()).current()) == "keys-answer"


# A site without one


def copy_of(secret: SealingSecret, oldest: int = 1) -> SealedCopy:
    return SealedCopy.make(secret, study=STUDY, site="h1", oldest=oldest, public=rsa_key(3).public_key())


def offline(served: Served) -> SiteKeys:
    return SiteKeys(served.parties["h1"], study=STUDY, lock=lock())


def test_a_copy_is_kept_in_the_vault(served: Served) -> None:
    secret = served.epochs.current()
    assert offline(served).load_copy(copy_of(secret), "h1") == secret
    assert offline(served).secret(1) == secret
    assert offline(served).epochs() == {1: secret.id}
    assert code(lambda: offline(served).secret(2)) == "epoch"


def test_a_copy_for_another_site_leaves_the_vault_unchanged(served: Served) -> None:
    with pytest.raises(KeyMaterialError, match="is for h1; this is the kit of h2"):
        offline(served).load_copy(copy_of(served.epochs.current()), "h2")
    with pytest.raises(KeyMaterialError, match="belongs to another study"):
        SiteKeys(served.parties["h1"], study="00" * 32, lock=lock()).load_copy(copy_of(served.epochs.current()), "h1")
    assert not served.parties["h1"].vault.exists()


def test_a_new_copy_ends_old_epochs_also_in_a_running_process(served: Served) -> None:
    at_work, first = offline(served), served.epochs.current()
    at_work.load_copy(copy_of(first), "h1")
    assert at_work.secret(1) == first
    served.epochs.revoke("h2", new)
    offline(served).load_copy(copy_of(served.epochs.current(), oldest=2), "h1")  # another process
    assert code(lambda: at_work.secret(1)) == "epoch"
    assert at_work.secret(2) == served.epochs.current()
    assert offline(served).epochs() == {2: served.epochs.current().id}


def test_a_copy_of_an_older_epoch_is_refused_with_a_remedy(served: Served) -> None:
    first = copy_of(served.epochs.current())
    served.epochs.rotate(new)
    offline(served).load_copy(copy_of(served.epochs.current()), "h1")
    with pytest.raises(KeyMaterialError, match=r"copy of epoch 1 is older\. If .* remove keys\.vault"):
        offline(served).load_copy(first, "h1")
    assert offline(served).epochs() == {2: served.epochs.current().id}


def test_another_key_of_an_epoch_does_not_replace_the_first(served: Served) -> None:
    offline(served).load_copy(copy_of(served.epochs.current()), "h1")
    other = SealingSecret(1, "ckks", bytes(32))
    with pytest.raises(KeyMaterialError, match=r"^keys\.vault holds another key of epoch 1$"):
        offline(served).load_copy(copy_of(other), "h1")
    assert offline(served).secret(1) == served.epochs.current()


def test_without_a_vault_no_copy_is_kept(served: Served) -> None:
    with pytest.raises(KeyMaterialError, match="stored only in a vault; set a passphrase or use the keyring"):
        SiteKeys(served.parties["h1"], study=STUDY).load_copy(copy_of(served.epochs.current()), "h1")


# The coordinator


def coordinator(served: Served, clock: Clock) -> CoordinatorKeys:
    return CoordinatorKeys(served.parties["coordinator"], study=STUDY, service=served.place, clock=clock)


def test_the_coordinator_asks_at_intervals(served: Served, running: KeyService, clock: Clock) -> None:
    keys = coordinator(served, clock)
    assert keys.parameters().epoch == keys.parameters().epoch == 1
    assert asked(served, "parameters") == 1
    served.epochs.rotate(new)
    clock.now = 4.9
    assert keys.parameters().epoch == 1
    clock.now = 5
    assert keys.parameters() == served.epochs.parameters()
    assert keys.parameters().epoch == 2


def test_the_last_parameters_are_used_while_the_service_is_unreachable(served: Served, clock: Clock) -> None:
    with service(served) as made:
        served.port = made.port
        keys = coordinator(served, clock)
        keys.parameters()
    clock.now = 100
    assert keys.parameters().epoch == 1
    assert code(coordinator(served, clock).parameters) == "keys-unreachable"


def test_the_coordinator_stores_no_secret(served: Served, running: KeyService, clock: Clock) -> None:
    coordinator(served, clock).parameters()
    files = served.parties["coordinator"]
    CoordinatorKeys(files, study=STUDY).import_parameters(served.epochs.parameters())
    refuse_secrets(files.folder, own=files.key)


def test_parameters_of_keys_that_are_issued_offline(served: Served) -> None:
    keys = CoordinatorKeys(served.parties["coordinator"], study=STUDY)
    with pytest.raises(MessageError, match=r"^no-keys: .*`wardround coordinator key`"):
        keys.parameters()
    first = served.epochs.parameters()
    keys.import_parameters(first)
    assert CoordinatorKeys(served.parties["coordinator"], study=STUDY).parameters() == first
    second = served.epochs.rotate(new)
    keys.import_parameters(second)
    with pytest.raises(KeyMaterialError, match="epoch 2 was imported already; epoch 1 has ended"):
        keys.import_parameters(first)
    with pytest.raises(KeyMaterialError, match="belong to another study"):
        keys.import_parameters(SealingSecret(9, "ckks", bytes(32)).public("00" * 32))
    assert CoordinatorKeys(served.parties["coordinator"], study=STUDY).parameters() == second


def test_altered_imported_parameters_are_refused(served: Served) -> None:
    path = served.parties["coordinator"].parameters
    keys = CoordinatorKeys(served.parties["coordinator"], study=STUDY)
    path.write_bytes(SealingSecret(9, "ckks", bytes(32)).public("00" * 32).to_json())
    assert code(keys.parameters) == "study"
    path.write_bytes(b"{}")
    assert code(keys.parameters) == "parameters"


def test_a_service_with_an_error_counts_as_unreachable(served: Served, running: KeyService, clock: Clock) -> None:
    keys, lead = site(served, clock), coordinator(served, clock)
    keys.secret(1)
    lead.parameters()
    served.parties["keys"].epochs.chmod(0o644)
    clock.now = 100
    assert keys.secret(1).epoch == lead.parameters().epoch == 1
    assert code(lambda: keys.secret(2)) == "KeyMaterialError"


def test_ended_epochs_are_removed_from_the_vault(served: Served, running: KeyService, clock: Clock) -> None:
    keys = site(served, clock, "h2", lock=lock())
    keys.secret(1)
    served.epochs.revoke("h1", new)
    clock.now = 60
    assert code(lambda: keys.secret(1)) == "epoch"
    served.port = 1  # where nobody is
    assert code(lambda: site(served, Clock(), "h2", lock=lock()).secret(1)) == "keys-unreachable"
