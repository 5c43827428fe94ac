"""`big` for four times as long: a pickle of more than 50 MB, for the reader's speed. Not committed."""

from cases import big


def main(device, tiny, snapshot):
    big.main(device, tiny, snapshot, steps=9600)
