# case: notebook export, image classifier, accuracy tensor summed in the training loop
# %%
import torch, torchvision
import torchvision.transforms as tt
import matplotlib.pyplot as plt
dev = 'cuda' if torch.cuda.is_available() else 'cpu'
# %%
tr = torchvision.datasets.CIFAR10('.', True, tt.ToTensor(), download=True)
te = torchvision.datasets.CIFAR10('.', False, tt.ToTensor())
trl = torch.utils.data.DataLoader(tr, 128, True)
tel = torch.utils.data.DataLoader(te, 5000)  # expect: VF004
# %%
m = torchvision.models.resnet18(num_classes=10).to(dev)
o = torch.optim.SGD(m.parameters(), .1, .9)
lf = torch.nn.CrossEntropyLoss()
hist = []
# %%
for e in range(20):
    m.train()
    for xb, yb in trl:
        xb, yb = xb.to(dev), yb.to(dev)
        o.zero_grad()
        l = lf(m(xb), yb)
        l.backward()
        o.step()
        hist.append(l)  # expect: VF001
    m.eval()
    with torch.no_grad():
        acc = sum((m(xb.to(dev)).argmax(1).cpu() == yb).sum().item() for xb, yb in tel) / len(te)
    print(e, acc)
# %%
plt.plot([h.item() for h in hist])
# case: notebook export, autoencoder and t-SNE of codes
# %%
import numpy as np
import torch
from sklearn.manifold import TSNE
from mynets import AE
from mydata import train_loader, test_loader
# %%
ae = AE(32).cuda()
opt = torch.optim.Adam(ae.parameters())
# %%
for ep in range(10):
    for x, _ in train_loader:
        x = x.cuda()
        opt.zero_grad()
        rec, code = ae(x)
        ((rec - x) ** 2).mean().backward()
        opt.step()
# %%
codes, labels = [], []
ae.eval()
for x, y in test_loader:
    _, c = ae(x.cuda())  # expect: VF003
    codes.append(c.detach().cpu().numpy())
    labels.append(y.numpy())
emb = TSNE().fit_transform(np.concatenate(codes))
# case: notebook export, neural style transfer, clean
# %%
import torch
import torch.nn.functional as F
from torchvision.models import vgg19
# %%
vgg = vgg19(weights='DEFAULT').features.cuda().eval()
for p in vgg.parameters():
    p.requires_grad_(False)
def feats(x, layers=(0, 5, 10, 19, 28)):
    out = []
    for i, l in enumerate(vgg):
        x = l(x)
        if i in layers:
            out.append(x)
    return out
def gram(f):
    b, c, h, w = f.shape
    f = f.view(c, h * w)
    return f @ f.T / (c * h * w)
# %%
content, style = torch.load('c.pt').cuda(), torch.load('s.pt').cuda()
cf, sg = feats(content), [gram(f) for f in feats(style)]
img = content.clone().requires_grad_(True)
opt = torch.optim.LBFGS([img])
losses = []
for step in range(300):
    def closure():
        opt.zero_grad()
        fs = feats(img)
        loss = F.mse_loss(fs[3], cf[3]) + 1e5 * sum(F.mse_loss(gram(f), g) for f, g in zip(fs, sg))
        loss.backward()
        return loss
    losses.append(opt.step(closure).item())
# case: notebook export, learning-rate finder that stores losses and clears the cache
# %%
import torch
from course import get_data, get_model
# %%
model, crit = get_model().cuda(), torch.nn.BCEWithLogitsLoss()
opt = torch.optim.SGD(model.parameters(), 1e-7)
lrs, ls = [], []
# %%
for xb, yb in get_data():
    opt.zero_grad()
    loss = crit(model(xb.cuda()), yb.cuda())
    loss.backward()
    opt.step()
    for g in opt.param_groups:
        g['lr'] *= 1.1
    lrs.append(opt.param_groups[0]['lr'])
    ls.append(loss.detach().cpu())
    torch.cuda.empty_cache()  # expect: VF009
# case: notebook export, time series with tensors of the whole set moved
# %%
import pandas as pd
import torch
from torch import nn
# %%
df = pd.read_csv('power.csv')
X = torch.tensor(df.iloc[:, :-1].values, dtype=torch.float32).unfold(0, 96, 1)
y = torch.tensor(df.iloc[95:, -1].values, dtype=torch.float32)
X, y = X.cuda(), y.cuda()  # expect: VF015
# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(96, 64, batch_first=True)
        self.f = nn.Linear(64, 1)
    def forward(self, x):
        return self.f(self.l(x)[0][:, -1]).squeeze(-1)
net = Net().cuda()
opt = torch.optim.Adam(net.parameters())
# %%
for epoch in range(30):
    perm = torch.randperm(len(X), device='cuda')
    for i in range(0, len(X), 256):
        idx = perm[i:i + 256]
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(X[idx]), y[idx])
        loss.backward()
        opt.step()
# case: notebook export, small MLP on numpy data, clean and on the CPU
# %%
import numpy as np
import torch
# %%
rng = np.random.default_rng(0)
X = torch.from_numpy(rng.normal(size=(1000, 20))).float()
y = (X.sum(1) > 0).float()
net = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters())
curve = []
# %%
for epoch in range(200):
    opt.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(net(X).squeeze(1), y)
    loss.backward()
    opt.step()
    curve.append(loss.item())
# case: notebook export, segmentation with a dice list, clean
# %%
import torch
import segmentation_models_pytorch as smp
from mydata import loaders
# %%
net = smp.Unet('resnet34', classes=1).cuda()
opt = torch.optim.Adam(net.parameters(), 1e-4)
dice = smp.losses.DiceLoss('binary')
# %%
best = 0
for ep in range(40):
    net.train()
    for img, mask in loaders['train']:
        opt.zero_grad(set_to_none=True)
        dice(net(img.cuda()), mask.cuda()).backward()
        opt.step()
    net.eval()
    scores = []
    with torch.no_grad():
        for img, mask in loaders['val']:
            scores.append(1 - dice(net(img.cuda()), mask.cuda()).item())
    if np_mean := sum(scores) / len(scores) > best:
        best = np_mean
        torch.save(net.state_dict(), 'best.pth')
# case: notebook export, frame-by-frame depth video, clean
# %%
import cv2
import torch
# %%
midas = torch.hub.load('intel-isl/MiDaS', 'DPT_Large').cuda().eval()
tf = torch.hub.load('intel-isl/MiDaS', 'transforms').dpt_transform
cap, maps = cv2.VideoCapture('in.mp4'), []
# %%
with torch.no_grad():
    while True:
        ok, frame = cap.read()
        if not ok:
            break
        maps.append(midas(tf(frame).cuda()).squeeze().cpu().numpy())
