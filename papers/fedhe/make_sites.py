"""The sites of the FedHE study: one corpus among two clients, and more.

python -m papers.fedhe.make_sites --data ../shared/data --out runs/fedhe/sites

bc2gm-2/client-01, -02      the training and development part dealt out at random, the official test part at each
bc2gm-all/all               all of it at one site
bc5cdr-2, bc5cdr-all        the same of BC5CDR
bc5cdr-4, -22, -64          as many clients; the test part is dealt out as well, for all of them have one model
bc5cdr-22-skewed            training sentences parted by Dirichlet proportions a type
sites.json                  types, schemes and sizes
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from papers.common.sites import Group, Site, read_iob, write_groups

from wardround.corpora.partition import by_size, dirichlet
from wardround.text.document import Document

CORPORA = {"bc2gm": ("GENE",), "bc5cdr": ("Chemical", "Disease")}
MANY = "bc5cdr"  # the corpus with two types, so that sites can differ in them
FEW_CLIENTS = 4  # for mechanisms that hide a site among three or more
MANY_CLIENTS = (22, 64)  # the most of the paper's Figure 1; beyond it
SKEWED_CLIENTS = 22
ALPHA = 0.1  # of the Dirichlet distribution: most sites have nearly all of their sentences of one kind
FEWEST = 20  # training sentences of a skewed site


def main() -> None:
    """Make all groups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the corpora")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=0, help="sentences of each part, for trials; 0 is all")
    asked = parser.parse_args()
    corpora = {name: read(asked.data, name, limit=asked.limit) for name in CORPORA}
    write_groups(all_groups(corpora, seed=asked.seed), asked.out)


def read(data: Path, name: str, *, limit: int = 0) -> Site:
    """A corpus with its official parts, or the beginning of each."""
    corpus = read_iob(data / "mtl_bioinformatics_2016" / f"{name.upper()}-IOB", CORPORA[name])
    parts = {part: documents[: limit or None] for part, documents in corpus.parts.items()}
    return replace(corpus, train=parts["train"], dev=parts["dev"], test=parts["test"])


def all_groups(corpora: Group, *, seed: int) -> dict[str, Group]:
    """Every group of sites the study has."""
    groups: dict[str, Group] = {}
    for name, corpus in corpora.items():
        groups[f"{name}-2"] = {n: replace(s, test=corpus.test) for n, s in dealt(corpus, 2, seed=seed).items()}
        groups[f"{name}-all"] = {"all": corpus}
    many = corpora[MANY]
    groups |= {f"{MANY}-{clients}": dealt(many, clients, seed=seed) for clients in (FEW_CLIENTS, *MANY_CLIENTS)}
    return groups | {f"{MANY}-{SKEWED_CLIENTS}-skewed": skewed(many, SKEWED_CLIENTS, seed=seed)}


def dealt(corpus: Site, clients: int, *, seed: int) -> dict[str, Site]:
    """Every part dealt out at random, to each client as much."""
    names = client_names(clients)
    parts = {
        part: by_size(documents, dict.fromkeys(names, 1 / clients), seed) for part, documents in corpus.parts.items()
    }
    return {
        name: replace(corpus, train=parts["train"][name], dev=parts["dev"][name], test=parts["test"][name])
        for name in names
    }


def skewed(corpus: Site, clients: int, *, seed: int) -> dict[str, Site]:
    """The same with clients that differ in what they train on, and in how much; they are scored alike."""
    train: dict[str, list[Document]] = dirichlet(
        corpus.train, client_names(clients), alpha=ALPHA, seed=seed, minimum=min(FEWEST, len(corpus.train) // clients)
    )
    return {name: replace(site, train=train[name]) for name, site in dealt(corpus, clients, seed=seed).items()}


def client_names(clients: int) -> Sequence[str]:
    """`client-01` and so on."""
    return [f"client-{number:02}" for number in range(1, clients + 1)]


if __name__ == "__main__":
    main()
