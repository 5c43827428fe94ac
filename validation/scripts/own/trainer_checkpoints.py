"""Trainer with fp16, gradient checkpointing, Adafactor, saved checkpoints and the best model loaded at the end."""
import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, EarlyStoppingCallback, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        ids = torch.randint(5, 1000, (64,), generator=generator)
        return {"input_ids": ids, "attention_mask": torch.ones(64, dtype=torch.long), "labels": i % 3}


def compute_metrics(prediction):
    return {"accuracy": float((np.argmax(prediction.predictions, -1) == prediction.label_ids).mean())}


config = BertConfig(vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, num_labels=3)
model = BertForSequenceClassification(config)
args = TrainingArguments(
    "out", num_train_epochs=2, per_device_train_batch_size=8, fp16=True, gradient_checkpointing=True, eval_strategy="epoch",
    save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="accuracy", report_to=[], optim="adafactor",
    lr_scheduler_type="cosine", label_smoothing_factor=0.1, max_grad_norm=0.5, dataloader_num_workers=2,
)
trainer = Trainer(
    model, args, train_dataset=Rows(48), eval_dataset=Rows(24), compute_metrics=compute_metrics, callbacks=[EarlyStoppingCallback(2)],
)
trainer.train()
print(trainer.predict(Rows(8)).predictions.shape)
