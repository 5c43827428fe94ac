"""Speech with attention, in the manner of Tacotron: packed sequences, a decoder of cells, teacher forcing."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    def __init__(self, symbols=60, width=128):
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.convs = nn.ModuleList(nn.Sequential(nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.5)) for _ in range(2))
        self.rnn = nn.LSTM(width, width // 2, bidirectional=True, batch_first=True)

    def forward(self, text, lengths):
        x = self.embed(text).transpose(1, 2)
        for conv in self.convs:
            x = conv(x)
        packed = pack_padded_sequence(x.transpose(1, 2), lengths, batch_first=True)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


class Decoder(nn.Module):
    def __init__(self, mels=40, width=128):
        super().__init__()
        self.mels, self.width = mels, width
        self.prenet = nn.Sequential(nn.Linear(mels, width), nn.ReLU(), nn.Dropout(0.5))
        self.cell = nn.LSTMCell(2 * width, width)
        self.query = nn.Linear(width, width, bias=False)
        self.out, self.stop = nn.Linear(2 * width, mels), nn.Linear(2 * width, 1)

    def forward(self, memory, targets):
        b = memory.size(0)
        h = c = memory.new_zeros(b, self.width)
        context, frame = memory.new_zeros(b, self.width), memory.new_zeros(b, self.mels)
        frames, stops = [], []
        for t in range(targets.size(1)):
            h, c = self.cell(torch.cat([self.prenet(frame), context], -1), (h, c))
            weights = torch.softmax((memory @ self.query(h).unsqueeze(-1)).squeeze(-1), -1)
            context = (weights.unsqueeze(1) @ memory).squeeze(1)
            both = torch.cat([h, context], -1)
            frames.append(self.out(both))
            stops.append(self.stop(both))
            frame = targets[:, t]
        return torch.stack(frames, 1), torch.cat(stops, 1)


encoder, decoder = Encoder().cuda(), Decoder().cuda()
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
for step in range(4):
    lengths = torch.tensor([40, 36, 30, 22, 17, 9][: 6]) - step
    text = torch.randint(1, 60, (6, int(lengths[0]))).cuda()
    mel = torch.randn(6, 50 + 10 * step, 40).cuda()
    frames, stops = decoder(encoder(text, lengths), mel)
    loss = nn.functional.l1_loss(frames, mel) + nn.functional.binary_cross_entropy_with_logits(stops, torch.zeros_like(stops))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(list(encoder.parameters()) + list(decoder.parameters()), 1.0)
    optimizer.step()
    print(step, loss.item())
