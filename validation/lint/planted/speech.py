# case: CTC recogniser, zero_grad after forward, validation keeps graphs
import torch
import torchaudio
from torch.utils.data import DataLoader
from asr.decoder import GreedyDecoder
from asr.model import DeepSpeech

def collate(samples):
    return torch.nn.utils.rnn.pad_sequence([s[0].T for s in samples], batch_first=True), [s[2] for s in samples]

def main(args):
    hw = torch.device("cuda")
    net = DeepSpeech(n_class=29).to(hw)
    ctc = torch.nn.CTCLoss(blank=28).to(hw)
    optim = torch.optim.AdamW(net.parameters(), args.lr)
    train_set = torchaudio.datasets.LIBRISPEECH("./data", url="train-clean-100", download=True)
    test_set = torchaudio.datasets.LIBRISPEECH("./data", url="test-clean", download=True)
    train_dl = DataLoader(train_set, 16, True, collate_fn=collate)
    test_dl = DataLoader(test_set, 16, False, collate_fn=collate)
    for epoch in range(args.epochs):
        net.train()
        for spec, labels in train_dl:
            out = net(spec.to(hw)).log_softmax(2).transpose(0, 1)
            loss = ctc(out, labels, [o.size(0) for o in out], [len(l) for l in labels])
            optim.zero_grad()  # expect: VF006
            loss.backward()
            optim.step()
        net.eval()
        cer = 0
        for spec, labels in test_dl:
            out = net(spec.to(hw))  # expect: VF003
            cer += GreedyDecoder()(out.argmax(2), labels)
        print(epoch, cer / len(test_dl))
# case: vocoder training with mel buffers loaded to the device
import glob
import torch
from hifi import Generator, mel_spectrogram

def load_all(folder, device):
    clips = []
    for f in sorted(glob.glob(folder + "/*.pt")):
        clips.append(torch.load(f).to(device))  # expect: VF015|VF016
    return clips

def train(folder):
    dev = "cuda"
    clips = load_all(folder, dev)
    gen = Generator().to(dev)
    opt = torch.optim.Adam(gen.parameters(), 2e-4)
    for epoch in range(100):
        for clip in clips:
            opt.zero_grad()
            loss = (mel_spectrogram(gen(mel_spectrogram(clip))) - mel_spectrogram(clip)).abs().mean()
            loss.backward()
            opt.step()
# case: speaker embeddings for enrolment collected with graphs
import os
import torch
import torchaudio
from ecapa import ECAPA

def enrol(root):
    enc = ECAPA(512).cuda()
    enc.load_state_dict(torch.load("ecapa.ckpt", map_location="cpu"))
    enc.eval()
    table = {}
    for spk in os.listdir(root):
        wav, sr = torchaudio.load(os.path.join(root, spk, "a.wav"))
        table[spk] = enc(wav.cuda())  # expect: VF002|VF003
    return table
# case: tacotron-like trainer with empty_cache each step and checkpoint loaded onto the GPU
import os
import torch
from tts.tacotron import Tacotron2
from tts.hparams import hps
from tts.loss import TacotronLoss

def load_checkpoint(path, model, opt):
    state = torch.load(path)  # expect: VF010
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["opt"])
    return state["iter"]

def train(rank, loader, resume=None):
    torch.cuda.set_device(rank)
    model = Tacotron2(hps).cuda()
    criterion = TacotronLoss()
    opt = torch.optim.Adam(model.parameters(), lr=hps.lr, weight_decay=hps.wd)
    it = load_checkpoint(resume, model, opt) if resume and os.path.exists(resume) else 0
    for batch in loader:
        x, y = model.parse_batch(batch)
        model.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        opt.step()
        torch.cuda.empty_cache()  # expect: VF009
        it += 1
# case: speech enhancement, per-file inference on CPU results, clean
import pathlib
import soundfile as sf
import torch
from dns.model import CRN

@torch.no_grad()
def enhance(src, dst, ckpt):
    device = torch.device("cuda")
    model = CRN()
    model.load_state_dict(torch.load(ckpt, map_location="cpu")["model"])
    model.to(device).eval()
    scores = []
    for wav in pathlib.Path(src).glob("*.wav"):
        y, sr = sf.read(wav)
        noisy = torch.from_numpy(y).float()[None].to(device)
        clean = model(noisy).squeeze(0).cpu().numpy()
        sf.write(pathlib.Path(dst) / wav.name, clean, sr)
        scores.append(float((clean ** 2).mean()))
    return scores
# case: wav2vec fine-tuning with a manual running mean of attention
import torch
from torch import nn
from transformers import Wav2Vec2Model

class Classifier(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w2v = Wav2Vec2Model.from_pretrained("facebook/wav2vec2-base")
        self.head = nn.Linear(768, n)
        self.centre = torch.zeros(768)

    def forward(self, wav):
        h = self.w2v(wav).last_hidden_state.mean(1)
        self.centre = 0.9 * self.centre.to(h.device) + 0.1 * h.mean(0)  # expect: VF002
        return self.head(h)

def fit(model, loader, epochs=10):
    model.cuda()
    opt = torch.optim.AdamW(model.parameters(), 1e-5)
    for _ in range(epochs):
        for wav, label in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(wav.cuda()), label.cuda())
            loss.backward()
            opt.step()
# case: knowledge distillation of a keyword spotter with a teacher in train mode graph
import torch
import torch.nn.functional as F
from kws import BCResNet, MatchboxNet

def distil(loader, epochs):
    teacher = MatchboxNet().cuda()
    teacher.load_state_dict(torch.load("teacher.pt", map_location="cpu"))
    teacher.eval()
    student = BCResNet().cuda()
    opt = torch.optim.SGD(student.parameters(), 0.1, momentum=0.9)
    for _ in range(epochs):
        student.train()
        for mfcc, y in loader:
            mfcc, y = mfcc.cuda(), y.cuda()
            soft = teacher(mfcc)  # expect: VF003
            out = student(mfcc)
            loss = F.kl_div(F.log_softmax(out / 4, 1), F.softmax(soft / 4, 1), reduction="batchmean") + F.cross_entropy(out, y)
            opt.zero_grad()  # expect: VF006
            loss.backward()
            opt.step()
# case: streaming recogniser with detached state, clean
import torch

def train_tbptt(rnn, head, chunks, optimizer, criterion):
    rnn.cuda(); head.cuda()
    state = None
    total = 0.0
    for x, y in chunks:
        optimizer.zero_grad()
        out, state = rnn(x.cuda(), state)
        state = tuple(s.detach() for s in state)
        loss = criterion(head(out), y.cuda())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
        optimizer.step()
        total += float(loss)
    return total
