from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.algorithms.wards import BOTH, MASKED, RETURNED, SEALED, WIDTH, whole
from tests.secure_aggregation.cohort import STUDY, Keys, code_of, named, packing_of, secret_of

from wardround.errors import RefusedSumError
from wardround.federation.aggregation import SparseRows
from wardround.federation.message import Array, Message
from wardround.secure_aggregation.client import SecureAggregationClient
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Identity
from wardround.secure_aggregation.mechanisms import AgreedMechanism
from wardround.secure_aggregation.server import SecureAggregationServer
from wardround.secure_aggregation.submission import Submission, SubmissionRecord

ALL = pytest.mark.parametrize("mechanism", [MASKED, SEALED, BOTH, RETURNED], ids=named)
ONCE = pytest.mark.parametrize("mechanism", [MASKED, BOTH, RETURNED], ids=named)
WEIGHTS = {"h1": 3.0, "h2": 1.0, "h3": 4.0}
CLIPS = {"layer": 1.0}


class Place:
    """A site h1 that submits, and two sites that only have keys."""

    def __init__(self, folder: Path, mechanism: AgreedMechanism, *, clips: Any = None, feedback: bool = False) -> None:
        self.folder, self.mechanism = folder, mechanism
        self.secrets = Keys(secret_of(mechanism.key_scheme)) if mechanism.is_sealed else None
        self.identities = {site: Identity.new(site, None) for site in WEIGHTS}
        self._clips, self._feedback = clips or {}, feedback
        self.submission = self.opened()

    def opened(self) -> Submission:
        """Return the submission as a new process opens it."""
        return Submission(self.client("h1"), self.folder, clips=self._clips, feedback=self._feedback)

    def client(self, site: str) -> SecureAggregationClient:
        return SecureAggregationClient(self.mechanism, self.identities[site], secrets=self.secrets)

    def exchange(self, **changed: Any) -> Exchange:
        secret = secret_of(self.mechanism.key_scheme) if self.mechanism.is_sealed else None
        key = {} if secret is None else {"epoch": 1, "key": secret.id}
        settings: dict[str, Any] = {"round": 1, "weights": WEIGHTS, "clips": CLIPS, **key, **changed}
        return Exchange(STUDY, step="train", nonce=changed.get("nonce") or Exchange.new_nonce(), **settings)

    def question(self, exchange: Exchange) -> Message:
        public_keys = {
            f"public_keys/{site}": identity.public_keys.to_bytes() for site, identity in self.identities.items()
        }
        return Message({"round": exchange.round, "exchange": exchange.to_values()}, {}, public_keys)

    def hold(self, update: dict[str, Array] | None = None, *, number: int = 1) -> Message:
        self.submission.begin(number, after=number - 1)
        return self.submission.announce(update or whole(0.5), weight=3.0, values={"loss": 2.0})

    def submit(self, exchange: Exchange | None = None, *, number: int = 1) -> Message:
        question = self.question(exchange or self.exchange(round=number))
        return self.submission.submit(question, name="h1", round_number=number)

    def refusal(self, exchange: Exchange, *, number: int = 1) -> str:
        return code_of(self.submission.submit, self.question(exchange), name="h1", round_number=number)

    def unmask(self, exchange: Exchange) -> bytes:
        return self.submission.unmask(Message({"nonce": exchange.nonce})).blobs["seed"]

    def noted(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "submissions.json").read_text())
        return found


def round_of(place: Place, number: int, update: dict[str, Array] | None = None) -> Exchange:
    """Run a round at the site: announce, submit and, if it has its own mask, unmask."""
    place.hold(update, number=number)
    exchange = place.exchange(round=number)
    place.submit(exchange, number=number)
    if place.mechanism.needs_every_participant:
        place.unmask(exchange)
    return exchange


# Held


@ALL
def test_the_announcement_of_a_held_update(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    place = Place(tmp_path, mechanism)
    answer = place.hold({"w": np.linspace(-0.75, 0.5, WIDTH, dtype=np.float32)})
    assert answer.values == {"loss": 2.0, "weight": 3.0, "largest_by_group": {"layer": 0.75}}
    assert answer.blobs == {"public_keys": place.identities["h1"].public_keys.to_bytes()}
    assert not answer.arrays
    assert not (tmp_path / "submissions.json").exists()  # nothing was given


def test_largest_numbers_are_announced_only_while_clips_are_learned(tmp_path: Path) -> None:
    place = Place(tmp_path / "learned", MASKED)
    place.hold()
    place.submit()
    assert "largest_by_group" not in place.hold(number=2).values
    fixed = Place(tmp_path / "fixed", MASKED, clips={"layer": 1.0})
    assert fixed.hold().values["largest_by_group"] == {}


def test_rows_are_held_as_the_whole_table(tmp_path: Path) -> None:
    mechanism = replace(MASKED, shapes={"w": (4, 2)})
    place = Place(tmp_path, mechanism)
    table = SparseRows(np.array([1, 3]), np.ones((2, 2), np.float32), 4)
    place.submission.announce({"w": table}, weight=3.0, values={})
    held = place.submission.state()["update/w"]
    assert held.tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]


def test_an_update_with_nan_is_refused_and_the_previous_one_is_still_held(tmp_path: Path) -> None:
    place = Place(tmp_path, MASKED)
    place.hold(whole(0.25))
    assert code_of(place.hold, whole(float("nan"))) == "not-a-number"
    assert place.submission.state()["update/w"].tolist() == [0.25] * WIDTH


def test_the_held_update_does_not_change_with_the_model(tmp_path: Path) -> None:
    place, update = Place(tmp_path, MASKED), whole(0.25)
    place.hold(update)
    update["w"][:] = 7
    assert place.submission.state()["update/w"].tolist() == [0.25] * WIDTH


# Given


@ALL
def test_a_submission_is_recorded_on_disk_before_it_leaves(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    place = Place(tmp_path, mechanism)
    place.hold()
    exchange = place.exchange()
    message = place.submit(exchange)
    noted = place.noted()
    assert (noted["round"], noted["nonce"], noted["nonces"]) == (1, exchange.nonce, [exchange.nonce])
    assert len(noted["digest"]) == 64
    assert len(noted["seed"]) == (64 if mechanism.needs_every_participant else 0)
    assert (noted["revealed"], noted["redraws"]) == (0, 0)
    assert stat.S_IMODE((tmp_path / "submissions.json").stat().st_mode) == 0o600
    assert noted["seed"].encode() not in b"".join(message.blobs.values()) or not noted["seed"]
    assert place.opened().record == place.submission.record


@ALL
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"study": "0" * 64}, "study"),
        ({"round": 2}, "round"),
        ({"round": 0}, "round"),
        ({"weights": {**WEIGHTS, "h1": 3.5}}, "weight"),
        ({"weights": {"h2": 1.0, "h3": 4.0, "h4": 3.0}}, "weight"),  # does not name this site
        ({"weights": {"h1": 3.0, "h2": 1.0}}, "cohort"),
        ({"weights": {**WEIGHTS, "coordinators-friend": 1.0}}, "cohort"),
        ({"clips": {"layer": 2.0}}, "clip"),
        ({"clips": {}}, "clip"),
        ({"clips": {"layer": 1.0, "more": 1.0}}, "clip"),
    ],
    ids=["study", "later", "earlier", "weight", "not named", "too few", "stranger", "clip", "no clip", "more clips"],
)
def test_exchanges_that_a_site_does_not_submit_to(
    mechanism: AgreedMechanism, changed: dict[str, Any], code: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, mechanism, clips=CLIPS)
    place.hold()
    assert place.refusal(replace(place.exchange(), **changed)) == code
    assert not (tmp_path / "submissions.json").exists()
    place.submit()


@ALL
def test_a_site_without_an_update_submits_nothing(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    assert Place(tmp_path, mechanism).refusal(Place(tmp_path, mechanism).exchange()) == "round"


@ALL
def test_a_site_submits_once_to_an_exchange(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    place = Place(tmp_path, mechanism)
    place.hold()
    first, second = place.exchange(), place.exchange()
    place.submit(first)
    assert place.refusal(first) == "replay"
    place.submit(second)
    for exchange in (first, second):
        assert place.refusal(exchange) == "replay"
    # Nor after a restart, whatever the process remembers.
    again = place.opened()
    again.load(place.submission.state())
    place.submission = again
    for exchange in (first, second):
        assert place.refusal(exchange) == "replay"


@ONCE
def test_a_site_does_not_submit_to_an_exchange_of_an_old_round(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    """Restored by two rounds, the site draws again; under the old exchange both draws would have the same masks."""
    place = Place(tmp_path, mechanism)
    old = round_of(place, 1)
    round_of(place, 2)
    place.hold(whole(0.25), number=1)
    assert place.refusal(old) == "replay"


def test_a_clip_stays_that_of_the_first_exchange(tmp_path: Path) -> None:
    place = Place(tmp_path, MASKED)
    round_of(place, 1)
    place.hold(number=2)
    assert place.refusal(place.exchange(round=2, clips={"layer": 1.5}), number=2) == "clip"
    again = place.opened()
    again.load(place.submission.state())
    place.submission = again
    assert place.refusal(place.exchange(round=2, clips={"layer": 1.5}), number=2) == "clip"
    place.submit(place.exchange(round=2), number=2)


def test_a_lasting_site_forces_the_record_and_its_name_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    plain = os.fsync

    def fsync(descriptor: int) -> None:
        forced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    place = Place(tmp_path / "site", MASKED)
    place.hold()
    place.submit()
    assert forced == []
    place.submission = Submission(place.client("h1"), tmp_path / "site", clips={}, durable=True)
    place.hold()
    place.submit()
    assert forced == ["submissions.json.partial", "site"]


# Revealed


@ONCE
def test_a_seed_is_sent_once_and_the_update_is_never_submitted_again(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    place = Place(tmp_path, mechanism)
    place.hold()
    exchange = place.exchange()
    place.submit(exchange)
    held = place.noted()["seed"]
    assert place.unmask(exchange).hex() == held
    assert (place.noted()["seed"], place.noted()["revealed"]) == ("", 1)  # before it leaves
    assert code_of(place.unmask, exchange) == "nonce"
    assert place.refusal(place.exchange()) == "spent"
    again = place.opened()
    again.load(place.submission.state())
    place.submission = again
    assert place.refusal(place.exchange()) == "spent"


@ONCE
def test_only_the_last_exchange_can_be_unmasked(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    place = Place(tmp_path, mechanism)
    place.hold()
    first, second = place.exchange(), place.exchange()
    place.submit(first)
    lost = place.noted()["seed"]
    place.submit(second)
    assert code_of(place.unmask, first) == "nonce"
    assert code_of(place.unmask, place.exchange()) == "nonce"
    assert place.unmask(second).hex() != lost
    assert lost not in (tmp_path / "submissions.json").read_text()  # nobody can tell it any more
    assert code_of(place.unmask, first) == "nonce"


def test_without_masks_there_is_nothing_to_unmask(tmp_path: Path) -> None:
    place = Place(tmp_path, SEALED)
    place.hold()
    exchange = place.exchange()
    place.submit(exchange)
    assert code_of(place.unmask, exchange) == "nonce"


@ONCE
def test_a_repeated_round_that_was_unmasked_counts_a_redraw(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    place = Place(tmp_path, mechanism)
    for number in (1, 2, 3):
        round_of(place, number)
    assert place.submission.record.redraws == 0
    place.submission.begin(4, after=3)
    assert place.submission.record.redraws == 0  # nothing of round 4 is known to anybody
    round_of(place, 2)  # put back to round 1
    assert (place.submission.record.redraws, place.submission.record.revealed) == (1, 2)
    round_of(place, 3)
    assert place.submission.record.redraws == 1  # under the second draw, round 3 is a new one
    round_of(place, 3)
    assert place.submission.record.redraws == 2


@ONCE
def test_a_later_round_from_an_old_state_counts_a_redraw_too(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    """The site is restored to the state before round 1 and asked for round 2: its batches would be those of round 1."""
    place = Place(tmp_path, mechanism)
    round_of(place, 1)
    place.submission.begin(2, after=0)
    assert (place.submission.record.redraws, place.submission.record.revealed) == (1, 1)
    round_of(place, 2)
    assert (place.submission.record.redraws, place.submission.record.revealed) == (1, 2)
    place.submission.begin(5, after=1)
    assert (place.submission.record.redraws, place.submission.record.revealed) == (2, 2)


@ONCE
def test_repeating_a_round_does_not_allow_submitting_updates_of_earlier_rounds(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    """The site is restored to round 1, whose update is in that state, and a request for round 2 fails."""
    place = Place(tmp_path, mechanism)
    round_of(place, 1)
    state = {name: tensor.clone() for name, tensor in place.submission.state().items()}
    round_of(place, 2)
    place.submission.load(state)
    place.submission.begin(2, after=1)
    assert place.refusal(place.exchange(round=1), number=1) == "spent"


# What rounding takes


def units(mechanism: AgreedMechanism, count: float) -> float:
    """Return an update of this many rounding units of h1: clip / (scale · share)."""
    return count / (packing_of(mechanism).scale * (3 / 8))


@ALL
def test_the_residue_is_added_to_the_next_update_once_the_update_was_used(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    place = Place(tmp_path, mechanism, clips=CLIPS, feedback=True)
    first = whole(units(mechanism, 0.2))
    place.hold(first)
    exchange = place.exchange()
    given = place.submit(exchange)
    assert not any(name.startswith("residue/") for name in place.submission.state())
    used(place, exchange, given)
    place.hold(whole(0.0), number=2)
    assert place.submission.state()["update/w"].numpy() == pytest.approx(first["w"], rel=1e-4)
    # Still a fifth of a unit; then two fifths, then three, which are rounded to a whole one.
    left = [0.2, 0.4, -0.4]
    for number, expected in zip((2, 3, 4), left, strict=True):
        place.hold(whole(0.0 if number == 2 else units(mechanism, 0.2)), number=number)
        again = place.exchange(round=number)
        used(place, again, place.submit(again, number=number))
        residue = place.submission.state()["residue/w"].numpy()
        assert residue == pytest.approx([units(mechanism, expected)] * WIDTH, rel=1e-3)


def used(place: Place, exchange: Exchange, given: Message) -> dict[str, Array] | None:
    """Unmask the update, open its mean, or both, as the mechanism requires."""
    seed = place.unmask(exchange) if place.mechanism.needs_every_participant else b""
    if not place.mechanism.is_sealed:
        return None
    return place.submission.open(summed(place, exchange, given, seed))


def summed(place: Place, exchange: Exchange, given: Message, seed: bytes) -> Message:
    """Return the sum of the submission of h1 and zeros of the two other sites."""
    public_keys = {site: identity.public_keys.to_bytes() for site, identity in place.identities.items()}
    secret = secret_of(place.mechanism.key_scheme)
    total = SecureAggregationServer(place.mechanism, parameters=lambda: secret.public(STUDY)).total(
        exchange, public_keys
    )
    total.add("h1", given)
    seeds = {"h1": seed}
    for site in ("h2", "h3"):
        other = place.client(site).seal(whole(0.0), exchange=exchange, public_keys=public_keys)
        total.add(site, other.message)
        seeds[site] = other.seed
    return total.message(seeds if place.mechanism.needs_every_participant else {})


def test_feedback_is_off_unless_the_study_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path, MASKED, clips=CLIPS)
    round_of(place, 1, whole(units(MASKED, 0.25)))
    assert not [name for name in place.submission.state() if name.startswith(("residue/", "left/"))]


@ALL
def test_the_residue_of_an_unused_update_is_dropped(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    place = Place(tmp_path, mechanism, clips=CLIPS, feedback=True)
    place.hold(whole(units(mechanism, 0.25)))
    place.submit()
    place.hold(whole(0.0), number=2)
    assert not place.submission.state()["update/w"].any()


# Opened


@pytest.mark.parametrize("mechanism", [SEALED, BOTH, RETURNED], ids=named)
def test_opening_a_mean_that_contains_the_sites_own_update(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    """0.5 of a site of 3 in 8, and zeros: 3/16."""
    place = Place(tmp_path, mechanism)
    place.hold()
    exchange = place.exchange()
    mean = used(place, exchange, place.submit(exchange))
    assert mean is not None
    assert mean["w"] == pytest.approx([3 / 16] * WIDTH, abs=1e-6)


@pytest.mark.parametrize("mechanism", [SEALED, BOTH, RETURNED], ids=named)
def test_an_earlier_attempt_of_the_round_is_not_opened(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    place = Place(tmp_path, mechanism)
    place.hold()
    first = place.exchange()
    given = place.submit(first)
    seed = bytes.fromhex(place.noted()["seed"])
    place.submit(place.exchange())
    with pytest.raises(RefusedSumError, match="sum: transcript: ") as refused:
        place.submission.open(summed(place, first, given, seed))
    assert not refused.value.counts


# Kept


@ALL
def test_a_site_continues_from_its_state(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    place = Place(tmp_path, mechanism, clips=CLIPS, feedback=True)
    place.hold(whole(units(mechanism, 0.25)))
    exchange = place.exchange()
    used(place, exchange, place.submit(exchange))
    place.hold(whole(0.125), number=2)
    again = place.opened()
    again.load(place.submission.state())
    mine, theirs = place.submission.state(), again.state()
    assert mine.keys() == theirs.keys() == {"update/w", "residue/w", "clip/layer", "largest/layer", "weight"}
    assert all(mine[name].tolist() == theirs[name].tolist() for name in mine)
    place.submission = again
    place.submit(place.exchange(round=2), number=2)


@ALL
def test_changes_of_the_state_are_counted(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    """Learned clips and the residue of rounding are counted; otherwise they would be lost with the process."""
    place = Place(tmp_path, mechanism, clips=CLIPS, feedback=True)
    seen = [place.submission.changes]
    for number in (1, 2):
        place.hold(whole(units(mechanism, 0.25)), number=number)
        exchange = place.exchange(round=number)
        given = place.submit(exchange, number=number)
        seen.append(place.submission.changes)
        used(place, exchange, given)
        seen.append(place.submission.changes)
    assert seen == [0, 1, 2, 2, 3]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"round": 1}', '{"nonces": [], "more": 1}'])
def test_a_damaged_record_is_refused(content: str, tmp_path: Path) -> None:
    """Without the record, the site could submit an unmasked update again."""
    place = Place(tmp_path, MASKED)
    (tmp_path / "submissions.json").write_text(content)
    assert code_of(place.opened) == "state"


def test_a_fresh_site_has_no_submission(tmp_path: Path) -> None:
    assert Place(tmp_path, MASKED).submission.record == SubmissionRecord()


@ALL
def test_the_record_of_version_0_1_is_still_read(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    place = Place(tmp_path, mechanism)
    place.hold()
    place.submit()
    (tmp_path / "submissions.json").rename(tmp_path / "given.json")
    assert place.opened().record == place.submission.record
