# case: the whole test set
import torch
from torch.utils.data import DataLoader
def loaders(train_set, test_set):
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=len(test_set))  # expect: VF004
    return train_loader, test_loader
# case: sixteen times the training batch
from torch.utils.data import DataLoader
def loaders(train_ds, val_ds):
    train_dl = DataLoader(train_ds, batch_size=32, shuffle=True)
    val_dl = DataLoader(val_ds, batch_size=512)  # expect: VF004
    return train_dl, val_dl
# case: just below sixteen times
from torch.utils.data import DataLoader
def loaders(train_ds, val_ds):
    return DataLoader(train_ds, batch_size=64), DataLoader(val_ds, batch_size=1000)
# case: twice the training batch
from torch.utils.data import DataLoader
def loaders(train_ds, val_ds, batch_size):
    train_loader = DataLoader(train_ds, batch_size=batch_size)
    val_loader = DataLoader(val_ds, batch_size=batch_size * 2)
    return train_loader, val_loader
# case: a multiple of an unknown batch
from torch.utils.data import DataLoader
def loaders(train_ds, val_ds, batch_size):
    train_loader = DataLoader(train_ds, batch_size=batch_size)
    val_loader = DataLoader(val_ds, batch_size=batch_size * 32)  # expect: VF004
    return train_loader, val_loader
# case: by name of a constant, over lines
import torch
BATCH_SIZE = 16
EVAL_BATCH = 1024
def loaders(train_set, valid_set):
    train_loader = torch.utils.data.DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)
    valid_loader = torch.utils.data.DataLoader(  # expect: VF004
        valid_set,
        batch_size=EVAL_BATCH,
    )
    return train_loader, valid_loader
# case: by the defaults of the command line
import argparse
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--test-batch-size", type=int, default=1000)
args = parser.parse_args()
train_loader = DataLoader(train_data, batch_size=args.batch_size)
test_loader = DataLoader(test_data, batch_size=args.test_batch_size)  # expect: VF004
# case: full-batch training is a choice
import torch
from torch.utils.data import DataLoader
train_loader = DataLoader(train_set, batch_size=len(train_set))
# case: a length kept in a variable
from torch.utils.data import DataLoader
def loader(test_dataset):
    n = len(test_dataset)
    test_loader = DataLoader(test_dataset, batch_size=n)  # expect: VF004
    return test_loader
