"""Rounds of Flower's simulation with idle clients; runs in Flower's own environment."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation
from json_script import answer

client = ClientApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Return the received content."""
    return Message(content=message.content, reply_to=message)


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of every round, for each size."""
    seconds: list[list[float]] = []
    server = ServerApp()

    @server.main()
    def rounds(grid: Grid, context: Context) -> None:
        while len(nodes := list(grid.get_node_ids())) < request["sites"]:
            time.sleep(0.1)
        for floats in request["floats"]:
            seconds.append([one_round(grid, nodes, floats) for _ in range(request["rounds"])])

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}}
    run_simulation(server, client, num_supernodes=request["sites"], backend_config=resources)
    return {"seconds": seconds}


def one_round(grid: Grid, nodes: list[int], floats: int) -> float:
    """Send an array to every client and back; return the seconds."""
    started = time.perf_counter()
    content = RecordDict({"arrays": ArrayRecord([np.ones(floats, np.float32)])})
    messages = [Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node) for node in nodes]
    replies = list(grid.send_and_receive(messages))
    assert len(replies) == len(nodes)
    for reply in replies:
        assert reply.content["arrays"].to_numpy_ndarrays()[0].size == floats
    return time.perf_counter() - started


if __name__ == "__main__":
    answer(measure)
