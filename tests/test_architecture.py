"""The rules of the house, read off the source: who may import whom, what is never imported, how long things may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
HOUSE = SOURCE / "wardround"
FILES = sorted(HOUSE.rglob("*.py"))
EVERY_FILE = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))

# A room may import itself and the rooms named here; nobody is named by somebody he imports.
GROUND = {"errors", "settings", "parsing", "plugins", "process_hardening"}
MAY_IMPORT = {
    "errors": set[str](),
    "settings": {"errors"},
    "parsing": set[str](),
    "plugins": {"errors"},
    "process_hardening": set[str](),
    "text": {"errors"},
    "corpora": GROUND | {"text"},
    "evaluation": GROUND | {"text"},
    "reports": GROUND | {"text", "evaluation"},
    "models": GROUND | {"text"},
    "tasks": GROUND | {"text", "evaluation", "models"},
    "redaction": GROUND | {"text", "corpora", "evaluation", "reports", "models", "tasks"},
    "training": GROUND | {"text", "evaluation", "models", "tasks", "federation"},
    "federation": GROUND | {"text", "evaluation", "models", "tasks", "training"},
    "secure_aggregation": GROUND | {"federation", "training"},
    "engines": GROUND | {"federation", "secure_aggregation"},  # a layer of its own, above the seams
    "algorithms": GROUND | {"text", "evaluation", "models", "tasks", "training", "federation", "secure_aggregation"},
}
MAY_IMPORT["studies"] = set(MAY_IMPORT) - {"redaction"}  # a tool beside studies, which only commands call
# "" is the house itself, for its version.
MAY_IMPORT["sweeps"] = GROUND | {"text", "evaluation", "federation", "reports", "studies", ""}  # many studies
MAY_IMPORT["cli"] = {*MAY_IMPORT, ""}

CYCLES: list[set[str]] = [{"federation", "training"}]

# All that an algorithm knows of engines and of cryptography.
DOORS = (
    "wardround.federation.aggregation",
    "wardround.federation.coordinator",
    "wardround.federation.federation",
    "wardround.federation.message",
    "wardround.federation.site_runtime",
    "wardround.secure_aggregation.predictions",
)

# Heavy or dangerous things have one place each: a folder below the house.
ONLY_IN = {
    "torch": (
        "models",
        "tasks",
        "redaction",
        "training",
        "federation",
        "secure_aggregation",
        "algorithms",
        "studies",
        "sweeps",
        "cli",
    ),
    "transformers": ("models",),
    "huggingface_hub": ("models",),
    "cryptography": ("secure_aggregation",),
    "tenseal": ("secure_aggregation",),
    "nvflare": ("federation/engines/flare",),
    "starlette": ("reports/console",),
    "uvicorn": ("reports/console",),
    "jinja2": ("reports/console",),
    "tensorboard": ("reports/tracking",),
    "mlflow": ("reports/tracking",),
}
# A file in one of these can run code when it is read.
NOWHERE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}

LONGEST_FUNCTION, LONGEST_FILE = 60, 500


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room_of(path: Path) -> str:
    """`models` for models/crf.py, `errors` for errors.py, nothing for the house's own __init__."""
    parts = path.relative_to(HOUSE).parts
    if parts[:2] == ("federation", "engines"):
        return "engines"
    first = parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def room_named(name: str) -> str:
    """The room of an imported dotted name of ours."""
    return "engines" if name.startswith("wardround.federation.engines") else name.split(".")[1]


def imports(tree: ast.Module) -> Iterator[str]:
    """The dotted name of everything imported anywhere in the file, functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(tree: ast.Module, *names: str) -> Iterator[ast.Call]:
    """Calls of these dotted names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            yield node


def test_the_house_is_not_empty() -> None:
    assert len(FILES) > 50
    assert {room_of(path) for path in FILES} - {""} <= MAY_IMPORT.keys(), "a new room needs a line in MAY_IMPORT"


@EVERY_FILE
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    ours = {room_named(name) for name in imports(parsed(path)) if name.split(".")[0] == "wardround"}
    # `from wardround import __version__` is an import of the house itself.
    found = {"" if name.startswith("__") else name for name in ours}
    assert found <= MAY_IMPORT.get(room, set()) | {room}


def test_no_two_rooms_import_each_other() -> None:
    for room, rooms in MAY_IMPORT.items():
        assert not [other for other in rooms - {room, ""} if room in MAY_IMPORT[other] and {room, other} not in CYCLES]


@pytest.mark.parametrize("path", sorted((HOUSE / "algorithms").glob("*.py")), ids=lambda path: path.name)
def test_an_algorithm_knows_only_the_two_doors(path: Path) -> None:
    behind = ("wardround.federation", "wardround.secure_aggregation")
    for name in imports(parsed(path)):
        assert not name.startswith(behind) or name.startswith(DOORS), name


@EVERY_FILE
def test_heavy_things_stay_in_their_place(path: Path) -> None:
    folder = path.relative_to(HOUSE).as_posix()
    for package in {name.split(".")[0] for name in imports(parsed(path))} & ONLY_IN.keys():
        assert folder.startswith(tuple(f"{place}/" for place in ONLY_IN[package])), package


@EVERY_FILE
def test_nothing_that_is_read_can_run_code(path: Path) -> None:
    tree = parsed(path)
    assert not {name.split(".")[0] for name in imports(tree)} & NOWHERE
    assert "torch.load" not in set(imports(tree))
    assert not list(calls(tree, "eval", "exec", "torch.load", "__import__"))
    for call in calls(tree, "np.load", "numpy.load"):
        assert "allow_pickle=False" in ast.unparse(call)
    for call in calls(tree, "import_module", "importlib.import_module"):
        assert ast.unparse(call.args[0]).startswith(("'", "f'wardround.")), "what is imported is written down here"
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
            assert path.relative_to(HOUSE).as_posix() == "models/pretrained.py"
            assert ast.unparse(node.value) == "False"


@EVERY_FILE
def test_every_module_says_what_is_public(path: Path) -> None:
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
            assert node.end_lineno - node.lineno + 1 <= LONGEST_FUNCTION, node.name


@EVERY_FILE
def test_every_file_begins_with_what_it_is_for(path: Path) -> None:
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
def test_the_reader_of_imports_sees_everywhere(source: str, expected: list[str]) -> None:
    assert list(imports(ast.parse(source))) == expected


def test_the_reader_of_calls_knows_a_method_from_a_builtin() -> None:
    tree = ast.parse("model.eval()\neval('1')\ntorch.load(path)")
    assert [call.lineno for call in calls(tree, "eval", "torch.load")] == [2, 3]
