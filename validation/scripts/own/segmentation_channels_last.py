"""A U-Net in channels-last format with a Dice loss, evaluated after each epoch, the cache emptied."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, c=32, classes=4):
        super().__init__()
        self.a, self.b, self.c = double(3, c), double(c, 2 * c), double(2 * c, 4 * c)
        self.up1, self.d1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), double(4 * c, 2 * c)
        self.up2, self.d2 = nn.ConvTranspose2d(2 * c, c, 2, 2), double(2 * c, c)
        self.out = nn.Conv2d(c, classes, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        x = self.d1(torch.cat((b, self.up1(c)), dim=1))
        x = self.d2(torch.cat((a, self.up2(x)), dim=1))
        return self.out(x)


def dice(logits, target):
    p = logits.softmax(1)
    t = F.one_hot(target, logits.size(1)).permute(0, 3, 1, 2).float()
    overlap = 2 * (p * t).sum((0, 2, 3))
    return 1 - (overlap / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) + 1e-6)).mean()


model = UNet().to("cuda", memory_format=torch.channels_last)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-8, foreach=True)
for epoch in range(2):
    model.train()
    for i in range(3):
        x = torch.randn(4, 3, 96, 128).to("cuda", memory_format=torch.channels_last)
        y = torch.randint(0, 4, (4, 96, 128)).to("cuda")
        logits = model(x)
        loss = F.cross_entropy(logits, y) + dice(logits, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        x = torch.randn(12, 3, 96, 128).to("cuda", memory_format=torch.channels_last)
        print(epoch, loss.item(), model(x).argmax(1).float().mean().item())
    torch.cuda.empty_cache()
