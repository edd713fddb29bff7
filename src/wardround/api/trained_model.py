"""A trained model for Python users: call it with a text, stream many texts through it, save it for others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wardround.errors import ModelError, UsageError
from wardround.evaluation.calibration import Calibration
from wardround.models.cards import CARD, ONNX, model_card
from wardround.reports.model_page import model_readme, model_table
from wardround.tasks.mentions import Predictor
from wardround.text.document import Document

if TYPE_CHECKING:  # imported where they are used: an ONNX model is loaded without torch
    from wardround.tasks.task import Task

__all__ = ["Model", "as_document", "load", "model_folder"]

_HUB_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")


class Model:
    """A trained model. `load`, `train` and `run` return models; a model is called with a text or a document.

    >>> import wardround
    >>> model = wardround.load("model")
    >>> note = model("The patient took aspirin.")
    >>> isinstance(note, wardround.Document), "Drug" in model.types
    (True, True)
    """

    def __init__(self, predictor: Predictor, card: Mapping[str, Any] | None = None) -> None:
        """Wrap a task with its model, or an ONNX model; `card` is what the model's folder says about it."""
        self.predictor, self.card = predictor, dict(card or {})
        notes = self.card.get("notes")
        noted = notes.get("calibration") if isinstance(notes, Mapping) else None
        noted = noted if isinstance(noted, Mapping) else {}
        self._calibrations = {
            kind: calibration for kind, values in noted.items() if (calibration := Calibration.from_values(values))
        }

    @property
    def task(self) -> Task:
        """Return the task with its network; raise `ModelError` for an ONNX model, which has no network to train."""
        from wardround.tasks.task import Task

        if not isinstance(self.predictor, Task):
            raise ModelError("an ONNX model only predicts; load the model that it was exported from")
        return self.predictor

    def scoring_task(self, *, leakage: bool | None = None) -> Task:
        """Return a task that scores the model; `leakage` as in `wardround.evaluate`."""
        from wardround.serving.onnx_model import OnnxPredictor
        from wardround.tasks.task_table import task_of

        if isinstance(self.predictor, OnnxPredictor):
            return self.predictor.scoring_task(leakage=leakage)
        return task_of(self.task.model, leakage=leakage)

    @property
    def types(self) -> tuple[str, ...]:
        """Return the types of entities that the model finds, or relates."""
        return self.predictor.entity_types

    @property
    def is_calibrated(self) -> bool:
        """Return whether scores of entities were calibrated on development notes; if not, they are the model's own."""
        return "entities" in self._calibrations

    def __call__(self, text: str | Document) -> Document:
        """Return the text as a document with the entities and relations that the model finds in it.

        For relations among given entities, pass a document that has the entities.
        """
        return next(self.pipe([text]))

    def pipe(self, texts: Iterable[str | Document], *, batch_size: int = 64) -> Iterator[Document]:
        """Yield each text as a document with predictions, in order, in constant memory.

        Args:
            texts: texts or documents; annotation of documents is replaced.
            batch_size: documents that are read before the first is returned; their sentences share batches.

        >>> import wardround
        >>> model = wardround.load("model")
        >>> [note.id for note in model.pipe(["No fever.", wardround.Document("b", "Aspirin.")])]
        ['1', 'b']
        """
        if batch_size < 1:
            raise UsageError(f"batch_size is {batch_size}; it must be above zero")
        if isinstance(texts, str | Document):
            raise UsageError("pipe reads several texts: pass a list, or call the model with the one text")
        return self._piped(texts, batch_size)

    def _piped(self, texts: Iterable[str | Document], batch_size: int) -> Iterator[Document]:
        documents = (as_document(text, number) for number, text in enumerate(texts, start=1))
        while batch := list(islice(documents, batch_size)):
            for document in self.predictor.predict(batch, scored=True):
                yield self._calibrated(document)

    def to(self, device: str) -> Model:
        """Move the model to a device: auto, cpu, cuda or cuda:N."""
        from wardround.studies.single_site import pick_device

        self.task.model.to(pick_device(device))
        return self

    def save(self, folder: str | Path) -> Path:
        """Write the model to a folder, with a README that serves as a model card on a model hub.

        A model that is there already is replaced; a folder with other files is refused.

        >>> import wardround
        >>> folder = wardround.load("model").save("copy")
        >>> sorted(path.name for path in folder.iterdir() if path.suffix != ".txt")
        ['README.md', 'model.safetensors', 'wardround.json']
        """
        from wardround.models.saved import save_model

        path = Path(folder)
        save_model(self.task.model, path, notes=self.card.get("notes"))
        (path / "README.md").write_text(model_readme(model_card(path), name=path.name), encoding="utf-8")
        return path

    def export(self, folder: str | Path, *, int8: bool = False) -> Path:
        """Write a tagger to a new folder as an ONNX model, which `load` opens without torch.

        Args:
            folder: the new folder.
            int8: whether weights of matrix products have 8 bits, which makes encoders smaller and faster.

        >>> import wardround
        >>> folder = wardround.load("model").export("exported")
        >>> wardround.load(folder)("The patient took aspirin.").id
        '1'
        """
        from wardround.serving.onnx_export import export_onnx

        export_onnx(self.task.model, Path(folder), notes=self.card.get("notes"), int8=int8)
        return Path(folder)

    def _calibrated(self, document: Document) -> Document:
        if not self._calibrations:
            return document
        entities = tuple(self._with_calibrated(entity, "entities") for entity in document.entities)
        relations = tuple(self._with_calibrated(relation, "relations") for relation in document.relations)
        return replace(document, entities=entities, relations=relations)

    def _with_calibrated(self, found: Any, kind: str) -> Any:
        calibration = self._calibrations.get(kind)
        if calibration is None or found.score is None:
            return found
        return replace(found, score=calibration(found.score))

    def __repr__(self) -> str:
        return f"Model({self.predictor.model.kind}: {', '.join(self.types)})"

    def _repr_html_(self) -> str:
        return model_table(self.card, name=repr(self)).to_html() if self.card else repr(self)


def as_document(note: str | Document, number: int) -> Document:
    """Return a text as a document whose id is its number; a document stays as it is."""
    if isinstance(note, Document):
        return note
    if not isinstance(note, str):
        raise UsageError(f"a note is a text or a wardround.Document, not {type(note).__name__}")
    return Document(str(number), note)


def load(source: str | Path, *, device: str = "auto") -> Model:
    """Load a trained model.

    Args:
        source: a model's folder, the run folder around it, or the id of a model on the Hugging Face hub. Only an id
            that is no folder here is downloaded; nothing in a folder is ever run.
        device: auto, cpu, cuda or cuda:N.

    >>> import wardround
    >>> wardround.load("model").types
    ('ADE', 'Drug')
    """
    folder = model_folder(source)
    card = model_card(folder)
    if card["kind"] == ONNX:
        from wardround.serving.onnx_model import load_onnx

        if device not in ("auto", "cpu"):
            raise UsageError(f"device is {device!r}, and an ONNX model runs on the processor: use cpu")
        return Model(load_onnx(folder, card), card)
    from wardround.models.saved import load_model
    from wardround.studies.single_site import pick_device
    from wardround.tasks.task_table import task_of

    return Model(task_of(load_model(folder).to(pick_device(device))), card)


def model_folder(source: str | Path) -> Path:
    """Return the folder of a model: the folder itself, `model` in a run folder, or that of a downloaded id."""
    path = Path(source)
    for folder in (path, path / "model"):
        if (folder / CARD).is_file():
            return folder
    if path.exists():
        sites = sorted(found.parent.parent.name for found in path.glob(f"sites/*/model/{CARD}"))
        remedy = (
            f"it is the run of a study: name the model of one of its sites, such as sites/{sites[0]}/model"
            if sites
            else "name the folder that a training wrote, or the folder `model` in it"
        )
        raise ModelError(f"{path.name or path} holds no model: {remedy}")
    from wardround.models.pretrained import local_model_folder

    try:
        return Path(local_model_folder(str(source), offline=False, files=_HUB_FILES))
    except ModelError:
        raise ModelError(
            f"there is no folder {path.name!r}, and no model of this id could be downloaded; train one with "
            "wardround.train or `wardround train`"
        ) from None
