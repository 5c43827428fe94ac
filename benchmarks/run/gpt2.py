"""Three steps of GPT-2, as a script."""
import torch
from transformers import GPT2LMHeadModel, GPT2Config
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config()).to("cuda")
opt = torch.optim.AdamW(model.parameters(), lr=5e-5)
model.train()
for step in range(3):
    ids = torch.randint(0, 50257, (4, 512), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    print(step, loss.item())
