"""python3 -m unittest discover validation/measure"""

import unittest

from trace_events import pack

LOWEST = 0x7000000000


def entry(action, size=0, offset=0, note="main:0", frames=()):
    return {
        "action": action,
        "size": size,
        "addr": LOWEST + offset,
        "stream": 0,
        "user_metadata": note,
        "frames": frames,
    }


def mark():
    return {"action": "snapshot", "size": 0, "addr": 0, "stream": 0, "user_metadata": "main:0"}


class Pack(unittest.TestCase):
    def test_a_free_that_completes_at_once_is_one_event(self):
        packed = pack([entry("alloc", 5), entry("free_requested", 5), entry("free_completed", 5)], [])
        self.assertEqual(packed["actions"], "af")

    def test_a_free_that_waits_stays_two_events(self):
        events = [entry("free_requested", 5), entry("alloc", 7, 512), entry("free_completed", 5)]
        self.assertEqual(pack(events, [])["actions"], "rac")

    def test_marks_stand_before_the_first_event_of_the_next_phase(self):
        events = [entry("segment_alloc", 2097152), entry("alloc", 5), mark(), entry("alloc", 6, 512), mark()]
        packed = pack(events, ["build", "0/forward/0"])
        self.assertEqual(packed["marks"], [("build", 2), ("0/forward/0", 3)])
        self.assertNotIn("problem", packed)

    def test_without_snapshot_entries_the_notes_tell_the_phase(self):
        events = [entry("alloc", 5), entry("alloc", 6, 512, note=""), entry("alloc", 7, 1024, note="main:1")]
        packed = pack(events, ["build"])
        self.assertEqual(packed["marks"], [("build", 2)])
        self.assertIn("problem", packed)

    def test_events_without_a_note_are_autograds(self):
        packed = pack([entry("alloc", 5), entry("alloc", 6, 512, note="")], [])
        self.assertEqual(packed["threads"], "mb")

    def test_addresses_count_from_the_lowest_in_units_of_512(self):
        packed = pack([entry("segment_alloc", 2097152), entry("alloc", 5, 1024)], [])
        self.assertEqual(packed["addresses"], [0, 2])

    def test_what_printing_a_tensor_takes_is_left_out(self):
        printing = [{"filename": "x/site-packages/torch/_tensor_str.py", "line": 401, "name": "get_summarized_data"}]
        events = [entry("alloc", 5), entry("segment_alloc", 2097152, 512, frames=printing)]
        events += [entry("alloc", 24, 512, frames=printing), mark(), entry("free_requested", 24, 512, frames=printing)]
        packed = pack(events + [entry("free_completed", 24, 512, frames=printing), entry("alloc", 6, 1024)], ["build"])
        self.assertEqual(packed["actions"], "aSa")
        self.assertEqual(packed["marks"], [("build", 2)])

    def test_stacks_are_shared_and_free_of_machine_paths(self):
        frames = [
            {"filename": "x/site-packages/torch/nn/functional.py", "line": 12, "name": "linear"},
            {"filename": "x/site-packages/torch/nn/modules/module.py", "line": 3, "name": "_call_impl"},
            {"filename": "/home/someone/validation/measure/loop.py", "line": 9, "name": "train"},
        ]
        packed = pack([entry("alloc", 5, frames=frames), entry("alloc", 5, 512, frames=frames)], [])
        self.assertEqual(packed["frames"], ["torch/nn/functional.py:12 linear", "measure/loop.py:9 train"])
        self.assertEqual(packed["stacks"], [0, 0])


if __name__ == "__main__":
    unittest.main()
