"""Semi-supervised paper classification on a citation graph (GCN, full batch)."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def citation_graph(papers, topics, links, words, seed):
    """Stochastic block graph with bag-of-words features."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, topics, papers)
    source = rng.integers(0, papers, papers * links)
    target = rng.integers(0, papers, papers * links)
    keep = (topic[source] == topic[target]) | (rng.random(len(source)) < 0.2)
    edges = np.stack([source[keep], target[keep]])
    likely = rng.random((topics, words)) ** 4
    features = (rng.random((papers, words)) < 0.15 * likely[topic]).astype(np.float32)
    features /= np.maximum(features.sum(1, keepdims=True), 1.0)
    return torch.from_numpy(edges), torch.from_numpy(features), torch.from_numpy(topic)


def normalized_adjacency(edges, papers):
    adj = torch.zeros(papers, papers)
    adj[edges[0], edges[1]] = 1.0
    adj[edges[1], edges[0]] = 1.0
    adj.fill_diagonal_(1.0)
    scale = adj.sum(1).rsqrt()
    adj = scale[:, None] * adj * scale[None, :]
    return adj


class GraphConv(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inp, out))
        self.bias = nn.Parameter(torch.zeros(out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        support = x @ self.weight
        return adj @ support + self.bias


class GCN(nn.Module):
    def __init__(self, words, hidden, topics, dropout):
        super().__init__()
        self.conv1 = GraphConv(words, hidden)
        self.conv2 = GraphConv(hidden, hidden)
        self.conv3 = GraphConv(hidden, topics)
        self.dropout = dropout

    def forward(self, x, adj):
        h = F.relu(self.conv1(x, adj))
        h = F.dropout(h, self.dropout, self.training)
        h = h + F.relu(self.conv2(h, adj))
        h = F.dropout(h, self.dropout, self.training)
        return self.conv3(h, adj)


def fit(model, features, adj, labels, train_idx, valid_idx, args):
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    best = 0.0
    for epoch in range(1, args.epochs + 1):
        model.train()
        logits = model(features, adj)
        loss = F.cross_entropy(logits[train_idx], labels[train_idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 50 == 0:
            model.eval()
            with torch.no_grad():
                guess = model(features, adj).argmax(1)
            accuracy = (guess[valid_idx] == labels[valid_idx]).float().mean().item()
            best = max(best, accuracy)
            print(f"epoch {epoch:05d} loss {loss.item():.4f} valid {accuracy:.3f} best {best:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--papers", type=int, default=2700)
    parser.add_argument("--topics", type=int, default=7)
    parser.add_argument("--links", type=int, default=6)
    parser.add_argument("--words", type=int, default=400)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    edges, features, labels = citation_graph(args.papers, args.topics, args.links, args.words, args.seed)
    adj = normalized_adjacency(edges, args.papers)
    order = torch.randperm(args.papers)
    train_idx, valid_idx = order[:400], order[400:1200]
    model = GCN(args.words, args.hidden, args.topics, args.dropout)
    fit(model, features, adj, labels, train_idx, valid_idx, args)


if __name__ == "__main__":
    main()
