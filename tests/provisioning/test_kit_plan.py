"""Plans of networked studies: invalid ones are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wardround.errors import KitError
from wardround.provisioning.kit_plan import KitPlan

PLAN = KitPlan("heart", "localhost", 8002, ("harbour", "hillside"), days=30)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sites": ()}, "names no site"),
        ({"sites": ("a", "a")}, "a site twice"),
        ({"sites": ("coordinator",)}, "no site may be called 'coordinator'"),
        ({"sites": ("server",)}, "no site may be called 'server'"),
        ({"sites": ("keys",)}, "no site may be called 'keys'"),
        ({"sites": ("Harbour",)}, "site 'Harbour' cannot be used"),
        ({"sites": ("-a",)}, "cannot be used"),
        ({"sites": ("",)}, "cannot be used"),
        ({"sites": ("a\n",)}, "cannot be used"),
        ({"sites": ("../a",)}, "cannot be used"),
        ({"sites": ("a" * 64,)}, "cannot be used"),
        ({"sites": ("localhost",)}, "the coordinator's host"),
        ({"study": ""}, "study '' cannot be used"),
        ({"host": "a:1"}, "host 'a:1' cannot be used"),
        ({"host": "::1"}, "cannot be used"),
        ({"port": 0}, "port 0 does not exist"),
        ({"port": 65536}, "port 65536 does not exist"),
        ({"days": 0}, "1 to 3650 days, not 0"),
        ({"keys": "keys.example.org"}, "must be HOST:PORT, not 'keys.example.org'"),
        ({"keys": "keys.example.org:"}, "must be HOST:PORT"),
        ({"keys": "a:0"}, "must be HOST:PORT"),
        ({"keys": "a:65536"}, "must be HOST:PORT"),
        ({"keys": "a:²"}, "must be HOST:PORT"),
        ({"keys": ":8003"}, "host '' cannot be used"),
        ({"keys": "a b:8003"}, "host 'a b' cannot be used"),
        ({"keys": "LOCALHOST:8002"}, "cannot share a port"),
    ],
)
def test_an_invalid_plan_is_refused(change: dict[str, object], complaint: str) -> None:
    plan: dict[str, object] = {"study": "heart", "host": "localhost", "port": 8002, "sites": ("a",), "days": 30}
    with pytest.raises(KitError, match=complaint):
        KitPlan(**(plan | change))  # type: ignore[arg-type]


def test_the_longest_allowed_names_are_accepted() -> None:
    assert KitPlan("Heart 2.0_b-c", "10.0.0.1", 1, ("a" * 63, "0-")).days == 365


def test_the_parties_of_a_plan() -> None:
    assert PLAN.parties == ("coordinator", "harbour", "hillside")
    plan = replace(PLAN, keys="keys.example.org:8003")
    assert plan.parties == ("coordinator", "keys", "harbour", "hillside")
    assert plan.keys_host == "keys.example.org"
