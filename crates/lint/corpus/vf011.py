# case: the retry is in the handler
import torch
def forward(model, x):
    try:
        return model(x)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return torch.cat([model(part) for part in x.chunk(2)])  # expect: VF011
# case: the retry comes after the handler
import torch
def forward(model, x):
    failed = False
    try:
        return model(x)
    except torch.cuda.OutOfMemoryError:
        failed = True
    if failed:
        torch.cuda.empty_cache()
        return torch.cat([model(part) for part in x.chunk(2)])
# case: by the message of a RuntimeError
import torch
def train(model, loader, step):
    for batch in loader:
        try:
            step(model, batch)
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            torch.cuda.empty_cache()
            step(model, batch)  # expect: VF011
# case: a batch is left out
import torch
def train(model, loader, step, optimizer):
    for batch in loader:
        try:
            step(model, batch)
        except torch.OutOfMemoryError:
            print("skipped")
            optimizer.zero_grad()
            torch.cuda.empty_cache()
            continue
# case: another kind of error
import torch
def read(load, path):
    try:
        return load(path)
    except RuntimeError:
        return load(path + ".bak")
# case: recursion with half the batch
import torch
def encode(model, texts, batch_size):
    try:
        return model.encode(texts, batch_size)
    except torch.cuda.OutOfMemoryError:
        return encode(model, texts, batch_size // 2)  # expect: VF011
# case: the batch shrinks for the next turn
import torch
def find_batch(model, make, batch):
    while True:
        try:
            model(make(batch)).sum().backward()
            return batch
        except torch.cuda.OutOfMemoryError:
            batch //= 2
        torch.cuda.empty_cache()
# case: retried on the CPU
import torch
def forward(model, x):
    try:
        return model(x)
    except torch.cuda.OutOfMemoryError:
        model.cpu()
        return model(x.cpu())
# case: logged and raised
import logging
import torch
def forward(model, x):
    try:
        return model(x)
    except torch.cuda.OutOfMemoryError:
        logging.error("too large: %s", x.shape)
        raise
