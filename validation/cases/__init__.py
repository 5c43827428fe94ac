"""The cases that `vramfit estimate` is measured against. Models import transformers or torchvision only when built."""

from cases import memory, models, published, table, unseen
from cases.case import Case, Model, Tensor
from cases.table import ALONE, CAPPED
from cases.tensors import DTYPES, make_inputs

MODELS = {**models.MODELS, **{model.name: model for model in (*published.models(), *unseen.models())}}
CASES = {**table.CASES, **{case.name: case for case in (*published.cases(), *unseen.cases(), *memory.cases())}}

__all__ = ["ALONE", "CAPPED", "CASES", "Case", "DTYPES", "MODELS", "Model", "Tensor", "loss_function", "make_inputs"]


def loss_function(model):
    """loss(outputs, targets) of the model, or None where it returns its loss itself."""
    from cases import losses

    return getattr(losses, model.loss) if model.loss else None
