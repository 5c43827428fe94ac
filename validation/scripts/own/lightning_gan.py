"""Lightning with manual optimization: a GAN in 16-bit mixed precision, early stopping, a checkpoint callback."""
import pytorch_lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class GAN(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.G = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 784), nn.Tanh())
        self.D = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        g_opt, d_opt = self.optimizers()
        z = torch.randn(x.size(0), 64).type_as(x)
        self.toggle_optimizer(g_opt)
        g_loss = F.softplus(-self.D(self.G(z))).mean()
        g_opt.zero_grad()
        self.manual_backward(g_loss)
        g_opt.step()
        self.untoggle_optimizer(g_opt)
        self.toggle_optimizer(d_opt)
        d_loss = F.softplus(-self.D(x)).mean() + F.softplus(self.D(self.G(z).detach())).mean()
        d_opt.zero_grad()
        self.manual_backward(d_loss)
        d_opt.step()
        self.untoggle_optimizer(d_opt)
        self.log_dict({"g_loss": g_loss, "d_loss": d_loss}, prog_bar=True)

    def validation_step(self, batch, batch_idx):
        self.log("val_score", self.D(batch[0]).mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.G.parameters(), 2e-4), torch.optim.Adam(self.D.parameters(), 2e-4)


train = DataLoader(TensorDataset(torch.randn(256, 784)), batch_size=32)
valid = DataLoader(TensorDataset(torch.randn(64, 784)), batch_size=32)
callbacks = [EarlyStopping("val_score", patience=5), ModelCheckpoint(monitor="val_score", dirpath="checkpoints")]
trainer = L.Trainer(max_epochs=2, precision="16-mixed", callbacks=callbacks, logger=False, enable_progress_bar=False, accelerator="gpu", devices=1)
trainer.fit(GAN(), train, valid)
