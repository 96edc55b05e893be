"""Models whose files are laid out otherwise: in parts, with another alignment, with what nobody
expects in them. The answers are those of the usual file, to the bit."""
import os
import shutil
import signal
import sys
import tempfile
import unittest

from program import ROOT, TINY_FILE, TIMEOUT, cera, start

sys.path.insert(0, os.path.join(ROOT, "scripts"))
import gguf_bytes as gguf  # noqa: E402


def split(source, folder, n_parts, name="m"):
    """Writes the parts as llama-gguf-split does: all keys in the first, the tensors in order."""
    with open(source, "rb") as f:
        whole = gguf.Reader(f.read()).model
    paths, n = [], len(whole.tensors)
    for i in range(n_parts):
        part = gguf.Model()
        part.keys = list(whole.keys) if i == 0 else []
        part.set("split.no", gguf.U16, i)
        part.set("split.count", gguf.U16, n_parts)
        part.set("split.tensors.count", gguf.I32, n)
        part.tensors = whole.tensors[n * i // n_parts:n * (i + 1) // n_parts]
        paths.append(os.path.join(folder, "%s-%05d-of-%05d.gguf" % (name, i + 1, n_parts)))
        with open(paths[-1], "wb") as f:
            f.write(part.write())
    return paths


class WithoutVocabularyTest(unittest.TestCase):
    """Such a file serves ids, and says why it does not serve text."""

    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.path = os.path.join(folder, "m.gguf")
        with open(TINY_FILE, "rb") as f:
            model = gguf.Reader(f.read()).model
        model.keys = [key for key in model.keys if not key[0].startswith("tokenizer.")]
        with open(self.path, "wb") as f:
            f.write(model.write())

    def test_ids(self):
        ids = ["--token-ids", "1,2,3,4,5,6,7,8"]
        for command in (["logits", "--top-k", "3"], ["embed"], ["perplexity", "-c", "8"]):
            results = [cera(*command, path, *ids, "--json") for path in (self.path, TINY_FILE)]
            self.assertEqual([r.code for r in results], [0, 0], results)
            self.assertEqual(*(r.out.replace(self.path, TINY_FILE) for r in results))
        found = [cera("run", path, *ids, "-n", "5", "--temperature", "0", "--ignore-eos", "--format",
                      "json").json["tokens"] for path in (self.path, TINY_FILE)]
        self.assertEqual(*found)
        self.assertEqual(cera("bench", self.path, "-p", "4", "-n", "4", "-r", "1").code, 0)
        wrong = cera("logits", self.path, "--token-ids", "1,1024")
        self.assertEqual(wrong.code, 2, wrong)
        self.assertIn("token id 1024 at 1: expected 0 to 1023", wrong.err)

    def test_text(self):
        for command in ("run", "logits", "embed", "perplexity", "bench"):
            result = cera(command, self.path, "--prompt-text" if command == "bench" else "-p", "Hi")
            self.assertEqual((result.code, result.out), (3, ""), result)
            self.assertIn("the model has no vocabulary", result.err)
            self.assertEqual("--token-ids" in result.err, command != "bench", result)


class SplitTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.parts = split(TINY_FILE, self.folder, 3)

    def test_same_answers(self):
        args = ["-p", "Once upon a time"]
        logits = cera("logits", TINY_FILE, *args).out
        text = cera("run", TINY_FILE, *args, "-n", "20", "--temperature", "0", "-q").out
        for path in self.parts + [self.folder]:
            self.assertEqual(cera("logits", path, *args).out, logits)
        self.assertEqual(cera("logits", self.parts[1], "--no-mmap", *args).out, logits)
        self.assertEqual(cera("run", self.parts[2], *args, "-n", "20", "--temperature", "0",
                              "-q").out, text)

    def test_inspect(self):
        whole, parts = cera("inspect", TINY_FILE, "--json").json, cera(
            "inspect", self.parts[1], "--json").json
        self.assertEqual((whole["parts"], parts["parts"]), (1, 3))
        self.assertEqual(parts["params"], whole["params"])
        self.assertEqual(parts["size"], sum(map(os.path.getsize, self.parts)))
        shown = [(t["name"], t["type"], t["shape"], t["size"]) for t in whole["tensors"]]
        self.assertEqual([(t["name"], t["type"], t["shape"], t["size"]) for t in parts["tensors"]],
                         shown)
        n = len(shown)
        self.assertEqual([t["part"] for t in parts["tensors"]],
                         [p for p in range(3) for _ in range(n * p // 3, n * (p + 1) // 3)])
        self.assertIn("\nFiles: 3\n", cera("inspect", self.parts[0]).out)
        self.assertNotIn("\nFiles:", cera("inspect", TINY_FILE).out)

    def test_quantize_writes_one_file(self):
        """What comes of the parts is, to the byte, what comes of the whole."""
        whole, joined = (os.path.join(self.folder, n) for n in ("whole.gguf", "joined.gguf"))
        for source, target in (TINY_FILE, whole), (self.parts[1], joined):
            result = cera("quantize", source, target, "F16", "--allow-requantize", "-q")
            self.assertEqual((result.code, result.err), (0, ""))
        self.assertNotIn("split.count", cera("inspect", joined, "--json").json["meta"])
        with open(whole, "rb") as a, open(joined, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_folder_with_two_models(self):
        split(TINY_FILE, self.folder, 2, "other")
        result = cera("inspect", self.folder)
        self.assertEqual(result.code, 2)
        self.assertIn("found m-00001-of-00003.gguf, other-00001-of-00002.gguf", result.err)

    def test_missing_part(self):
        os.unlink(self.parts[2])
        result = cera("run", self.parts[0], "-p", "x")
        self.assertEqual((result.code, result.out), (3, ""))
        self.assertIn(self.parts[2] + ": cannot open: no such file", result.err)

    def test_log_file_is_a_part(self):
        with open(self.parts[1], "rb") as f:
            before = f.read()
        result = cera("run", self.parts[0], "-p", "x", "--log-file", self.parts[1])
        self.assertEqual(result.code, 2, result)
        self.assertIn("--log-file names the model", result.err)
        with open(self.parts[1], "rb") as f:
            self.assertEqual(f.read(), before)

    def test_part_is_cut_short(self):
        process = start("run", self.parts[0], "-p", "Once", "-n", "-1", "--ignore-eos",
                        "--unbuffered", "-q")
        process.stdout.read(1)
        process.send_signal(signal.SIGSTOP)
        os.truncate(self.parts[1], 4096)
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"the model file changed while it was in use" if b"in use" in err
                      else self.parts[1].encode() + b": the file changed since it was opened", err)


class LayoutTest(unittest.TestCase):
    def test_alignment_and_strangers(self):
        """Data at other places, empty arrays, keys and tensors of other alphabets."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "m\u00f6del \u4e2d.gguf")
        expected = cera("logits", TINY_FILE, "-p", "Once upon a time").out
        for alignment in (8, 64, 4096):
            with open(TINY_FILE, "rb") as f:
                model = gguf.Reader(f.read()).model
            model.set("general.alignment", gguf.U32, alignment)
            for kind in (gguf.U8, gguf.F32, gguf.STRING, gguf.F64):
                model.set("k.empty.%d" % kind, gguf.ARRAY, [], kind)
            model.set("\u30ad\u30fc", gguf.STRING, "\u5024")
            model.tensors.append(gguf.Tensor("\u30c6\u30f3\u30bd\u30eb", [4], 0, bytes(16)))
            with open(path, "wb") as f:
                f.write(model.write())
            result = cera("logits", path, "-p", "Once upon a time", "-v")
            self.assertEqual(result.out, expected, result.err)
            self.assertIn("\u30c6\u30f3\u30bd\u30eb: the lfm2 architecture does not use this tensor",
                          result.err)
            for more in ([], ["-q"]):
                self.assertEqual(cera("logits", path, "-p", "x", *more).err, "")
            self.assertNotIn("does not use", cera("logits", TINY_FILE, "-p", "x", "-vv").err)
            shown = cera("inspect", path, "--json").json
            self.assertEqual((shown["meta"]["\u30ad\u30fc"], shown["meta"]["k.empty.8"]),
                             ("\u5024", []))
            self.assertEqual({t["offset"] % alignment for t in shown["tensors"]}, {0})


if __name__ == "__main__":
    unittest.main()
