"""Fine-tuning in stages: the head first, then the last block, then everything."""
import torch
import torchvision

model = torchvision.models.resnet18()
model.fc = torch.nn.Linear(model.fc.in_features, 20)
model = model.cuda()
for name, parameter in model.named_parameters():
    parameter.requires_grad = name.startswith("fc")

stages = [("fc",), ("layer4", "fc"), ("",)]
criterion = torch.nn.CrossEntropyLoss().cuda()
for stage, prefixes in enumerate(stages):
    for name, parameter in model.named_parameters():
        if name.startswith(prefixes):
            parameter.requires_grad = True
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=1e-3 / 10 ** stage)
    model.train()
    for step in range(3):
        x = torch.randn(16, 3, 96, 96).cuda()
        y = torch.randint(20, (16,)).cuda()
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        accuracy = (model(x).argmax(1) == y).float().mean()
    print(f"stage {stage}: {len(trainable)} tensors, loss {loss.item():.3f}, accuracy {accuracy:.2f}")
