from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models.tiny import notes, word_tagger

import wardround
from wardround.algorithms.algorithm import SharedLayers
from wardround.algorithms.fedner import FedNer
from wardround.federation.coordinator import Coordinator
from wardround.federation.site_runtime import PublicSet
from wardround.studies import catalogue
from wardround.studies.catalogue import ALGORITHMS
from wardround.tasks.ner import NerTask
from wardround.training.training_config import RoundTrainingConfig

SHARED = {"w": np.zeros(2, np.float32)}


def test_every_algorithm_has_its_name() -> None:
    first = ["fedner", "fedavg", "fedprox", "fedatt", "feded", "public"]
    assert list(ALGORITHMS) == [*first, "tagsets", "adversarial", "single", "pooled"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_a_name_stands_for(name: str) -> None:
    kind = ALGORITHMS[name]
    assert issubclass(kind.server, Coordinator)
    assert bool(kind.steps) == (name != "public")  # which asks nobody
    assert kind.description.endswith(".")
    assert kind.config.rounds > 0
    # The defaults are those with which the server can be built as it stands.
    shared = {} if kind.shared_layers is SharedLayers.NONE else SHARED
    assert kind.server(shared, kind.config, kind.training, **(at_hand() if kind.central_model else {})).number == 0


def at_hand() -> dict[str, Any]:
    """What a coordinator needs that has the model to itself."""
    task = NerTask(word_tagger())
    return {"task": task, "public": PublicSet(task.encode(notes(1)))}


def test_who_decides_what_is_shared() -> None:
    decided = {
        name: kind.shared_layers
        for name, kind in ALGORITHMS.items()
        if kind.shared_layers is not SharedLayers.CONFIGURED
    }
    baselines = {"single": SharedLayers.NONE, "pooled": SharedLayers.ALL_COMMON}
    assert decided == dict.fromkeys(("feded", "public", "tagsets", "adversarial"), SharedLayers.ALL) | baselines


def test_algorithms_that_complete_annotation_learn_entities_and_keep_the_last_round() -> None:
    alike = {name for name, kind in ALGORITHMS.items() if kind.tasks == ("ner",)}
    assert alike == {name for name, kind in ALGORITHMS.items() if kind.keep == "last"} == {"tagsets", "adversarial"}


def test_algorithms_with_a_central_model_need_a_public_set() -> None:
    assert {name for name, kind in ALGORITHMS.items() if kind.central_model} == {"feded", "public"}
    assert {name for name, kind in ALGORITHMS.items() if kind.needs_public_set} == {"feded", "public"}


def test_the_batch_of_fedner_is_that_of_all_sites_together() -> None:
    assert ALGORITHMS["fedner"].training == ALGORITHMS["pooled"].training == RoundTrainingConfig(batch_size=64)
    assert {ALGORITHMS[name].training.batch_size for name in ("fedavg", "fedprox", "fedatt", "single")} == {16}


def test_algorithms_that_distil_have_the_learning_rate_of_encoders() -> None:
    assert ALGORITHMS["feded"].training == ALGORITHMS["public"].training
    assert ALGORITHMS["feded"].training == RoundTrainingConfig(batch_size=16, learning_rate=5e-5)


def test_pooling_is_fedner_with_everything_shared() -> None:
    # The mean gradient of all sites is the gradient of all notes: one mini-batch between two exchanges.
    assert ALGORITHMS["pooled"].server is FedNer
    assert ALGORITHMS["pooled"].config == ALGORITHMS["fedner"].config
    assert ALGORITHMS["pooled"].config.local_steps == 1  # type: ignore[attr-defined]


# A new algorithm is one file and one line.

SOURCE = Path(wardround.__file__).parent
METHOD_CODE = {"algorithm", "distillation"}  # modules of the package that declare no algorithm
# Names that mean nothing else in the code; `fedner` is a preset too, `public` a section, `single` a word.
UNMISTAKABLE = {"fedavg", "fedprox", "fedatt", "feded", "tagsets", "adversarial", "pooled"}


def test_every_algorithm_file_is_one_line_of_the_catalogue() -> None:
    files = {path.stem for path in (SOURCE / "algorithms").glob("*.py")} - METHOD_CODE - {"__init__"}
    assert files == set(catalogue._MODULES)
    assert all(import_module(f"wardround.algorithms.{name}").ALGORITHM.name in ALGORITHMS for name in files)


def test_the_descriptions_that_are_read_from_the_files_are_those_of_the_algorithms() -> None:
    assert catalogue.algorithm_descriptions() == {name: kind.description for name, kind in ALGORITHMS.items()}
    assert list(catalogue.algorithm_descriptions()) == list(ALGORITHMS)


@pytest.mark.parametrize(
    "source",
    [
        "ALGORITHM = build()",  # no declaration that can be read
        "ALGORITHM = Algorithm(name=NAME, description='It.')",  # a computed name
        "ALGORITHM: Algorithm = Algorithm(name='fedavg', description='It.')",
        None,  # a package without sources
    ],
)
def test_a_declaration_that_cannot_be_read_is_imported(
    source: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source is not None:
        (tmp_path / "fedavg.py").write_text(source)
    monkeypatch.setattr(catalogue, "files", lambda package: tmp_path)
    assert catalogue._declaration("fedavg") == ("fedavg", ALGORITHMS["fedavg"].description)


def test_the_module_has_no_other_computed_attribute() -> None:
    assert next(iter(ALGORITHMS)) == catalogue.DEFAULT_ALGORITHM
    with pytest.raises(AttributeError, match="no attribute 'ALGORITHM'"):
        catalogue.ALGORITHM  # noqa: B018


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(SOURCE.rglob("*.py")) if path.parent.name != "algorithms"],
    ids=lambda path: path.relative_to(SOURCE).as_posix(),
)
def test_no_other_file_knows_an_algorithm(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("wardround.algorithms"):
            assert node.module == "wardround.algorithms.algorithm"
        if isinstance(node, ast.Constant) and path.name not in ("catalogue.py", "demo.py"):  # the demo is three studies
            assert node.value not in UNMISTAKABLE
