"""The tricks that change a live model or optimizer, one file each."""

from typing import Tuple

from .adapters import Adapters
from .allocator import AllocatorSettings
from .channels_last import ChannelsLast
from .checkpoint import Checkpointing
from .fused_attention import FusedAttention
from .in_place import InPlace
from .mixed_precision import MixedPrecision
from .offload import Offload
from .optimizer import Optimizer
from .replaced_loss import ReplacedLoss
from .smaller_dtype import SmallerDtype
from .spreading import Spreading
from .trick import LiveTrick
from .updates import Updates

#: All of them, in the order in which they are applied.
TRICKS: Tuple[LiveTrick, ...] = (
    Spreading(), Adapters(), FusedAttention(), AllocatorSettings(), SmallerDtype(), ChannelsLast(), Checkpointing(), ReplacedLoss(), InPlace(), Optimizer(), Updates(), Offload(),
    MixedPrecision(),
)
