"""Attacks by a foreign model folder: run code, load pickles, contact a hub, read files outside the folder."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.running import QUICK, TEST, TRAIN, write_site
from tests.models.tiny import TYPES, word_tagger, write_encoder
from transformers import AutoModelForTokenClassification

from wardround.errors import ModelError
from wardround.models.contextual import ContextualEmbedding
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.families import ModelChoice
from wardround.models.light_ner import load_bart
from wardround.models.saved import load_model, save_model
from wardround.studies.transfer_run import target_network

ROOT = Path(__file__).resolve().parents[2]
GATE = ROOT / "src" / "wardround" / "models" / "pretrained.py"
HUB_ID = "somebody/encoder"

# Every name by which the folder's code is asked for, under a kind of model that transformers does not know.
HOSTILE_MAP = {
    "AutoConfig": "payload.PayloadConfig",
    "AutoModel": "payload.PayloadModel",
    "AutoModelForTokenClassification": "payload.PayloadModel",
    "AutoTokenizer": [None, "payload.PayloadTokenizer"],
}
PAYLOAD = """
from pathlib import Path

Path({marker!r}).write_text("the folder's code ran")
from transformers import BertConfig as PayloadConfig, BertModel as PayloadModel, BertTokenizer as PayloadTokenizer
"""


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    return write_encoder(tmp_path / "encoder")


@pytest.fixture
def saved(encoder: Path, tmp_path: Path) -> Path:
    """Return the folder of a saved encoder tagger."""
    save_model(EncoderTagger(EncoderTaggerConfig(encoder=str(encoder)), TYPES), tmp_path / "saved")
    return tmp_path / "saved"


def change(file: Path, **values: Any) -> None:
    """Set keys of a JSON file."""
    found = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps(found | values))


def hostile(folder: Path, marker: Path) -> None:
    """Add Python to a model folder, and name it wherever transformers looks for code."""
    (folder / "payload.py").write_text(PAYLOAD.format(marker=str(marker)))
    change(folder / "config.json", auto_map=HOSTILE_MAP, model_type="payload")
    change(folder / "tokenizer_config.json", auto_map=HOSTILE_MAP)


def process(*words: str | Path, answers: str = "", environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Run Python in another process with `answers` on standard input; return its exit code and output."""
    started = subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **(environment or {})},
    )
    try:
        said, _ = started.communicate(answers, timeout=300)
    except subprocess.TimeoutExpired:  # of which what it did until then is looked at
        started.kill()
        said, _ = started.communicate()
    return started.returncode, said


# Code.


def test_training_from_a_folder_with_code_asks_no_question_and_runs_no_code(encoder: Path, tmp_path: Path) -> None:
    """Without an option, `transformers` asks "[y/N]": a `y` on standard input ran the folder's Python."""
    hostile(encoder, tmp_path / "ran")
    data = write_site(tmp_path / "ward", train=TRAIN[:4], dev=TRAIN[4:6], test=TEST[:2])
    words = ("train", data, "--format", "brat", "--out", tmp_path / "run", "--encoder", encoder, *QUICK)
    code, said = process("-m", "wardround.cli.main", *words, answers="y\n" * 20)
    assert not (tmp_path / "ran").exists()
    assert "y/N" not in said
    assert code == 2
    assert "encoder/config.json: 'auto_map' names Python code" in said
    assert str(tmp_path) not in said


def test_predicting_with_a_saved_model_runs_no_code_of_its_folder(saved: Path, tmp_path: Path) -> None:
    hostile(saved, tmp_path / "ran")
    (tmp_path / "note.txt").write_text("Took aspirin.")
    code, said = process("-m", "wardround.cli.main", "predict", saved, tmp_path / "note.txt", answers="y\n" * 20)
    assert not (tmp_path / "ran").exists()
    assert "y/N" not in said
    assert code == 2
    assert "saved/config.json: 'auto_map' names Python code" in said


LOADERS: dict[str, Callable[[Path], object]] = {
    "encoder tagger": lambda folder: EncoderTagger(EncoderTaggerConfig(encoder=str(folder)), TYPES),
    "contextual": lambda folder: ContextualEmbedding(str(folder)),
    "bart": lambda folder: load_bart(str(folder)),
}


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "generation_config.json", "processor.json"])
def test_a_configuration_that_names_code_is_refused_by_name(
    encoder: Path, file: str, load: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if `transformers` has its own class for the model and would ignore the code today."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    change(encoder / file, auto_map=HOSTILE_MAP)
    with pytest.raises(ModelError, match=rf"encoder/{file}: 'auto_map' names Python code, .* save the model"):
        load(encoder)


def test_an_escaped_or_nested_name_of_code_is_found_too(encoder: Path) -> None:
    (encoder / "extra.json").write_text('{"text_config": [{"auto\\u005fmap": {"AutoConfig": "payload.P"}}]}')
    with pytest.raises(ModelError, match=r"encoder/extra\.json: 'auto_map' names Python code"):
        LOADERS["encoder tagger"](encoder)


def test_a_word_of_a_vocabulary_is_not_taken_for_code(encoder: Path) -> None:
    (encoder / "vocab.json").write_text('{"auto_map": 17, "quantization_config": 18}')
    LOADERS["encoder tagger"](encoder)


@pytest.mark.parametrize("name", ["payload.py", "deeper/payload.py", "payload.pyc", "payload.so"])
def test_a_folder_with_python_is_refused(encoder: Path, name: str) -> None:
    (encoder / name).parent.mkdir(exist_ok=True)
    (encoder / name).write_bytes(b"")
    with pytest.raises(ModelError, match=rf"encoder/{name} is Python or machine code, .* remove it"):
        LOADERS["encoder tagger"](encoder)


# Weights.


def test_an_index_cannot_lead_to_a_pickle(encoder: Path) -> None:
    """`use_safetensors=True` checks only the name of the index: the shards that it lists were unpickled."""
    weights = AutoModelForTokenClassification.from_pretrained(encoder).state_dict()
    (encoder / "model.safetensors").unlink()
    torch.save(weights, encoder / "weights.bin")
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "weights.bin")}
    (encoder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"model\.safetensors\.index\.json names 'weights\.bin', .* safetensors"):
        LOADERS["encoder tagger"](encoder)


def test_an_index_cannot_lead_out_of_the_folder(encoder: Path, tmp_path: Path) -> None:
    weights = AutoModelForTokenClassification.from_pretrained(encoder).state_dict()
    (encoder / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "../elsewhere.safetensors")}
    (encoder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"model\.safetensors\.index\.json names"):
        LOADERS["encoder tagger"](encoder)


def test_an_adapter_beside_the_weights_is_not_loaded_with_them(encoder: Path) -> None:
    """PEFT's file names another model as its base, on the hub or on this machine, and `transformers` follows it."""
    change(encoder / "adapter_config.json", peft_type="LORA", base_model_name_or_path=HUB_ID, r=2)
    with pytest.raises(ModelError, match=r"encoder/adapter_config\.json belongs to an adapter, .* merge"):
        LOADERS["encoder tagger"](encoder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("transformers_weights", "adapter_model.bin"),
        ("quantization_config", {"quant_method": "bitsandbytes", "load_in_8bit": True}),
        ("_attn_implementation", "somebody/kernel"),
        ("attn_implementation", "somebody/kernel"),
    ],
)
def test_a_configuration_that_leads_elsewhere_is_refused(encoder: Path, key: str, value: object) -> None:
    change(encoder / "config.json", **{key: value})
    with pytest.raises(ModelError, match=rf"encoder/config\.json: '{key}' "):
        LOADERS["encoder tagger"](encoder)


# Files outside, and absurd ones.


def test_a_link_out_of_the_folder_is_refused(encoder: Path, tmp_path: Path) -> None:
    """If the vocabulary were a link to notes, the notes would become part of the saved and shared model."""
    (tmp_path / "notes.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nMrs\nQuillwort\n")
    (encoder / "tokenizer.json").unlink()
    (encoder / "vocab.txt").unlink(missing_ok=True)
    (encoder / "vocab.txt").symlink_to(tmp_path / "notes.txt")
    with pytest.raises(ModelError, match=r"encoder/vocab\.txt is a link out of the folder; put the file itself there"):
        LOADERS["encoder tagger"](encoder)


def test_a_link_into_the_cache_of_the_hub_is_allowed(encoder: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--somebody--encoder" / "snapshots" / "0123"
    blobs = tmp_path / "models--somebody--encoder" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(encoder.iterdir())):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    LOADERS["encoder tagger"](snapshot)
    # A blob that is itself a link leads out of the folder too.
    (tmp_path / "outside").write_text("{}")
    (blobs / "out").symlink_to(tmp_path / "outside")
    (snapshot / "more.json").symlink_to(Path("../../blobs/out"))
    with pytest.raises(ModelError, match=r"somebody/encoder/more\.json is a link out of the folder"):
        LOADERS["encoder tagger"](snapshot)


def test_a_saved_model_is_checked_like_an_encoder(tmp_path: Path) -> None:
    save_model(word_tagger(), tmp_path / "saved")
    (tmp_path / "saved" / "model.safetensors").rename(tmp_path / "elsewhere")
    (tmp_path / "saved" / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match=r"saved/model\.safetensors is a link out of the folder"):
        load_model(tmp_path / "saved")


def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(encoder: Path) -> None:
    os.mkfifo(encoder / "generation_config.json")
    with pytest.raises(ModelError, match=r"encoder/generation_config\.json is not a plain file"):
        LOADERS["encoder tagger"](encoder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": ' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
        ('{"vocab_size": ' + "9" * 5000 + "}", "too many digits"),
        ('{"hidden_dropout_prob": NaN}', "NaN"),
        ("[]", "not a JSON object"),
        ("{", "no JSON"),
    ],
    ids=["deep", "long number", "NaN", "list", "broken"],
)
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_an_absurd_configuration_is_refused_by_name(encoder: Path, file: str, text: str, message: str) -> None:
    (encoder / file).write_text(text)
    with pytest.raises(ModelError, match=rf"encoder/{file} .*{message}"):
        LOADERS["encoder tagger"](encoder)


def test_a_configuration_that_fills_the_memory_is_not_read(encoder: Path) -> None:
    os.truncate(encoder / "config.json", 10**12)
    with pytest.raises(ModelError, match=r"encoder/config\.json is larger than"):
        LOADERS["encoder tagger"](encoder)


@pytest.mark.parametrize(
    ("key", "value"), [("num_hidden_layers", 10**9), ("vocab_size", 10**12), ("hidden_size", True), ("vocab_size", "a")]
)
def test_a_network_of_absurd_size_is_not_built(encoder: Path, key: str, value: object) -> None:
    change(encoder / "config.json", **{key: value})
    with pytest.raises(ModelError, match=rf"encoder/config\.json: '{key}' is .* whole number from 0 to"):
        LOADERS["encoder tagger"](encoder)


def test_a_card_of_absurd_size_is_not_built(tmp_path: Path) -> None:
    save_model(word_tagger(), tmp_path / "saved")
    card = json.loads((tmp_path / "saved" / "wardround.json").read_text())
    card["config"]["word_buckets"] = 10**13
    (tmp_path / "saved" / "wardround.json").write_text(json.dumps(card))
    with pytest.raises(ModelError, match="word_buckets is 10000000000000; it must be at most"):
        load_model(tmp_path / "saved")


@pytest.mark.parametrize("text", ['{"a": ' * 100_000, '{"format": ' + "9" * 5000 + "}"], ids=["deep", "long number"])
def test_an_absurd_card_is_refused(tmp_path: Path, text: str) -> None:
    save_model(word_tagger(), tmp_path / "saved")
    (tmp_path / "saved" / "wardround.json").write_text(text)
    with pytest.raises(ModelError, match=r"saved/wardround\.json (is nested too deep|holds a number of too many)"):
        load_model(tmp_path / "saved")


# The hub.

# Runs in a process of its own, since a test may not call the hub and has switched it off; every connection is noted.
WATCHED = """
import socket, sys
from pathlib import Path

def noted(self, address, *more):
    with open(sys.argv[1], "a") as calls:
        calls.write(f"{address!r}\\n")
    raise ConnectionRefusedError("no connections here")

def looked_up(host, *more, **names):
    noted(None, host)

socket.socket.connect = socket.socket.connect_ex = noted
socket.getaddrinfo = looked_up
from wardround.cli.main import main
for line in Path(sys.argv[2]).read_text().splitlines():
    try:
        main(line.split("\\t"))
    except SystemExit as ended:
        print(f"exit {ended.code}: {line.split(chr(9))[0]}")
"""


def connections(tmp_path: Path, *commands: Sequence[str | Path]) -> tuple[list[str], str]:
    """Return the hosts that these commands contact if the hub is not disabled, and their output."""
    script, calls, lines = tmp_path / "watched.py", tmp_path / "calls", tmp_path / "commands"
    script.write_text(WATCHED)
    lines.write_text("\n".join("\t".join(map(str, words)) for words in commands))
    environment = {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", "HF_HOME": str(tmp_path / "cache")}
    _, said = process(script, calls, lines, environment=environment)
    return (calls.read_text().splitlines() if calls.is_file() else []), said


def name_encoder(model: Path, **config: str) -> None:
    """Change the card of a saved model, so that it names an encoder of the hub as its start."""
    card = json.loads((model / "wardround.json").read_text())
    card["config"].update(config)
    (model / "wardround.json").write_text(json.dumps(card))


def test_a_saved_model_never_calls_the_hub(encoder: Path, saved: Path, tmp_path: Path) -> None:
    """A card names the start of the model: its author could learn who uses the model, or send other files."""
    name_encoder(saved, encoder=HUB_ID)
    words = tmp_path / "words"
    save_model(word_tagger(contextual=str(encoder)), words)
    name_encoder(words, contextual=HUB_ID)
    data = write_site(tmp_path / "ward", train=TRAIN[:6], dev=TRAIN[6:8], test=TEST[:2])
    commands: list[tuple[str | Path, ...]] = []
    for model in (saved, words):
        out = tmp_path / f"out-{model.name}"
        commands += [
            ("model", "show", model),
            ("predict", model, data / "test", "--format", "brat", "--out", out / "predicted", "--device", "cpu"),
            ("evaluate", model, data / "test", "--format", "brat", "--device", "cpu"),
            ("redact", data / "test", "--format", "brat", "--out", out / "redacted", "--model", model),
            ("transfer", model, "--data", data, "--format", "brat", "--out", out / "plan_transfer", *QUICK),
        ]
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(start=words))
    commands.append(("run", study, "--out", tmp_path / "run", "--device", "cpu"))
    called, said = connections(tmp_path, *commands)
    assert called == []
    assert "unexpected" not in said
    # The folder of the encoder tagger is complete; the error about the other one names what is missing and the remedy.
    assert "exit 0: evaluate" in said
    assert f"the encoder {HUB_ID!r} is not on this machine" in " ".join(said.split())


STUDY = """
[study]
name = "start"

[model]
start = "{start}"

[algorithm]
name = "fedavg"
rounds = 1

[sites.harbour]
built_in = "harbour-0000"
types = ["Drug"]

[sites.hillside]
built_in = "hillside-0001"
types = ["Drug"]
"""


def test_an_encoder_that_was_asked_for_by_its_id_is_looked_for_at_the_hub(tmp_path: Path) -> None:
    """The converse: an id that the user names is fetched, so the test above would notice a request."""
    data = write_site(tmp_path / "ward", train=TRAIN[:6], dev=TRAIN[6:8], test=TEST[:2])
    words = ("train", data, "--format", "brat", "--out", tmp_path / "run", "--encoder", HUB_ID, *QUICK)
    called, said = connections(tmp_path, words)
    assert called
    assert "exit 2: train" in said


def test_a_missing_path_is_not_taken_for_an_id_of_the_hub(tmp_path: Path) -> None:
    data = write_site(tmp_path / "ward", train=TRAIN[:6], dev=TRAIN[6:8], test=TEST[:2])
    names = ["/absent/encoder", "./encoder", "../encoder", "a/b/c", "file:///encoder", "~/encoder"]
    words = ("train", data, "--format", "brat", "--out", tmp_path / "run", *QUICK, "--encoder")
    called, said = connections(tmp_path, *((*words, name) for name in names))
    assert called == []
    assert said.count("exit 2: train") == len(names)


def test_a_transfer_says_what_to_name_where_the_source_began_from_the_hub(saved: Path) -> None:
    name_encoder(saved, encoder=HUB_ID)
    source = load_model(saved)
    assert isinstance(source, EncoderTagger)
    with pytest.raises(ModelError, match=r"'encoder', is not on this machine; name one with --encoder"):
        target_network(source, ModelChoice(preset=""), TYPES, seed=0)


# One gate.

LOADING = {"from_pretrained", "from_config", "from_json_file", "snapshot_download", "hf_hub_download"}
PROGRAMS = sorted(
    path for folder in ("src", "papers", "benchmarks", "examples", "scripts") for path in (ROOT / folder).rglob("*.py")
)


def loading_names(tree: ast.AST) -> set[str]:
    """Return the names and attributes in a program with which `transformers` and its hub load files."""
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    found |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    found |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return found & LOADING


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_loaded_without_the_checks(path: Path) -> None:
    assert path == GATE or not loading_names(ast.parse(path.read_text(encoding="utf-8")))


def test_the_gate_runs_no_code_and_reads_local_safetensors_only() -> None:
    """Every loading call passes the safe options, and none overrides them."""
    tree = ast.parse(GATE.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    loads = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in LOADING]
    assert loads
    for call in loads:
        said = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert said.get("trust_remote_code") == "False", ast.unparse(call)
        if call.func.attr == "from_pretrained":  # type: ignore[attr-defined]
            assert said.get("local_files_only") == "True", ast.unparse(call)
        if "dtype" in said:
            assert said.get("use_safetensors") == "True", ast.unparse(call)


def test_the_search_for_loading_calls_finds_every_spelling() -> None:
    for source in ("A.from_pretrained(x)", "load = A.from_pretrained", "getattr(A, 'from_pretrained')(x)"):
        assert loading_names(ast.parse(source)) == {"from_pretrained"}
