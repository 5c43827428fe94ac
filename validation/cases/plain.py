"""Models written in torch alone: perceptrons, nn.TransformerEncoder, a language model with LoRA."""

import torch
from torch import nn
from torch.nn import functional


def perceptron(sizes, activations=("ReLU",), bias=True, norm=None, dropout=0.0):
    """An nn.Sequential; the activations take turns."""
    layers = []
    pairs = list(zip(sizes, sizes[1:]))
    for position, (inputs, outputs) in enumerate(pairs):
        layers.append(nn.Linear(inputs, outputs, bias=bias))
        if position == len(pairs) - 1:
            break
        if norm:
            layers.append(getattr(nn, norm)(outputs))
        name = activations[position % len(activations)]
        inplace = name.endswith("_")
        layers.append(getattr(nn, name.rstrip("_"))(**({"inplace": True} if inplace else {})))
        if dropout:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    """Embedding, nn.TransformerEncoder, classifier on the mean."""

    def __init__(self, vocabulary, width, heads, layers, feedforward, classes, norm_first, activation):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, feedforward, activation=activation, batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classifier = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.classifier(self.encoder(self.embedding(tokens)).mean(dim=1))


class FeatureEncoder(nn.Module):
    """nn.TransformerEncoder over float features, a regression on each position."""

    def __init__(self, width, heads, layers, feedforward):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, feedforward, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1)

    def forward(self, features):
        return self.head(self.encoder(features)).squeeze(-1)


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class ResidualStack(nn.Module):
    """A stem, an nn.Sequential of equal blocks, a head."""

    def __init__(self, inputs, width, blocks, classes):
        super().__init__()
        self.stem = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(*(ResidualBlock(width) for _ in range(blocks)))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


class LoraLinear(nn.Module):
    """A frozen linear layer with a trained low-rank term."""

    def __init__(self, base, rank, alpha=16, dropout=0.05):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scaling = alpha / rank
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.base(x) + self.up(self.down(self.dropout(x))) * self.scaling


def with_lora(model, names, rank=8):
    """Freezes the model and puts LoRA on the linear layers of these names."""
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(parent, name, LoraLinear(child, rank))
    return model


def with_frozen(model, prefixes):
    """Freezes the parameters whose names begin so."""
    for name, parameter in model.named_parameters():
        if name.startswith(tuple(prefixes)):
            parameter.requires_grad_(False)
    return model


class MixedOperations(nn.Module):
    """Cat, split, einsum, masked_fill, where, gather, cumsum and others in one small network."""

    def __init__(self, width, classes):
        super().__init__()
        self.left = nn.Linear(width, width)
        self.right = nn.Linear(width, 2 * width)
        self.scale = nn.Parameter(torch.ones(width))
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x, mask):
        first, second = self.right(x).chunk(2, dim=-1)
        left = torch.tanh(self.left(x)) * self.scale
        scores = torch.einsum("bsd,btd->bst", left, first)
        weights = torch.softmax(scores.masked_fill(mask.unsqueeze(1), -1e4), dim=-1)
        mixed = torch.matmul(weights, second)
        running = torch.cumsum(mixed, dim=1) / mixed.shape[1]
        chosen = torch.where(mask.unsqueeze(-1), running, left.abs().sqrt())
        joined = torch.cat([mixed, running, chosen, left.exp().clamp(max=5.0)], dim=-1)
        return self.head(joined.amax(dim=1))
