"""Truncated backpropagation through time: the hidden state goes on from one piece to the next."""
import torch
from torch import nn


class CharRNN(nn.Module):
    def __init__(self, vocabulary=96, width=256, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, layers, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x, state=None):
        out, state = self.rnn(self.embed(x), state)
        return self.head(out), state


def detach(state):
    return tuple(s.detach() for s in state)


def main():
    torch.manual_seed(1)
    dev = torch.device("cuda:0")
    net = CharRNN().to(dev)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9, nesterov=True)
    criterion = nn.CrossEntropyLoss()
    text = torch.randint(0, 96, (16, 64 * 6 + 1))
    for epoch in range(2):
        state = None
        for start in range(0, text.size(1) - 1, 64):
            x = text[:, start:start + 64].to(dev)
            y = text[:, start + 1:start + 65].to(dev)
            optimizer.zero_grad()
            logits, state = net(x, state)
            loss = criterion(logits.reshape(-1, logits.size(-1)), y.reshape(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            state = detach(state)
        print("epoch", epoch, "perplexity", torch.exp(loss).item())


if __name__ == "__main__":
    main()
