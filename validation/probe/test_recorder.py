"""python3 -m unittest discover validation/probe"""

import unittest

from recorder import number
from runner import still_held

MARK = {"action": "snapshot", "addr": 0, "size": 0}


def alloc(address, size):
    return {"action": "alloc", "addr": address, "size": size}


def free(address):
    return {"action": "free_completed", "addr": address, "size": 0}


class Number(unittest.TestCase):
    def test_ids_follow_the_order_of_allocation(self):
        events = [alloc(512, 9), alloc(1024, 8), free(512), MARK]
        self.assertEqual(number(events, ["forward"], {})["forward"], [["+", 9, 0], ["+", 8, 1], ["-", 0]])

    def test_known_tensors_are_freed_by_name(self):
        self.assertEqual(number([free(512), MARK], ["drop"], {512: "in0"})["drop"], [["-", "in0"]])

    def test_a_label_names_what_lies_there_at_its_mark(self):
        events = [alloc(512, 9), MARK, free(512), alloc(512, 9), MARK]
        found = number(events, ["forward", "backward"], {}, [(0, 512, "out0"), (1, 512, "in0.grad")])
        self.assertEqual(found["labels"], {"0": "out0", "1": "in0.grad"})

    def test_a_missing_mark_is_an_error(self):
        with self.assertRaises(RuntimeError):
            number([], ["forward"], {})

    def test_what_autograd_saved_is_what_dropping_does_not_free(self):
        events = [alloc(512, 9), alloc(1024, 3), MARK, free(0), MARK, alloc(2048, 9), MARK, free(512), MARK]
        parts = number(events, ["forward", "drop_inputs", "chain", "drop_outputs"], {0: "in0", 4096: "in1"})
        self.assertEqual(still_held(parts, ["in0", "in1"]), [1, "in1"])


if __name__ == "__main__":
    unittest.main()
