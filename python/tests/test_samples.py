"""Micro-batches: which losses they change, and code that divides correctly."""

import copy

import pytest
import torch
import vramfit
from torch import nn
from torch.nn import functional

BATCH = 16


class Encoder(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        self.first = nn.Linear(24, 64)
        self.norm = nn.BatchNorm1d(64) if norm else nn.Identity()
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.norm(self.first(x)).relu())


class TwoTowers(nn.Module):
    """As CLIP: every text is compared with every image of the batch."""

    def __init__(self):
        super().__init__()
        self.text, self.image = Encoder(), Encoder()

    def forward(self, text, image):
        text, image = functional.normalize(self.text(text), dim=-1), functional.normalize(self.image(image), dim=-1)
        logits = text @ image.t() / 0.07
        labels = torch.arange(len(logits), device=logits.device)
        return (functional.cross_entropy(logits, labels) + functional.cross_entropy(logits.t(), labels)) / 2


class Views(nn.Module):
    """As SimCLR: two views of each sample, compared with all others."""

    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x):
        z = functional.normalize(self.encoder(torch.cat([x, x + 1])), dim=-1)
        similar = z @ z.t() / 0.5
        count = len(z)
        similar = similar.masked_fill(torch.eye(count, dtype=torch.bool, device=z.device), -1e9)
        return functional.cross_entropy(similar, torch.arange(count, device=z.device).roll(count // 2))


def classified(**options):
    return lambda outputs, targets: functional.cross_entropy(outputs, targets, **options)


def distance(outputs, targets):
    return functional.mse_loss(outputs, functional.one_hot(targets, 10).float())


def batch_mean(outputs, targets):
    return functional.kl_div(outputs.log_softmax(-1), functional.one_hot(targets, 10).float(), reduction="batchmean")


def rooted(outputs, targets):
    return distance(outputs, targets).sqrt()


def balanced(outputs, targets):
    share = outputs.softmax(-1).mean(0)
    return functional.cross_entropy(outputs, targets) + (share * share).sum()


def along(outputs, targets):
    return (outputs.softmax(0) * functional.one_hot(targets, 10)).sum(-1).mean()


def routed(outputs, targets):
    """As mixtures of experts are balanced: both factors are means over the batch."""
    likely = outputs.softmax(-1)
    share = functional.one_hot(likely.argmax(-1), 10).float().mean(0)
    return functional.cross_entropy(outputs, targets) + (share * likely.mean(0)).sum()


def between_neighbours(outputs, targets):
    return (outputs[1:] - outputs[:-1]).square().mean()


def between_samples(outputs, targets):
    return outputs.diff(dim=0).square().mean()


def turned(outputs, targets):
    return functional.cross_entropy(outputs.T, torch.zeros(10, dtype=torch.int64))


def normalised(outputs, targets):
    return functional.layer_norm(outputs.T, (len(outputs),)).square().mean()


def convolved(outputs, targets):
    return functional.conv1d(outputs.T[None], torch.ones(1, 10, 3), padding=1).square().mean()


def shuffled(outputs, targets):
    return (outputs - outputs[torch.randperm(len(outputs))]).square().mean()


def picked(outputs, targets):
    return -outputs.log_softmax(-1)[torch.arange(len(outputs)), targets].mean()


def sample():
    return torch.randn(BATCH, 24), torch.randint(0, 10, (BATCH,))


def accumulation(model, inputs, targets=None, loss=None):
    """The row of gradient accumulation in the table of tricks, and its first note."""
    plans = vramfit.plan(model, inputs, targets=targets, loss=loss, vram="1GiB")
    row = next(row for row in plans.tricks if row["trick"] == "gradient accumulation")
    return row["effect"], row["options"][0]["warning"] or ""


@pytest.mark.parametrize("loss, effect, words", [
    (classified(), "none", ""),
    (classified(reduction="sum"), "none", ""),
    (distance, "none", ""),
    (batch_mean, "none", ""),
    (classified(weight=torch.rand(10)), "training", "divides by the weights of the classes"),
    (rooted, "training", "sqrt"),
    (balanced, "training", "reduces over the batch before the loss"),
    (along, "training", "softmax"),
    (routed, "training", "reduces over the batch before the loss"),
    (between_neighbours, "training", "runs along the batch"),
    (between_samples, "training", "runs along the batch"),
    (turned, "training", "runs along the batch"),
    (normalised, "training", "runs along the batch"),
    (convolved, "training", "runs along the batch"),
    (shuffled, "training", "picks samples in a way that cannot be followed"),
    (picked, "none", ""),
])  # fmt: skip
def test_a_loss_is_followed_through_the_batch(loss, effect, words):
    inputs, targets = sample()
    found, note = accumulation(Encoder(), inputs, targets, loss)
    assert found == effect and words in note, note


def test_samples_that_are_compared_meet():
    x = torch.randn(BATCH, 24)
    for model, inputs in ((TwoTowers(), (x, x + 1)), (Views(), (x,))):
        found, note = accumulation(model, inputs)
        assert found == "training" and "compares the samples of a batch" in note, note


def test_batch_norm_takes_its_statistics_over_a_micro_batch():
    found, note = accumulation(Encoder(norm=True), *sample(), classified())
    assert found == "training" and "1 batch norms compute their statistics over 8 samples" in note


def test_a_transformer_that_classifies_does_not_mix_and_ignored_tokens_are_named():
    import transformers

    small = dict(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=100)
    ids = torch.randint(1, 100, (BATCH, 12))
    bert = transformers.BertForSequenceClassification(transformers.BertConfig(**small))
    assert accumulation(bert, {"input_ids": ids, "labels": torch.randint(0, 2, (BATCH,))}) == ("none", "")
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=100, use_cache=False))
    found, note = accumulation(gpt, {"input_ids": ids, "labels": ids})
    assert found == "none" and "if some are ignored" in note


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_micro_batches_of_an_applied_plan_give_the_gradients_of_the_batch(reduction):
    model = Encoder()
    inputs, targets = sample()
    loss = classified(reduction=reduction)
    whole = copy.deepcopy(model)
    loss(whole(inputs), targets).backward()
    start = vramfit.plan(model, inputs, targets=targets, loss=loss, vram="1GiB", batch=BATCH // 4, accumulate=4).start
    assert (" / 4" in start.code) == (reduction == "mean") and start.parts.adds_losses == (reduction == "sum")
    start.apply(model).step(inputs, targets)
    for weight, other in zip(model.parameters(), whole.parameters()):
        assert torch.allclose(weight.grad, other.grad, atol=1e-6)


def test_plans_that_mix_samples_are_another_training():
    x = torch.randn(64, 24)
    inputs = (x, x + 1)
    start = vramfit.plan(TwoTowers(), inputs, vram="1GiB", batch=4096).start
    plans = vramfit.plan(TwoTowers(), inputs, batch=4096, vram=int(start.peak_reserved * 0.8))
    for plan in plans:
        splits = [change for change in plan.changes if change.trick == "gradient accumulation"]
        assert not splits or plan.effect == "training" and splits[0].split_cause["kind"] == "pairs"
