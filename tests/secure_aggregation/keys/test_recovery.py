"""The state according to the log, and the refusal of states that lack something in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.secure_aggregation.authority import STUDY, lock
from tests.secure_aggregation.keys.serving import new

from wardround.errors import KeyMaterialError
from wardround.secure_aggregation.keys.key_log import KeyLog
from wardround.secure_aggregation.keys.peers import Peer
from wardround.secure_aggregation.keys.recovery import check_not_older, logged_state
from wardround.secure_aggregation.keys.service_state import Epochs, KeyState


@pytest.fixture
def log(tmp_path: Path) -> KeyLog:
    tmp_path.chmod(0o700)
    return KeyLog(tmp_path / "keys.jsonl")


def told(log: KeyLog) -> tuple[int, tuple[str, ...], dict[str, str]]:
    state = logged_state(log.path, STUDY)
    return state.current, state.revoked, dict(state.pinned)


def test_without_a_log_the_state_is_empty(log: KeyLog) -> None:
    assert logged_state(log.path, STUDY) == KeyState(STUDY)
    check_not_older(KeyState(STUDY), logged_state(log.path, STUDY))


def test_the_state_according_to_a_log(log: KeyLog) -> None:
    log.write("secret", "given", who="h1", certificate="A", epoch=1)
    log.write("secret", "epoch", who="h1", certificate="A", epoch=2**31)  # what is only asked for is nothing
    log.write("secret", "certificate", who="h1", certificate="B", epoch=1)
    log.write("parameters", "given", who="h9", certificate="Z")
    log.write("nothing", "no-certificate", address="127.0.0.1")
    assert told(log) == (1, (), {"h1": "A"})
    log.write("rotate", "done", epoch=2)
    log.write("revoke h-2", "done", epoch=3)
    log.write("copy for h-2", "done", certificate="C", epoch=2)
    assert told(log) == (3, ("h-2",), {"h1": "A", "h-2": "C"})
    log.write("admit h-2", "done")
    log.write("admit h1", "done", certificate="B")
    log.write("secret", "given", who="h1", certificate="A", epoch=3)  # given before, written after
    assert told(log) == (3, (), {"h1": "B", "h-2": "C"})


@pytest.mark.parametrize(
    ("state", "complaint"),
    [
        (KeyState(STUDY, 2, 1, ("h2",), {"h1": "A"}), "epoch 3 was begun"),
        (KeyState(STUDY, 3, 1, (), {"h1": "A"}), "h2 was revoked"),
        (KeyState(STUDY, 3, 1, ("h2",), {}), "h1 has a certificate"),
        (KeyState(STUDY, 3, 1, ("h2",), {"h1": "B"}), "h1 has a certificate"),
    ],
)
def test_a_state_that_lacks_something_in_the_log_is_refused(state: KeyState, complaint: str) -> None:
    known = KeyState(STUDY, 3, 3, ("h2",), {"h1": "A"})
    with pytest.raises(KeyMaterialError, match=f"which says that {complaint}; restore the newest copy"):
        check_not_older(state, known)


def test_a_state_newer_than_the_log_is_accepted() -> None:
    known = KeyState(STUDY, 3, 3, ("h2",), {"h1": "A"})
    check_not_older(KeyState(STUDY, 4, 4, ("h2", "h3"), {"h1": "A", "h4": "D"}), known)


def test_a_new_vault_continues_from_the_log(log: KeyLog, tmp_path: Path) -> None:
    log.write("secret", "given", who="h1", certificate="A", epoch=1)
    log.write("revoke h2", "done", epoch=2)
    logged = logged_state(log.path, STUDY)
    epochs = Epochs.create(tmp_path / "epochs.vault", lock(), study=STUDY, scheme="ckks", new=new, logged=logged)
    state = epochs.state()
    assert (state.current, state.oldest, state.revoked, state.pinned) == (3, 3, ("h2",), {"h1": "A"})
    assert epochs.issue(Peer("h1", "A"), 3) == epochs.current()
    check_not_older(state, logged)
