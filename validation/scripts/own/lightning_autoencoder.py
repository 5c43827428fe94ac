"""A Lightning module with training and validation steps."""
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AutoEncoder(pl.LightningModule):
    def __init__(self, width=512):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 64))
        self.decoder = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 784))

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def training_step(self, batch, _):
        (x,) = batch
        loss = nn.functional.mse_loss(self(x), x)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        (x,) = batch
        self.log("val_loss", nn.functional.mse_loss(self(x), x))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


if __name__ == "__main__":
    pl.seed_everything(7)
    train = DataLoader(TensorDataset(torch.rand(640, 784)), batch_size=64, shuffle=True)
    valid = DataLoader(TensorDataset(torch.rand(256, 784)), batch_size=128)
    trainer = pl.Trainer(max_epochs=2, accelerator="auto", devices=1, logger=False, enable_checkpointing=False, gradient_clip_val=0.5, enable_progress_bar=False)
    trainer.fit(AutoEncoder(), train, valid)
