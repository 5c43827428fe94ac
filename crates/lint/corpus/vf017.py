# case: switched on for the whole program
import torch
torch.autograd.set_detect_anomaly(True)  # expect: VF017
def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
# case: a context around the loop
import torch
def train(model, loader, optimizer):
    with torch.autograd.detect_anomaly():  # expect: VF017
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
# case: by a flag
import torch
def main(args, model, loader, optimizer):
    if args.debug:
        torch.autograd.set_detect_anomaly(True)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
# case: switched off
import torch
torch.autograd.set_detect_anomaly(False)
def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
# case: around one step that failed
import torch
def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        if torch.isnan(loss):
            with torch.autograd.detect_anomaly():
                torch.nn.functional.mse_loss(model(x), y).backward()
        else:
            loss.backward()
        optimizer.step()
