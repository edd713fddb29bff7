"""Epochs: rotation, revocation, who may have which secret, and pinned certificates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.secure_aggregation.authority import STUDY, lock

from wardround.errors import KeyMaterialError, MessageError
from wardround.secure_aggregation.keys.peers import Peer
from wardround.secure_aggregation.keys.service_state import Epochs
from wardround.secure_aggregation.keys.vault import Vault

H1, H2 = Peer("h1", "SHA256:01"), Peer("h2", "SHA256:02")


class Maker:
    """Return numbered secrets: 32 bytes of 1, then of 2, and so on."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, scheme: str) -> bytes:
        self.made.append(scheme)
        return bytes([len(self.made)]) * 32


@pytest.fixture
def new() -> Maker:
    return Maker()


@pytest.fixture
def epochs(tmp_path: Path, new: Maker) -> Epochs:
    tmp_path.chmod(0o700)
    return Epochs.create(tmp_path / "epochs.vault", lock(), study=STUDY, scheme="bfv-compact", new=new)


def code(epochs: Epochs, peer: Peer, epoch: int) -> str:
    try:
        epochs.issue(peer, epoch)
    except MessageError as error:
        return error.code
    return ""


def stored(tmp_path: Path) -> list[str]:
    return sorted(Vault.open(tmp_path / "epochs.vault", lock()).read())


def test_the_first_epoch(epochs: Epochs, new: Maker) -> None:
    secret = epochs.current()
    assert (secret.epoch, secret.scheme, secret.secret) == (1, "bfv-compact", bytes([1]) * 32)
    assert epochs.parameters() == secret.public(STUDY, oldest=1)
    assert epochs.issue(H1, 1) == secret
    assert new.made == ["bfv-compact"]


def test_a_rotation_leaves_the_epoch_before_in_use(epochs: Epochs, new: Maker, tmp_path: Path) -> None:
    told = epochs.rotate(new)
    assert (told.epoch, told.oldest) == (2, 1)
    assert epochs.issue(H1, 1).secret[0] == 1 and epochs.issue(H1, 2).secret[0] == 2
    told = epochs.rotate(new)
    assert (told.epoch, told.oldest) == (3, 2)
    assert code(epochs, H1, 1) == "epoch" and not code(epochs, H1, 2)
    assert stored(tmp_path) == ["epoch-2", "epoch-3", "state"]  # what is over is gone


def test_a_compromised_key_can_be_ended_at_once(epochs: Epochs, new: Maker, tmp_path: Path) -> None:
    told = epochs.rotate(new, at_once=True)
    assert (told.epoch, told.oldest) == (2, 2)
    assert code(epochs, H1, 1) == "epoch"
    assert stored(tmp_path) == ["epoch-2", "state"]


def test_a_revocation_ends_everything_before_it(epochs: Epochs, new: Maker, tmp_path: Path) -> None:
    assert not code(epochs, H1, 1) and not code(epochs, H2, 1)
    told = epochs.revoke("h1", new)
    assert (told.epoch, told.oldest) == (2, 2)
    assert [code(epochs, H1, epoch) for epoch in (1, 2)] == ["revoked", "revoked"]
    assert [code(epochs, H2, epoch) for epoch in (1, 2)] == ["epoch", ""]
    assert stored(tmp_path) == ["epoch-2", "state"]
    with pytest.raises(KeyMaterialError, match="h1 was revoked already"):
        epochs.revoke("h1", new)
    assert epochs.state().current == 2
    assert epochs.rotate(new).oldest == 2


@pytest.mark.parametrize("epoch", [-1, 0, 2, 10**9])
def test_the_secret_of_an_epoch_that_is_not_in_use_is_refused(epoch: int, epochs: Epochs) -> None:
    assert code(epochs, H1, epoch) == "epoch"
    assert epochs.state().given == {} and epochs.state().pinned == {}


def test_the_first_certificate_of_a_site_is_pinned(epochs: Epochs) -> None:
    other = Peer("h1", "SHA256:99")
    assert not code(epochs, H1, 1)
    assert code(epochs, other, 1) == "certificate"
    assert epochs.state().pinned == {"h1": "SHA256:01"}
    assert epochs.admit("h1") == "SHA256:99"
    assert not code(epochs, other, 1)
    assert code(epochs, H1, 1) == "certificate"


def test_among_several_refused_certificates_one_must_be_named(epochs: Epochs) -> None:
    code(epochs, H1, 1)
    for number in (97, 98, 98):
        assert code(epochs, Peer("h1", f"SHA256:{number}"), 1) == "certificate"
    with pytest.raises(KeyMaterialError, match=r"name one of SHA256:97, SHA256:98$"):
        epochs.admit("h1")
    assert epochs.admit("h1", "SHA256:97") == "SHA256:97"
    assert epochs.state().waiting == {}
    assert not code(epochs, Peer("h1", "SHA256:97"), 1)
    assert code(epochs, Peer("h1", "SHA256:98"), 1) == "certificate"


def test_a_limited_number_of_refused_certificates_is_remembered(epochs: Epochs) -> None:
    code(epochs, H1, 1)
    for number in range(30):
        code(epochs, Peer("h1", f"SHA256:{number:02}x"), 1)
    assert epochs.state().waiting["h1"] == tuple(f"SHA256:{number:02}x" for number in range(22, 30))


def test_a_readmitted_site_keeps_its_pinned_certificate(epochs: Epochs, new: Maker) -> None:
    code(epochs, H1, 1)
    epochs.revoke("h1", new)
    assert epochs.admit("h1") == ""
    assert code(epochs, Peer("h1", "SHA256:99"), 2) == "certificate"
    assert not code(epochs, H1, 2)
    epochs.admit("h1")  # the certificate that was refused above
    with pytest.raises(KeyMaterialError, match="h1 was neither revoked nor refused"):
        epochs.admit("h1")


def test_a_certificate_refused_before_a_revocation_is_not_admitted_with_the_site(epochs: Epochs, new: Maker) -> None:
    code(epochs, H1, 1)
    assert code(epochs, Peer("h1", "SHA256:99"), 1) == "certificate"
    epochs.revoke("h1", new)
    assert epochs.admit("h1") == ""
    assert epochs.state().pinned == {"h1": "SHA256:01"}


def test_a_certificate_can_be_pinned_before_the_site_asks(epochs: Epochs) -> None:
    assert epochs.admit("h1", "SHA256:01") == "SHA256:01"
    assert code(epochs, Peer("h1", "SHA256:99"), 1) == "certificate"
    assert not code(epochs, H1, 1)


def test_the_state_lists_which_site_has_which_epochs(epochs: Epochs, new: Maker) -> None:
    epochs.rotate(new)
    for peer, epoch in ((H1, 2), (H1, 1), (H1, 2), (H2, 2)):
        epochs.issue(peer, epoch)
    assert epochs.state().given == {"h1": (1, 2), "h2": (2,)}


def test_another_process_sees_changes_at_once(epochs: Epochs, new: Maker, tmp_path: Path) -> None:
    other = Epochs.open(tmp_path / "epochs.vault", lock(), study=STUDY)
    other.revoke("h1", new)
    assert code(epochs, H1, 2) == "revoked"
    assert epochs.state() == other.state()
    assert epochs.parameters() == other.parameters()


def test_a_vault_of_another_study_or_kind_is_refused(epochs: Epochs, tmp_path: Path) -> None:
    with pytest.raises(KeyMaterialError, match=r"epochs\.vault belongs to another study"):
        Epochs.open(tmp_path / "epochs.vault", lock(), study="00" * 32)
    Vault.create(tmp_path / "keys.vault", lock(), {"epoch-1": b"x"})
    with pytest.raises(KeyMaterialError, match="holds no epochs"):
        Epochs.open(tmp_path / "keys.vault", lock(), study=STUDY)


def test_if_a_key_cannot_be_made_nothing_changes(epochs: Epochs) -> None:
    before = epochs.state()

    def broken(_: str) -> bytes:
        raise RuntimeError

    for change in (lambda: epochs.rotate(broken), lambda: epochs.revoke("h1", broken)):
        with pytest.raises(RuntimeError):
            change()
    assert epochs.state() == before
