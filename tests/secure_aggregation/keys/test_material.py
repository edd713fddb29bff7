"""The secret of an epoch, its public parameters, and the search for misplaced secrets."""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.secure_aggregation.authority import STUDY, lock, pem_of, rsa_key

from wardround.errors import KeyMaterialError, MessageError
from wardround.federation.message import Message, decode, encode
from wardround.secure_aggregation.keys.copies import SealedCopy
from wardround.secure_aggregation.keys.material import (
    SCHEMES,
    PublicParameters,
    SealingSecret,
    find_secrets,
    new_secret,
    refuse_secrets,
)
from wardround.secure_aggregation.keys.vault import Vault

SECRET = SealingSecret(3, "bfv-standard", bytes(range(64)))


def test_a_round_trip() -> None:
    assert SealingSecret.from_bytes(SECRET.to_bytes()) == SECRET
    public = SECRET.public(STUDY, oldest=2)
    assert PublicParameters.from_values(decode(encode(Message(public.to_values()))).values) == public
    assert PublicParameters.from_json(public.to_json()) == public
    assert (public.study, public.epoch, public.scheme, public.id, public.oldest) == (
        *(STUDY, 3, "bfv-standard"),
        *(SECRET.id, 2),
    )


def test_ids_and_group_keys_distinguish_secrets_and_are_stable() -> None:
    # The first half of HMAC(HMAC(32 zeros, secret), b"wardround-key-id-2\0" b"3\0" b"bfv-standard\1"): HKDF by hand.
    assert SECRET.id == "b992eafef4cbeae9317c081890c18986"
    # All of it, with b"wardround-group-key-2\0" in place of the id's label.
    assert SECRET.group_key.hex() == "315ae8d18a22a04b0dc76809b02275b9860c1456807558bb5403b4e0eabb4151"
    others = [replace(SECRET, epoch=4), replace(SECRET, scheme="ckks"), replace(SECRET, secret=bytes(64)), SECRET]
    assert len({secret.id for secret in others}) == len({secret.group_key for secret in others}) == 4
    assert len(SECRET.group_key) == 32 and bytes.fromhex(SECRET.id) not in SECRET.group_key
    assert re.fullmatch(r"[0-9a-f]{32}", SECRET.id)


def test_the_representation_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    letters = SealingSecret(1, "ckks", b"abcdefghijklmnopqrst")
    with caplog.at_level(logging.INFO):
        logging.getLogger("x").info("%s %r", letters, [letters])
    assert "abcdef" not in repr(letters) + str(letters) + caplog.text
    assert repr(letters) == "SealingSecret(epoch=1, scheme='ckks')"


@pytest.mark.parametrize(
    ("epoch", "scheme", "secret"),
    [
        *((0, "ckks", bytes(32)), (-1, "ckks", bytes(32)), (True, "ckks", bytes(32)), (2**31, "ckks", bytes(32))),
        *((1, "bfv", bytes(32)), (1, "ckks", bytes(15)), (1, "ckks", b""), (1, "ckks", "x" * 32)),
    ],
)
def test_invalid_secrets_are_refused(epoch: int, scheme: str, secret: bytes) -> None:
    with pytest.raises(MessageError, match=r"^secret: ") as refused:
        SealingSecret(epoch, scheme, secret)
    assert refused.value.code == "secret"


@pytest.mark.parametrize(
    "message",
    [
        Message({"kind": "else", "epoch": 1, "scheme": "ckks"}, blobs={"secret": bytes(32)}),
        Message({"kind": "wardround-sealing-secret-2", "epoch": 1, "scheme": "ckks"}),
        Message({"kind": "wardround-sealing-secret-2", "scheme": "ckks"}, blobs={"secret": bytes(32)}),
        Message({"kind": "wardround-sealing-secret-2", "epoch": 1.0, "scheme": "ckks"}, blobs={"secret": bytes(32)}),
        Message({"kind": "wardround-sealing-secret-3", "epoch": 1, "scheme": "ckks"}, blobs={"secret": bytes(32)}),
    ],
)
def test_bytes_that_are_not_a_secret_are_refused(message: Message) -> None:
    with pytest.raises(MessageError):
        SealingSecret.from_bytes(encode(message))


FIRST_FORMAT = encode(
    Message(
        {"kind": "wardround-sealing-secret-1", "epoch": 1, "scheme": "bfv-standard"}, blobs={"secret": bytes(range(64))}
    )
)


def test_a_secret_of_format_1_is_refused_with_a_sentence_that_names_the_remedy() -> None:
    with pytest.raises(KeyMaterialError) as refused:
        SealingSecret.from_bytes(FIRST_FORMAT)
    assert str(refused.value) == (
        "this sealing key has format 1, which this version does not read; make the kits and keys of the study again"
    )


def test_a_copy_and_a_vault_of_format_1_are_refused_by_the_same_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kit").mkdir(mode=0o700)
    vault = Vault.create(tmp_path / "kit" / "vault", lock(), {"epoch-1": FIRST_FORMAT})
    with pytest.raises(KeyMaterialError, match="has format 1, which this version does not read"):
        SealingSecret.from_bytes(vault.get("epoch-1") or b"")
    with monkeypatch.context() as patch:
        patch.setattr(SealingSecret, "to_bytes", lambda self: FIRST_FORMAT)
        copy = SealedCopy.make(SECRET, study=STUDY, site="h1", oldest=1, public=rsa_key(1).public_key())
    with pytest.raises(KeyMaterialError, match="has format 1, which this version does not read"):
        copy.open(pem_of(rsa_key(1)), study=STUDY, site="h1")


@pytest.mark.parametrize(
    "change",
    [
        *({"study": "5e"}, {"study": None}, {"epoch": 0}, {"epoch": 2.0}, {"scheme": "rsa"}, {"id": "A" * 32}),
        *({"id": "0" * 31}, {"oldest": 4}, {"oldest": -1}, {"more": 1}, {"oldest": True}),
    ],
)
def test_invalid_parameters_are_refused(change: dict[str, object]) -> None:
    values = SECRET.public(STUDY).to_values() | change
    for read in (
        lambda: PublicParameters.from_values(values),
        lambda: PublicParameters.from_json(json.dumps(values).encode()),
    ):
        with pytest.raises(MessageError, match=r"^parameters: "):
            read()


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000])
def test_an_invalid_parameters_file_is_refused(data: bytes) -> None:
    with pytest.raises(MessageError, match=r"^parameters: "):
        PublicParameters.from_json(data)


def test_a_new_secret_is_what_the_library_makes() -> None:
    pytest.importorskip("tenseal", reason="new keys need wardround[sealed]")
    for scheme in SCHEMES:
        assert SealingSecret(1, scheme, new_secret(scheme)).id != SealingSecret(1, scheme, new_secret(scheme)).id
    with pytest.raises(KeyMaterialError, match=r"no scheme 'rsa'; there are bfv-standard"):
        new_secret("rsa")


# Where no secret may be


@pytest.fixture(scope="module")
def secrets() -> dict[str, bytes]:
    """Return a file of each kind that a coordinator must not have."""
    pytest.importorskip("tenseal", reason="SEAL's keys need wardround[sealed]")
    import tenseal

    from wardround.secure_aggregation.bfv import BfvParameters

    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 40, 60])
    return {
        "a sealing secret": SECRET.to_bytes(),
        "a sealing secret ": FIRST_FORMAT,
        "a private key": pem_of(rsa_key(1)),
        "a secret key of the sealing library": BfvParameters("standard").new_secret(),
        "a secret key of the sealing library ": context.serialize(save_secret_key=True),
    }


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_each_kind_is_found_in_a_folder_and_named(secrets: dict[str, bytes], tmp_path: Path) -> None:
    for number, (kind, data) in enumerate(secrets.items()):
        kit = tmp_path / str(number)
        put(kit, "run/rounds/model.bin", data)
        assert list(find_secrets(kit)) == [("run/rounds/model.bin", kind.strip())]
        with pytest.raises(
            KeyMaterialError, match=rf"^run/rounds/model\.bin is {kind.strip()}, which is not allowed"
        ) as refused:
            refuse_secrets(kit)
        assert str(tmp_path) not in str(refused.value)
        assert not any(part in str(refused.value).encode() for part in (data[:16], data[-16:]))


def test_a_vault_is_found(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    kit.mkdir(mode=0o700)
    Vault.create(kit / "notes.txt", lock(), {"epoch-3": SECRET.to_bytes()})
    assert list(find_secrets(kit)) == [("notes.txt", "a vault of secrets")]


def test_only_the_partys_own_key_is_allowed(tmp_path: Path) -> None:
    own = put(tmp_path, "startup/server.key", pem_of(rsa_key(1)))
    put(tmp_path, "kit.json", b"{}")
    refuse_secrets(tmp_path, own=own)
    put(tmp_path, "startup/other.pem", pem_of(rsa_key(2)))
    with pytest.raises(KeyMaterialError, match=r"^startup/other\.pem is a private key"):
        refuse_secrets(tmp_path, own=own)


def test_a_mark_that_lies_across_two_chunks_of_a_file(tmp_path: Path) -> None:
    for name, data in (("format-1", FIRST_FORMAT), ("format-2", SECRET.to_bytes())):
        mark = data.index(b"wardround-sealing")
        put(tmp_path, name, bytes((1 << 22) - mark - 9) + data)
    assert list(find_secrets(tmp_path)) == [("format-1", "a sealing secret"), ("format-2", "a sealing secret")]


def test_a_file_that_cannot_be_read_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "closed", b"x")

    def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(KeyMaterialError, match=r"^closed cannot be read") as refused:
        refuse_secrets(tmp_path)
    assert str(tmp_path) not in str(refused.value)


def test_each_kind_is_found_in_what_is_received(secrets: dict[str, bytes]) -> None:
    for kind, data in secrets.items():
        message = Message({"round": 1}, {"x": np.frombuffer(data, np.uint8)}, {"y": bytes(8)})
        for received in (
            data,
            Message(blobs={"y": data}),
            message,
            encode(message),
            encode(Message(blobs={"y": data})),
        ):
            with pytest.raises(KeyMaterialError, match=f"^{kind.strip()} was sent here"):
                refuse_secrets(received)


def test_what_a_coordinator_legitimately_holds_is_accepted(tmp_path: Path) -> None:
    pytest.importorskip("tenseal", reason="ciphertexts need wardround[sealed]")
    import tenseal

    from wardround.secure_aggregation.bfv import BfvParameters, Sealer

    parameters = BfvParameters("standard")
    sealed = Sealer(parameters, parameters.new_secret()).seal(np.arange(4096, dtype=np.uint64), np.ones(1, np.uint64))
    ciphertexts = sealed.ciphertexts
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 40, 60])
    public = SECRET.public(STUDY)
    allowed = [
        ciphertexts.data.tobytes(),
        context.serialize(save_secret_key=False),
        public.to_json(),
        os.urandom(1 << 22),
        b"",
    ]
    for number, data in enumerate(allowed):
        put(tmp_path, str(number), data)
        refuse_secrets(data)
    refuse_secrets(Message({"parameters": public.to_values()}, {"data": ciphertexts.data}))
    refuse_secrets(tmp_path)
