"""What `import wardround` does, and what it does not do."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import wardround

SOURCE = Path(wardround.__file__)


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_import_prints_nothing_and_loads_no_heavy_package() -> None:
    heavy = ("torch", "numpy", "transformers", "matplotlib", "pandas", "rich", "typer", "IPython")
    assert python("import wardround") == ""
    assert python(f"import sys, wardround; print([n for n in {heavy} if n in sys.modules])").strip() == "[]"


def test_documents_can_be_built_without_torch() -> None:
    code = "import sys, wardround; wardround.Document('1', 'x'); print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert python(code).split() == ["False", "False"]


def test_corpora_can_be_read_without_torch(tmp_path: Path) -> None:
    code = f"""
import sys, wardround
path = wardround.write([wardround.Document("1", "Fever.")], {str(tmp_path / "x.jsonl")!r})
wardround.check(path, "jsonl"), wardround.split(wardround.read(path, "jsonl"), dev=0, test=0)
print("torch" in sys.modules)
"""
    assert python(code).strip() == "False"


def test_every_public_name_is_there_and_has_a_home() -> None:
    for name in wardround.__all__:
        assert getattr(wardround, name) is not None
    assert len(wardround.__all__) == len(set(wardround.__all__))
    assert set(wardround.__all__) == {*wardround._HOME, "__version__"}


def test_type_checkers_see_the_names_that_are_loaded_lazily() -> None:
    """The imports under TYPE_CHECKING and the table of lazy names are the same."""
    (block,) = [node for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == {name: f"wardround.{module}" for name, module in wardround._HOME.items()}


def test_a_name_is_the_object_of_its_module() -> None:
    for name, module in wardround._HOME.items():
        assert getattr(wardround, name) is getattr(import_module(f"wardround.{module}"), name)


def test_dir_lists_the_public_names_before_they_are_loaded() -> None:
    assert set(python("import wardround; print(*dir(wardround))").split()) >= set(wardround.__all__)


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'wardround' has no attribute 'trian'"):
        wardround.trian  # noqa: B018
    assert not hasattr(wardround, "fit")
    with pytest.raises(ImportError):
        from wardround import trian  # noqa: F401


def test_star_imports_every_public_name() -> None:
    assert set(python("from wardround import *; print(*dir())").split()) >= set(wardround.__all__)
