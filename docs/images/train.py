import torch
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config()).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
for step in range(1000):
    optimizer.zero_grad()
    for micro_batch in range(2):
        tokens = torch.randint(50257, (8, 512), device="cuda")
        loss = model(input_ids=tokens, labels=tokens).loss / 2
        loss.backward()
    optimizer.step()
