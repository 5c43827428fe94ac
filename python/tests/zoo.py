"""Small models of every family that must capture correctly, with example inputs."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import torch
import torchvision.models as vision
import transformers
from torch import nn

transformers.logging.set_verbosity_error()


class Case:
    """A model, its inputs, and its loss if it returns none."""

    def __init__(self, build: Callable[[], nn.Module], inputs: Any, targets: Any = None, loss: Optional[Callable[..., Any]] = None, sizes: Any = None) -> None:
        self.build = build
        self.inputs = inputs
        self.targets = targets
        self.loss = loss
        self.sizes = sizes

    def capture(self, model: nn.Module, path: Any) -> Any:
        import vramfit

        return vramfit.capture(model, self.inputs, path, targets=self.targets, loss=self.loss, sizes=self.sizes)

    def run(self, model: nn.Module) -> torch.Tensor:
        """The model's own loss."""
        return self.step(model)[1]

    def step(self, model: nn.Module) -> Any:
        """What the training loop does: outputs and loss."""
        inputs = self.inputs
        if isinstance(inputs, dict):
            outputs = model(**inputs)
        else:
            outputs = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
        if self.loss is not None:
            return outputs, self.loss(outputs, self.targets)
        return outputs, outputs["loss"] if isinstance(outputs, dict) else outputs.loss

    def named_inputs(self, contents: Dict[str, Any]) -> Dict[str, torch.Tensor]:
        """Inputs and targets by their names in the capture."""
        names = [entry["name"] for entry in contents["inputs"]]
        if isinstance(self.inputs, dict):
            found = {name: value for name, value in self.inputs.items() if isinstance(value, torch.Tensor)}
        else:
            found = dict(zip(names, self.inputs if isinstance(self.inputs, tuple) else (self.inputs,)))
        if self.targets is not None:
            found["targets"] = self.targets
        return found


class Lora(nn.Module):
    """A linear layer with a hand-written low-rank adapter."""

    def __init__(self, linear: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.linear = linear
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.up(self.down(x)) * 2.0


class Recurrent(nn.Module):
    """A recurrent language model."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.network = kind(16, 32, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(32, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.network(self.embedding(x))[0])


class Encoder(nn.Module):
    """PyTorch's own transformer encoder with a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x).mean(1))


def with_lora() -> nn.Module:
    """A Llama with adapters, everything else frozen."""
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, num_key_value_heads=2))
    model.requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = Lora(layer.self_attn.q_proj)
        layer.self_attn.v_proj = Lora(layer.self_attn.v_proj)
    return model


SMALL = dict(vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
GROUPED = dict(SMALL, num_key_value_heads=2)
TINY_VISION = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
IDS = torch.randint(3, 90, (4, 32), generator=torch.Generator().manual_seed(0))
ONES = torch.ones_like(IDS)
PADDED = torch.cat([torch.ones(4, 29), torch.zeros(4, 3)], 1).long()
IMAGES = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([3, 7])
cross_entropy = nn.CrossEntropyLoss()


def _tokens(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def _auxiliary(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
    if isinstance(outputs, torch.Tensor):
        return cross_entropy(outputs, targets)
    first, *others = outputs
    return cross_entropy(first, targets) + 0.3 * sum(cross_entropy(other, targets) for other in others)


def _segmentation(outputs: Dict[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(outputs["out"], targets)


def _causal(name: str, config: Any, **inputs: Any) -> Case:
    given = inputs or dict(input_ids=IDS, attention_mask=ONES, labels=IDS)
    return Case(lambda: getattr(transformers, name)(config), given)


def _image(build: Callable[[], nn.Module], size: int = 64) -> Case:
    images = IMAGES if size == 64 else torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    return Case(build, images, LABELS, cross_entropy)


T = transformers
PIXELS = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
T5 = dict(vocab_size=128, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0)
SEQ2SEQ = dict(
    vocab_size=128, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=128, decoder_ffn_dim=128,
)
WHISPER = dict(max_source_positions=50, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
CONVNEXT = dict(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 2, 1], num_labels=10)
MAXVIT = dict(
    input_size=(64, 64), stem_channels=16, partition_size=2, block_channels=[16, 32], block_layers=[1, 1], head_dim=8, stochastic_depth_prob=0.1,
)
OPT = dict(vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128, word_embed_proj_dim=64)
GPT2 = dict(vocab_size=128, n_embd=64, n_layer=2, n_head=4)

TEXT: Dict[str, Case] = {
    "mlp": Case(lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(), nn.Linear(16, 10)), torch.randn(2, 8), LABELS, cross_entropy),
    "bert": _causal("BertForMaskedLM", T.BertConfig(**SMALL)),
    "bert-eager": _causal("BertForMaskedLM", T.BertConfig(**SMALL, attn_implementation="eager")),
    "bert-padded": _causal("BertForMaskedLM", T.BertConfig(**SMALL), input_ids=IDS, attention_mask=PADDED, labels=IDS),
    "bert-classifier": _causal("BertForSequenceClassification", T.BertConfig(**SMALL), input_ids=IDS, labels=torch.zeros(4, dtype=torch.long)),
    "roberta": _causal("RobertaForMaskedLM", T.RobertaConfig(**SMALL)),
    "distilbert": _causal("DistilBertForMaskedLM", T.DistilBertConfig(vocab_size=128, dim=64, n_layers=2, n_heads=4, hidden_dim=128)),
    "electra": _causal("ElectraForPreTraining", T.ElectraConfig(**SMALL, embedding_size=32), input_ids=IDS, labels=torch.zeros_like(IDS)),
    "gpt2": _causal("GPT2LMHeadModel", T.GPT2Config(**GPT2)),
    "gpt2-eager": _causal("GPT2LMHeadModel", T.GPT2Config(**GPT2, attn_implementation="eager")),
    "gpt-neox": _causal("GPTNeoXForCausalLM", T.GPTNeoXConfig(**SMALL)),
    "opt": _causal("OPTForCausalLM", T.OPTConfig(**OPT)),
    "opt-layerdrop": _causal("OPTForCausalLM", T.OPTConfig(**OPT, layerdrop=0.3), input_ids=IDS, labels=IDS),
    "llama": _causal("LlamaForCausalLM", T.LlamaConfig(**GROUPED)),
    "llama-eager": _causal("LlamaForCausalLM", T.LlamaConfig(**GROUPED, attn_implementation="eager")),
    "llama-padded": _causal("LlamaForCausalLM", T.LlamaConfig(**GROUPED), input_ids=IDS, attention_mask=PADDED.flip(1), labels=IDS),
    "lora": Case(with_lora, dict(input_ids=IDS, attention_mask=ONES, labels=IDS)),
    "mistral": _causal("MistralForCausalLM", T.MistralConfig(**GROUPED)),
    "qwen2": _causal("Qwen2ForCausalLM", T.Qwen2Config(**GROUPED)),
    "qwen3": _causal("Qwen3ForCausalLM", T.Qwen3Config(**GROUPED, head_dim=16)),
    "gemma": _causal("GemmaForCausalLM", T.GemmaConfig(**GROUPED, head_dim=16)),
    "gemma2": _causal("Gemma2ForCausalLM", T.Gemma2Config(**GROUPED, head_dim=16)),
    "gemma3": _causal("Gemma3ForCausalLM", T.Gemma3TextConfig(**GROUPED, head_dim=16)),
    "phi": _causal("PhiForCausalLM", T.PhiConfig(**SMALL)),
    "phi3": _causal("Phi3ForCausalLM", T.Phi3Config(**SMALL, pad_token_id=0)),
    "t5": _causal("T5ForConditionalGeneration", T.T5Config(**T5), input_ids=IDS, labels=IDS),
    "t5-two-lengths": _causal("T5ForConditionalGeneration", T.T5Config(**T5), input_ids=IDS, attention_mask=ONES, labels=IDS[:, :20].contiguous()),
    "bart": _causal("BartForConditionalGeneration", T.BartConfig(**SEQ2SEQ), input_ids=IDS, labels=IDS),
    "lstm": Case(lambda: Recurrent(nn.LSTM), IDS, IDS, _tokens),
    "gru": Case(lambda: Recurrent(nn.GRU), IDS, IDS, _tokens),
    "rnn": Case(lambda: Recurrent(nn.RNN), IDS, IDS, _tokens),
    "encoder": Case(Encoder, torch.randn(4, 12, 32), torch.zeros(4, dtype=torch.long), cross_entropy, {"x": ("batch", "seq", 32)}),
}
VISION: Dict[str, Case] = {
    "hf-vit": _causal("ViTForImageClassification", T.ViTConfig(**TINY_VISION, image_size=32, patch_size=8, num_labels=10), pixel_values=PIXELS, labels=LABELS),
    "hf-clip": _causal("CLIPModel", T.CLIPConfig(text_config=dict(SMALL, eos_token_id=2), vision_config=dict(TINY_VISION, image_size=32, patch_size=8)),
                       input_ids=IDS[:2], attention_mask=ONES[:2], pixel_values=PIXELS, return_loss=True),
    "hf-whisper": _causal("WhisperForConditionalGeneration", T.WhisperConfig(**SEQ2SEQ, **WHISPER), input_features=torch.randn(2, 80, 100), labels=IDS[:2]),
    "hf-convnext": _causal("ConvNextForImageClassification", T.ConvNextConfig(**CONVNEXT), pixel_values=IMAGES, labels=LABELS),
    "vit": _image(lambda: vision.VisionTransformer(32, 8, 2, 4, 64, 128), 32),
    "swin": _image(lambda: vision.SwinTransformer([4, 4], 32, [2, 2], [2, 4], [4, 4])),
    "maxvit": _image(lambda: vision.MaxVit(**MAXVIT)),
    "googlenet": Case(lambda: vision.googlenet(init_weights=False), torch.randn(2, 3, 224, 224), LABELS, _auxiliary),
    "fcn": Case(lambda: vision.segmentation.fcn_resnet50(weights=None, weights_backbone=None), IMAGES, torch.randint(0, 21, (2, 64, 64)), _segmentation),
}
for _name in ("resnet18", "vgg11_bn", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "shufflenet_v2_x0_5"):
    VISION[_name] = _image(getattr(vision, _name))

CASES: Dict[str, Case] = {**TEXT, **VISION}
NAMES: List[str] = list(CASES)
