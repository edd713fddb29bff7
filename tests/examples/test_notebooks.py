"""Every notebook runs from the first to the last cell, at its smallest size."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import wardround

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples" / "notebooks").glob("*.ipynb"))
EVERY = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
SECONDS = 120  # for one cell; only ends a notebook that hangs


def code_of(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_there_are_five() -> None:
    assert [path.stem[0] for path in NOTEBOOKS] == ["1", "2", "3", "4", "5"]


@EVERY
def test_a_notebook_is_committed_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        assert not cell.get("outputs"), "clear the outputs before you commit"
        assert cell.get("execution_count") is None
    assert cells[0]["cell_type"] == "markdown"


@EVERY
def test_a_notebook_uses_the_public_api_only(path: Path) -> None:
    for code in code_of(path):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= {"os", "tempfile", "wardround"}
            elif isinstance(node, ast.ImportFrom):
                assert node.module == "pathlib"
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "wardround":
                assert node.attr in wardround.__all__
                assert not node.attr.startswith("_")


@EVERY
def test_the_first_cell_says_how_to_run_it_quickly(path: Path) -> None:
    first = code_of(path)[0]
    assert 'os.environ.get("WARDROUND_QUICK")' in first
    assert "its scores then mean nothing" in first


@pytest.mark.slow
@EVERY
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat: Any = pytest.importorskip("nbformat", reason="nbformat is not installed: the extra notebook has it")
    nbclient: Any = pytest.importorskip("nbclient", reason="nbclient is not installed: the extra notebook has it")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: the extra notebook has it")
    pytest.importorskip("pandas", reason="pandas is not installed: the extra notebook has it")
    monkeypatch.setenv("WARDROUND_QUICK", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(wardround.__file__).parents[1]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    (tmp_path / "here").mkdir()
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(tmp_path / "here")}}
    ).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    # A reader may be told that gold annotations of other types are ignored; nothing else is printed there.
    errors = [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    assert not [text for text in errors if "CorpusWarning: " not in text or "is not used: " not in text]
    shown = "".join("".join(output.data.get("text/html", "")) for output in outputs if "data" in output)
    assert "<table>" in shown
    assert "data:image/svg+xml" in shown or path.stem.startswith("4")
    assert not list((tmp_path / "here").iterdir()), "a notebook writes into a temporary folder only"
