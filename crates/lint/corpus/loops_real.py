# case: a list of the parts of one step is let go with the step
import torch
def train(model, optimizer, groups):
    for parts in groups:
        losses = []
        for x, y in parts:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()) / len(parts)
            loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
        print(sum(losses).item())

# case: what is computed under no_grad has no graph outside of it
import torch
def main(engine, loader, eval_loader, optimizer):
    for batch in loader:
        optimizer.zero_grad()
        outputs = engine(**batch)
        loss = outputs.loss
        loss.backward()
        optimizer.step()
    losses = []
    for batch in eval_loader:
        with torch.no_grad():
            outputs = engine(**batch)
        loss = outputs.loss
        losses.append(loss.cpu())

# case: something else with a step of its own
import torch
from accelerate import Accelerator, LocalSGD
def main(model, optimizer, loader):
    accelerator = Accelerator()
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=8) as local_sgd:
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                local_sgd.step()

# case: gradients that others add to must be there
import torch
class Server:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def update(self, grads):
        for p, g in zip(self.model.parameters(), grads):
            p.grad += g
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

# case: the model goes to the GPU after its checkpoint has been let go
import torch
from models import EmbeddingNet
def main(args):
    device = torch.device("cuda:0")
    model = EmbeddingNet()
    if args.resume:
        model.load_state_dict(torch.load(args.resume))
    model.to(device)
    return model
