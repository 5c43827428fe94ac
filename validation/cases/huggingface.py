"""Models of transformers, from a configuration with random weights."""

from cases.plain import with_frozen, with_lora


def huggingface(architecture, config, lora=(), frozen=(), tiny=None):
    import transformers

    config_class, model_class = getattr(transformers, config[0]), getattr(transformers, architecture)
    model = model_class(config_class(**{**config[1], **(tiny or {})}))
    if frozen:
        model = with_frozen(model, frozen)
    return with_lora(model, lora) if lora else model
