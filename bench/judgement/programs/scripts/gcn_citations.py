"""Node classification on a citation graph with a graph convolutional network (Kipf and Welling)."""

import time
from itertools import pairwise

import torch
import torch.nn.functional as nnf
from torch import nn


def citation_graph(nodes, classes, features, mean_degree, seed=0):
    """Stochastic block model with bags of words; returns features, labels and a symmetric edge list."""
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (nodes,), generator=gen)
    draws = nodes * mean_degree
    source = torch.randint(0, nodes, (draws,), generator=gen)
    order = labels.argsort()
    bounds = torch.searchsorted(labels[order], torch.arange(classes + 1))
    low, high = bounds[labels[source]], bounds[labels[source] + 1]
    within = order[(low + torch.rand(draws, generator=gen) * (high - low)).long().clamp_(max=nodes - 1)]
    anywhere = torch.randint(0, nodes, (draws,), generator=gen)
    target = torch.where(torch.rand(draws, generator=gen) < 0.6, within, anywhere)
    edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    edges = edges[:, edges[0] != edges[1]].unique(dim=1)
    topics = torch.rand(classes, features, generator=gen).pow(6)
    words = (torch.rand(nodes, features, generator=gen) < 0.02 + 0.15 * topics[labels]).float()
    return words / words.sum(1, keepdim=True).clamp(min=1), labels, edges


def normalized_adjacency(edges, nodes):
    """D^-1/2 (A + I) D^-1/2 as a sparse matrix."""
    loops = torch.arange(nodes).expand(2, nodes)
    index = torch.cat([edges, loops], dim=1)
    degree = torch.bincount(index[0], minlength=nodes).float()
    scale = degree.rsqrt()
    values = scale[index[0]] * scale[index[1]]
    return torch.sparse_coo_tensor(index, values, (nodes, nodes)).coalesce()


class GraphConv(nn.Module):
    """One graph convolution."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, edges):
        """Transform, then average over the neighbourhood."""
        adjacency = normalized_adjacency(edges, x.shape[0])
        return torch.sparse.mm(adjacency, x @ self.weight) + self.bias


class GCN(nn.Module):
    """Graph convolutions with dropout between them."""

    def __init__(self, features, hidden, classes, layers=2, dropout=0.5):
        super().__init__()
        sizes = [features] + [hidden] * (layers - 1) + [classes]
        self.convs = nn.ModuleList(GraphConv(a, b) for a, b in pairwise(sizes))
        self.dropout = dropout

    def forward(self, x, edges):
        """Logits of every node."""
        for conv in self.convs[:-1]:
            x = nnf.relu(conv(x, edges))
            x = nnf.dropout(x, self.dropout, self.training)
        return self.convs[-1](x, edges)


def split(labels, per_class, validation, seed=0):
    """Masks of the few labelled nodes and of the validation nodes."""
    gen = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=gen)
    train = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        train[order[labels[order] == label][:per_class]] = True
    rest = order[~train[order]]
    held_out = torch.zeros_like(train)
    held_out[rest[:validation]] = True
    return train, held_out


@torch.no_grad()
def accuracy(model, x, edges, labels, mask):
    """Share of the masked nodes classified rightly."""
    model.eval()
    right = (model(x, edges).argmax(1) == labels)[mask].float().mean().item()
    model.train()
    return right


def main():
    """Train with the full graph in every step."""
    torch.manual_seed(4)
    nodes, classes = 12_000, 8
    x, labels, edges = citation_graph(nodes, classes, features=128, mean_degree=12)
    train_mask, val_mask = split(labels, per_class=60, validation=2000)
    train_index = train_mask.nonzero().squeeze(1)
    model = GCN(x.shape[1], hidden=32, classes=classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    print(f"{nodes} nodes, {edges.shape[1]} edges, {len(train_index)} labelled")

    best, begun = 0.0, time.time()
    for epoch in range(1, 8001):
        logits = model(x, edges)
        loss = nnf.cross_entropy(logits[train_index], labels[train_index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 50 == 0:
            score = accuracy(model, x, edges, labels, val_mask)
            best = max(best, score)
            pace = 1000 * (time.time() - begun) / epoch
            print(f"epoch {epoch} loss {loss.item():.4f} val {score:.3f} best {best:.3f} {pace:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
