# case: a loop through the validation loader
import torch
def validate(model, val_loader, criterion):
    model.eval()
    correct = 0
    for x, y in val_loader:
        out = model(x.cuda())  # expect: VF003
        correct += (out.argmax(1) == y.cuda()).sum().item()
    return correct
# case: under no_grad
import torch
def validate(model, val_loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in val_loader:
            out = model(x.cuda())
            correct += (out.argmax(1) == y.cuda()).sum().item()
    return correct
# case: decorated
import torch
@torch.no_grad()
def validate(model, val_loader):
    model.eval()
    for x, y in val_loader:
        print(model(x).argmax(1))
# case: decorated with inference_mode
import torch
@torch.inference_mode()
def test(model, test_loader):
    for x, y in test_loader:
        print(model(x).argmax(1))
# case: gradients switched off by a statement
import torch
def run(model, test_loader):
    torch.set_grad_enabled(False)
    model.eval()
    for x, y in test_loader:
        print(model(x).argmax(1))
# case: one example after eval
import torch
import torchvision
model = torchvision.models.resnet50(weights="DEFAULT").cuda()
model.eval()
x = torchvision.io.read_image("cat.png").float()[None].cuda()
scores = model(x)  # expect: VF003
print(scores.argmax(1).item())
# case: one example after eval under inference_mode
import torch
import torchvision
model = torchvision.models.resnet50(weights="DEFAULT").cuda()
model.eval()
with torch.inference_mode():
    print(model(torch.randn(1, 3, 224, 224, device="cuda")).argmax(1).item())
# case: train and validation in one function
import torch
def fit(model, train_loader, val_loader, criterion, optimizer, epochs):
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        val = 0.0
        for x, y in val_loader:
            out = model(x)  # expect: VF003
            val += criterion(out, y).item()
        print(val)
# case: the caller holds no_grad
import torch
def run(model, loader):
    model.eval()
    hits = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
    return hits
def main(model, test_loader):
    with torch.no_grad():
        print(run(model, test_loader))
main(None, None)
# case: used for the test set
import torch
def run(model, loader):
    hits = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()  # expect: VF003
    return hits
def main(model, test_loader):
    print(run(model, test_loader))
# case: one function for training and evaluation, with a switch for gradients
import torch
def run_epoch(model, loader, criterion, optimizer, is_train):
    model.train(is_train)
    total = 0.0
    with torch.set_grad_enabled(is_train):
        for x, y in loader:
            loss = criterion(model(x), y)
            if is_train:
                optimizer.zero_grad(set_to_none=True)  # expect: VF006
                loss.backward()
                optimizer.step()
            total += loss.item()
    return total
# case: adversarial evaluation needs gradients
import torch
import torch.nn.functional as F
def test(model, test_loader, epsilon):
    model.eval()
    for x, y in test_loader:
        x.requires_grad = True
        loss = F.nll_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        adversarial = x + epsilon * x.grad.sign()
        print(model(adversarial).argmax(1))
# case: saliency with autograd.grad
import torch
def evaluate_saliency(model, test_loader):
    model.eval()
    for x, y in test_loader:
        x = x.requires_grad_()
        score = model(x).max()
        print(torch.autograd.grad(score, x)[0].abs().mean().item())
# case: a frozen network
import torch
import torchvision
backbone = torchvision.models.resnet18(weights="DEFAULT").cuda()
backbone.eval()
for p in backbone.parameters():
    p.requires_grad = False
def features(test_loader):
    out = []
    for x, _ in test_loader:
        out.append(backbone(x.cuda()).cpu())
    return torch.cat(out)
# case: a frozen teacher whose caller holds no_grad
import torch
def soft_targets(teacher, x):
    teacher.eval()
    return teacher(x).softmax(1)
def train(student, teacher, loader, kd_loss, optimizer):
    for x, y in loader:
        with torch.no_grad():
            targets = soft_targets(teacher, x)
        optimizer.zero_grad()
        loss = kd_loss(student(x), targets)
        loss.backward()
        optimizer.step()
# case: a teacher whose graph is recorded
import torch
def train(student, teacher, loader, kd_loss, optimizer):
    teacher.eval()
    student.train()
    for x, y in loader:
        optimizer.zero_grad()
        targets = teacher(x)  # expect: VF003
        loss = kd_loss(student(x), targets)
        loss.backward()
        optimizer.step()
# case: batch norm frozen by eval while training
import torch
def finetune(model, train_loader, criterion, optimizer):
    model.eval()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
# case: Lightning switches gradients off itself
import torch
import lightning as L
import torch.nn.functional as F
class Lit(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def validation_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("val_loss", loss)
# case: a perceptual loss goes through a network under eval
import torch
def train(generator, vgg, train_loader, mse_loss, optimizer):
    vgg.eval()
    for x, target in train_loader:
        optimizer.zero_grad()
        fake = generator(x)
        loss = mse_loss(vgg(fake), target)
        loss.backward()
        optimizer.step()
# case: a comprehension over the test loader
import torch
def predict(model, test_loader):
    model.eval()
    return [model(x).argmax(1).item() for x in test_loader]  # expect: VF003
# case: a test function that asserts
import torch
def test_output_shape():
    model = torch.nn.Linear(4, 2)
    model.eval()
    assert model(torch.randn(3, 4)).shape == (3, 2)
# case: generation records no graph
import torch
def generate(model, prompts_test):
    model.eval()
    for prompt in prompts_test:
        print(model.generate(prompt))
# case: two evaluations, each told once
import torch
def report(model, val_loader, test_loader):
    model.eval()
    for x, y in val_loader:
        print(model(x).mean().item())  # expect: VF003
    for x, y in test_loader:
        a = model(x)  # expect: VF003
        b = model(x + 1)
        print((a - b).abs().mean().item())
# case: a switch that is off
import torch
def run_epoch(model, loader, criterion, optimizer, train=True):
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x), y)  # expect: VF003
        if train:
            optimizer.zero_grad(set_to_none=True)  # expect: VF006
            loss.backward()
            optimizer.step()
        total += loss.item()
    return total
def main(model, train_loader, val_loader, criterion, optimizer):
    run_epoch(model, train_loader, criterion, optimizer, train=True)
    run_epoch(model, val_loader, criterion, optimizer, train=False)
