"""The cases that `vramfit estimate` is measured against. Models import transformers or torchvision only when built."""

from cases import adapters, ladder, memory, models, parallel, published, ranks_unseen, table, unseen
from cases.case import Case, Model, Tensor
from cases.table import ALONE, CAPPED
from cases.tensors import DTYPES, make_inputs

_MODELS = (published, unseen, adapters, ladder)
MODELS = {**models.MODELS, **{model.name: model for module in _MODELS for model in module.models()}}
CASES = {**table.CASES, **{case.name: case for module in (*_MODELS, memory, parallel) for case in module.cases()}}
# Drawn from the others.
CASES.update({case.name: case for case in parallel.drawn(list(table.CASES.values()), MODELS)})
CASES.update({case.name: case for case in parallel.drawn_split(list(CASES.values()), MODELS)})
CASES.update({case.name: case for case in parallel.drawn_zero(list(table.CASES.values()), MODELS, (1, 2), "drawn-ds", 50, 25)})
CASES.update({case.name: case for case in parallel.drawn_zero(list(table.CASES.values()), MODELS, (3,), "drawn-ds3", 40, 26)})
# Not among those that the draws are from.
MODELS.update({model.name: model for model in ranks_unseen.models()})
CASES.update({case.name: case for case in ranks_unseen.cases()})
CASES.update({case.name: case for case in memory.layouts()})

__all__ = ["ALONE", "CAPPED", "CASES", "Case", "DTYPES", "MODELS", "Model", "Tensor", "loss_function", "make_inputs"]


def loss_function(model):
    """loss(outputs, targets) of the model, or None where it returns its loss itself."""
    from cases import losses

    return getattr(losses, model.loss) if model.loss else None
