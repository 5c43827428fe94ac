"""Models and settings for the largest batch and for plans. None of them had been tried when they were chosen.

They were chosen after all rules, trees and series were finished; `maxbatch/search.py` has the caps.
"""

from cases.case import Case, Model, Tensor
from cases.huggingface import huggingface
from cases.models import BATCH_SEQ, transformers_model
from cases.vision_models import images, segments
from cases.written import (
    Adversary,
    Denoiser,
    Mixer,
    Recommender,
    SmallGpt,
    Tagger,
    TemporalNetwork,
    Translator,
    TutorialLanguageModel,
    VariationalAutoencoder,
    WrittenGpt,
)


def texts():
    def model(name, architecture, family, layers_key="num_hidden_layers", mask=None, labels=None, **config):
        return transformers_model(name, architecture, (f"{family}Config", config), layers_key, mask=mask, labels=labels)

    bert = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
    llama = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4}
    return [
        model("albert", "AlbertForSequenceClassification", "Albert", mask="ones", labels=2, vocab_size=30000,
              embedding_size=128, hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=6),
        model("deberta-v2", "DebertaV2ForSequenceClassification", "DebertaV2", mask="ones", labels=3, vocab_size=32000,
              num_hidden_layers=3, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=64,
              norm_rel_ebd="layer_norm", share_att_key=True, position_biased_input=False, **bert),
        model("xlnet", "XLNetForSequenceClassification", "XLNet", "n_layer", mask="ones", labels=2, vocab_size=32000,
              d_model=384, n_layer=3, n_head=6, d_inner=1536),
        model("mpnet", "MPNetForMaskedLM", "MPNet", mask="ones", vocab_size=30527, num_hidden_layers=3, **bert),
        model("bart", "BartForConditionalGeneration", "Bart", "encoder_layers", mask="ones", vocab_size=50265, d_model=384,
              encoder_layers=3, decoder_layers=3, encoder_attention_heads=6, decoder_attention_heads=6,
              encoder_ffn_dim=1536, decoder_ffn_dim=1536, use_cache=False),
        model("bloom", "BloomForCausalLM", "Bloom", "n_layer", mask="ones", vocab_size=64000, hidden_size=512, n_layer=4, n_head=8),
        model("gemma2", "Gemma2ForCausalLM", "Gemma2", vocab_size=32000, hidden_size=512, num_hidden_layers=4,
              num_attention_heads=4, num_key_value_heads=2, head_dim=128, intermediate_size=1536, sliding_window=128),
        model("phi3", "Phi3ForCausalLM", "Phi3", vocab_size=32064, intermediate_size=1408, num_key_value_heads=4,
              pad_token_id=0, use_cache=False, **llama),
        model("olmo2", "Olmo2ForCausalLM", "Olmo2", vocab_size=50304, intermediate_size=1376, num_key_value_heads=8,
              use_cache=False, **llama),
        model("gpt-neo", "GPTNeoForCausalLM", "GPTNeo", "window_size", vocab_size=50257, hidden_size=384, num_layers=4,
              num_heads=6, attention_types=[[["global", "local"], 2]], window_size=64),
        model("falcon", "FalconForCausalLM", "Falcon", vocab_size=40000, hidden_size=512, num_hidden_layers=4,
              num_attention_heads=8, multi_query=True, parallel_attn=True, use_cache=False),
    ]


def pictures():
    def transformer(name, architecture, family, side=224, labels=100, target=("batch",), **config):
        inputs = {"pixel_values": Tensor(("batch", 3, side, side)), "labels": Tensor(target, "integer", labels)}
        arguments = {"architecture": architecture, "config": (f"{family}Config", {"num_labels": labels, **config})}
        return Model(name, huggingface, arguments, inputs, part=2)

    def video(name, network):
        inputs = {"x": Tensor(("batch", 3, 8, 64, 64))}
        target = Tensor(("batch",), "integer", 400)
        arguments = {"name": network, "num_classes": 400}
        return Model(name, images("", network).builder, arguments, inputs, target, "cross_entropy", part=2)

    small = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
    return [
        transformer("deit", "DeiTForImageClassification", "DeiT", **small),
        transformer("beit", "BeitForImageClassification", "Beit", use_relative_position_bias=True, **small),
        transformer("segformer", "SegformerForSemanticSegmentation", "Segformer", side=128, labels=19, target=("batch", 128, 128)),
        transformer("convnextv2", "ConvNextV2ForImageClassification", "ConvNextV2", side=128, depths=[2, 2, 4, 2],
                    hidden_sizes=[40, 80, 160, 320]),
        transformer("mobilevit", "MobileViTForImageClassification", "MobileViT", side=256),
        images("swin-v2-t", "swin_v2_t", side=256),
        images("wide-resnet50", "wide_resnet50_2", side=128),
        images("inception-v3", "inception_v3", side=299, aux_logits=False, init_weights=False),
        images("resnet34", "resnet34", side=160),
        images("regnet-x", "regnet_x_1_6gf", side=160),
        segments("deeplab-mobile", "deeplabv3_mobilenet_v3_large", 128, 21),
        video("mc3-18", "mc3_18"),
        video("r2plus1d-18", "r2plus1d_18"),
    ]


def written():
    def model(name, builder, inputs, targets, loss, part=2):
        return Model(name, builder, {}, inputs, targets, loss, part)

    def labels(shape, classes):
        return Tensor(shape, "integer", classes)

    image = ("batch", 3, 64, 64)
    return [
        model("adversary", Adversary, {"noise": Tensor(("batch", 100, 1, 1))}, Tensor(("batch",)), "binary_cross_entropy"),
        model("denoiser", Denoiser, {"x": Tensor(image), "time": Tensor(("batch",))}, Tensor(image), "mean_squared_error"),
        model("temporal", TemporalNetwork, {"x": Tensor(("batch", 16, 400))}, labels(("batch",), 10), "cross_entropy"),
        model("mixer", Mixer, {"x": Tensor(("batch", 3, 128, 128))}, labels(("batch",), 100), "cross_entropy"),
        model("tutorial-lm", TutorialLanguageModel, {"tokens": labels(BATCH_SEQ, 20000)}, labels(BATCH_SEQ, 20000), "token_cross_entropy", part=1),
        model("tagger", Tagger, {"words": labels(BATCH_SEQ, 20000), "letters": labels(("batch", "seq", 12), 100)},
              labels(BATCH_SEQ, 20), "token_cross_entropy"),
        model("vae", VariationalAutoencoder, {"x": Tensor(image)}, Tensor(image), "variational"),
        model("small-gpt", SmallGpt, {"tokens": labels(BATCH_SEQ, 50304)}, labels(BATCH_SEQ, 50304), "token_cross_entropy", part=1),
        *(Model(f"written-{name}", WrittenGpt, {"masked": is_masked, "vocabulary": 8000}, {"tokens": labels(BATCH_SEQ, 8000)},
                labels(BATCH_SEQ, 8000), "token_cross_entropy", 1) for name, is_masked in (("gpt", True), ("encoder", False))),
        model("recommender", Recommender, {"numbers": Tensor(("batch", 13)), "categories": labels(("batch", 6), 50)},
              Tensor(("batch",)), "binary_cross_entropy", part=1),
        model("translator", Translator, {"source": labels(BATCH_SEQ, 8000), "target": labels(("batch", 20), 8000)},
              labels(("batch", 20), 8000), "token_cross_entropy"),
    ]


def models():
    return [*texts(), *pictures(), *written()]


def cases():
    return [
        Case("albert", "albert", 8, 128),
        Case("deberta-v2-amp", "deberta-v2", 8, 128, amp="bf16"),
        Case("xlnet-adam", "xlnet", 8, 96, optimizer="adam"),
        Case("mpnet-adafactor", "mpnet", 8, 128, optimizer="adafactor"),
        Case("bart-clip", "bart", 4, 128, clip_grad=True),
        Case("bloom-amp-fp16", "bloom", 4, 256, amp="fp16"),
        Case("gemma2-bf16-fused", "gemma2", 4, 256, dtype="bf16", optimizer_impl="fused"),
        Case("phi3-accumulate-amp", "phi3", 4, 200, amp="bf16", accumulate=4),
        Case("olmo2-checkpoint-bf16", "olmo2", 4, 256, dtype="bf16", checkpoint="blocks"),
        Case("gpt-neo-momentum", "gpt-neo", 4, 192, optimizer="momentum"),
        Case("falcon-adam-fused", "falcon", 4, 200, optimizer="adam", optimizer_impl="fused"),
        Case("deit-amp", "deit", 8, amp="bf16"),
        Case("beit", "beit", 8),
        Case("segformer", "segformer", 8),
        Case("convnextv2-fused", "convnextv2", 8, optimizer_impl="fused"),
        Case("mobilevit-amp-fp16", "mobilevit", 8, amp="fp16"),
        Case("swin-v2-t-amp", "swin-v2-t", 6, amp="bf16"),
        Case("wide-resnet50", "wide-resnet50", 8, optimizer="momentum"),
        Case("inception-v3", "inception-v3", 8, optimizer="rmsprop"),
        Case("resnet34-accumulate-amp", "resnet34", 8, amp="fp16", accumulate=2, optimizer="momentum"),
        Case("regnet-x-amp", "regnet-x", 8, amp="bf16", optimizer="nesterov"),
        Case("deeplab-mobile", "deeplab-mobile", 4, optimizer="momentum"),
        Case("mc3-18-adam", "mc3-18", 4, optimizer="adam"),
        Case("r2plus1d-18-amp", "r2plus1d-18", 4, amp="bf16", optimizer="momentum"),
        Case("adversary", "adversary", 16, optimizer="adam"),
        Case("denoiser-amp", "denoiser", 8, amp="bf16"),
        Case("temporal-clip", "temporal", 16, optimizer="adam", clip_grad=True),
        Case("mixer-adafactor", "mixer", 16, optimizer="adafactor"),
        Case("tutorial-lm-momentum", "tutorial-lm", 8, 128, optimizer="momentum", clip_grad=True),
        Case("tagger-nesterov", "tagger", 16, 60, optimizer="nesterov", clip_grad=True),
        Case("vae", "vae", 16, optimizer="adam"),
        Case("small-gpt-fused-accumulate", "small-gpt", 4, 256, amp="bf16", optimizer_impl="fused", accumulate=2),
        Case("recommender-adagrad", "recommender", 512, optimizer="adagrad"),
        Case("translator", "translator", 16, 24, optimizer="adam"),
    ]
