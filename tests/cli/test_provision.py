"""`wardround provision`, and the way of a site into a study: open, request, approve, complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import exit_code

pytest.importorskip("nvflare", reason="kits need wardround[flare]")

from wardround.provisioning.kits import read_kit
from wardround.studies.study_file import parse_study, read_study

STUDY = b"""[study]
name = "heart"

[sites.harbour]
data = "notes/of-harbour"
format = "brat"

[sites.hillside]
format = "conll"
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "heart.toml"
    path.write_bytes(STUDY)
    return path


def test_provision(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "kits"
    assert exit_code("provision", study, "--out", out, "--host", "localhost", "--port", "9000", "--days", "7") == 0
    assert capsys.readouterr().out.splitlines() == ["kits/coordinator", "kits/harbour", "kits/hillside"]
    kit = read_kit(out / "hillside")
    assert (kit.plan.study, kit.plan.port, kit.plan.days) == ("heart", 9000, 7)
    assert parse_study(kit.study.decode()) == read_study(study).for_hospitals()
    assert b"of-harbour" not in kit.study  # where its notes are, a hospital tells nobody
    assert exit_code("provision", study, "--out", out, "--host", "localhost") == 2
    assert capsys.readouterr().err == "wardround: kits exists already; name a new folder\n"


def test_the_way_of_a_site_into_a_study(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lead, site, post = tmp_path / "lead", tmp_path / "mine", tmp_path / "post"
    assert exit_code("coordinator", "open", study, "--out", lead, "--host", "study.example.org") == 0
    opened = capsys.readouterr().out.splitlines()
    assert exit_code("site", "request", "harbour", "--out", site) == 0
    assert capsys.readouterr().out.splitlines() == [
        "mine/harbour.csr: send it to the coordinator",
        "mine/harbour.key: the private key; never send it",
    ]
    assert exit_code("coordinator", "approve", lead, site / "harbour.csr", "--out", post) == 0
    assert capsys.readouterr().out == "harbour.approval.zip: send it to the site; it holds no key\n"
    assert exit_code("site", "complete", site, post / "harbour.approval.zip") == 0
    completed = capsys.readouterr().out.splitlines()
    assert completed[0] == "mine/kit: the kit of harbour in the study heart"
    assert completed[1].startswith("It trusts study.example.org:8002 until ")
    assert completed[-1] == opened[-1] == read_kit(site / "kit").fingerprint
    assert read_kit(lead / "coordinator").study == read_kit(site / "kit").study


def test_a_second_approval_is_asked_for(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lead, asked = tmp_path / "lead", tmp_path / "mine" / "harbour.csr"
    exit_code("coordinator", "open", study, "--out", lead, "--host", "localhost")
    exit_code("site", "request", "harbour", "--out", asked.parent)
    approve = ("coordinator", "approve", lead, asked, "--out", tmp_path)
    assert exit_code(*approve) == 0
    capsys.readouterr()
    assert exit_code(*approve) == 2
    assert "'harbour' was approved already" in capsys.readouterr().err
    assert exit_code(*approve, "--again") == 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[study", "the study file is no TOML"),
        (b"\xff", "heart.toml cannot be read as text"),
        (b"[sites.a]\n", "[study] needs a name"),
        (b"study = 1\n[sites.a]\n", "[study] must be a section"),
        (b'[study]\nname = "heart"\n', "the study has no site"),
        (b'[study]\nname = "heart"\n[sites.A]\n', "[sites.A]: a site's name is"),
        (b'[study]\nname = "heart"\n[sites.a]\n[algorithm]\nname = "pooled"\n', "needs all notes in one place"),
    ],
)
def test_a_study_that_says_too_little(
    content: bytes, complaint: str, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study.write_bytes(content)
    for command in (("provision",), ("coordinator", "open")):
        assert exit_code(*command, study, "--out", tmp_path / "out", "--host", "localhost") == 2
        error = capsys.readouterr().err
        assert complaint in error and str(tmp_path) not in error
    assert not (tmp_path / "out").exists()


# A process in which neither nvflare nor cryptography is installed.
WITHOUT = """
import subprocess
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("nvflare", "cryptography"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from wardround.cli.main import main
main(sys.argv[1:])
"""


def test_without_the_extra_it_says_what_to_install(study: Path, tmp_path: Path) -> None:
    """Kits need cryptography alone; the message names the extra that holds it and FLARE."""
    out = tmp_path / "out"
    for words in (
        ("provision", study, "--out", out, "--host", "localhost"),
        ("coordinator", "open", study, "--out", out, "--host", "localhost"),
        ("site", "request", "harbour", "--out", out),
    ):
        command = [sys.executable, "-c", WITHOUT, *map(str, words)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        message = "wardround: a networked study needs NVIDIA FLARE: install wardround[flare]\n"
        assert (ran.returncode, ran.stderr) == (2, message)
    assert not out.exists()
