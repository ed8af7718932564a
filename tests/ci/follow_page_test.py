"""follow_page.py holds a page to what its commands print, and ends a command that does not end.

    follow_page_test.py
"""

import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

FOLLOW = pathlib.Path(__file__).with_name("follow_page.py")


class FollowPage(unittest.TestCase):
    def follow(self, *lines, seconds=20):
        with tempfile.TemporaryDirectory() as home:
            page, wheel = pathlib.Path(home) / "page.md", pathlib.Path(home) / "empty.whl"
            page.write_text("\n".join(("```console", *lines, "```", "")))
            wheel.touch()
            words = [sys.executable, "-B", str(FOLLOW), "--seconds", str(seconds), str(page), str(wheel)]
            return subprocess.run(words, capture_output=True, text=True, timeout=60)

    def test_a_page_that_is_right_passes(self):
        ran = self.follow("$ echo one; printf two", "one", "two", "$ cd /", "$ pwd", "/", "$ false", "$ echo $?", "1")
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertTrue(ran.stdout.endswith("follow_page: 5 passed, 0 failed\n"), ran.stdout)

    def test_what_is_printed_is_held_against_the_page(self):
        ran = self.follow("$ echo one", "two")
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertIn("page.md:2: $ echo one\nthe page says:\ntwo\nprinted:\none\n", ran.stdout)

    def test_a_shell_that_ends_fails(self):
        ran = self.follow("$ exit 0")
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertIn("page.md:2: $ exit 0\nthe shell has ended", ran.stdout)

    def test_a_command_that_does_not_end_is_ended(self):
        begun = time.monotonic()
        ran = self.follow("$ echo one", "one", "$ echo begun; sleep 600", "begun", "$ echo never", "never", seconds=0.5)
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertLess(time.monotonic() - begun, 30)
        self.assertIn("page.md:4: $ echo begun; sleep 600\nnot ended after 0.5 s, printed until then:\nbegun\n", ran.stdout)
        self.assertNotIn("never", ran.stdout)

    def test_what_it_started_is_ended_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = pathlib.Path(folder) / "ended-late"
            ran = self.follow(f"$ (sleep 3; touch {mark}) & wait", seconds=0.5)
            self.assertEqual(ran.returncode, 1, ran.stdout)
            time.sleep(4)
            self.assertFalse(mark.exists())


if __name__ == "__main__":
    unittest.main()
