"""Make the sites of the FedHE study: one corpus among two clients and more.

python -m papers.fedhe.make_sites --data ../shared/data --out runs/fedhe/sites

bc2gm-2/client-01, -02      random shares of the training and development part, each with the official test part
bc2gm-all/all               all of it at one site
bc5cdr-2, bc5cdr-all        the same of BC5CDR
bc5cdr-4, -22, -64          more clients; the test part is split as well, because all clients share one model
bc5cdr-22-skewed            training sentences split by Dirichlet proportions of each type
sites.json                  types, schemes and sizes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from papers.common.sites import Group, Site, corpus_arguments, read_iob, write_groups

from wardround.corpora.partition import by_size, dirichlet
from wardround.text.document import Document

__all__ = ["all_groups", "client_names", "dealt", "main", "read", "skewed"]

CORPORA = {"bc2gm": ("GENE",), "bc5cdr": ("Chemical", "Disease")}
MANY = "bc5cdr"  # the corpus with two types, so that sites can differ in them
FEW_CLIENTS = 4  # for mechanisms that hide a site among three or more
MANY_CLIENTS = (22, 64)  # the most of the paper's Figure 1; beyond it
SKEWED_CLIENTS = 22
ALPHA = 0.1  # of the Dirichlet distribution: nearly all sentences of most sites are of one kind
FEWEST = 20  # training sentences of a skewed client


def main() -> None:
    """Make all groups."""
    parser = corpus_arguments(__doc__)
    parser.add_argument("--limit", type=int, default=0, help="sentences of each part, for trials; 0: all")
    options = parser.parse_args()
    corpora = {name: read(options.data, name, limit=options.limit) for name in CORPORA}
    write_groups(all_groups(corpora, seed=options.seed), options.out)


def read(data: Path, name: str, *, limit: int = 0) -> Site:
    """Read a corpus with its official parts, or the beginning of each."""
    corpus = read_iob(data / "mtl_bioinformatics_2016" / f"{name.upper()}-IOB", CORPORA[name])
    parts = {part: documents[: limit or None] for part, documents in corpus.parts.items()}
    return replace(corpus, train=parts["train"], dev=parts["dev"], test=parts["test"])


def all_groups(corpora: Group, *, seed: int) -> dict[str, Group]:
    """Return every group of sites."""
    groups: dict[str, Group] = {}
    for name, corpus in corpora.items():
        groups[f"{name}-2"] = {n: replace(s, test=corpus.test) for n, s in dealt(corpus, 2, seed=seed).items()}
        groups[f"{name}-all"] = {"all": corpus}
    many = corpora[MANY]
    groups |= {f"{MANY}-{clients}": dealt(many, clients, seed=seed) for clients in (FEW_CLIENTS, *MANY_CLIENTS)}
    return groups | {f"{MANY}-{SKEWED_CLIENTS}-skewed": skewed(many, SKEWED_CLIENTS, seed=seed)}


def dealt(corpus: Site, clients: int, *, seed: int) -> dict[str, Site]:
    """Split every part at random into equal shares."""
    names = client_names(clients)
    parts = {
        part: by_size(documents, dict.fromkeys(names, 1 / clients), seed) for part, documents in corpus.parts.items()
    }
    return {
        name: replace(corpus, train=parts["train"][name], dev=parts["dev"][name], test=parts["test"][name])
        for name in names
    }


def skewed(corpus: Site, clients: int, *, seed: int) -> dict[str, Site]:
    """Return clients whose training parts differ in types and size; their test parts are as in `dealt`."""
    train: dict[str, list[Document]] = dirichlet(
        corpus.train, client_names(clients), alpha=ALPHA, seed=seed, minimum=min(FEWEST, len(corpus.train) // clients)
    )
    return {name: replace(site, train=train[name]) for name, site in dealt(corpus, clients, seed=seed).items()}


def client_names(clients: int) -> Sequence[str]:
    """Return `client-01` and so on."""
    return [f"client-{number:02}" for number in range(1, clients + 1)]


if __name__ == "__main__":
    main()
