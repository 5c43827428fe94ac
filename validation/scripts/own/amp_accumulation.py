"""Mixed precision with a GradScaler, gradient accumulation and clipping."""
import torch
from torch import nn
from torch.amp import GradScaler, autocast


class MLPMixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, tokens * 2), nn.GELU(), nn.Linear(tokens * 2, tokens))
        self.channels = nn.Sequential(nn.Linear(width, width * 4), nn.GELU(), nn.Linear(width * 4, width))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, depth=4, width=256, patch=8, side=64):
        super().__init__()
        self.stem = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*[MLPMixerBlock((side // patch) ** 2, width) for _ in range(depth)])
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(1))


accumulate = 4
model = Mixer().to("cuda")
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
scaler = GradScaler("cuda")
opt.zero_grad(set_to_none=True)
for i in range(16):
    x, y = torch.randn(24, 3, 64, 64).to("cuda"), torch.randint(100, (24,)).to("cuda")
    with autocast(device_type="cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y) / accumulate
    scaler.scale(loss).backward()
    if (i + 1) % accumulate == 0:
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        print(i, loss.item() * accumulate, norm.item(), scaler.get_scale())
