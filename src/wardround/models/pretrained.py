"""The only module that reads Hugging Face files: from local folders, without code, pickles or links outside.

Every load goes through here. A folder is checked before `transformers` reads it: any file that could run code,
unpickle, lead to other files or call a hub is rejected by name. The hub is called for one purpose, an encoder that a
user named by its id: `local_model_folder` downloads its files to the local cache, from where it is loaded like any
other folder.

Functions import `transformers` when they are called: it takes longer to import than everything else together, and most
processes of a study with word models never need it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from wardround.errors import ModelError
from wardround.parsing import MalformedDataError, is_integer, read_json

__all__ = [
    "UnloadableError",
    "check_model_folder",
    "fresh_network",
    "label_settings",
    "load_bart_network",
    "load_configuration",
    "load_encoder_network",
    "load_network_for_tokens",
    "load_tokenizer",
    "local_model_folder",
    "shown_name",
]

_CONFIG = "config.json"
_CONFIGURATIONS = {_CONFIG, "tokenizer_config.json", "generation_config.json", "special_tokens_map.json"}
_INDEX = "model.safetensors.index.json"
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
# The files of a repository that an encoder needs: no code, no pickles, no weights for another framework.
_FILES = ("*.json", "*.txt", "*.model", "model.safetensors", "model-*.safetensors")
_CODE = (".py", ".pyc", ".pyd", ".so", ".dll", ".dylib")
# Keys of a configuration that make `transformers` run or load something other than the folder's own weights.
_UNSAFE_SETTINGS: Mapping[str, str] = {
    "auto_map": "names Python code, which is never run; save the model without it, as a model type of transformers",
    "custom_pipelines": "names Python code, which is never run; save the model without it",
    "transformers_weights": "names other weights than model.safetensors; rename the file, and remove the setting",
    "quantization_config": "needs other software to be read; name the model that was not quantized",
    "kernel_config": "names code of a hub, which is never run; remove the setting",
}
_ATTENTION = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal", "experts_implementation")
# A network is built before its weights are read, so its configuration alone could claim all memory.
_LARGEST = 10_000_000
_MOST_LAYERS = 1_000
_SIZES: Mapping[str, int] = {
    "vocab_size": _LARGEST,
    "type_vocab_size": _LARGEST,
    "max_position_embeddings": _LARGEST,
    "hidden_size": 1_000_000,
    "d_model": 1_000_000,
    "intermediate_size": _LARGEST,
    "encoder_ffn_dim": _LARGEST,
    "decoder_ffn_dim": _LARGEST,
    "num_attention_heads": 100_000,
    "encoder_attention_heads": 100_000,
    "decoder_attention_heads": 100_000,
    "num_hidden_layers": _MOST_LAYERS,
    "encoder_layers": _MOST_LAYERS,
    "decoder_layers": _MOST_LAYERS,
}


class UnloadableError(ModelError):
    """A folder contains no model that `transformers` can load; the caller says what was expected."""


def local_model_folder(source: str, *, offline: bool, files: Sequence[str] = _FILES) -> str:
    """Return the folder of a model named by folder or Hugging Face id.

    Args:
        source: a folder, or an id, whose files are then downloaded to the local cache.
        offline: look for an id in the local cache only. It may be False only if a user has just named the id; the
            origin that a saved model states is no reason to call a hub.
        files: patterns of the files to download.
    """
    if Path(source).is_dir():
        return source
    name = Path(source).name
    if not _ID.fullmatch(source):
        raise ModelError(
            f"no encoder or tokenizer could be loaded from {name!r}: there is no such folder, and a Hugging Face id is "
            "written owner/name"
        )
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(source, allow_patterns=list(files), local_files_only=offline)
    except Exception as error:  # the hub, the network and the cache raise many kinds of errors
        remedy = "name a folder of this machine" if offline else "fetch it first, or name a folder"
        raise ModelError(
            f"no encoder or tokenizer could be loaded from {name!r}: the encoder {source!r} is not on this machine; "
            f"{remedy}"
        ) from error


def shown_name(folder: str) -> str:
    """Return the name of a folder for error messages: its own name, or the id if it is in the hub's cache."""
    path = Path(folder).absolute()
    if path.parent.name == "snapshots":
        return path.parent.parent.name.removeprefix("models--").replace("--", "/")
    return path.name


def load_configuration(folder: str) -> Any:
    """Return the configuration of a model; like every loader here, raise `UnloadableError` if that fails."""
    with _checked(folder):
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)


def load_tokenizer(folder: str, *, options: Mapping[str, Any]) -> Any:
    """Return the tokenizer of a model; `options` are its settings, such as `model_max_length`."""
    with _checked(folder):
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True, **options)


def load_encoder_network(folder: str) -> Any:
    """Return an encoder with its weights."""
    with _checked(folder):
        from transformers import AutoModel

        return AutoModel.from_pretrained(
            folder, use_safetensors=True, trust_remote_code=False, local_files_only=True, dtype=torch.float32
        )


def load_network_for_tokens(folder: str, *, labels: Sequence[str], fresh: bool) -> tuple[Any, list[str]]:
    """Return an encoder that scores tokens, and the names of weights that the folder lacks.

    Args:
        folder: the folder of the saved network, or of an encoder.
        labels: the labels of a token; by default those of the folder.
        fresh: accept weights of other shapes: an encoder that was trained for other labels gets a new output layer.
    """
    with _checked(folder):
        from transformers import AutoModelForTokenClassification

        network, report = AutoModelForTokenClassification.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            dtype=torch.float32,
            ignore_mismatched_sizes=fresh,
            output_loading_info=True,
            **label_settings(labels),
        )
    return network, list(report["missing_keys"])


def load_bart_network(folder: str) -> tuple[Any, list[str]]:
    """Return a BART without its output layer, and the names of weights that the folder lacks."""
    with _checked(folder):
        from transformers import BartModel

        found: Any = BartModel.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    network, report = found
    return network, list(report["missing_keys"])


def label_settings(labels: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a configuration for these labels; empty without labels."""
    if not labels:
        return {}
    rows = {label: row for row, label in enumerate(labels)}
    return {"num_labels": len(labels), "id2label": dict(enumerate(labels)), "label2id": rows}


def fresh_network(configuration: Any) -> Any:
    """Return a network that scores tokens, with random weights."""
    from transformers import AutoModelForTokenClassification

    return AutoModelForTokenClassification.from_config(configuration, trust_remote_code=False)  # type: ignore[no-untyped-call]


def check_model_folder(folder: Path) -> None:
    """Raise `ModelError` if a folder contains anything that could run code or lead elsewhere when it is loaded.

    That is: Python and machine code; links out of the folder; pipes and devices; an adapter, which names another model
    as its base; an index of weights other than safetensors files of this folder; and configurations with an `auto_map`
    or similar keys, with endless nesting, or with unbounded sizes.
    """
    base, called = Path(os.path.realpath(folder)), shown_name(str(folder))
    # The hub's cache stores the files of a snapshot in a folder beside it, named by their digests.
    homes = (base, base.parent.parent / "blobs") if base.parent.name == "snapshots" else (base,)
    for path in sorted(base.rglob("*")):
        name = f"{called}/{path.relative_to(base).as_posix()}"
        if path.is_symlink() and not any(Path(os.path.realpath(path)).is_relative_to(home) for home in homes):
            raise ModelError(f"{name} is a link out of the folder; put the file itself there")
        if path.is_dir():
            continue
        if not path.is_file():
            raise ModelError(f"{name} is not a plain file; remove it")
        if path.suffix in _CODE:
            raise ModelError(f"{name} is Python or machine code, and a model consists of data only; remove it")
        if path.name == "adapter_config.json":
            raise ModelError(f"{name} belongs to an adapter, which names another model as its base; merge them")
        if path.suffix == ".json":
            _check_json(path, name, is_top=path.parent == base)


@contextmanager
def _checked(folder: str) -> Iterator[None]:
    """Check the folder before the body loads from it; turn any error of the body into `UnloadableError`."""
    if not Path(folder).is_dir():
        raise UnloadableError(f"there is no folder {shown_name(folder)!r}")
    check_model_folder(Path(folder))
    try:
        yield
    except Exception as error:
        raise UnloadableError(f"{shown_name(folder)} contains no model that can be loaded") from error


def _check_json(path: Path, name: str, *, is_top: bool) -> None:
    is_configuration = is_top and path.name in _CONFIGURATIONS
    try:
        # Files that only a trainer reads may contain NaN.
        found = read_json(path, finite=is_configuration)
    except MalformedDataError as error:
        raise ModelError(f"{name} {error}; save the model again") from None
    except OSError as error:
        raise ModelError(f"{name} cannot be read ({error.strerror})") from None
    if is_configuration and not isinstance(found, dict):
        raise ModelError(f"{name} is not a JSON object; save the model again")
    for key, value in _settings_in(found):
        # Keys with numbers as values are words of a vocabulary, which can be any text.
        if key in _UNSAFE_SETTINGS and isinstance(value, str | dict | list):
            raise ModelError(f"{name}: {key!r} {_UNSAFE_SETTINGS[key]}")
        if key in _ATTENTION and "/" in json.dumps(value):
            raise ModelError(f"{name}: {key!r} names code of a hub, which is never run; remove the setting")
        if key in _SIZES and path.name == _CONFIG and value is not None:
            if not is_integer(value) or not 0 <= value <= _SIZES[key]:
                shown = str(value) if isinstance(value, int | float) else f"of type {type(value).__name__}"
                raise ModelError(f"{name}: {key!r} is {shown}; it must be a whole number from 0 to {_SIZES[key]:,}")
    if path.name == _INDEX:
        _check_index(found, name)


def _settings_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key of every object in a JSON value, with its value."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield from found.items()
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found


def _check_index(index: Any, name: str) -> None:
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict):
        raise ModelError(f"{name} has no weight_map; save the model again")
    for file in files.values():
        if not isinstance(file, str) or PurePosixPath(file).name != file or not file.endswith(".safetensors"):
            shown = PurePosixPath(file).name if isinstance(file, str) else type(file).__name__
            raise ModelError(f"{name} names {shown!r}, which is not a safetensors file of the folder; save it again")
