"""A loop with Accelerate: accumulation, clipping, a schedule, gathered predictions."""
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup


def loader(count, batch, shuffle):
    ids = torch.randint(5, 3000, (count, 64))
    return DataLoader(TensorDataset(ids, torch.ones_like(ids), torch.randint(0, 3, (count,))), batch_size=batch, shuffle=shuffle)


def main():
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=2)
    model = BertForSequenceClassification(BertConfig(vocab_size=3000, hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=1024, num_labels=3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    train, test = loader(96, 12, True), loader(36, 12, False)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 16)
    model, optimizer, train, test, schedule = accelerator.prepare(model, optimizer, train, test, schedule)
    for epoch in range(2):
        model.train()
        for ids, mask, labels in train:
            with accelerator.accumulate(model):
                loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        right = 0
        for ids, mask, labels in test:
            with torch.no_grad():
                predictions = model(input_ids=ids, attention_mask=mask).logits.argmax(-1)
            predictions, labels = accelerator.gather_for_metrics((predictions, labels))
            right += (predictions == labels).sum().item()
        accelerator.print(f"epoch {epoch}: {right}/36")


if __name__ == "__main__":
    main()
