"""A small ResNet learns from a frozen larger one."""
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
teacher = torchvision.models.resnet34(num_classes=100).to(device).eval()
for p in teacher.parameters():
    p.requires_grad = False
student = torchvision.models.resnet18(num_classes=100).to(device)

data = TensorDataset(torch.randn(128, 3, 64, 64), torch.randint(0, 100, (128,)))
loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, pin_memory=True)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=2 * len(loader))
T, alpha = 4.0, 0.7

for epoch in range(2):
    student.train()
    running = 0
    for images, labels in loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.no_grad():
            soft = teacher(images)
        logits = student(images)
        hard_loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        soft_loss = F.kl_div(F.log_softmax(logits / T, dim=1), F.softmax(soft / T, dim=1), reduction="batchmean") * T * T
        loss = alpha * soft_loss + (1 - alpha) * hard_loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        running += loss.item()
    print(f"epoch {epoch}: {running / len(loader):.4f}, lr {scheduler.get_last_lr()[0]:.4f}")
