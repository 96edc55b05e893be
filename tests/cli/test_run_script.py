"""./run: how its words become those of `cera run`."""
import os
import shutil
import subprocess
import tempfile
import unittest

from program import BIN, ROOT, environment

# What the script takes from scripts/setup.sh, without building anything.
SETUP = """root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..
for_build=()
lock() { :; }; unlock() { :; }; drop_foreign() { :; }; need() { :; }; say() { :; }; quiet() { :; }
"""
# The program: help comes from the real one, all else shows the words.
PROGRAM = """#!/usr/bin/env bash
[ "$*" = "run --help" ] && exec "%s" run --help
printf '%%s\\n' "$@"
"""
TINY = ["-m", "builtin:tiny"]


class RunScriptTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.script = os.path.join(folder.name, "run")
        build = os.path.join(folder.name, "build", "release")
        os.makedirs(build)
        os.makedirs(os.path.join(folder.name, "scripts"))
        shutil.copy(os.path.join(ROOT, "run"), cls.script)
        for path, text in ((os.path.join(folder.name, "scripts", "setup.sh"), SETUP),
                           (os.path.join(build, "build.ninja"), ""),
                           (os.path.join(build, "cera"), PROGRAM % BIN)):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            os.chmod(path, 0o755)

    def run_script(self, *args):
        return subprocess.run(["bash", self.script, *args], env=environment(), text=True,
                              capture_output=True, timeout=60, check=False)

    def assert_words(self, args, want):
        done = self.run_script(*args)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertEqual(done.stdout.splitlines(), ["run", *want], args)

    def test_prompt(self):
        self.assert_words(["Once"], [*TINY, "-p", "Once"])
        self.assert_words(["-n", "3", "Once"], [*TINY, "-p", "Once", "-n", "3"])
        self.assert_words(["Once", "-m", "x", "--seed", "4"],
                          ["-p", "Once", "-m", "x", "--seed", "4"])
        self.assert_words(["-p", "Once"], [*TINY, "-p", "Once"])
        self.assert_words(["-p", "Once", "model"], ["-p", "Once", "model"])
        self.assert_words(["--file", "x"], [*TINY, "--file", "x"])
        self.assert_words(["-fx", "model"], ["-fx", "model"])
        self.assert_words([], TINY)

    def test_prompt_behind_two_dashes(self):
        self.assert_words(["-n", "3", "--", "-dash"], [*TINY, "-p", "-dash", "-n", "3", "--"])
        self.assert_words(["-m", "x", "--", "--top-k"], ["-p", "--top-k", "-m", "x", "--"])
        self.assert_words(["-p", "Once", "--", "-model"], ["-p", "Once", "--", "-model"])
        self.assert_words(["Once", "--"], [*TINY, "-p", "Once", "--"])

    def test_two_words(self):
        for args in (["a", "b"], ["a", "-n", "3", "b"], ["a", "--", "b"], ["--", "a", "b"],
                     ["-m", "x", "a", "b", "c"]):
            done = self.run_script(*args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done)
            self.assertEqual(done.stderr.splitlines()[:2],
                             ["cera: error: unexpected argument b",
                              "  why: the prompt is one argument, and a is it"])
        self.assertEqual(self.run_script("a", "b", "--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
