"""Records of layers in deflated blocks, so that a reader inflates only those it looks into (`blocks.rs`):

    number of blocks, and for each its length, its length when inflated, and the length and bytes of its first key
    blocks: records, sorted by key, deflated
    a record: its length, its key, and the rest

A number has seven bits a byte, the lowest first; the highest bit of each byte says that more follow.
"""

import zlib


def number(value):
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def signed(value):
    """A number whose lowest bit is the sign."""
    return number(value << 1 if value >= 0 else (-value << 1) - 1)


class Reader:
    def __init__(self, data, place=0):
        self.data, self.place = data, place

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.place]
            self.place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def bytes(self, length):
        self.place += length
        return self.data[self.place - length : self.place]

    def signed(self):
        value = self.number()
        return -(value + 1 >> 1) if value & 1 else value >> 1


def deflated(data):
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


def packed(records, in_block):
    """The bytes of `{key: rest of the record}`, with so many records in a block: more take less room, fewer take less time to look up."""
    ordered = sorted(records.items())
    groups = [ordered[first : first + in_block] for first in range(0, len(ordered), in_block)]
    inflated = [b"".join(number(len(key + rest)) + key + rest for key, rest in group) for group in groups]
    blocks = [deflated(block) for block in inflated]
    index = number(len(blocks))
    for block, whole, group in zip(blocks, inflated, groups):
        first_key = group[0][0]
        index += number(len(block)) + number(len(whole)) + number(len(first_key)) + first_key
    return index + b"".join(blocks)


def skip_key(reader):
    """Goes past a key of `pack_series.key_of`."""
    rank = reader.number() >> 3
    for _ in range(3 + 5 * rank):
        reader.number()


def unpacked(reader):
    """`{key: reader of the rest of the record}` of the blocks at the reader's place."""
    lengths = []
    for _ in range(reader.number()):
        lengths.append((reader.number(), reader.number()))
        reader.bytes(reader.number())
    found = {}
    for length, inflated in lengths:
        block = Reader(zlib.decompress(reader.bytes(length), -15))
        assert len(block.data) == inflated
        while block.place < inflated:
            record = Reader(block.bytes(block.number()))
            skip_key(record)
            found[record.data[: record.place]] = record
    return found
