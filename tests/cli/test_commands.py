"""inspect, tokenize, logits, embed, perplexity and cpu: values and shapes."""
import base64
import json
import math
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import unittest

from program import ROOT, TIERS, TINY, TINY_FILE, cera, golden


def gguf(keys):
    """A file with these (key, type, packed value) and no tensors."""
    def text(s):
        s = s if isinstance(s, bytes) else s.encode()
        return struct.pack("<Q", len(s)) + s
    body = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for key, kind, value in keys:
        body += text(key) + struct.pack("<I", kind) + (text(value) if kind == 8 else value)
    return body + b"\0" * (-len(body) % 32)


def array(kind, values, code):
    return (struct.pack("<IQ", kind, len(values))
            + struct.pack("<%d%s" % (len(values), code), *values))


class InspectTest(unittest.TestCase):
    def inspect(self, keys, *args):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.gguf")
            with open(path, "wb") as f:
                f.write(gguf(keys))
            result = cera("inspect", path, *args)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return result

    def test_text(self):
        for source in ([TINY], ["-m", TINY_FILE]):
            out = cera("inspect", *source).out
            self.assertTrue(out.startswith("=== GGUF File ===\nTensors: 75, Metadata keys: 27\n"))
            self.assertIn('  general.architecture = "lfm2"\n', out)
            self.assertIn("  tokenizer.ggml.tokens = [string; 1024]\n", out)
            self.assertIn("  token_embd.weight | [128, 1024] | Q8_0 | 0.13 MB\n", out)
            for section in ("--- Metadata ---", "--- Tensors ---"):
                lines = out.split(section)[1].split("\n\n")[0].strip("\n").split("\n")
                names = [re.split(r" [=|] ", l)[0] for l in lines]
                self.assertEqual(names, sorted(names))
            self.assertIn("=== CPU Backend ===\ncpu: tier=", out)

    def test_text_escapes_and_cuts(self):
        out = self.inspect([("a", 8, "x\x1b[31m\n\"\\\x07\xc2\x9b"), ("b\x1b", 8, b"\xff\xfe"),
                            ("c", 8, "é" * 60), ("d", 8, "x" * 100), ("e", 8, "x" * 101)]).out
        self.assertIn('  a = "x\\x1b[31m\\n\\"\\\\\\x07', out)
        self.assertIn('  b\\x1b = "\\xff\\xfe"\n', out)
        self.assertIn('  c = "%s..." (60 chars)\n' % ("é" * 50), out)  # 100 bytes, 50 characters
        self.assertIn('  d = "%s"\n' % ("x" * 100), out)
        self.assertIn('  e = "%s..." (101 chars)\n' % ("x" * 100), out)
        self.assertNotIn("\x1b", out)

    def test_json(self):
        answer = cera("inspect", TINY, "--json").json
        self.assertEqual(list(answer), ["schema", "arch", "params", "size", "parts", "context_length",
                                        "quant", "chat_template", "tensors", "meta"])
        self.assertEqual((answer["schema"], answer["arch"], answer["params"], answer["size"],
                          answer["context_length"], answer["quant"]),
                         ("cera.inspect/1", "lfm2", 1790144, os.path.getsize(TINY_FILE), 1024,
                          "Q8_0"))
        self.assertIn("<|im_start|>", answer["chat_template"])
        self.assertEqual(len(answer["tensors"]), 75)
        first = answer["tensors"][0]
        self.assertEqual((first["name"], first["type"], first["shape"]),
                         ("token_embd.weight", "Q8_0", [128, 1024]))
        self.assertEqual(answer["meta"]["tokenizer.ggml.tokens"], {"type": "string", "count": 1024})
        self.assertEqual(len(answer["meta"]["lfm2.attention.head_count_kv"]), 8)
        self.assertEqual(cera("inspect", TINY, "--format", "json").out,
                         cera("inspect", TINY, "--json").out)

    def test_json_values(self):
        f32 = struct.pack("<f", 0.1)
        answer = self.inspect([
            ("u64", 10, struct.pack("<Q", 2**64 - 1)), ("i64", 11, struct.pack("<q", -2**63)),
            ("nan", 6, struct.pack("<f", math.nan)), ("f32", 6, f32), ("yes", 7, b"\1"),
            ("text", 8, b"a\xffb"), ("short", 9, array(4, range(64), "I")),
            ("long", 9, array(4, range(65), "I")), ("nul", 8, b"a\0b")], "--json").json
        meta = answer["meta"]
        self.assertEqual(meta["u64"], str(2**64 - 1))
        self.assertEqual(meta["i64"], -2**63)
        self.assertIsNone(meta["nan"])
        self.assertEqual(struct.pack("<f", meta["f32"]), f32)
        self.assertIs(meta["yes"], True)
        self.assertEqual(meta["text"], "a\ufffdb")
        self.assertEqual(meta["nul"], "a\0b")
        self.assertEqual(meta["short"], list(range(64)))
        self.assertEqual(meta["long"], {"type": "u32", "count": 65})
        self.assertIsNone(answer["arch"])
        self.assertIsNone(answer["context_length"])

    def test_unsupported_architecture_can_be_inspected_but_not_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.gguf")
            with open(path, "wb") as f:
                f.write(gguf([("general.architecture", 8, "frobnicator")]))
            self.assertEqual(cera("inspect", path, "--json").json["arch"], "frobnicator")
            result = cera("run", path, "-p", "x")
            self.assertEqual(result.code, 3, result)
            self.assertIn("unsupported architecture: frobnicator", result.err)


class TokenizeTest(unittest.TestCase):
    def test_golden_ids(self):
        for entry in golden():
            for args in (["-t", entry["text"]], ["-t", entry["text"], "--no-bos"]):
                out = cera("tokenize", TINY, *args).out
                self.assertEqual(out, str(entry["ids"]) + "\n")
                self.assertEqual(cera("tokenize", TINY, *args, "--ids").out,
                                 " ".join(map(str, entry["ids"])) + "\n")

    def test_start_token(self):
        self.assertEqual(cera("tokenize", TINY, "-t", "Once upon a time").out,
                         "[1, 550, 567, 261, 546]\n")
        self.assertEqual(cera("tokenize", TINY, "-t", "Once upon a time", "--no-bos").out,
                         "[550, 567, 261, 546]\n")
        self.assertEqual(cera("tokenize", TINY, "-t", "", "--no-bos").out, "[]\n")
        self.assertEqual(cera("tokenize", TINY, "-t", "", "--no-bos", "--ids").out, "\n")

    def test_special(self):
        parsed = cera("tokenize", TINY, "-t", "<|im_end|>", "--no-bos", "--json").json
        self.assertEqual((len(parsed["ids"]), parsed["pieces"]), (1, ["<|im_end|>"]))
        plain = cera("tokenize", TINY, "-t", "<|im_end|>", "--no-bos", "--no-special",
                     "--json").json
        self.assertGreater(len(plain["ids"]), 1)
        self.assertEqual("".join(plain["pieces"]), "<|im_end|>")

    def test_json_gives_the_bytes_back(self):
        text = "héllo \U0001f999 wörld\n\ttabs"
        for raw in (text.encode(), b"bad \xff\xc3 bytes", bytes(range(1, 256)), b"a\0b"):
            answer = cera("tokenize", TINY, "--no-bos", "--json", stdin=raw).json
            self.assertEqual(list(answer), ["schema", "ids", "pieces", "bytes"])
            self.assertEqual(answer["schema"], "cera.tokenize/1")
            self.assertEqual(b"".join(map(base64.b64decode, answer["bytes"])), raw)
            self.assertEqual(len(answer["ids"]), len(answer["pieces"]))
            for piece, data in zip(answer["pieces"], answer["bytes"]):
                try:
                    self.assertEqual(piece, base64.b64decode(data).decode())
                except UnicodeDecodeError:
                    self.assertIn("\ufffd", piece)

    # A file of a vocabulary and nothing else: bytes as tokens, in the alphabet of their kind.
    def vocabulary(self, pre):
        shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
        rest = iter(range(256, 512))
        letters = [chr(b) if b in shown else chr(next(rest)) for b in range(256)]

        def texts(values):
            parts = [text.encode() for text in values]
            return (struct.pack("<IQ", 8, len(parts))
                    + b"".join(struct.pack("<Q", len(part)) + part for part in parts))
        return gguf([("tokenizer.ggml.model", 8, "gpt2"), ("tokenizer.ggml.pre", 8, pre),
                     ("tokenizer.ggml.tokens", 9, texts(letters + ["12", "123"])),
                     ("tokenizer.ggml.merges", 9, texts(["1 2", "12 3"]))])

    def test_pre(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.gguf")
            for pre, override, ids in [
                    ("gpt-2", [], "[257]\n"), ("smollm", [], "[49, 50, 51]\n"),
                    ("smollm", ["--pre", "gpt-2"], "[257]\n"),
                    ("no-such-rule", ["--pre", "gpt-2"], "[257]\n")]:
                with open(path, "wb") as f:
                    f.write(self.vocabulary(pre))
                result = cera("tokenize", path, "-t", "123", *override)
                self.assertEqual((result.code, result.out, result.err), (0, ids, ""), result)
                self.assertIn("tokenizer.ggml.pre = " + json.dumps(pre),
                              cera("inspect", path).out)
            result = cera("tokenize", path, "-t", "123")
            self.assertEqual(result.code, 3, result)
            self.assertIn('tokenizer.ggml.pre: "no-such-rule" is not supported', result.err)
            result = cera("tokenize", path, "-t", "123", "--pre", "nor-this")
            self.assertEqual(result.code, 3, result)
            self.assertIn('tokenizer.ggml.pre: "nor-this" is not supported', result.err)

    def test_long_text(self):
        result = cera("tokenize", TINY, "--ids", stdin=b"once upon a time " * 60000)
        self.assertEqual(result.code, 0)
        self.assertGreater(len(result.out.split()), 100000)


class LogitsTest(unittest.TestCase):
    def test_golden(self):
        """Logits of a reference in float32. Activations of 8 bits move them by a small share of
        their own spread; how far for longer texts is the business of tests/golden."""
        for entry in golden():
            ids = ",".join(map(str, entry["ids"]))
            full = cera("logits", TINY, "--token-ids", ids, "--json").json
            self.assertEqual(len(full), 1024)
            if entry["top10"][0][1] - entry["top10"][1][1] > 0.06 * statistics.pstdev(full):
                self.assertEqual(full.index(max(full)), entry["top10"][0][0])
            if len(entry["ids"]) < 10:
                for token, value in entry["top10"]:
                    self.assertAlmostEqual(full[token], value,
                                           delta=0.06 * statistics.pstdev(full))
            self.assertEqual(cera("logits", TINY, "-p", entry["text"], "--json").json, full)

    def test_forms_agree(self):
        args = ["logits", TINY, "-p", "Once upon a time"]
        full = cera(*args, "--json").json
        plain = cera(*args).out
        self.assertEqual(plain.count("\n"), 1)
        values = [float(v) for v in plain.rstrip("\n").split(" ")]
        self.assertEqual(len(values), 1024)
        pack = struct.Struct("<f").pack
        self.assertEqual([pack(v) for v in values], [pack(v) for v in full])

        ranked = sorted(range(1024), key=lambda i: (-values[i], i))[:7]
        pairs = cera(*args, "--top-k", "7", "--json").json
        self.assertEqual([p[0] for p in pairs], ranked)
        self.assertEqual([p[1] for p in pairs], [full[i] for i in ranked])
        lines = cera(*args, "--top-k", "7").out.splitlines()
        self.assertEqual([int(l.split("\t")[0]) for l in lines], ranked)
        self.assertEqual([float(l.split("\t")[1]) for l in lines], [values[i] for i in ranked])
        self.assertEqual(len(cera(*args, "--top-k", "5000", "--json").json), 1024)

        answer = cera(*args, "--format", "json", "--top-k", "7").json
        self.assertEqual((answer["schema"], answer["prompt_tokens"], answer["logits"]),
                         ("cera.logits/1", 5, pairs))


class EmbedTest(unittest.TestCase):
    def test_golden(self):
        for entry in golden()[:2]:
            mean = cera("embed", TINY, "-p", entry["text"], "--json").json
            rows = cera("embed", TINY, "-p", entry["text"], "--per-token", "--json").json
            self.assertEqual(len(mean), 128)
            for got, want in zip(mean, entry["hidden_mean_first8"]):
                self.assertAlmostEqual(got, want, delta=0.06 * statistics.pstdev(rows[-1]))
            self.assertEqual(len(rows), len(entry["ids"]))
            for got, want in zip(rows[-1], entry["hidden_last_first8"]):
                self.assertAlmostEqual(got, want, delta=0.06 * statistics.pstdev(rows[-1]))
            for i in range(128):
                self.assertAlmostEqual(mean[i], sum(r[i] for r in rows) / len(rows), places=4)

    def test_forms_agree(self):
        args = ["embed", TINY, "-p", "Once upon a time"]
        mean, rows = cera(*args, "--json").json, cera(*args, "--per-token", "--json").json
        line = cera(*args).out
        self.assertEqual(line.count("\n"), 1)
        pack = struct.Struct("<f").pack
        self.assertEqual([pack(float(v)) for v in line.split()], [pack(v) for v in mean])
        lines = cera(*args, "--per-token").out.splitlines()
        self.assertEqual([[pack(float(v)) for v in l.split(" ")] for l in lines],
                         [[pack(v) for v in r] for r in rows])
        answer = cera(*args, "--format", "json").json
        self.assertEqual((answer["schema"], answer["pooling"], answer["prompt_tokens"],
                          answer["embedding"]), ("cera.embed/1", "mean", 5, mean))
        answer = cera(*args, "--format", "json", "--per-token").json
        self.assertEqual((answer["pooling"], answer["embedding"]), ("none", rows))


class PerplexityTest(unittest.TestCase):
    WINDOW, BEFORE = 8, 5

    def loss(self, ids):
        """-log softmax of the last of the ids, from the logits that the others give."""
        logits = cera("logits", TINY, "--token-ids", ",".join(map(str, ids[:-1])), "--json").json
        top = max(logits)
        return top - logits[ids[-1]] + math.log(sum(math.exp(l - top) for l in logits))

    def test_definition(self):
        """Windows that begin with the start token; the half that has as much before it counts."""
        text = "The cat sat on the mat, and <|im_end|> was not a token to her. She was a very old cat."
        ids = cera("tokenize", TINY, "-t", text, "--no-special", "--ids").out.split()
        ids = [int(i) for i in ids]
        windows = len(ids) // self.WINDOW
        self.assertGreater(windows, 2)
        losses = []
        for w in range(windows):
            window = [1] + ids[w * self.WINDOW + 1:(w + 1) * self.WINDOW]
            losses += [self.loss(window[:i + 1]) for i in range(self.BEFORE, self.WINDOW)]
        mean = statistics.fmean(losses)
        error = statistics.pstdev(losses) / math.sqrt(len(losses) - 1) * math.exp(mean)
        args = ["perplexity", TINY, "-p", text, "-c", str(self.WINDOW)]
        answer = cera(*args, "--json").json
        self.assertEqual(answer["schema"], "cera.perplexity/1")
        self.assertEqual((answer["windows"], answer["window_size"], answer["tokens_scored"]),
                         (windows, self.WINDOW, len(losses)))
        self.assertAlmostEqual(answer["mean_loss"], mean, delta=1e-5)
        self.assertAlmostEqual(answer["perplexity"], math.exp(mean), delta=1e-4 * math.exp(mean))
        self.assertAlmostEqual(answer["standard_error"], error, delta=1e-3 * error)

        line = cera(*args)
        self.assertEqual((line.out, line.err), (
            "perplexity %.4f error %.5f tokens %d windows %d\n" % (
                answer["perplexity"], answer["standard_error"], len(losses), windows), ""))
        by_id = cera("perplexity", TINY, "--token-ids", ",".join(map(str, ids)), "--ctx-size",
                     str(self.WINDOW), "--json").json
        self.assertEqual(by_id, answer)

        first = cera(*args, "--chunks", "1", "--json").json
        self.assertEqual((first["windows"], first["tokens_scored"]), (1, self.WINDOW - self.BEFORE))
        self.assertAlmostEqual(first["mean_loss"],
                               statistics.fmean(losses[:self.WINDOW - self.BEFORE]), delta=1e-5)
        self.assertEqual(cera(*args, "--chunks", "-1", "--json").json, answer)

    def test_refusals(self):
        for args, why in [
                (["-p", "Too short."], "a window has 512"),
                (["-p", "Once upon a time", "-c", "2"], "expected 3 to 1024 tokens, found 2"),
                (["-p", "Once upon a time", "-c", "1025"], "expected 3 to 1024 tokens")]:
            result = cera("perplexity", TINY, *args)
            self.assertEqual((result.code, result.out), (2, ""), result)
            self.assertIn(why, result.err)

    def test_progress(self):
        result = cera("perplexity", TINY, "-p", "a b c d e f g h " * 8, "-c", "32", "--progress",
                      "json")
        lines = [json.loads(line) for line in result.err.splitlines()]
        self.assertEqual((lines[-1]["event"], lines[-1]["done"]), ("progress", lines[-1]["total"]))
        notes = cera("perplexity", TINY, "-p", "a b c d e f g h " * 8, "-c", "32", "-v").err
        self.assertIn("window 1 of ", notes)


class CpuTest(unittest.TestCase):
    def test_cpu(self):
        answer = cera("cpu", "--json").json
        self.assertEqual(answer["schema"], "cera.cpu/1")
        self.assertEqual(answer["tiers"], [tier for tier in TIERS if tier in answer["tiers"]])
        self.assertEqual(answer["tiers"][0], "scalar")
        self.assertEqual(answer["tier"], answer["tiers"][-1])
        self.assertEqual(set(answer["cores"]), {"perf", "eff", "logical", "allowed"})
        self.assertEqual(answer["cores"]["allowed"], len(os.sched_getaffinity(0)))
        self.assertGreaterEqual(answer["threads"], 1)
        self.assertTrue(answer["why"])
        self.assertRegex(cera("cpu").out, r"^cpu: tier=\w+ \[.*\]\ncores: .*threads=%d"
                         % answer["threads"])
        self.assertEqual(cera("cpu", "--format", "json").json, answer)

    def test_tier_in_use(self):
        """CERA_CPU_TIER lowers the tier, to one that the processor has, and never raises it."""
        there = cera("cpu", "--json").json["tiers"]
        for tier in TIERS:
            env = {"CERA_CPU_TIER": tier}
            want = [one for one in TIERS[:TIERS.index(tier) + 1] if one in there][-1]
            self.assertEqual(cera("cpu", "--json", env=env).json["tier"], want)
            self.assertIn("cpu: tier=%s [" % want, cera("cpu", env=env).out)
            self.assertIn("cpu: tier=%s [" % want, cera("inspect", TINY, env=env).out)
            used = cera("run", TINY, "-p", "x", "-n1", "-v", env=env).err
            self.assertIn("threads | %s | context" % want, used)


class BadFilesTest(unittest.TestCase):
    """Files that are wrong in one way each: exit 3, one error that names the fault, no signal."""

    def test_bad_files(self):
        maker = os.path.join(ROOT, "scripts", "make-bad-gguf")
        if not os.path.exists(maker):
            self.skipTest("scripts/make-bad-gguf is not there")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, maker, TINY_FILE, folder], check=True,
                           stdout=subprocess.DEVNULL)
            with open(os.path.join(folder, "manifest.tsv"), encoding="utf-8") as f:
                rows = [line.rstrip("\n").split("\t") for line in f]
            self.assertGreaterEqual(len(rows), 200)
            for name, kind, expected in rows:
                path = os.path.join(folder, name)
                with self.subTest(file=name):
                    self.check("run", path, expected, "-p", "x", "-n", "1")
                    if kind == "container":
                        self.check("inspect", path, expected)

    def check(self, command, path, expected, *args):
        result = cera(command, path, *args)
        self.assertEqual((result.code, result.out), (3, ""), result)
        self.assertEqual(result.err.count("cera: error: "), 1, result)
        self.assertLessEqual(len(result.err.splitlines()), 3, result)
        self.assertIn(expected, result.err)


if __name__ == "__main__":
    unittest.main()
