"""The rules of the code base, checked on its source: imports between packages, forbidden imports, sizes, docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
ROOT = SOURCE / "wardround"
FILES = sorted(ROOT.rglob("*.py"))
EVERY_FILE = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))

# A package may import itself and the packages named here. "" is the root package, for its version.
BASE = {"errors", "settings", "parsing", "plugins", "process_hardening"}
MAY_IMPORT = {
    "errors": set[str](),
    "settings": {"errors"},
    "parsing": set[str](),
    "plugins": {"errors"},
    "process_hardening": set[str](),
    "text": {"errors"},
    "corpora": BASE | {"text"},
    "evaluation": BASE | {"text"},
    "reports": BASE | {"text", "evaluation"},
    "console": BASE | {"text", "reports"},
    "tracking": BASE | {"reports"},
    "models": BASE | {"text"},
    "tasks": BASE | {"text", "evaluation", "models"},
    "redaction": BASE | {"text", "corpora", "evaluation", "reports", "models", "tasks"},
    "training": BASE | {"text", "evaluation", "models", "tasks"},
    "federation": BASE | {"text", "evaluation", "models", "tasks", "training"},
    "secure_aggregation": BASE | {"federation", "training"},
    "privacy": BASE | {"text", "evaluation", "models", "tasks", "training", "federation", "secure_aggregation"},
    "provisioning": BASE | {"federation", "secure_aggregation"},
    "algorithms": BASE | {"text", "evaluation", "models", "tasks", "training", "federation", "secure_aggregation"},
}
MAY_IMPORT["studies"] = set(MAY_IMPORT) - {"redaction"}  # only commands call redaction
# Of the console only how servers are reached: tokens, hosts, ports.
MAY_IMPORT["serving"] = BASE | {"text", "corpora", "evaluation", "models", "tasks", "redaction", "console", ""}
MAY_IMPORT["sweeps"] = BASE | {"text", "evaluation", "federation", "reports", "studies", ""}
MAY_IMPORT["api"] = {*MAY_IMPORT, ""} - {"sweeps"}
PUBLIC = {"api", "errors", "text"}  # packages whose names `import wardround` offers
MAY_IMPORT["cli"] = {*MAY_IMPORT, ""}

# The modules of federation and secure_aggregation that an algorithm may import.
SEAMS = (
    "wardround.federation.aggregation",
    "wardround.federation.coordinator",
    "wardround.federation.federation",
    "wardround.federation.message",
    "wardround.federation.site_runtime",
    "wardround.federation.unit_privacy",
    "wardround.secure_aggregation.plain",
    "wardround.secure_aggregation.predictions",
)

# The folders that may import heavy or dangerous packages.
ONLY_IN = {
    "torch": (
        "models",
        "tasks",
        "redaction",
        "training",
        "federation",
        "secure_aggregation",
        "privacy",
        "algorithms",
        "serving",
        "studies",
        "sweeps",
        "api",
        "cli",
    ),
    "transformers": ("models",),
    "huggingface_hub": ("models",),
    "cryptography": ("secure_aggregation",),
    "tenseal": ("secure_aggregation",),
    "nvflare": ("federation/engines/flare",),
    "starlette": ("console", "serving", "api"),
    "uvicorn": ("console", "serving"),
    "prometheus_client": ("serving",),
    "onnx": ("serving",),
    "onnxruntime": ("serving",),
    "spacy": ("api", "corpora"),
    "pyarrow": ("corpora",),
    "jinja2": ("console",),
    "tensorboard": ("tracking",),
    "mlflow": ("tracking",),
}
# Reading a file with one of these can run code.
NOWHERE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}

LONGEST_FUNCTION, LONGEST_FILE = 60, 500


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def package_of(path: Path) -> str:
    """Return `models` for models/crf.py, `errors` for errors.py, and "" for the root package's own __init__."""
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted name of every import in the file, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(tree: ast.Module, *names: str) -> Iterator[ast.Call]:
    """Yield the calls of these dotted names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            yield node


def test_every_package_is_listed() -> None:
    assert len(FILES) > 50
    assert {package_of(path) for path in FILES} - {""} <= MAY_IMPORT.keys(), "a new package needs a line in MAY_IMPORT"


@EVERY_FILE
def test_imports_point_one_way(path: Path) -> None:
    package = package_of(path)
    ours = {name.split(".")[1] for name in imports(parsed(path)) if name.split(".")[0] == "wardround"}
    # `from wardround import __version__` imports the root package.
    found = {"" if name.startswith("__") else name for name in ours}
    assert found <= (MAY_IMPORT[package] | {package} if package else PUBLIC)


def test_no_package_imports_itself_through_others() -> None:
    def reachable(package: str) -> set[str]:
        found: set[str] = set()
        ahead = MAY_IMPORT[package] - {""}
        while ahead:
            found |= ahead
            ahead = {other for name in ahead for other in MAY_IMPORT[name]} - found - {""}
        return found

    assert not [package for package in MAY_IMPORT if package in reachable(package)]


@pytest.mark.parametrize("path", sorted((ROOT / "algorithms").glob("*.py")), ids=lambda path: path.name)
def test_an_algorithm_imports_only_the_two_seams(path: Path) -> None:
    guarded = ("wardround.federation", "wardround.secure_aggregation")
    for name in imports(parsed(path)):
        assert not name.startswith(guarded) or name.startswith(SEAMS), name


@EVERY_FILE
def test_heavy_packages_are_imported_only_where_allowed(path: Path) -> None:
    folder = path.relative_to(ROOT).as_posix()
    for package in {name.split(".")[0] for name in imports(parsed(path))} & ONLY_IN.keys():
        assert folder.startswith(tuple(f"{place}/" for place in ONLY_IN[package])), package


@EVERY_FILE
def test_reading_a_file_never_runs_code(path: Path) -> None:
    tree = parsed(path)
    assert not {name.split(".")[0] for name in imports(tree)} & NOWHERE
    assert "torch.load" not in set(imports(tree))
    assert not list(calls(tree, "eval", "exec", "torch.load", "__import__"))
    for call in calls(tree, "np.load", "numpy.load"):
        assert "allow_pickle=False" in ast.unparse(call)
    for call in calls(tree, "import_module", "importlib.import_module"):
        assert ast.unparse(call.args[0]).startswith(("'", "f'wardround.")), "imported modules are literal names"
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
            assert path.relative_to(ROOT).as_posix() == "models/pretrained.py"
            assert ast.unparse(node.value) == "False"


@EVERY_FILE
def test_every_module_declares_its_public_names(path: Path) -> None:
    if path.name in ("__init__.py", "__main__.py"):
        return
    module = import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    public = module.__all__
    assert public
    assert len(set(public)) == len(public)
    for name in public:
        assert hasattr(module, name), name
        assert not name.startswith("_"), name


@EVERY_FILE
def test_functions_and_files_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            # Without the docstring: a public function explains each of its options.
            documented = isinstance(node.body[0], ast.Expr) and len(node.body) > 1
            lines = node.body[0].end_lineno - node.body[0].lineno + 1 if documented else 0
            assert node.end_lineno - node.lineno + 1 - lines <= LONGEST_FUNCTION, node.name


@EVERY_FILE
def test_every_file_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(parsed(path))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch.nn as nn", ["torch.nn"]),
        ("from torch import load", ["torch.load"]),
        ("def f():\n    from wardround.cli import main", ["wardround.cli.main"]),
        ("if TYPE_CHECKING:\n    import pickle", ["pickle"]),
    ],
)
def test_imports_are_found_everywhere(source: str, expected: list[str]) -> None:
    assert list(imports(ast.parse(source))) == expected


def test_calls_of_methods_are_not_calls_of_builtins() -> None:
    tree = ast.parse("model.eval()\neval('1')\ntorch.load(path)")
    assert [call.lineno for call in calls(tree, "eval", "torch.load")] == [2, 3]
