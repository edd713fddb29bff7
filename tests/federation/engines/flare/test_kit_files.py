"""What FLARE reads in a kit: plans that make no sense are refused, and nothing is left that runs, stores or streams."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from wardround.errors import KitError
from wardround.federation.engines.flare.kit_files import KitPlan, configuration

PLAN = KitPlan("heart", "localhost", 8002, ("harbour", "hillside"), days=30)
NAMES = ("coordinator", "harbour")


def loaded(name: str, file: str) -> dict[str, Any]:
    found = json.loads(configuration(PLAN, name)[file])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sites": ()}, "names no site"),
        ({"sites": ("a", "a")}, "a site twice"),
        ({"sites": ("coordinator",)}, "no site may be called 'coordinator'"),
        ({"sites": ("server",)}, "no site may be called 'server'"),
        ({"sites": ("keys",)}, "no site may be called 'keys'"),
        ({"sites": ("Harbour",)}, "site 'Harbour' is no name"),
        ({"sites": ("-a",)}, "is no name"),
        ({"sites": ("",)}, "is no name"),
        ({"sites": ("a\n",)}, "is no name"),
        ({"sites": ("../a",)}, "is no name"),
        ({"sites": ("a" * 64,)}, "is no name"),
        ({"sites": ("localhost",)}, "the coordinator's host"),
        ({"study": ""}, "study '' is no name"),
        ({"host": "a:1"}, "host 'a:1' is no name"),
        ({"host": "::1"}, "is no name"),
        ({"port": 0}, "port 0 does not exist"),
        ({"port": 65536}, "port 65536 does not exist"),
        ({"days": 0}, "1 to 3650 days, not 0"),
        ({"keys": "keys.example.org"}, "reached at HOST:PORT, not 'keys.example.org'"),
        ({"keys": "keys.example.org:"}, "reached at HOST:PORT"),
        ({"keys": "a:0"}, "reached at HOST:PORT"),
        ({"keys": "a:65536"}, "reached at HOST:PORT"),
        ({"keys": "a:²"}, "reached at HOST:PORT"),
        ({"keys": ":8003"}, "host '' is no name"),
        ({"keys": "a b:8003"}, "host 'a b' is no name"),
        ({"keys": "LOCALHOST:8002"}, "cannot share a port"),
    ],
)
def test_a_plan_that_makes_no_sense(change: dict[str, object], complaint: str) -> None:
    plan: dict[str, object] = {"study": "heart", "host": "localhost", "port": 8002, "sites": ("a",), "days": 30}
    with pytest.raises(KitError, match=complaint):
        KitPlan(**(plan | change))  # type: ignore[arg-type]


def test_the_longest_names_that_may_be() -> None:
    assert KitPlan("Heart 2.0_b-c", "10.0.0.1", 1, ("a" * 63, "0-")).days == 365


def test_who_has_a_kit() -> None:
    assert PLAN.parties == ("coordinator", "harbour", "hillside")
    plan = replace(PLAN, keys="keys.example.org:8003")
    assert plan.parties == ("coordinator", "keys", "harbour", "hillside")
    assert plan.keys_host == "keys.example.org"


def test_flare_reads_nothing_at_the_key_service() -> None:
    assert configuration(replace(PLAN, keys="localhost:8003"), "keys") == {}


def test_nobody_may_submit_deploy_or_run_a_job_or_anything_else() -> None:
    authz = pytest.importorskip("nvflare.fuel.sec.authz", reason="FLARE's own policy engine reads the policy")
    security = pytest.importorskip("nvflare.security.security")
    rights = {*security.COMMAND_CATEGORIES, *security.COMMAND_CATEGORIES.values(), "byoc"}
    assert len(rights) > 20
    for name in NAMES:
        authorizer = security.FLAuthorizer("wardround", loaded(name, "local/authorization.json"))
        for role in ("project_admin", "org_admin", "lead", "member", "client", "server", ""):
            person = authz.Person("harbour", "wardround", role)
            allowed = [right for right in rights if authorizer.authorize(authz.AuthzContext(right, person, person))[0]]
            assert allowed == []


@pytest.mark.parametrize("name", NAMES)
def test_flare_is_left_nothing_that_runs_stores_or_streams(name: str) -> None:
    resources = loaded(name, "local/resources.json")
    assert resources["components"] == []  # launchers, resource manager, job store, log streamer and receiver
    assert "snapshot_persistor" not in resources
    assert (resources["class_list_enforcement_mode"], resources["class_allow_list"]) == ("enforce", [])
    assert not any(b"/tmp" in content for content in configuration(PLAN, name).values())


def test_a_site_streams_no_log_and_wants_jobs_signed() -> None:
    assert loaded("harbour", "local/resources.json")["allow_log_streaming"] is False
    assert loaded("harbour", "startup/fed_client.json")["require_signed_jobs"] is True
    assert loaded("coordinator", "startup/fed_server.json")["require_signed_jobs"] is True


def test_connections_need_certificates_on_one_port() -> None:
    (server,) = loaded("coordinator", "startup/fed_server.json")["servers"]
    assert (server["service"]["target"], server["admin_port"]) == ("localhost:8002", 8002)
    assert (server["connection_security"], server["max_num_clients"]) == ("mtls", 2)
    client = loaded("harbour", "startup/fed_client.json")
    assert client["client"]["connection_security"] == "mtls"
    assert client["servers"][0]["identity"] == "coordinator"
    for name in NAMES:
        inside = loaded(name, "local/comm_config.json")
        assert inside["allow_adhoc_conns"] is False
        assert inside["internal"]["resources"]["connection_security"] == "mtls"


def test_logs_stay_in_the_kit() -> None:
    for name in NAMES:
        (handler,) = loaded(name, "local/log_config.json")["handlers"].values()
        assert handler["filename"] == "log.txt"
