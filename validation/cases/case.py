"""What a case is: a model with the tensors it takes, and the settings of the training step."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Tensor:
    """One input or target. `shape` holds integers and the symbols "batch" and "seq"."""

    shape: tuple
    kind: str = "float"  # float (in the model's dtype), float32, integer, boolean
    high: int = 0  # integers are drawn from 0..high
    fill: str = "random"  # random, ones, padding (ones, but the ends of odd rows are zero), channels-last


@dataclass(frozen=True)
class Model:
    """One capture. `builder(**arguments)` makes the module on the default device, seeded by the caller."""

    name: str
    builder: Callable
    arguments: dict
    inputs: dict  # keyword of forward: Tensor
    targets: Tensor | None = None
    loss: str | None = None  # a function of losses.py; None where the model returns its loss
    part: int = 1
    tiny: dict = field(default_factory=dict)  # arguments that make it quick on a CPU

    def build(self, device="cpu", tiny=False, **more):
        """Random weights of seed 0. `device` may be "meta"; `more` are further arguments."""
        import torch

        torch.manual_seed(0)
        with torch.device(device):
            return self.builder(**{**self.arguments, **(self.tiny if tiny else {}), **more})


@dataclass(frozen=True)
class Case:
    """One measured run: a model under settings named as the flags of `vramfit estimate`."""

    name: str
    model: str
    batch: int
    seq: int | None = None
    dtype: str = "fp32"  # fp32, bf16, fp16, as-built
    amp: str = "none"  # none, bf16, fp16
    optimizer: str = "adamw"
    optimizer_impl: str = "default"  # default, foreach, fused, for-loop
    clip_grad: bool = False
    accumulate: int = 1
    checkpoint: str = "none"  # none, blocks, sequential:N, module names with commas between
    zero_grad: str = "before-forward"  # or before-backward
    set_to_none: bool = True
    mode: str = "train"  # train, eval
    grad: bool = False  # keep the graph in eval mode
    inputs: str = "kept"  # kept, fresh
    offload_activations: str = "none"  # none, pinned, pageable
    channels_last: bool = False
    fused_attention: bool = False  # instead of attention that a model of written.py writes out
    checkpoint_save: str = "none"  # none, or some of matmul, attention, convolution with commas between
    chunked_loss: int = 0  # how many chunks; 0 for the model's own loss
    fused_linear_loss: str = "none"  # none, liger
    ema: bool = False
    freeze: str = ""  # patterns of names of weights with commas between
    optimizer_groups: str = ""  # as --optimizer-groups takes them; empty for one group of all weights
    step_in_backward: bool = False
    optimizer_state: str = "gpu"  # gpu, cpu
    parallel: str = "none"  # none, ddp, zero1, fsdp2, hsdp:RxS, tp, deepspeed:1|2|3
    world: int = 1
    shard: str = "blocks"  # blocks, none, or module names with commas between: what fully_shard gets beside the root
    reshard_after_forward: str = "default"  # default, true, false, or a number of ranks
    param_dtype: str = "none"  # none, bf16, fp16
    reduce_dtype: str = "none"  # none, fp32, bf16, fp16
    cpu_offload: bool = False
    gradient_as_bucket_view: bool = False
    static_graph: bool = False
    reduce_bucket_size: int = 500_000_000  # of DeepSpeed, in elements
    overlap_comm: str = "default"  # of DeepSpeed: default, true, false
    gradient_clipping: str = "default"  # of DeepSpeed: default, true, false
    stage3: str = ""  # keys of DeepSpeed's stage 3 without that word, such as max_reuse_distance=0, with commas between
    no_sync: str = "default"  # true, false; by default DDP reduces gradients in the last micro-batch, the others in each

    def settings(self):
        """All but the name and the model, as in the JSON of `vramfit estimate`."""
        return {key: value for key, value in asdict(self).items() if key not in ("name", "model")}
