"""Names the module in forward and the autograd node in backward, as the allocator's user metadata.

Only for reading a trace: the hooks may change lifetimes a little.
"""

import torch

set_note = torch.cuda.memory._set_memory_metadata


class Annotator:
    def __init__(self, model):
        self.names = {module: name or "(model)" for name, module in model.named_modules()}
        self.open = ["main"]
        for module in self.names:
            module.register_forward_pre_hook(self.enter)
            module.register_forward_hook(self.leave)

    def enter(self, module, _):
        self.open.append(f"forward:{self.names[module]}")
        set_note(self.open[-1])

    def leave(self, module, _, __):
        """Also for a module that was left early, as a checkpoint's recomputation is."""
        name = f"forward:{self.names[module]}"
        while len(self.open) > 1 and self.open.pop() != name:
            pass
        set_note(self.open[-1])

    def before_backward(self, loss):
        """A prehook on every node; they run on autograd's thread, whose note they set."""
        self.open = ["main"]
        set_note("main")
        waiting, seen = [loss.grad_fn], set()
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            waiting.extend(following for following, _ in node.next_functions)
        for node in seen:
            node.register_prehook(note_hook(node_name(node)))


def node_name(node):
    variable = getattr(node, "variable", None)
    return f"{node.name()} {tuple(variable.shape)}" if variable is not None else node.name()


def note_hook(name):
    def hook(_):
        set_note(f"backward:{name}")

    return hook
