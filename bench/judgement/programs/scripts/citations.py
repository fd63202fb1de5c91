"""A graph convolution network on a citation graph, full batch."""
import torch
import torch.nn.functional as F
from torch import nn

NODES, EDGES, FEATURES, CLASSES = 3000, 12000, 128, 7


def load_graph(seed=0):
    g = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, NODES, (2, EDGES), generator=g)
    edges = torch.cat([edges, edges.flip(0), torch.arange(NODES).repeat(2, 1)], 1).unique(dim=1)
    features = (torch.rand(NODES, FEATURES, generator=g) < 0.05).float()
    labels = torch.randint(0, CLASSES, (NODES,), generator=g)
    train = torch.rand(NODES, generator=g) < 0.6
    return edges, features, labels, train


def normalized_adjacency(edges):
    degree = torch.zeros(NODES).index_add_(0, edges[0], torch.ones(edges.shape[1]))
    weight = degree[edges[0]].rsqrt() * degree[edges[1]].rsqrt()
    adjacency = torch.sparse_coo_tensor(edges, weight, (NODES, NODES)).coalesce()
    return adjacency.to_dense()


class GraphConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, adjacency):
        return adjacency @ self.linear(x) + self.bias


class GCN(nn.Module):
    def __init__(self, hidden=64, layers=3, dropout=0.5):
        super().__init__()
        widths = [FEATURES, *[hidden] * (layers - 1), CLASSES]
        self.convs = nn.ModuleList(GraphConv(a, b) for a, b in zip(widths, widths[1:]))
        self.dropout = dropout

    def forward(self, x, adjacency):
        for i, conv in enumerate(self.convs):
            x = conv(x, adjacency)
            if i < len(self.convs) - 1:
                x = F.dropout(F.relu(x), self.dropout, self.training)
        return x


def main():
    torch.manual_seed(0)
    edges, features, labels, train = load_graph()
    adjacency = normalized_adjacency(edges)
    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(1_000_000):
        model.train()
        optimizer.zero_grad()
        out = model(features, adjacency)
        loss = F.cross_entropy(out[train], labels[train])
        loss.backward()
        optimizer.step()
        if epoch % 50 == 0:
            accuracy = (out.argmax(1) == labels)[~train].float().mean()
            print(f"epoch {epoch} loss {loss.item():.4f} accuracy {accuracy.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
