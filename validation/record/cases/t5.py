"""A small T5, encoder and decoder, with AdamW."""

import torch
from transformers import T5Config, T5ForConditionalGeneration


def build_model(tiny):
    width, vocabulary = (32, 500) if tiny else (256, 32128)
    config = T5Config(
        d_model=width,
        d_ff=4 * width,
        d_kv=width // 4,
        num_heads=4,
        num_layers=2,
        num_decoder_layers=2,
        vocab_size=vocabulary,
        decoder_start_token_id=0,
        use_cache=False,
    )
    return T5ForConditionalGeneration(config)


def train(model, optimizer, sources, targets, steps):
    model.train()
    for step in range(steps):
        optimizer.zero_grad()
        outputs = model(input_ids=sources, labels=targets)
        outputs.loss.backward()
        optimizer.step()
        print(f"step {step}: loss {outputs.loss.item():.4f}")


def main(device, tiny, snapshot):
    batch, source_length, target_length, steps = (2, 16, 8, 2) if tiny else (16, 128, 64, 3)
    model = build_model(tiny).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    vocabulary = model.config.vocab_size
    sources = torch.randint(0, vocabulary, (batch, source_length)).to(device)
    targets = torch.randint(0, vocabulary, (batch, target_length)).to(device)
    train(model, optimizer, sources, targets, steps)
    snapshot()
