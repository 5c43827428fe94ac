"""A small Llama in bfloat16 (grouped keys and values, rotary positions) with fused AdamW."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def build_model(tiny):
    width, vocabulary = (32, 500) if tiny else (512, 32000)
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=vocabulary,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def train(model, optimizer, batches, device):
    model.train()
    for tokens in batches:
        tokens = tokens.to(device)
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    batch, length, steps = (2, 16, 2) if tiny else (4, 512, 3)
    model = build_model(tiny).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    batches = [torch.randint(0, model.config.vocab_size, (batch, length)) for _ in range(steps)]
    train(model, optimizer, batches, device)
    snapshot()
