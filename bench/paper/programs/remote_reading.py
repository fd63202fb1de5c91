"""A program that reads samples one by one from a machine 2 ms away; with `--after` the bytes lie on the local disk."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import sys
import tempfile
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")

LATENCY_S, BATCH, BYTES = 0.002, 16, 3072


class Far(BaseHTTPRequestHandler):
    """Answers each request late."""

    def do_GET(self) -> None:
        """One sample."""
        time.sleep(LATENCY_S)
        self.send_response(200)
        self.send_header("Content-Length", str(BYTES))
        self.end_headers()
        self.wfile.write(bytes(BYTES))

    def log_message(self, *_: object) -> None:
        """Nothing."""


def serve(port: Any) -> None:
    """Be the other machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Far)
    port.send(server.server_port)
    server.serve_forever()


class Samples(data.Dataset):  # type: ignore[misc]
    """Samples at an address, or below a folder."""

    def __init__(self, place: str | Path) -> None:
        self.place = place

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, number: int) -> Any:
        if isinstance(self.place, Path):
            raw = (self.place / str(number % 64)).read_bytes()
        else:
            with urllib.request.urlopen(f"{self.place}/{number % 64}") as answer:
                raw = answer.read()
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8).float() / 255, number % 10


def main() -> None:
    """Train; with `--after` say how long a step is, and end."""
    torch.set_num_threads(1)
    after, place = "--after" in sys.argv, Path(tempfile.mkdtemp())
    for number in range(64):
        (place / str(number)).write_bytes(bytes(BYTES))
    here, there = multiprocessing.Pipe()
    multiprocessing.Process(target=serve, args=(there,), daemon=True).start()
    samples = Samples(place if after else f"http://127.0.0.1:{here.recv()}")
    nn = torch.nn
    model = nn.Sequential(nn.Linear(BYTES, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begun: list[float] = []
    while not after or len(begun) < 1000:
        for x, y in data.DataLoader(samples, batch_size=BATCH, shuffle=True):
            begun.append(time.perf_counter())
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    steps = sorted(later - one for one, later in itertools.pairwise(begun[20:]))
    print(f"{1e3 * steps[len(steps) // 2]:.3f}")


if __name__ == "__main__":
    main()
