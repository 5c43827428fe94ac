"""Networks as people write them in their own scripts: torch alone, each with its own forward."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm


class Adversary(nn.Module):
    """A generator of images from noise, then the critic that judges them: the generator's step of a DCGAN."""

    def __init__(self, noise=100, width=64):
        super().__init__()
        layers, inputs = [], noise
        for position, outputs in enumerate((width * 8, width * 4, width * 2, width)):
            stride, padding = (1, 0) if position == 0 else (2, 1)
            layers += [nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]
            inputs = outputs
        self.generator = nn.Sequential(*layers, nn.ConvTranspose2d(inputs, 3, 4, 2, 1, bias=False), nn.Tanh())
        self.critic = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, width * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(width * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width * 2, width * 4, 4, 2, 1, bias=False),
            nn.BatchNorm2d(width * 4),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width * 4, 1, 8, 1, 0, bias=False),
        )

    def forward(self, noise):
        return self.critic(self.generator(noise)).view(-1)


class NormedBlock(nn.Module):
    """Two convolutions with group norm, and a way around them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(8, outputs), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.around = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return self.second(self.first(x)) + self.around(x)


class ImageAttention(nn.Module):
    """Attention between all places of an image, written out."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, 3, c, h * w).unbind(1)
        weights = torch.softmax(torch.bmm(q.transpose(1, 2), k) / math.sqrt(c), dim=-1)
        return x + self.out(torch.bmm(v, weights.transpose(1, 2)).reshape(b, c, h, w))


class Denoiser(nn.Module):
    """The U-Net of a small diffusion model: the time enters as an embedding, attention at the bottom."""

    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width * 4), nn.SiLU(), nn.Linear(width * 4, width))
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([NormedBlock(width, width), NormedBlock(width * 2, width * 2)])
        self.shrink = nn.ModuleList([nn.Conv2d(width, width * 2, 3, 2, 1), nn.Conv2d(width * 2, width * 4, 3, 2, 1)])
        self.middle = nn.Sequential(NormedBlock(width * 4, width * 4), ImageAttention(width * 4), NormedBlock(width * 4, width * 4))
        self.grow = nn.ModuleList([nn.Conv2d(width * 4, width * 2, 3, padding=1), nn.Conv2d(width * 2, width, 3, padding=1)])
        self.up = nn.ModuleList([NormedBlock(width * 4, width * 2), NormedBlock(width * 2, width)])
        self.head = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))
        self.register_buffer("frequencies", torch.exp(torch.arange(width // 2) * (-math.log(10000) / (width // 2))))

    def forward(self, x, time):
        angles = time[:, None] * self.frequencies[None]
        embedding = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        x = self.stem(x) + embedding[:, :, None, None]
        skips = []
        for block, shrink in zip(self.down, self.shrink):
            x = block(x)
            skips.append(x)
            x = shrink(x)
        x = self.middle(x)
        for grow, block in zip(self.grow, self.up):
            x = grow(functional.interpolate(x, scale_factor=2, mode="nearest"))
            x = block(torch.cat([x, skips.pop()], dim=1))
        return self.head(x)


class Chomp(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, : -self.size].contiguous()


class TemporalBlock(nn.Module):
    """Two dilated convolutions that see only the past."""

    def __init__(self, inputs, outputs, kernel, dilation, dropout=0.2):
        super().__init__()
        padding = (kernel - 1) * dilation

        def layer(channels):
            convolution = nn.Conv1d(channels, outputs, kernel, padding=padding, dilation=dilation)
            return [weight_norm(convolution), Chomp(padding), nn.ReLU(), nn.Dropout(dropout)]

        self.net = nn.Sequential(*layer(inputs), *layer(outputs))
        self.downsample = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x):
        around = x if self.downsample is None else self.downsample(x)
        return functional.relu(self.net(x) + around)


class TemporalNetwork(nn.Module):
    def __init__(self, inputs=16, channels=(48, 48, 48, 48), kernel=5, classes=10):
        super().__init__()
        widths = [inputs, *channels]
        self.blocks = nn.Sequential(*(TemporalBlock(a, b, kernel, 2**i) for i, (a, b) in enumerate(zip(widths, widths[1:]))))
        self.head = nn.Linear(channels[-1], classes)

    def forward(self, x):
        return self.head(self.blocks(x)[:, :, -1])


class MixerBlock(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.places = nn.Sequential(nn.Linear(places, places * 2), nn.GELU(), nn.Linear(places * 2, places))
        self.channels = nn.Sequential(nn.Linear(width, width * 4), nn.GELU(), nn.Linear(width * 4, width))

    def forward(self, x):
        x = x + self.places(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """MLP-Mixer."""

    def __init__(self, side=128, patch=16, width=256, depth=6, classes=100):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.blocks = nn.Sequential(*(MixerBlock((side // patch) ** 2, width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


class Positions(nn.Module):
    """Sines and cosines that are added, then dropout: PyTorch's tutorial."""

    def __init__(self, width, longest=512, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        place = torch.arange(longest).unsqueeze(1)
        steps = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(1, longest, width)
        table[0, :, 0::2] = torch.sin(place * steps)
        table[0, :, 1::2] = torch.cos(place * steps)
        self.register_buffer("table", table)

    def forward(self, x):
        return self.dropout(x + self.table[:, : x.size(1)])


class TutorialLanguageModel(nn.Module):
    """nn.TransformerEncoder under a causal mask."""

    def __init__(self, vocabulary=20000, width=256, heads=4, layers=4, feedforward=1024):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = Positions(width)
        layer = nn.TransformerEncoderLayer(width, heads, feedforward, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.positions(self.embedding(tokens) * math.sqrt(self.width))
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device, dtype=x.dtype)
        return self.head(self.encoder(x, mask=mask, is_causal=True))


class Tagger(nn.Module):
    """Words and their letters, a bidirectional LSTM, a tag a word."""

    def __init__(self, words=20000, letters=100, tags=20, width=128, hidden=200):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.letters = nn.Embedding(letters, 32, padding_idx=0)
        self.convolution = nn.Conv1d(32, 64, 3, padding=1)
        self.dropout = nn.Dropout(0.3)
        self.lstm = nn.LSTM(width + 64, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, tags)

    def forward(self, words, letters):
        b, s, length = letters.shape
        spelled = self.letters(letters).view(b * s, length, -1).transpose(1, 2)
        spelled = functional.relu(self.convolution(spelled)).max(dim=2).values.view(b, s, -1)
        x = self.dropout(torch.cat([self.words(words), spelled], dim=-1))
        return self.head(self.dropout(self.lstm(x)[0]))


class VariationalAutoencoder(nn.Module):
    """Returns its loss: the picture's error and the divergence."""

    def __init__(self, width=32, latent=128, side=64):
        super().__init__()
        layers, inputs = [], 3
        for outputs in (width, width * 2, width * 4):
            layers += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs), nn.LeakyReLU()]
            inputs = outputs
        self.encoder = nn.Sequential(*layers, nn.Flatten())
        self.small = side // 8
        flat = inputs * self.small**2
        self.mean, self.variance = nn.Linear(flat, latent), nn.Linear(flat, latent)
        self.start = nn.Linear(latent, flat)
        layers = []
        for outputs in (width * 2, width, width):
            layers += [nn.ConvTranspose2d(inputs, outputs, 3, 2, 1, output_padding=1), nn.BatchNorm2d(outputs), nn.LeakyReLU()]
            inputs = outputs
        self.decoder = nn.Sequential(*layers, nn.Conv2d(inputs, 3, 3, padding=1), nn.Sigmoid())

    def forward(self, x):
        hidden = self.encoder(x)
        mean, variance = self.mean(hidden), self.variance(hidden)
        latent = mean + torch.randn_like(mean) * torch.exp(0.5 * variance)
        picture = self.decoder(self.start(latent).view(x.size(0), -1, self.small, self.small))
        return picture, mean, variance


class SmallGpt(nn.Module):
    """nanoGPT: fused queries, keys and values, tied embeddings, the loss inside."""

    def __init__(self, vocabulary=50304, width=384, heads=6, layers=6, longest=256, dropout=0.1):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(GptBlock(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, tokens):
        places = torch.arange(tokens.size(1), device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.places(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class GptBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.rate if self.training else 0, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).contiguous().view(b, t, c)))
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm2(x)))))


class WrittenGpt(SmallGpt):
    """SmallGpt with attention of products and a softmax. `fused`: as `vramfit plan` tells people to write it instead."""

    def __init__(self, masked=True, fused=False, longest=512, **others):
        super().__init__(longest=longest, **others)
        width, heads, dropout = self.norm.normalized_shape[0], self.blocks[0].heads, self.blocks[0].rate
        made = (WrittenBlock(width, heads, dropout, longest, masked, fused) for _ in self.blocks)
        self.blocks = nn.ModuleList(made)


class WrittenBlock(GptBlock):
    def __init__(self, width, heads, dropout, longest, masked, fused):
        super().__init__(width, heads, dropout)
        self.attention_dropout = nn.Dropout(dropout)
        self.is_masked, self.is_fused = masked, fused
        if masked:
            self.register_buffer("ones", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        y = self.fused(q, k, v, t) if self.is_fused else self.written(q, k, v, t)
        x = x + self.dropout(self.out(y.transpose(1, 2).contiguous().view(b, t, c)))
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm2(x)))))

    def written(self, q, k, v, t):
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        if self.is_masked:
            scores = scores.masked_fill(self.ones[:, :, :t, :t] == 0, float("-inf"))
        scores = functional.softmax(scores, dim=-1)
        scores = self.attention_dropout(scores)
        return scores @ v

    def fused(self, q, k, v, t):
        mask = (self.ones[:, :, :t, :t] == 0).logical_not() if self.is_masked else None
        rate = self.rate if self.training else 0.0
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate)


class Recommender(nn.Module):
    """Embeddings of categories beside numbers, products between them, a perceptron: DLRM."""

    def __init__(self, sizes=(20000, 5000, 5000, 1000, 300, 50), numbers=13, width=32):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.bottom = nn.Sequential(nn.Linear(numbers, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (len(sizes) + 1) * len(sizes) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, numbers, categories):
        dense = self.bottom(numbers)
        vectors = [dense] + [table(categories[:, i]) for i, table in enumerate(self.tables)]
        stacked = torch.stack(vectors, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        rows, columns = torch.tril_indices(len(vectors), len(vectors), offset=-1)
        return self.top(torch.cat([dense, products[:, rows, columns]], dim=1)).squeeze(1)


class Translator(nn.Module):
    """A GRU reads, a GRU cell writes word by word and looks back: PyTorch's older tutorial."""

    def __init__(self, vocabulary=8000, width=256):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.cell = nn.GRUCell(2 * width, width)
        self.score = nn.Linear(2 * width, width)
        self.weight = nn.Linear(width, 1, bias=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, source, target):
        states, last = self.encoder(self.source(source))
        hidden, outputs = last[0], []
        embedded = self.target(target)
        for step in range(target.size(1)):
            asked = hidden.unsqueeze(1).expand(-1, states.size(1), -1)
            scores = self.weight(torch.tanh(self.score(torch.cat([asked, states], dim=-1)))).squeeze(-1)
            context = torch.bmm(functional.softmax(scores, dim=-1).unsqueeze(1), states).squeeze(1)
            hidden = self.cell(torch.cat([embedded[:, step], context], dim=-1), hidden)
            outputs.append(self.head(hidden))
        return torch.stack(outputs, dim=1)
