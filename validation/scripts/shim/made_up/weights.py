"""Pretrained weights: the model keeps its random ones. Where a state dict is loaded, nothing is."""


class NoWeights(dict):
    """Stands for a downloaded state dict; `load_state_dict` leaves the module as it is."""


def _skip_loading():
    import torch

    original = torch.nn.Module.load_state_dict
    if getattr(original, "skips", False):
        return

    def load_state_dict(module, state, *args, **kwargs):
        if isinstance(state, NoWeights):
            return torch.nn.modules.module._IncompatibleKeys([], [])
        return original(module, state, *args, **kwargs)

    load_state_dict.skips = True
    torch.nn.Module.load_state_dict = load_state_dict


def replace_torchvision(module):
    _skip_loading()
    module.WeightsEnum.get_state_dict = lambda *_, **__: NoWeights()


def replace_hub(module):
    module.load_state_dict_from_url = lambda *_, **__: NoWeights()


def replace_timm(module):
    module.load_pretrained = lambda *_, **__: None
