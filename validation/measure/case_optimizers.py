"""The optimizers of a case, as people create them: one, two with Muon, one for each weight, or one on the CPU."""

import fnmatch

import torch
from settings import IMPLEMENTATIONS, OPTIMIZERS

# The classes of bitsandbytes.
BITSANDBYTES = {
    "adamw8bit": "AdamW8bit",
    "adam8bit": "Adam8bit",
    "lion8bit": "Lion8bit",
    "lion": "Lion",
    "paged-adamw8bit": "PagedAdamW8bit",
    "paged-adamw": "PagedAdamW",
    "paged-lion8bit": "PagedLion8bit",
    "paged-lion": "PagedLion",
}
DECAY = 0.01


def make_optimizer(name, implementation, parameters):
    """Over these parameters, with the library's default arguments."""
    if name in BITSANDBYTES:
        import bitsandbytes

        return getattr(bitsandbytes.optim, BITSANDBYTES[name])(parameters)
    if name == "adafactor-hf":
        from transformers.optimization import Adafactor

        # As transformers' Trainer creates it.
        return Adafactor(parameters, lr=5e-5, scale_parameter=False, relative_step=False)
    optimizer, arguments = OPTIMIZERS[name]
    return optimizer(parameters, **arguments, **IMPLEMENTATIONS[implementation])


def is_hidden(model):
    """Muon is for the matrices of hidden layers: two dimensions, and not an embedding."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    return lambda weight: weight.ndim == 2 and id(weight) not in embeddings


def grouped(text, model):
    """The groups that a text like `decay:*.weight;*` describes; a weight belongs to the first that names it."""
    named = list(model.named_parameters())
    left, groups = dict(enumerate(named)), []
    for group in text.split(";"):
        decays = group.startswith("decay:")
        chosen = []
        for item in group.removeprefix("decay:").split(","):
            first, _, last = item.partition("-")
            if first.isdigit():
                numbers = range(int(first), int(last or first) + 1)
            else:
                numbers = [number for number, (name, _) in enumerate(named) if fnmatch.fnmatchcase(name, item)]
            chosen += [left.pop(number)[1] for number in numbers if number in left]
        groups.append({"params": chosen, **({"weight_decay": DECAY} if decays else {})})
    return groups


def make_optimizers(case, model):
    """The optimizers whose zero_grad and step the loop calls; none where hooks do both."""
    if case.optimizer_state == "cpu":
        return CpuOptimizers(case, model).in_loop()
    if case.step_in_backward:
        hook_optimizers(case, model)
        return []
    if case.optimizer == "muon":
        hidden = is_hidden(model)
        return [
            torch.optim.Muon([weight for weight in model.parameters() if hidden(weight)]),
            torch.optim.AdamW([weight for weight in model.parameters() if not hidden(weight)]),
        ]
    weights = model.parameters()
    if case.optimizer_groups:
        weights = grouped(case.optimizer_groups, model)
    elif case.freeze:
        weights = [weight for weight in weights if weight.requires_grad]
    return [make_optimizer(case.optimizer, case.optimizer_impl, weights)]


def hook_optimizers(case, model):
    """Updates each weight as soon as it has its gradient, and frees the gradient."""
    optimizers = {
        weight: make_optimizer(case.optimizer, case.optimizer_impl, [weight])
        for weight in model.parameters()
        if weight.requires_grad
    }

    def update(weight):
        optimizers[weight].step()
        optimizers[weight].zero_grad()

    for weight in optimizers:
        weight.register_post_accumulate_grad_hook(update)


class CpuOptimizers:
    """Copies of the weights in pinned memory, which an optimizer on the CPU updates."""

    def __init__(self, case, model):
        self.case, self.model = case, model
        self.copies = {}
        pins = next(model.parameters()).is_cuda
        for weight in model.parameters():
            if weight.requires_grad:
                copy = torch.empty_like(weight, device="cpu", pin_memory=pins, requires_grad=False)
                copy.copy_(weight.detach())
                copy.grad = torch.zeros_like(copy, pin_memory=pins)
                self.copies[weight] = copy

    def in_loop(self):
        """Itself where the loop calls it, nothing where hooks do."""
        name, implementation = self.case.optimizer, self.case.optimizer_impl
        if not self.case.step_in_backward:
            self.optimizer = make_optimizer(name, implementation, list(self.copies.values()))
            return [self]
        optimizers = {weight: make_optimizer(name, implementation, [copy]) for weight, copy in self.copies.items()}

        def update(weight):
            copy = self.copies[weight]
            copy.grad.copy_(weight.grad)
            weight.grad = None
            optimizers[weight].step()
            with torch.no_grad():
                weight.copy_(copy)

        for weight in self.copies:
            weight.register_post_accumulate_grad_hook(update)
        return []

    def zero_grad(self, set_to_none):
        self.model.zero_grad(set_to_none=set_to_none)

    def step(self):
        with torch.no_grad():
            for weight, copy in self.copies.items():
                if weight.grad is not None:
                    copy.grad.copy_(weight.grad)
            self.optimizer.step()
            for weight, copy in self.copies.items():
                weight.copy_(copy)
