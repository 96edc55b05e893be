"""--cache-dir: what one run computed the next one knows, and trouble with the folder is a warning; --n-keep."""
import os
import stat
import tempfile
import unittest

from program import TINY, cera

PROMPT = ",".join(str(5 + i * 37 % 900) for i in range(300))
RUN = ("run", "-m", TINY, "--token-ids", PROMPT, "-n", "20", "--temperature", "0", "--format", "json")


class State(unittest.TestCase):
    def test_next_run_knows_the_prompt(self):
        plain = cera(*RUN)
        with tempfile.TemporaryDirectory() as parent:
            folder = os.path.join(parent, "kept")
            first = cera(*RUN, "--cache-dir", folder)
            files = os.listdir(folder)
            second = cera(*RUN, "--cache-dir", folder)
            off = cera(*RUN, "--cache-dir", folder, "--no-cache")
            by_name = cera(*RUN, env={"CERA_CACHE_DIR": folder})
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        self.assertTrue(files and all(f.endswith(".kv") for f in files), files)
        for run, known in ((first, 0), (second, 299), (off, 0), (by_name, 299)):
            self.assertEqual(run.code, 0, run)
            self.assertEqual(run.json["text"], plain.json["text"])
            self.assertEqual(run.json["usage"]["cached_tokens"], known)

    def test_a_bound_of_a_megabyte(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(6):
                prompt = ",".join(str(5 + i * 131 + k) for k in range(130))
                r = cera("run", "-m", TINY, "--token-ids", prompt, "-n", "1", "--cache-dir", folder,
                         "--cache-disk-gb", "0.001")
                self.assertEqual(r.code, 0, r)
                size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
                self.assertLessEqual(size, 0.001 * 2**30)

    def test_no_folder_is_a_warning(self):
        with tempfile.NamedTemporaryFile() as taken:
            r = cera(*RUN, "--cache-dir", taken.name)
            self.assertEqual((r.code, r.json["text"]), (0, cera(*RUN).json["text"]))
            self.assertEqual(r.err.count("no more is kept in cache_dir"), 1, r)
            self.assertIn(taken.name, r.err)

    def test_n_keep_goes_on_when_the_context_is_full(self):
        args = ("run", "-m", TINY, "-p", "Once upon a time", "-c", "64", "-n", "150", "--ignore-eos",
                "--format", "json")
        self.assertEqual(cera(*args).json["finish_reason"], "context")
        r = cera(*args, "--n-keep", "8")
        self.assertEqual((r.code, r.json["finish_reason"]), (0, "length"), r)
        self.assertEqual(r.json["usage"]["completion_tokens"], 150)


if __name__ == "__main__":
    unittest.main()
