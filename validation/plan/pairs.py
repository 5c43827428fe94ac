"""The trainings to plan, and their caps. None of them fits without changes."""

from dataclasses import dataclass, field

GIB = 1 << 30


@dataclass(frozen=True)
class Pair:
    """A model of validation/cases at a batch, and what PyTorch may reserve."""

    model: str
    batch: int
    seq: int | None
    cap: float  # GiB
    flags: dict = field(default_factory=dict)  # of `vramfit plan`, beside these

    @property
    def name(self):
        return f"{self.model}-{self.batch}-{self.cap:g}"

    @property
    def bytes(self):
        return int(self.cap * GIB)

    def arguments(self):
        """The command's flags."""
        given = ["--batch", str(self.batch), "--vram", f"{self.bytes}B"]
        if self.seq:
            given += ["--seq", str(self.seq)]
        for flag, value in self.flags.items():
            given += [f"--{flag}", value]
        return given


# Those with a batch of 1 leave no room for micro-batches.
PAIRS = [
    Pair("bert-small", 256, 128, 2),
    Pair("encoder-features", 96, 512, 2),
    Pair("distilbert-base", 96, 128, 4),
    Pair("llama-160m", 1, 2048, 5),
    Pair("bert-base", 64, 128, 6, {"optimizer": "adam"}),
    Pair("t5-small", 48, 256, 6),
    Pair("bert-large", 1, 512, 5.5),
    Pair("resnet50", 192, None, 6, {"optimizer": "momentum"}),
    Pair("gpt2-medium", 1, 1024, 6.5),
    Pair("vit-b-16", 96, None, 8),
    Pair("roberta-base", 48, 256, 8),
    Pair("opt-125m", 16, 512, 8),
    Pair("mistral-window", 1, 2048, 4),
    Pair("pythia-160m", 16, 512, 10),
    Pair("qwen2-0.5b", 1, 1024, 11),
    Pair("bert-large", 24, 384, 12),
    Pair("qwen2-0.5b", 8, 256, 12),
    Pair("gpt2-medium", 12, 512, 16),
    Pair("llama-1b", 4, 512, 24),
    # Of models that were in no list when these were chosen (`cases/unseen.py`).
    Pair("xlnet", 256, 96, 2),
    Pair("mixer", 1024, None, 2),
    Pair("gpt-neo", 32, 192, 3, {"optimizer": "adam"}),
    Pair("tutorial-lm", 128, 128, 3, {"optimizer": "adam"}),
    Pair("deberta-v2", 384, 128, 4),
    Pair("bart", 64, 128, 4),
    Pair("deit", 384, None, 4),
    Pair("segformer", 384, None, 4),
    Pair("phi3", 48, 200, 5),
    Pair("mobilevit", 128, None, 5),
    Pair("beit", 256, None, 6),
    Pair("gemma2", 48, 256, 6),
    Pair("falcon", 48, 200, 6),
    Pair("albert", 256, 128, 8),
    Pair("swin-v2-t", 96, None, 8),
    Pair("inception-v3", 192, None, 8, {"optimizer": "rmsprop"}),
    Pair("wide-resnet50", 384, None, 10, {"optimizer": "momentum"}),
    Pair("denoiser", 512, None, 12),
    Pair("olmo2", 96, 256, 16),
    Pair("small-gpt", 192, 256, 24),
]

# One trick at a time: all other settings must stay.
SETTINGS = (
    "zero-grad,outputs,in-place,fused-attention,adapters,optimizer,optimizer-impl,optimizer-state,step-in-backward,parallel,channels-last,"
    "alloc-conf,checkpoint,checkpoint-save,chunked-loss,offload-activations,accumulate,amp,dtype,batch,seq"
)


def only(*settings):
    return {"keep": ",".join(name for name in SETTINGS.split(",") if name not in settings)}


SINGLE = [
    Pair("bert-base", 64, 128, 3.2, only("offload-activations")),
    Pair("resnet50", 192, None, 3.2, {"optimizer": "momentum", **only("offload-activations")}),
    Pair("gpt2-medium", 12, 512, 13, only("offload-activations")),
    Pair("vit-b-16", 96, None, 3, only("offload-activations")),
    Pair("t5-small", 48, 256, 10, only("offload-activations")),
    Pair("unet", 48, None, 1, only("offload-activations")),
    Pair("densenet121", 64, None, 0.6, {"amp": "bf16", **only("offload-activations")}),
    Pair("llama-160m", 8, 512, 4, {"dtype": "bf16", **only("offload-activations")}),
    Pair("inception-v3", 96, None, 7, {"amp": "bf16", **only("channels-last")}),
    Pair("resnet50", 128, None, 3.55, {"amp": "bf16", **only("channels-last")}),
    Pair("squeezenet", 128, None, 1.17, {"amp": "bf16", **only("channels-last")}),
    Pair("wide-resnet50", 64, None, 2.37, {"amp": "bf16", **only("channels-last")}),
    Pair("resnet18", 192, None, 1.16, {"amp": "fp16", **only("channels-last")}),
]
LISTS = {"all": PAIRS, "single": SINGLE}
