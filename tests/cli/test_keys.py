"""`wardround keys`, `site key` and `coordinator key`: both ways of a key to its site, as people type them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Run
from tests.processes import Command, eventually, free_port
from tests.secure_aggregation.authority import PASSPHRASE
from tests.studies.tiny_studies import text_of

pytest.importorskip("nvflare", reason="kits need wardround[flare]")
pytest.importorskip("tenseal", reason="new keys need wardround[sealed]")

from wardround.errors import MessageError
from wardround.federation.engines.flare import supervisor
from wardround.provisioning.kits import approve, complete, open_consortium, provision, read_kit, request
from wardround.secure_aggregation.keys.key_log import read_log
from wardround.secure_aggregation.keys.material import SealingSecret
from wardround.secure_aggregation.keys.party import CoordinatorKeys, KeyClient, SiteKeys
from wardround.secure_aggregation.keys.passphrase import FILE_VARIABLE, VARIABLE
from wardround.secure_aggregation.keys.peers import fingerprint_of
from wardround.studies.networked import plan_kits

SEALED = {"mechanism": "sealed", "minimum_sites": 2, "packing": "compact"}


def write_study(folder: Path) -> Path:
    path = folder / "study.toml"
    path.write_text(text_of(privacy=SEALED), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, PASSPHRASE)
    monkeypatch.setenv(FILE_VARIABLE, "")


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, port: int) -> Path:
    """Kits of a study with a key service; a test must leave them as they are."""
    folder = tmp_path_factory.mktemp("made")
    plan, study = plan_kits(write_study(folder), host="localhost", port=9000, days=2, keys=f"localhost:{port}")
    provision(plan, study, folder / "kits")
    return folder / "kits"


@pytest.fixture
def kits(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "kits")


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study without a key service, whose sites were approved."""
    folder = tmp_path_factory.mktemp("offline")
    plan, study = plan_kits(write_study(folder), host="localhost", port=9000, days=2)
    open_consortium(plan, study, folder / "lead")
    for name in plan.sites:
        complete(folder / name, approve(folder / "lead", request(name, folder / name), folder))
    return folder


@pytest.fixture
def offline(consortium: Path, tmp_path: Path) -> Path:
    return shutil.copytree(consortium, tmp_path / "offline")


@pytest.fixture
def serve(kits: Path, tmp_path: Path) -> Iterator[Command]:
    """The service, in a process of its own."""
    running = started(kits, tmp_path)
    try:
        yield running
    finally:
        running.end()


def started(kits: Path, folder: Path) -> Command:
    output = folder / "service.txt"
    output.unlink(missing_ok=True)
    running = Command(output, "keys", "serve", kits / "keys", environment={VARIABLE: PASSPHRASE})
    assert eventually(lambda: "fingerprint" in running.said or running.process.poll() is not None, 60)
    assert running.process.poll() is None, running.said
    return running


def client(kits: Path, name: str, port: int) -> KeyClient:
    kit = read_kit(kits / name)
    return KeyClient("localhost", port, files=kit.files, study=kit.study_digest, seconds=20)


def code(kits: Path, name: str, port: int, epoch: int) -> str:
    try:
        client(kits, name, port).secret(epoch)
    except MessageError as error:
        return error.code
    return ""


# The service


@pytest.mark.slow
def test_from_the_first_start_to_a_revocation(kits: Path, port: int, serve: Command, run: Run) -> None:
    fingerprint = fingerprint_of(read_kit(kits / "keys").certificate.read_bytes())
    assert serve.said.splitlines() == [
        f"epoch 1 of tiny at localhost:{port}; log keys.jsonl",
        "Sites see this fingerprint; send it by another channel:",
        fingerprint,
    ]
    parameters = client(kits, "coordinator", port).parameters()
    assert (parameters.epoch, parameters.scheme) == (1, "bfv-compact")
    assert code(kits, "coordinator", port, 1) == "not-a-site"
    kept = run("site", "key", kits / "harbour")
    assert kept.out.splitlines() == [
        f"epoch 1, id {parameters.id}",
        "Compare this fingerprint by telephone with the operator of the key service:",
        fingerprint,
        "The fingerprint of this site's own certificate, if somebody asks for it:",
        fingerprint_of(read_kit(kits / "harbour").certificate.read_bytes()),
    ]
    assert run("keys", "show", kits / "keys").row("harbour")[:2] == ["has the key", "1"]

    rotated = run("keys", "rotate", kits / "keys")
    assert rotated.out.startswith("epoch 2, id ") and rotated.code == 0
    revoked = run("keys", "revoke", kits / "keys", "harbour").out.splitlines()
    assert revoked[0].startswith("epoch 3, id ") and revoked[1:] == ["Earlier keys are no longer used."]
    assert [code(kits, "harbour", port, epoch) for epoch in (1, 2, 3)] == ["revoked"] * 3
    assert code(kits, "hillside", port, 3) == ""
    assert client(kits, "coordinator", port).parameters().id in revoked[0]
    shown = run("keys", "show", kits / "keys")
    assert (shown.row("harbour")[:2], shown.row("hillside")[:2]) == (["revoked", "1"], ["has the key", "3"])

    assert run("keys", "admit", kits / "keys", "harbour").out == "harbour may ask again\n"
    assert code(kits, "harbour", port, 3) == ""
    told_in_log = [(line.who, line.asked, line.outcome) for line in read_log(kits / "keys" / "keys.jsonl")]
    assert ("coordinator", "secret", "not-a-site") in told_in_log and ("", "revoke harbour", "done") in told_in_log
    logged = run("keys", "log", kits / "keys", "--last", "3")
    assert logged.code == 0 and "admit harbour" in logged.out and "given" in logged.out


@pytest.mark.slow
def test_a_killed_service_continues_where_it_was(kits: Path, port: int, tmp_path: Path, run: Run) -> None:
    running = started(kits, tmp_path)
    try:
        before = client(kits, "harbour", port).secret(1)
        asking = [
            subprocess.Popen(
                [*_ask(kits / name, port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
            )
            for name in ("harbour", "hillside")
        ]
        assert eventually(lambda: len(list(read_log(kits / "keys" / "keys.jsonl"))) > 10)
        assert run("keys", "rotate", kits / "keys").code == 0
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
        for process in asking:
            process.kill()
            process.wait()
        assert code(kits, "harbour", port, 1) == "keys-unreachable"
        running.end()
        running = started(kits, tmp_path)
        assert client(kits, "harbour", port).secret(1) == before
        assert client(kits, "hillside", port).secret(2).epoch == 2
        assert code(kits, "coordinator", port, 2) == "not-a-site"
        lines = (kits / "keys" / "keys.jsonl").read_text().splitlines()
        assert len([json.loads(line) for line in lines]) == len(lines) >= 4
    finally:
        running.end()


def _ask(kit: Path, port: int) -> list[str]:
    """A process that asks without end."""
    text = f"""
from pathlib import Path
from wardround.provisioning.kits import read_kit
from wardround.secure_aggregation.keys.party import KeyClient
kit = read_kit(Path({str(kit)!r}))
while True:
    KeyClient("localhost", {port}, files=kit.files, study=kit.study_digest).secret(1)
"""
    return [sys.executable, "-c", text]


@pytest.mark.slow
def test_ctrl_c_ends_it(serve: Command) -> None:
    serve.process.send_signal(signal.SIGINT)
    assert serve.wait(20) == 0
    assert "Traceback" not in serve.said


def test_the_way_of_the_service_into_a_study(tmp_path: Path, run: Run) -> None:
    lead, mine, post = tmp_path / "lead", tmp_path / "mine", tmp_path / "post"
    study = write_study(tmp_path)
    place = ("--host", "localhost", "--keys", "keys.example.org:8003")
    assert run("coordinator", "open", study, "--out", lead, *place).code == 0
    assert run("keys", "request", "--out", mine).out.splitlines() == [
        "mine/keys.csr: send it to the coordinator",
        "mine/keys.key: the private key; never send it",
    ]
    assert run("coordinator", "approve", lead, mine / "keys.csr", "--out", post).code == 0
    done = run("keys", "complete", mine, post / "keys.approval.zip").out.splitlines()
    assert done[0] == "mine/kit: the kit of the key service in the study tiny"
    assert done[-1] == read_kit(lead / "coordinator").fingerprint
    assert read_kit(mine / "kit").plan.keys == "keys.example.org:8003"


def test_provision_makes_the_service_too(tmp_path: Path, run: Run) -> None:
    words = ("--out", tmp_path / "kits", "--host", "localhost", "--keys", "localhost:8003")
    made = run("provision", write_study(tmp_path), *words)
    assert made.out.splitlines() == ["kits/coordinator", "kits/keys", "kits/harbour", "kits/hillside"]


# Who may not


@pytest.mark.parametrize("command", [("serve",), ("rotate",), ("revoke", "harbour"), ("show",), ("log",)])
def test_the_coordinators_kit_keeps_no_keys(command: tuple[str, ...], kits: Path, run: Run) -> None:
    ran = run("keys", command[0], kits / "coordinator", *command[1:])
    assert ran.code == 2 and "the coordinator never holds keys, another party does" in ran.err_in_one_line
    assert not (kits / "coordinator" / "epochs.vault").exists()


def test_kits_of_other_parties_are_refused_with_the_right_command(
    kits: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: pytest.fail("it was started"))
    for words in (("site", "key"), ("site", "review"), ("coordinator", "start")):
        ran = run(*words, kits / "keys")
        assert ran.code == 2
        assert ran.err == "wardround: keys is the kit of the key service; `wardround keys serve` takes it\n"
    ran = run("keys", "serve", kits / "harbour")
    assert ran.err == "wardround: harbour is the kit of a site; the key service has a kit of its own\n"


def test_a_coordinator_that_finds_a_secret_stops(kits: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[object] = []
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: commands.append(command) or 0)
    kit = kits / "coordinator"
    assert run("coordinator", "start", kit).code == 0
    (kit / "run").mkdir()
    (kit / "run" / "notes.bin").write_bytes(SealingSecret(1, "ckks", b"ABCDEFGH" * 8).to_bytes())
    for words in (("coordinator", "start", kit), ("coordinator", "work", kit)):
        ran = run(*words)
        assert ran.code == 2
        assert ran.err_in_one_line.startswith("wardround: run/notes.bin is a sealing secret, which is not allowed here")
        assert "ABCDEFGH" not in ran.said and str(kits) not in ran.said
    assert len(commands) == 1


@pytest.mark.parametrize("words", [("rotate",), ("show",), ("revoke", "harbour")])
def test_before_the_first_key(words: tuple[str, ...], kits: Path, run: Run) -> None:
    ran = run("keys", words[0], kits / "keys", *words[1:])
    assert ran.code == 2 and "keys has no keys yet; `wardround keys serve`" in ran.err_in_one_line


def test_a_study_that_seals_nothing_has_no_keys(tmp_path: Path, run: Run) -> None:
    study = tmp_path / "study.toml"
    study.write_text(text_of(), encoding="utf-8")
    assert run("provision", study, "--out", tmp_path / "kits", "--host", "localhost").code == 0
    words = ("--certificates", tmp_path, "--out", tmp_path / "copies")
    ran = run("keys", "issue", tmp_path / "kits" / "harbour", *words)
    assert ran.code == 2 and "tiny seals nothing ([privacy] mechanism plain); it has no keys" in ran.err_in_one_line


# Offline


def test_copies_by_post(offline: Path, run: Run) -> None:
    issuer, out = offline / "harbour" / "kit", offline / "copies"
    words = ("keys", "issue", issuer, "--certificates", offline / "lead" / "approved", "--out", out)
    issued = run(*words)
    assert issued.code == 0, issued.err
    parameters = json.loads((out / "parameters.json").read_text())
    for name in ("harbour", "hillside"):
        fingerprint = fingerprint_of((offline / "lead" / "approved" / f"{name}.crt").read_bytes())
        assert f"copies/{name}.epoch-1.key.sealed: for {name}, whose certificate is\n  {fingerprint}\n" in issued.out
    assert issued.out.splitlines()[-1] == parameters["id"]

    taken = run("site", "key", offline / "hillside" / "kit", out / "hillside.epoch-1.key.sealed")
    assert taken.code == 0, taken.err
    assert taken.out.splitlines()[:2] == [
        "epoch 1; compare this id by telephone with the issuer:",
        parameters["id"],
    ]
    kit = read_kit(offline / "hillside" / "kit")
    assert SiteKeys(kit.files, study=kit.study_digest).secret(1).id == parameters["id"]

    noted = run("coordinator", "key", offline / "lead" / "coordinator", out / "parameters.json")
    assert noted.out == f"epoch 1, id {parameters['id']}\n"
    lead = read_kit(offline / "lead" / "coordinator")
    assert CoordinatorKeys(lead.files, study=lead.study_digest).parameters().id == parameters["id"]
    assert run("coordinator", "key", offline / "lead" / "coordinator", out / "parameters.json").code == 0

    again = run(*words)  # the same key, once more
    assert again.out.splitlines()[-1] == parameters["id"]


def test_rotation_and_revocation_by_post(offline: Path, run: Run) -> None:
    issuer, out = offline / "harbour" / "kit", offline / "copies"
    words = ("keys", "issue", issuer, "--certificates", offline / "lead" / "approved", "--out", out)
    assert run(*words).code == 0
    revoked = run("keys", "revoke", issuer, "hillside")
    assert revoked.out.splitlines()[-1] == (
        "Send every site its copy, and the coordinator the parameters: `wardround keys issue`."
    )
    issued = run(*words)
    assert "hillside gets no copy: it was revoked, or its certificate is not there\n" in issued.out
    assert sorted(path.name for path in out.iterdir()) == [
        *("harbour.epoch-1.key.sealed", "harbour.epoch-2.key.sealed"),
        *("hillside.epoch-1.key.sealed", "parameters.json"),
    ]
    assert json.loads((out / "parameters.json").read_text())["oldest"] == 2


def test_an_old_vault_is_refused_and_a_new_one_continues_after_the_log(offline: Path, run: Run) -> None:
    issuer, out = offline / "harbour" / "kit", offline / "copies"
    words = ("keys", "issue", issuer, "--certificates", offline / "lead" / "approved", "--out", out)
    assert run(*words).code == 0
    backup = (issuer / "epochs.vault").read_bytes()
    assert run("keys", "revoke", issuer, "hillside").code == 0
    (issuer / "epochs.vault").write_bytes(backup)
    for command in (words, ("keys", "rotate", issuer), ("keys", "show", issuer)):
        ran = run(*command)
        assert ran.code == 2 and ran.err_in_one_line.startswith(
            "wardround: epochs.vault is older than keys.jsonl, which says that epoch 2 was begun, hillside was revoked;"
        )
    (issuer / "epochs.vault").unlink()
    issued = run(*words)
    assert issued.code == 0 and "hillside gets no copy: it was revoked" in issued.out
    assert json.loads((out / "parameters.json").read_text())["epoch"] == 3


def test_a_copy_for_another_site_or_study(offline: Path, kits: Path, run: Run) -> None:
    issuer, out = offline / "harbour" / "kit", offline / "copies"
    run("keys", "issue", issuer, "--certificates", offline / "lead" / "approved", "--out", out)
    ran = run("site", "key", offline / "hillside" / "kit", out / "harbour.epoch-1.key.sealed")
    assert ran.err == "wardround: the copy is for harbour; this is the kit of hillside\n"
    ran = run("site", "key", kits / "harbour", out / "harbour.epoch-1.key.sealed")
    assert ran.code == 2 and "sealed to another key" in ran.err_in_one_line  # same study, another consortium
    ran = run("site", "key", offline / "hillside" / "kit")
    assert ran.err == "wardround: the study has no key service; name the file with the copy of the key that was sent\n"
    assert not (offline / "hillside" / "kit" / "keys.vault").exists()


def test_the_coordinator_takes_no_secret_for_parameters(offline: Path, kits: Path, run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "parameters.json"
    secret.write_bytes(SealingSecret(1, "ckks", b"ABCDEFGH" * 8).to_bytes())
    ran = run("coordinator", "key", offline / "lead" / "coordinator", secret)
    assert ran.code == 2 and "a sealing secret was sent here" in ran.err_in_one_line and "ABCD" not in ran.said
    assert not (offline / "lead" / "coordinator" / "parameters.json").exists()
    ran = run("coordinator", "key", kits / "coordinator", secret)
    assert ran.code == 2 and "has a key service at localhost:" in ran.err_in_one_line


def test_another_passphrase_and_a_file_that_others_can_read(
    offline: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = offline / "harbour" / "kit"
    words = ("--certificates", offline / "lead" / "approved", "--out", tmp_path / "copies")
    assert run("keys", "issue", issuer, *words).code == 0
    file = tmp_path / "phrase"
    file.write_text("another passphrase\n")
    file.chmod(0o600)
    ran = run("keys", "rotate", issuer, "--passphrase-file", file)
    assert ran.err_in_one_line.startswith("wardround: the passphrase does not open epochs.vault")
    file.write_text(PASSPHRASE)
    file.chmod(0o644)
    ran = run("keys", "rotate", issuer, "--passphrase-file", file)
    assert ran.err == "wardround: phrase can be read by others; only its owner may (chmod 600)\n"
    file.chmod(0o600)
    monkeypatch.delenv(VARIABLE)
    assert run("keys", "rotate", issuer, "--passphrase-file", file).code == 0
    (issuer / "epochs.vault").chmod(0o640)
    ran = run("keys", "rotate", issuer, "--passphrase-file", file)
    assert ran.err == "wardround: epochs.vault can be read by others; only its owner may (chmod 600)\n"


def test_a_site_that_the_study_does_not_have(offline: Path, run: Run) -> None:
    for command in ("revoke", "admit"):
        ran = run("keys", command, offline / "harbour" / "kit", "lakeside")
        assert ran.code == 2 and "lakeside is no site of tiny; its sites are harbour, hillside" in ran.err_in_one_line


def test_a_site_starts_only_with_the_passphrase_of_its_vault(
    offline: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: 0)
    kit, out = offline / "hillside" / "kit", offline / "copies"
    words = ("--certificates", offline / "lead" / "approved", "--out", out)
    assert run("keys", "issue", offline / "harbour" / "kit", *words).code == 0
    assert run("site", "key", kit, out / "hillside.epoch-1.key.sealed").code == 0
    assert run("site", "review", kit, "--accept").code == 0
    file = tmp_path / "phrase"
    file.write_text(f"{PASSPHRASE}\n")
    file.chmod(0o600)
    monkeypatch.setenv(VARIABLE, "another passphrase")
    start = ("site", "start", kit, "--built-in", "hillside-0001")
    ran = run(*start)
    assert ran.code == 2 and "the passphrase does not open keys.vault" in ran.err_in_one_line
    assert run(*start, "--passphrase-file", file).code == 0
    assert os.environ[FILE_VARIABLE] == str(file)  # which the processes of the site inherit
