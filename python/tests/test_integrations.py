"""Trainer, Lightning and Accelerate: the callbacks estimate what those loops do, and do not change the training."""

import copy
import logging

import pytest
import torch
import vramfit
from torch import nn
from torch.utils.data import Dataset

transformers = pytest.importorskip("transformers")
CONFIG = dict(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=64)


class Samples(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, at):
        generator = torch.Generator().manual_seed(at)
        return {"input_ids": torch.randint(0, 100, (12,), generator=generator), "labels": torch.tensor(at % 2)}


def bert():
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(transformers.BertConfig(**CONFIG))


def trained(folder, *callbacks, **arguments):
    pytest.importorskip("accelerate")
    model = bert()
    settings = transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=4, max_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no",
        seed=1, **arguments,
    )
    trainer = transformers.Trainer(model=model, args=settings, train_dataset=Samples(), callbacks=list(callbacks))
    trainer.train()
    return model


@pytest.mark.parametrize("arguments, expected", [
    ({}, {}), (dict(bf16=True, gradient_accumulation_steps=2, max_grad_norm=0.0), dict(amp="bf16", accumulate=2, clip_grad=False)),
], ids=["plain", "bf16"])
def test_a_trainer_is_estimated_as_its_arguments_say_and_not_disturbed(tmp_path, arguments, expected):
    pytest.importorskip("accelerate")
    from vramfit.integrations.trainer import VramfitCallback

    callback = VramfitCallback(vram="8GiB")
    with_it = trained(tmp_path, callback, **arguments)
    without = trained(tmp_path, **arguments)
    for one, other in zip(with_it.parameters(), without.parameters()):
        assert torch.equal(one, other)
    answer = callback.estimate
    assert answer is not None and answer.fits and answer.settings["sizes"]["batch"] == 4 and answer.settings["sizes"]["seq"] == 12
    settings = dict(optimizer="adamw", optimizer_impl=answer.settings["optimizer_impl"], clip_grad=True, inputs_are="fresh", outputs="released")
    settings.update(expected)
    batch = {name: torch.stack([Samples()[at][name] for at in range(4)]) for name in ("input_ids", "labels")}
    assert vramfit.estimate(bert(), batch, vram="8GiB", **settings).peak_allocated == pytest.approx(answer.peak_allocated, abs=4096)


def test_a_trainer_that_cannot_fit_is_stopped_before_its_first_step(tmp_path, caplog):
    pytest.importorskip("accelerate")
    from vramfit.integrations.report import DoesNotFit
    from vramfit.integrations.trainer import VramfitCallback

    with pytest.raises(DoesNotFit, match="does not fit in 2.00 MiB"):
        trained(tmp_path, VramfitCallback(vram="2MiB", on_misfit="raise"))
    with caplog.at_level(logging.WARNING, logger="vramfit"):
        trained(tmp_path, VramfitCallback(vram="2MiB"))
    assert "does not fit in 2.00 MiB" in caplog.text
    with pytest.raises(vramfit.VramfitError, match="on_misfit"):
        VramfitCallback(on_misfit="stop")


def test_lightning_is_estimated_by_its_training_step(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    from vramfit.integrations.lightning import VramfitCallback
    from vramfit.integrations.report import DoesNotFit

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
            self.seen = []

        def training_step(self, batch, number):
            inputs, targets = batch
            loss = nn.functional.cross_entropy(self.body(inputs), targets)
            self.log("loss", loss)
            self.seen.append(loss.detach())
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    data = [(torch.randn(8), at % 3) for at in range(16)]

    def fit(*callbacks, **options):
        torch.manual_seed(0)
        module = Module()
        loader = torch.utils.data.DataLoader(data, batch_size=4)
        lightning.Trainer(
            max_steps=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            default_root_dir=tmp_path, callbacks=list(callbacks), **options,
        ).fit(module, loader)
        return module

    callback = VramfitCallback(vram="1GiB")
    one, other = fit(callback), fit()
    assert len(one.seen) == 2 and one.seen == other.seen and all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))
    settings = callback.estimate.settings
    assert callback.estimate.fits and settings["optimizer"] == "momentum" and settings["zero_grad"] == "before-backward"
    assert settings["sizes"]["batch"] == 4 and "log" not in vars(one)
    callback = VramfitCallback(vram="1GiB")
    fit(callback, precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=1.0)
    settings = callback.estimate.settings
    assert settings["precision"] == "amp-bf16" and settings["accumulate"] == 2 and settings["clip_grad"]
    with pytest.raises(DoesNotFit):
        fit(VramfitCallback(vram="2MiB", on_misfit="raise"))


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_model_that_accelerate_has_prepared_is_estimated_as_the_plain_one(precision):
    accelerate = pytest.importorskip("accelerate")
    from vramfit.integrations.accelerate import estimate

    accelerate.state.AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision, gradient_accumulation_steps=2)
    model = bert()
    reference = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    batch = {name: torch.stack([Samples()[at][name] for at in range(4)]) for name in ("input_ids", "labels")}
    wrapped = vars(model).get("forward")
    answer = estimate(accelerator, model, batch, optimizer=optimizer)
    assert vars(model).get("forward") is wrapped
    plain = vramfit.estimate(
        reference, batch, optimizer_impl="fused", accumulate=2, inputs_are="fresh", **({} if precision == "no" else {"amp": precision}),
    )
    # Accelerate casts the logits to fp32.
    assert 0 <= answer.peak_allocated - plain.peak_allocated <= 4096
    assert answer.settings["accumulate"] == 2 and answer.settings["optimizer_impl"] == "fused"
