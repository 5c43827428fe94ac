"""Small models for the tests of answers and plans."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.ReLU()
        self.down = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.drop(self.down(self.act(self.up(self.norm(x)))))


class Blocks(nn.Module):
    """Repeated blocks, of which any may be checkpointed."""

    def __init__(self, width: int = 96, count: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(count))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Images(nn.Module):
    """A model in which an in-place activation saves memory: nothing else holds what it overwrites."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.act = nn.ReLU()
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.leaky = nn.LeakyReLU(0.1)
        self.shared = nn.ReLU()
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.act(self.first(x))
        y = self.leaky(self.second(x))
        z = x + y
        return self.head((self.shared(z) + z).mean((2, 3)))


def loss_function(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)


BATCH = 32


def blocks(**options):
    torch.manual_seed(0)
    return Blocks(**options), torch.randn(BATCH, 12, options.get("width", 96)), torch.randint(0, 10, (BATCH,))


def images():
    torch.manual_seed(0)
    return Images(), torch.randn(BATCH, 3, 24, 24), torch.randint(0, 10, (BATCH,))
