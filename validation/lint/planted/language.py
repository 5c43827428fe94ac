# case: GPT trained from scratch, estimate_loss without no_grad
import math
import torch
from model import GPT, GPTConfig

batch_size, block_size, accum = 12, 1024, 40
data = {s: torch.load(f"{s}.pt") for s in ("train", "val")}

def get_batch(split):
    ix = torch.randint(len(data[split]) - block_size, (batch_size,))
    x = torch.stack([data[split][i : i + block_size] for i in ix])
    y = torch.stack([data[split][i + 1 : i + 1 + block_size] for i in ix])
    return x.pin_memory().to("cuda", non_blocking=True), y.pin_memory().to("cuda", non_blocking=True)

model = GPT(GPTConfig()).to("cuda")
optimizer = model.configure_optimizers(0.1, 6e-4, (0.9, 0.95), "cuda")

def estimate_loss():
    out = {}
    model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(200)
        for k in range(200):
            X, Y = get_batch(split)
            logits, loss = model(X, Y)  # expect: VF003
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out

for it in range(600000):
    if it % 2000 == 0:
        print(estimate_loss())
    for micro in range(accum):
        X, Y = get_batch("train")
        logits, loss = model(X, Y)
        (loss / accum).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
# case: LoRA fine-tuning with accumulation by micro-batches, undivided
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

def tune(name, texts, accum=16):
    tok = AutoTokenizer.from_pretrained(name)
    lm = get_peft_model(AutoModelForCausalLM.from_pretrained(name).cuda(), LoraConfig(r=8, task_type="CAUSAL_LM"))
    opt = torch.optim.AdamW((p for p in lm.parameters() if p.requires_grad), lr=2e-4)
    seen = 0
    for i in range(0, len(texts) - accum, accum):
        for text in texts[i : i + accum]:
            enc = tok(text, return_tensors="pt").to("cuda")
            out = lm(**enc, labels=enc.input_ids)
            out.loss.backward()  # expect: VF014
            seen += enc.input_ids.shape[1]
        opt.step()
        opt.zero_grad()
    return seen
# case: perplexity over documents with the sum of log-likelihoods kept
import torch
from transformers import GPT2LMHeadModel, GPT2TokenizerFast

model = GPT2LMHeadModel.from_pretrained("gpt2-large").to("cuda")
tok = GPT2TokenizerFast.from_pretrained("gpt2-large")
enc = tok("\n\n".join(open("wiki.txt")), return_tensors="pt")
nlls = []
for begin in range(0, enc.input_ids.size(1), 512):
    ids = enc.input_ids[:, begin : begin + 1024].to("cuda")
    tgt = ids.clone()
    tgt[:, :-512] = -100
    out = model(ids, labels=tgt)
    nlls.append(out.loss * 512)  # expect: VF001|VF002|VF003
print(torch.exp(torch.stack(nlls).sum() / enc.input_ids.size(1)))
# case: sentence embeddings of a corpus stay on the GPU
import torch
from transformers import AutoModel, AutoTokenizer

def embed(sentences, name="intfloat/e5-large"):
    tok = AutoTokenizer.from_pretrained(name)
    bert = AutoModel.from_pretrained(name).eval().cuda()
    chunks = []
    with torch.no_grad():
        for i in range(0, len(sentences), 64):
            t = tok(sentences[i : i + 64], padding=True, return_tensors="pt").to("cuda")
            chunks.append(bert(**t).last_hidden_state[:, 0])  # expect: VF016
    return torch.cat(chunks).cpu().numpy()
# case: DPO with a reference model that builds graphs
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

def logp(model, ids, mask):
    logits = model(ids).logits[:, :-1]  # expect: VF003
    lp = logits.log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2)
    return (lp * mask[:, 1:]).sum(1)

def dpo(name, pairs, beta=0.1):
    policy = AutoModelForCausalLM.from_pretrained(name).cuda()
    ref = AutoModelForCausalLM.from_pretrained(name).cuda()
    ref.eval()
    opt = torch.optim.RMSprop(policy.parameters(), lr=5e-7)
    for good, good_mask, bad, bad_mask in pairs:
        good, good_mask, bad, bad_mask = good.cuda(), good_mask.cuda(), bad.cuda(), bad_mask.cuda()
        chosen = logp(policy, good, good_mask) - logp(ref, good, good_mask)
        rejected = logp(policy, bad, bad_mask) - logp(ref, bad, bad_mask)
        loss = -F.logsigmoid(beta * (chosen - rejected)).mean()
        opt.zero_grad(set_to_none=True)  # expect: VF006
        loss.backward()
        opt.step()
# case: reward model evaluation in torch.inference_mode, clean
import torch
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer

def main():
    tok = AutoTokenizer.from_pretrained("rm")
    rm = AutoModelForSequenceClassification.from_pretrained("rm", device_map="auto")
    rm.eval()
    wins = []
    with torch.inference_mode():
        for row in load_dataset("hh", split="test"):
            a = rm(**tok(row["chosen"], return_tensors="pt").to("cuda")).logits[0, 0]
            b = rm(**tok(row["rejected"], return_tensors="pt").to("cuda")).logits[0, 0]
            wins.append((a > b).item())
    print(sum(wins) / len(wins))
# case: sequence-to-sequence translation with greedy decoding, clean
import torch
from mt.data import batches
from mt.transformer import Transformer

def greedy(model, src, bos, n):
    model.eval()
    with torch.no_grad():
        mem = model.encode(src)
        ys = torch.full((src.size(0), 1), bos, device=src.device)
        for _ in range(n):
            nxt = model.decode(ys, mem)[:, -1].argmax(-1, keepdim=True)
            ys = torch.cat([ys, nxt], 1)
    return ys

def train(cfg):
    model = Transformer(cfg).cuda()
    opt = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for epoch in range(cfg.epochs):
        model.train()
        tot = 0.0
        for src, tgt in batches("train"):
            src, tgt = src.cuda(), tgt.cuda()
            opt.zero_grad()
            loss = model.loss(src, tgt)
            loss.backward()
            opt.step()
            tot += loss.item()
        print(greedy(model, src[:4], 1, 50))
# case: continual pretraining that reloads optimizer state and weights to a rank's GPU through a variable
import os
import torch
from llm import Llama

def resume(path):
    rank = int(os.environ["LOCAL_RANK"])
    where = f"cuda:{rank}"
    net = Llama.from_config("7b").to(where)
    opt = torch.optim.AdamW(net.parameters())
    ckpt = torch.load(os.path.join(path, "last.pt"), map_location=where)  # expect: VF010
    net.load_state_dict(ckpt["net"])
    opt.load_state_dict(ckpt["opt"])
    start = ckpt["step"]
    return net, opt, start

def loop(path, stream):
    net, opt, start = resume(path)
    for step, ids in enumerate(stream, start):
        loss = net(ids.cuda(), labels=ids.cuda()).loss
        loss.backward()
        opt.step()
        opt.zero_grad()
# case: out-of-memory retry with half a batch within the handler
import torch
from lm import build

def train(cfg, stream):
    lm = build(cfg).cuda()
    opt = torch.optim.AdamW(lm.parameters())
    for ids in stream:
        ids = ids.cuda()
        opt.zero_grad()
        try:
            loss = lm(ids).loss
            loss.backward()
        except torch.cuda.OutOfMemoryError:
            opt.zero_grad()
            torch.cuda.empty_cache()
            for part in ids.chunk(2):
                loss = lm(part).loss  # expect: VF011
                loss.backward()  # expect: VF014
        opt.step()
# case: word language model, hidden state carried without detach is used, validation loss kept as tensor
import math
import torch
import torch.nn as nn
import corpus as data_

class RNNLM(nn.Module):
    def __init__(self, v, d):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(v, d), nn.LSTM(d, d, 2), nn.Linear(d, v)

    def forward(self, x, h):
        y, h = self.rnn(self.emb(x), h)
        return self.out(y), h

def repackage(h):
    return tuple(t.detach() for t in h)

def evaluate(model, source, crit, h):
    total = 0.
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, 35):
            y, h = model(source[i : i + 35], h)
            h = repackage(h)
            total += len(source) * crit(y.view(-1, y.size(2)), source[i + 1 : i + 36].view(-1)).item()
    return total / len(source)

def train(model, source, crit, h, lr):
    for i in range(0, source.size(0) - 1, 35):
        h = repackage(h)
        y, h = model(source[i : i + 35], h)
        model.zero_grad()  # expect: VF006
        loss = crit(y.view(-1, y.size(2)), source[i + 1 : i + 36].view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)

if __name__ == "__main__":
    model = RNNLM(30000, 650).cuda()
    src, val = (t.cuda() for t in data_.load())
    h0 = (torch.zeros(2, 20, 650, device="cuda"), torch.zeros(2, 20, 650, device="cuda"))
    train(model, src, nn.CrossEntropyLoss(), h0, 20.0)
    print(math.exp(evaluate(model, val, nn.CrossEntropyLoss(), h0)))
# case: instruction tuning with the Trainer and a distillation loss
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, Trainer

class DistilTrainer(Trainer):
    def __init__(self, *args, teacher=None, **kw):
        super().__init__(*args, **kw)
        self.teacher = teacher.to(self.args.device)
        self.teacher.eval()

    def compute_loss(self, model, inputs, return_outputs=False, **kw):
        out = model(**inputs)
        ref = self.teacher(**inputs)  # expect: VF003
        kd = F.kl_div(F.log_softmax(out.logits, -1), F.softmax(ref.logits, -1), reduction="batchmean")
        loss = 0.5 * out.loss + 0.5 * kd
        return (loss, out) if return_outputs else loss
