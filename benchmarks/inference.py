"""Prediction on CPU: sentences per second beside transformers' pipeline and Flair, cold starts, and the service.

MiniLM and FedNER's network are trained briefly on notes of a built-in hospital, and exported to ONNX in float32 and in
8 bits. All of them, and the pipeline on the same folder, read the same sentences in batches of 64, sorted by length;
they take turns, and the fastest repeat counts. Our predictions have scores. Flair's tagger is untrained, and as wide as
FedNER's network. Threads are those of OMP_NUM_THREADS, or one for each core.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import torch
from common import Bar, Options, Part, arguments, finish, installed
from rich.console import Console
from starlette.types import Message, Scope

import wardround
from wardround.models.encoders import quiet_transformers
from wardround.reports.tables import Table
from wardround.serving.service import app_of
from wardround.text.segmentation import find_words, sentences_of

# Notes to train on, epochs, sentences, repeats, starts, requests.
SIZES = {"full": (50, 4, 1_000, 3, 5, 300), "quick": (8, 1, 128, 2, 2, 60), "smallest": (3, 1, 8, 1, 1, 4)}
BATCH, CLIENTS = 64, 8
COLUMNS = ("what", "sentences per second", "× pipeline", "strict F1", "cold start s", "processor s", "peak MB")
LATENCY = ("request", "p50 ms", "p99 ms", "× call")
PIPELINE, FLAIR = "transformers pipeline, MiniLM", "Flair 0.15.1, untrained"
WORD, MINILM = "word model", "MiniLM"
VARIANTS = ("", " ONNX", " ONNX int8")


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    with TemporaryDirectory() as scratch:
        parts = [throughput(options, Path(scratch)), service(options, Path(scratch))]
    table = Table("Prediction", COLUMNS, tuple(parts[0].rows), note=note())
    latency = Table("One sentence", LATENCY, tuple(parts[1].rows))
    Console().print(latency.to_rich())
    figures = [figure for part in parts for figure in part.figures]
    return finish("inference", table, figures, [bar for part in parts for bar in part.bars], check=options.check)


def note() -> str:
    """Return what the figures depend on."""
    return f"{torch.get_num_threads()} threads; batches of {BATCH}; median of cold starts of `wardround predict`."


def throughput(options: Options, scratch: Path) -> Part:
    """Measure rates, F1 and cold starts of all variants."""
    notes, epochs, count, repeats, starts, _ = SIZES[options.size]
    hospital = wardround.hospitals()["harbour"]
    train_models(scratch, hospital, notes=notes, epochs=epochs, smallest=options.size == "smallest")
    texts = [text[start:end] for n in hospital.test for text in (n.text,) for start, end in sentences_of(n)]
    texts = (texts * (count // len(texts) + 1))[:count]
    calls: dict[str, Callable[[], object]] = {PIPELINE: pipeline_call(scratch / MINILM, texts)}
    documents = [wardround.Document(str(number), text) for number, text in enumerate(texts)]
    for name in (f"{model}{variant}" for model in (WORD, MINILM) for variant in VARIANTS):
        calls[name] = model_call(wardround.load(scratch / name), documents)
    rates = {name: 0.0 for name in calls}
    for call in calls.values():
        call()  # the first is slower: caches of words, compiled kernels
    for _ in range(repeats):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            rates[name] = max(rates[name], count / (time.perf_counter() - started))
    if flair := flair_rate(options, texts, hospital.types, repeats):
        rates[FLAIR] = flair
    differing = differences(scratch / MINILM, sorted(set(texts), key=len))
    figures = [facts_of(name, rate, rates, options, scratch, hospital, starts) for name, rate in rates.items()]
    rows = tuple(
        tuple(rounded(f.get(key)) for key in ("what", "rate", "ratio", "f1", "seconds", "processor", "peak_mb"))
        for f in figures
    )
    bars = bars_of({f["what"]: f for f in figures})
    share = {"what": "sentences in which the pipeline finds other entities", "of": len(set(texts)), "count": differing}
    rows = (*rows, (f"{differing} of {len(set(texts))} sentences differ", *("–",) * (len(COLUMNS) - 1)))
    return Part(rows, [*figures, share], bars)


def train_models(scratch: Path, hospital: wardround.Corpus, *, notes: int, epochs: int, smallest: bool) -> None:
    """Train both models briefly and export them; the folders are called as in the table."""
    parts = {name: list(documents)[:notes] for name, documents in hospital.parts.items()}
    corpus = wardround.Corpus(parts)
    # At the smallest size an encoder without pretrained weights, which is built in no time.
    encoder = "bert-tiny" if smallest else "minilm"
    training = {"epochs": epochs, "learning_rate": 6e-4}
    for name, chosen in ((WORD, ""), (MINILM, encoder)):
        run = scratch / f"{name} run"
        wardround.train(corpus, out=run, encoder=chosen, training=training, device="cpu", progress=False)
        (run / "model").rename(scratch / name)
        model = wardround.load(scratch / name, device="cpu")
        model.export(scratch / f"{name} ONNX")
        model.export(scratch / f"{name} ONNX int8", int8=True)


def pipeline_call(folder: Path, texts: Sequence[str]) -> Callable[[], object]:
    """Return a call of transformers' own pipeline over all sentences."""
    from transformers import pipeline

    with quiet_transformers():
        found = pipeline("token-classification", model=str(folder), aggregation_strategy="first", device="cpu")
    ordered = sorted(texts, key=len)

    def call() -> object:
        with torch.inference_mode():
            return list(found(ordered, batch_size=BATCH))

    return call


def differences(folder: Path, texts: Sequence[str]) -> int:
    """Return in how many sentences transformers' pipeline finds other entities than the model in the same folder."""
    model = wardround.load(folder)
    found = pipeline_call(folder, texts)()
    assert isinstance(found, list)
    ours = [[(one.type, one.start, one.end) for one in note.entities] for note in model.pipe(texts)]
    theirs = [[(one["entity_group"], one["start"], one["end"]) for one in entities] for entities in found]
    return sum(left != right for left, right in zip(ours, theirs, strict=True))


def model_call(model: wardround.Model, documents: Sequence[wardround.Document]) -> Callable[[], object]:
    """Return a call of one of our models over all sentences, which it sorts itself."""
    return lambda: list(model.predictor.predict(documents, scored=True))


def flair_rate(options: Options, texts: Sequence[str], types: Sequence[str], repeats: int) -> float:
    """Return the rate of Flair's tagger, or 0 where it is not installed."""
    python = options.peer_python("flair", "torch==2.13.0", "flair==0.15.1")
    if python is None:
        return 0.0
    sentences = [[text[start:end] for start, end in find_words(text)] for text in texts]
    request = {"sentences": sentences, "types": list(types), "repeats": repeats, "threads": torch.get_num_threads()}
    return len(texts) / min(options.run("flair_prediction", request, python=python)["seconds"])


def facts_of(
    name: str,
    rate: float,
    rates: dict[str, float],
    options: Options,
    scratch: Path,
    hospital: wardround.Corpus,
    starts: int,
) -> dict[str, Any]:
    """Return the figures of one line: for our models also F1, cold starts and memory."""
    facts: dict[str, Any] = {"what": name, "rate": rate, "ratio": rate / rates[PIPELINE]}
    if name in (PIPELINE, FLAIR):
        return facts
    if options.size == "smallest" and "ONNX" not in name:
        return facts  # a start with torch takes seconds
    facts["f1"] = wardround.evaluate(scratch / name, list(hospital.test)[:30]).scores["strict"]["f1"]
    (scratch / "note.txt").write_text("The patient took aspirin 80 mg and developed a rash.", encoding="utf-8")
    request = {"model": str(scratch / name), "note": str(scratch / "note.txt"), "starts": starts}
    found = options.run("one_prediction", request)
    return facts | {key: median(values) for key, values in found.items()}


def bars_of(facts: dict[str, dict[str, Any]]) -> list[Bar]:
    """Return the bars; the one about Flair only where it was measured."""
    small, whole = facts[f"{MINILM} ONNX int8"], facts[f"{MINILM} ONNX"]
    fastest = max(facts[MINILM]["ratio"], whole["ratio"])
    bars = [
        Bar("MiniLM in float32, the faster of PyTorch and ONNX, over the pipeline", fastest, least=1.5),
        Bar("MiniLM ONNX int8 over the pipeline", small["ratio"], least=3.0),
        Bar("F1 lost by int8", whole["f1"] - small["f1"], most=0.005),
        Bar("cold start with ONNX int8, seconds", small["seconds"], most=1.5),
        Bar("peak memory with ONNX int8, MB", small["peak_mb"], most=250),
        Bar("peak memory with ONNX, MB", whole["peak_mb"], most=250),
    ]
    if FLAIR in facts:
        bars.append(Bar("word model over Flair", facts[WORD]["rate"] / facts[FLAIR]["rate"], least=20.0))
    return bars


def service(options: Options, scratch: Path) -> Part:
    """Measure single sentences through the service and by a bare call; the server itself is left out."""
    if not installed("prometheus_client", "pip install 'wardround[serve]'"):
        return Part()
    requests = SIZES[options.size][5]
    rows, figures, bars = [], [], []
    text = "The patient took aspirin 80 mg and developed a rash."
    for name in (WORD, MINILM, f"{MINILM} ONNX int8"):
        model = wardround.load(scratch / name)
        model(text)
        bare, alone, shared = asyncio.run(latencies(model, text, requests))
        call = median(bare)
        for what, found in (("call", bare), ("service", alone), (f"service, {CLIENTS} clients", shared)):
            cuts = quantiles(found, n=100, method="inclusive")
            p50, p99 = median(found) * 1000, cuts[98] * 1000
            rows.append((f"{name}: {what}", round(p50, 2), round(p99, 2), round(median(found) / call, 2)))
            figures.append({"what": f"{name}: {what}", "p50_ms": p50, "p99_ms": p99})
        bars.append(Bar(f"{name}: p50 of the service over the bare call", median(alone) / call, most=1.2))
    return Part(rows, figures, bars)


async def latencies(model: wardround.Model, text: str, requests: int) -> tuple[list[float], list[float], list[float]]:
    """Return the seconds of bare calls, of requests one after another, and of requests of several clients at once."""
    app = app_of(model)
    bare, alone = list[float](), list[float]()
    stop = await start(app)
    for _ in range(requests):  # in turns, so that other work on the machine disturbs both alike
        started = time.perf_counter()
        model(text)
        bare.append(time.perf_counter() - started)
        alone.append(await ask(app, text))

    async def client() -> list[float]:
        return [await ask(app, text) for _ in range(max(1, requests // CLIENTS))]

    shared = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    await stop()
    return bare, alone, [seconds for found in shared for seconds in found]


async def start(app: Any) -> Callable[[], Awaitable[None]]:
    """Start the application as a server does; return how it is stopped."""
    told, said = asyncio.Queue[Message](), asyncio.Queue[Message]()
    running = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, told.get, said.put))
    await told.put({"type": "lifespan.startup"})
    assert (await said.get())["type"] == "lifespan.startup.complete"

    async def stop() -> None:
        await told.put({"type": "lifespan.shutdown"})
        await running

    return stop


async def ask(app: Any, text: str) -> float:
    """Send one sentence through the application and return the seconds until its answer."""
    body = json.dumps({"text": text}).encode()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/predict",
        "headers": headers,
        "query_string": b"",
        "client": ("127.0.0.1", 1),
    }
    statuses = list[int]()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 0))

    started = time.perf_counter()
    await app(scope, receive, send)
    seconds = time.perf_counter() - started
    assert statuses[0] == 200, statuses
    return seconds


def rounded(value: Any) -> Any:
    """Return a figure for the table; a dash where there is none."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else round(value) if value >= 100 else round(value, 3)


if __name__ == "__main__":
    sys.exit(main())
