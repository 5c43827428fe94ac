"""Fine-tuning a four-layer BERT classifier with AdamW and gradient clipping."""

import torch
from transformers import BertConfig, BertForSequenceClassification


def build_model(tiny):
    width = 32 if tiny else 384
    config = BertConfig(
        hidden_size=width,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=4 * width,
        num_labels=3,
    )
    return BertForSequenceClassification(config)


def make_batches(batch, length, steps):
    for _ in range(steps):
        yield {
            "input_ids": torch.randint(0, 30522, (batch, length)),
            "attention_mask": torch.ones(batch, length, dtype=torch.long),
            "labels": torch.randint(0, 3, (batch,)),
        }


def train(model, optimizer, batches, device):
    model.train()
    for batch in batches:
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        outputs = model(**batch)
        outputs.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"loss {outputs.loss.item():.4f}")


def main(device, tiny, snapshot):
    batch, length, steps = (2, 16, 2) if tiny else (16, 128, 3)
    model = build_model(tiny).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    train(model, optimizer, make_batches(batch, length, steps), device)
    snapshot()
