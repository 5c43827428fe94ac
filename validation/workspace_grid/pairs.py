"""Byte strings with their frequent pairs replaced by symbols, again and again (Re-Pair).

Symbols below 256 are bytes, each other symbol stands for two earlier ones. Every string can be read without the others.
"""

import collections
import heapq
import struct

BYTES = 256
# A symbol has two bytes.
SYMBOLS = 1 << 16
# A pair takes four bytes in the table, and each use of it saves two.
FEWEST_USES = 3
END = -1


class Text:
    """All strings one after another, as a linked list of symbols with the places of each pair."""

    def __init__(self, strings):
        self.symbols = []
        for string in strings:
            self.symbols += string
            self.symbols.append(END)
        self.before = list(range(-1, len(self.symbols) - 1))
        self.after = list(range(1, len(self.symbols) + 1))
        self.places = collections.defaultdict(list)
        for place, pair in enumerate(zip(self.symbols, self.symbols[1:])):
            if END not in pair:
                self.places[pair].append(place)
        self.counts = {pair: len(places) for pair, places in self.places.items()}
        self.queue = [(-count, pair) for pair, count in self.counts.items() if count >= FEWEST_USES]
        heapq.heapify(self.queue)

    def most_frequent(self):
        while self.queue:
            count, pair = heapq.heappop(self.queue)
            if self.counts.get(pair) == -count:
                return pair
            if self.counts.get(pair, 0) >= FEWEST_USES:
                heapq.heappush(self.queue, (-self.counts[pair], pair))
        return None

    def replace(self, pair, symbol):
        symbols, before, after, counts, places = self.symbols, self.before, self.after, self.counts, self.places
        first, second = pair
        del counts[pair]
        made = set()
        for place in places.pop(pair):
            if symbols[place] != first or symbols[after[place]] != second:
                continue
            # Each place has a neighbour on either side, if only an end.
            left, taken = before[place], after[place]
            right = after[taken]
            ahead = symbols[left] if left >= 0 else END
            for old in (ahead, first), (second, symbols[right]):
                if old in counts:
                    counts[old] -= 1
            symbols[place], symbols[taken], after[place], before[right] = symbol, None, right, place
            for new, at in ((ahead, symbol), left), ((symbol, symbols[right]), place):
                if END not in new:
                    places[new].append(at)
                    counts[new] = counts.get(new, 0) + 1
                    made.add(new)
        for new in sorted(made):
            heapq.heappush(self.queue, (-counts[new], new))


def packed(strings):
    """The pairs, and each string as symbols."""
    text, pairs = Text(strings), []
    while len(pairs) < SYMBOLS - BYTES and (pair := text.most_frequent()):
        text.replace(pair, BYTES + len(pairs))
        pairs.append(pair)
    found, symbols = [], []
    for symbol in text.symbols:
        if symbol == END:
            found.append(symbols)
            symbols = []
        elif symbol is not None:
            symbols.append(symbol)
    return pairs, found


def expanded(pairs, symbols):
    """The bytes that symbols stand for."""
    found, waiting = bytearray(), list(reversed(symbols))
    while waiting:
        symbol = waiting.pop()
        if symbol < BYTES:
            found.append(symbol)
        else:
            waiting += reversed(pairs[symbol - BYTES])
    return bytes(found)


def as_bytes(symbols):
    return struct.pack(f"<{len(symbols)}H", *symbols)


def as_symbols(data):
    return struct.unpack(f"<{len(data) // 2}H", data)
