"""Rounds of Flower's simulation with idle clients; request and answer as JSON. Runs in Flower's own environment."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

client = ClientApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Give back what came."""
    return Message(content=message.content, reply_to=message)


def main() -> None:
    """Time the rounds of each size."""
    request = json.load(sys.stdin)
    seconds: list[list[float]] = []
    server = ServerApp()

    @server.main()
    def rounds(grid: Grid, context: Context) -> None:
        nodes = wait_for(grid, request["sites"])
        for floats in request["floats"]:
            seconds.append([one_round(grid, nodes, floats) for _ in range(request["rounds"])])

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}}
    run_simulation(server, client, num_supernodes=request["sites"], backend_config=resources)
    print(json.dumps({"seconds": seconds}))


def wait_for(grid: Grid, sites: int) -> list[int]:
    """The clients, once they are all there."""
    while len(nodes := list(grid.get_node_ids())) < sites:
        time.sleep(0.1)
    return nodes


def one_round(grid: Grid, nodes: list[int], floats: int) -> float:
    """Seconds of one round: an array to every client and back."""
    started = time.perf_counter()
    content = RecordDict({"arrays": ArrayRecord([np.ones(floats, np.float32)])})
    asked = [Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node) for node in nodes]
    replies = list(grid.send_and_receive(asked))
    assert len(replies) == len(nodes)
    for reply in replies:
        assert reply.content["arrays"].to_numpy_ndarrays()[0].size == floats
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
