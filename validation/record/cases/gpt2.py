"""A four-layer GPT-2 with its real vocabulary: the fp32 logits are the largest tensors."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def build_model(tiny):
    width, vocabulary = (32, 500) if tiny else (256, 50257)
    return GPT2LMHeadModel(GPT2Config(n_layer=4, n_head=4, n_embd=width, vocab_size=vocabulary))


def train(model, optimizer, tokens, steps):
    model.train()
    for step in range(steps):
        outputs = model(input_ids=tokens, labels=tokens)
        loss = outputs.loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    batch, length, steps = (2, 16, 2) if tiny else (8, 256, 3)
    model = build_model(tiny).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(0, model.config.vocab_size, (batch, length)).to(device)
    train(model, optimizer, tokens, steps)
    snapshot()
