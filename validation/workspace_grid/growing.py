"""Grows trees that name a reading from a shape's traits. Needs numpy and numba.

A node is split where the two sides are most of one class (copies and kind) and, with less weight, of one coarse reading (numbers alike to a few
hundredths); it is left alone once all of it is of one coarse reading. A leaf names the exact reading that most of it has.
"""

import numba
import numpy as np
from readings import BY_IMAGE, DEPTHWISE, GROUPED, MORE, RELATIVE, TILES, UNREAD

COARSE_WEIGHT = 0.3
SMALLEST_LEAF = 1
TRAITS_A_SPLIT = 0.4
TREES = 3
DEEPEST = 4096


def classes(reads):
    """Of readings (rows of copies, kind, rest, value): class, coarse reading, exact reading, as numbers."""
    copies, kind, rest, value = reads.T
    name = copies + 36 * kind
    doublings = np.log2(np.maximum(value, 1))
    is_count = (kind > 0) & (kind < DEPTHWISE) & (kind != BY_IMAGE)
    is_bytes = (kind == TILES) | (kind == MORE) | (kind == UNREAD) | (kind == RELATIVE) | ((kind == GROUPED) & (value > 1500))
    coarse = np.where(is_count & (value > 8), 1000 + np.round(16 * doublings), np.where(is_bytes, 2000 + np.round(8 * doublings), value))
    return name, name + (coarse.astype(np.int64) << 26), name + (rest << 10) + (value << 26)


def reading_of(exact):
    name = exact & 1023
    return np.stack([name % 36, name // 36, exact >> 10 & 65535, exact >> 26], -1)


@numba.njit(cache=True)
def sorted_by(column, members, low, high, room, counts):
    """Members low..high in the order of a trait, into `room`; False where they all have the same."""
    least, most = 65536, -1
    for place in range(low, high):
        value = column[members[place]]
        least, most = min(least, value), max(most, value)
    if least == most:
        return False
    count = high - low
    if most - least < 4 * count + 64:
        for place in range(low, high):
            counts[column[members[place]] - least] += 1
        so_far = 0
        for value in range(most - least + 1):
            here = counts[value]
            counts[value] = so_far
            so_far += here
        for place in range(low, high):
            value = column[members[place]] - least
            room[low + counts[value]] = members[place]
            counts[value] += 1
        counts[: most - least + 1] = 0
    else:
        values = np.empty(count, np.uint16)
        for place in range(count):
            values[place] = column[members[low + place]]
        order = np.argsort(values)
        for place in range(count):
            room[low + place] = members[low + order[place]]
    return True


@numba.njit(cache=True)
def grown(traits, name, coarse, exact, counts_of, coarse_weight, traits_a_split, smallest_leaf, seed):
    """(trait or -1, threshold, the node for what is above, reading) of each node; the node for the rest follows it."""
    number_of_traits, count = traits.shape
    np.random.seed(seed)
    members, room = np.arange(count).astype(np.int32), np.empty(count, np.int32)
    trait, threshold = np.full(2 * count + 1, -1, np.int16), np.zeros(2 * count + 1, np.int32)
    above, leaf = np.zeros(2 * count + 1, np.int32), np.zeros(2 * count + 1, np.int32)
    left, right = np.zeros(counts_of[0], np.int64), np.zeros(counts_of[0], np.int64)
    left_coarse, right_coarse = np.zeros(counts_of[1], np.int64), np.zeros(counts_of[1], np.int64)
    votes, counts = np.zeros(counts_of[2], np.int64), np.zeros(65537, np.int32)
    order = np.arange(number_of_traits)
    waiting = np.empty((DEEPEST, 3), np.int64)
    waiting[0] = (0, count, -1)
    height, nodes = 1, 0
    while height > 0:
        height -= 1
        low, high, parent = waiting[height]
        node = nodes
        nodes += 1
        if parent >= 0:
            above[parent] = node
        size = high - low
        is_pure = True
        for place in range(low + 1, high):
            if coarse[members[place]] != coarse[members[low]]:
                is_pure = False
                break
        found, found_threshold = -1, 0
        if not is_pure and size >= 2 * smallest_leaf:
            for place in range(low, high):
                right[name[members[place]]] += 1
                right_coarse[coarse[members[place]]] += 1
            squares, coarse_squares = 0.0, 0.0
            for place in range(low, high):
                squares += right[name[members[place]]]
                coarse_squares += right_coarse[coarse[members[place]]]
            best = (squares + coarse_weight * coarse_squares) / size + 1e-9 * size
            for place in range(number_of_traits):
                other = place + np.random.randint(number_of_traits - place)
                order[place], order[other] = order[other], order[place]
            tried = 0
            for one in order:
                column = traits[one]
                if not sorted_by(column, members, low, high, room, counts):
                    continue
                tried += 1
                here, coarse_here, there, coarse_there = 0.0, 0.0, squares, coarse_squares
                for place in range(low, high - 1):
                    member = room[place]
                    class_, reading = name[member], coarse[member]
                    here += 2 * left[class_] + 1
                    there -= 2 * right[class_] - 1
                    coarse_here += 2 * left_coarse[reading] + 1
                    coarse_there -= 2 * right_coarse[reading] - 1
                    left[class_] += 1
                    right[class_] -= 1
                    left_coarse[reading] += 1
                    right_coarse[reading] -= 1
                    before = place - low + 1
                    if column[member] != column[room[place + 1]] and before >= smallest_leaf and size - before >= smallest_leaf:
                        score = (here + coarse_weight * coarse_here) / before + (there + coarse_weight * coarse_there) / (size - before)
                        if score > best:
                            best, found = score, one
                            found_threshold = (int(column[member]) + int(column[room[place + 1]])) // 2
                for place in range(low, high - 1):
                    member = room[place]
                    right[name[member]] += 1
                    left[name[member]] = 0
                    right_coarse[coarse[member]] += 1
                    left_coarse[coarse[member]] = 0
                if tried >= traits_a_split and found >= 0:
                    break
            for place in range(low, high):
                right[name[members[place]]] = 0
                right_coarse[coarse[members[place]]] = 0
        if found < 0:
            most = 0
            for place in range(low, high):
                reading = exact[members[place]]
                votes[reading] += 1
                if votes[reading] > most:
                    most, leaf[node] = votes[reading], reading
            for place in range(low, high):
                votes[exact[members[place]]] = 0
            continue
        first, last = low, high
        for place in range(low, high):
            if traits[found, members[place]] <= found_threshold:
                room[first] = members[place]
                first += 1
            else:
                last -= 1
                room[last] = members[place]
        members[low:high] = room[low:high]
        trait[node], threshold[node] = found, found_threshold
        waiting[height] = (first, high, node)
        waiting[height + 1] = (low, first, -1)
        height += 2
    return trait[:nodes].copy(), threshold[:nodes].copy(), above[:nodes].copy(), leaf[:nodes].copy()


@numba.njit(cache=True)
def leaves(traits, trait, threshold, above, leaf):
    """The leaf's reading for each column of traits."""
    found = np.empty(traits.shape[1], np.int32)
    for place in range(traits.shape[1]):
        node = 0
        while trait[node] >= 0:
            node = above[node] if traits[trait[node], place] > threshold[node] else node + 1
        found[place] = leaf[node]
    return found


def forest(traits, reads, trees=TREES):
    """Trees as (trait, threshold, above, exact reading), one after another."""
    names, coarses, exacts = (np.unique(numbers, return_inverse=True) for numbers in classes(reads))
    columns = [inverse.astype(np.int32) for _, inverse in (names, coarses, exacts)]
    counts_of = np.array([len(unique) for unique, _ in (names, coarses, exacts)])
    for seed in range(1, trees + 1):
        tree = grown(traits, *columns, counts_of, COARSE_WEIGHT, int(TRAITS_A_SPLIT * len(traits)), SMALLEST_LEAF, seed)
        yield *tree[:3], exacts[0][tree[3]]


def asked(tree, traits):
    """The readings that a tree names."""
    *nodes, exact = tree
    return reading_of(exact[leaves(traits, *nodes, np.arange(len(exact), dtype=np.int32))])
