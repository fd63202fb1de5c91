"""News classification with experiment tracking."""
import http.server
import json
import multiprocessing
import time
import urllib.request
from pathlib import Path

import torch
import torch.nn as nn


class TrackingHandler(http.server.BaseHTTPRequestHandler):
    """Stands in for the tracking server of the company, which is one ocean away."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.04)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


def serve(pipe):
    server = http.server.HTTPServer(("127.0.0.1", 0), TrackingHandler)
    pipe.send(server.server_address[1])
    server.serve_forever()


class Tracker:
    def __init__(self, url, run):
        self.url, self.run = url, run

    def log(self, step, **metrics):
        body = json.dumps({"run": self.run, "step": step, "time": time.time(), **metrics}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10):
            pass


class NewsModel(nn.Module):
    def __init__(self, vocab=6000, dim=128, classes=20, widths=(3, 4, 5)):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(dim, 64, w, padding=w // 2) for w in widths)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(64 * len(widths), classes)

    def forward(self, tokens):
        e = self.embed(tokens).transpose(1, 2)
        pooled = [torch.relu(conv(e)).amax(-1) for conv in self.convs]
        return self.fc(self.drop(torch.cat(pooled, 1)))


def articles(n=5000, length=80, vocab=6000, classes=20):
    g = torch.Generator().manual_seed(4)
    y = torch.randint(0, classes, (n,), generator=g)
    x = torch.randint(1, vocab, (n, length), generator=g)
    x[:, ::4] = (x[:, ::4] // classes) * classes + y[:, None]
    return x.clamp_(1, vocab - 1), y


def main():
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=serve, args=(there,), daemon=True).start()
    tracker = Tracker(f"http://127.0.0.1:{here.recv()}/api/metrics", run=Path(__file__).stem)

    torch.manual_seed(0)
    x, y = articles()
    model = NewsModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    batch_size, step = 32, 0
    for epoch in range(100_000):
        order = torch.randperm(len(x))
        for i in range(0, len(x) - batch_size + 1, batch_size):
            pick = order[i:i + batch_size]
            logits = model(x[pick])
            loss = criterion(logits, y[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            accuracy = (logits.argmax(1) == y[pick]).float().mean()
            tracker.log(step, loss=loss.item(), accuracy=accuracy.item(), epoch=epoch)
        print(f"epoch {epoch} done, loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
