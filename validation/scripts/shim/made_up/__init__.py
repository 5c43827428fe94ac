"""Small random data in the place of data sets and weights that would have to be downloaded.

Sizes do not depend on the machine, so a script does the same on a GPU and under `vramfit run`.
"""

import os

from . import imports


def install():
    """Has the replacements made when a script imports the libraries. `MADE_UP_MODULES` names the modules to provide."""
    from . import arguments, environments, figures, hub, images, names, ranks, steps, terminal, weights

    terminal.replace()
    names.restore_numpy()
    imports.after("torchvision.datasets", images.replace)
    imports.after("PIL.Image", names.restore_pillow)
    imports.after("torchvision.models._api", weights.replace_torchvision)
    imports.after("torch.hub", weights.replace_hub)
    imports.after("timm.models._builder", weights.replace_timm)
    if os.environ.get("MADE_UP_HUB"):
        imports.after("transformers.modeling_utils", hub.replace_models)
        imports.after("transformers.configuration_utils", hub.replace_configurations)
        imports.after("transformers.models.auto.tokenization_auto", hub.replace_auto_tokenizer)
    known = {
        "tyro": arguments.module, "gymnasium": environments.module, "gym": environments.module,
        "datasets": hub.datasets_module, "evaluate": hub.evaluate_module,
    }
    for name in os.environ.get("MADE_UP_MODULES", "").split():
        imports.provide(name, known.get(name))
    if os.environ.get("MADE_UP_STEPS"):
        imports.after("torch.optim.optimizer", steps.replace)
    if os.environ.get("MADE_UP_WORLD"):
        ranks.set_variables()
        imports.after("torch", ranks.replace)
    if os.environ.get("VRAMFIT_FIGURES"):
        imports.after("torch", figures.begin)
    imports.install()
