"""Hugging Face's Trainer with a small GPT-2 and an evaluation each epoch."""
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Tokens(Dataset):
    def __init__(self, count, length=128):
        generator = torch.Generator().manual_seed(count)
        self.ids = torch.randint(0, 4000, (count, length), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


set_seed(42)
config = GPT2Config(vocab_size=4000, n_positions=128, n_embd=256, n_layer=4, n_head=4)
model = GPT2LMHeadModel(config)
args = TrainingArguments(
    output_dir="out", num_train_epochs=2, per_device_train_batch_size=8, per_device_eval_batch_size=8, gradient_accumulation_steps=2,
    learning_rate=5e-4, warmup_steps=2, logging_steps=2, eval_strategy="epoch", save_strategy="no", report_to="none", bf16=True,
)
trainer = Trainer(model=model, args=args, train_dataset=Tokens(64), eval_dataset=Tokens(16))
result = trainer.train()
print(result.metrics["train_loss"])
print(trainer.evaluate())
