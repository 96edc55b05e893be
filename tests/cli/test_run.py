"""cera run: the text, the streams, the ways to end."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from program import TINY, TINY_FILE, cera, golden, on_terminal, start, wait_until_read

GREEDY = ["--temperature", "0"]


def end(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


class RunTest(unittest.TestCase):
    # ---- the text ----

    def test_golden_text(self):
        """The reference computes with float32 and this program with int8 activations: the text must
        be the same up to the first place where the reference itself is nearly undecided."""
        entry = golden()[0]
        for options in ([], ["--kv-type", "f32"], ["--kv-cache-keys", "f32"]):
            result = cera("run", "-m", TINY, "-p", "Once upon a time", "-n", "48", *GREEDY,
                          *options)
            self.assertEqual(result.code, 0, result)
            shared = os.path.commonprefix([result.out, entry["greedy_text"]])
            self.assertGreaterEqual(len(shared), 80, result)

    # ---- sampling ----

    def test_sampling_options_change_the_text(self):
        """Each stage has a say, and what llama.cpp calls it says the same."""
        args = ["run", TINY, "-p", "Once upon a time", "-n", "60", "--seed", "5", "-q"]
        plain = cera(*args).out
        for options, other in (
                (["--frequency-penalty", "2"], None),
                (["--presence-penalty", "3"], None),
                (["--typical-p", "0.2"], ["--typical", "0.2"]),
                (["--top-n-sigma", "0.1"], ["--top-nsigma", "0.1"]),
                (["--xtc-probability", "1", "--xtc-threshold", "0.05"], None),
                (["--mirostat-tau", "8"], ["--mirostat-ent", "8"]),
                (["--temperature-range", "0.6"], ["--dynatemp-range", "0.6"]),
                (["--samplers", "temperature"], ["--samplers", "temperature;xtc"])):
            result = cera(*args, *options)
            self.assertEqual(result.code, 0, result)
            self.assertNotEqual(result.out, plain, options)
            if other:
                self.assertEqual(cera(*args, *other).out, result.out, other)

    def test_guesses_change_no_text(self):
        """Greedy and sampled, by lookup and by a model, which may be the same one."""
        args = ["run", TINY, "-p", "Once upon a time, once upon a time, once", "-n", "80",
                "--ignore-eos", "--format", "json"]
        for sampling in (GREEDY, ["--seed", "7"]):
            plain = json.loads(cera(*args, *sampling).out)
            self.assertNotIn("drafts", plain)
            for options in (["--lookup"], ["--lookup", "--draft-max", "16"],
                            ["--draft-model", TINY, "--draft-max", "3"],
                            ["--model-draft", TINY, "--draft", "3"]):
                result = json.loads(cera(*args, *sampling, *options).out)
                self.assertEqual(result["tokens"], plain["tokens"], options)
                drafts = result["drafts"]
                self.assertLessEqual(drafts["accepted"], drafts["drafted"])

    def test_guessing_options_that_make_no_sense(self):
        for options, told in ((["--draft-max", "4"], "--draft-max needs something that guesses"),
                              (["--lookup", "--draft-model", TINY], "exclude each other"),
                              (["--lookup", "--draft-max", "17"], "17"),
                              (["--draft-model", "absent.gguf"], "absent.gguf")):
            result = cera("run", TINY, "-p", "a", *options)
            self.assertNotEqual(result.code, 0, options)
            self.assertIn(told, result.err, options)

    def test_dry_ends_a_loop(self):
        """Whatever follows two tokens as it did before is out of reach, so no three tokens come
        twice."""
        args = ["run", TINY, "--token-ids", "1,300,301", "-n", "150", *GREEDY, "--format", "json"]

        def n_repeated(*options):
            result = cera(*args, *options)
            self.assertEqual(result.code, 0, result)
            tokens = [1, 300, 301] + json.loads(result.out)["tokens"]
            triples = list(zip(tokens, tokens[1:], tokens[2:]))
            return len(triples) - len(set(triples))
        self.assertGreater(n_repeated(), 0)
        self.assertEqual(n_repeated("--dry-multiplier", "1e30", "--dry-breaker", "\u2603"), 0)

    def test_sampling_options_are_checked(self):
        for options, word in (
                (["--samplers", "top_k;top_k"], "once"), (["--samplers", "best"], "names"),
                (["--temperature-range", "2"], "temperature"), (["--dry-base", "0.5"], "from 1"),
                (["--typical-p", "2"], "from 0 to 1"), (["--dry-breaker", ""], "text")):
            result = cera("run", TINY, "-p", "x", *options)
            self.assertEqual(result.code, 2, result)
            self.assertIn(word, result.err)

    def test_file_and_builtin_are_the_same(self):
        args = ["-p", "Once upon a time", "-n", "20", "--seed", "7", "-q"]
        want = cera("run", TINY, *args).out
        self.assertTrue(want)
        for other in ([TINY_FILE], [TINY_FILE, "--no-mmap"], [TINY_FILE, "--prefault"],
                      [TINY, "-t", "1"], [TINY, "-t", "3"],
                      [TINY, "--ubatch-size", "1"], [TINY, "--ubatch-size", "0"]):
            self.assertEqual(cera("run", *other, *args).out, want, other)

    def test_start_token_once(self):
        bare = cera("run", TINY, "-p", "Once upon a time", "-n8", *GREEDY).out
        self.assertEqual(cera("run", TINY, "-p", "<|startoftext|>Once upon a time", "-n8",
                              *GREEDY).out, bare)
        ids = ",".join(map(str, golden()[0]["ids"]))
        self.assertEqual(cera("run", TINY, "--token-ids", ids, "-n8", *GREEDY).out, bare)
        tokens = cera("run", TINY, "-p", "Once upon a time", "-n1", "--no-bos", "--format",
                      "json").json["usage"]["prompt_tokens"]
        self.assertEqual(tokens, 4)
        tokens = cera("run", TINY, "-p", "<|im_end|>", "-n1", "--no-special", "--format",
                      "json").json["usage"]["prompt_tokens"]
        self.assertGreater(tokens, 4)

    def test_seed(self):
        args = ["run", TINY, "-p", "Once", "-n", "24", "--temperature", "1.5", "--top-k", "0"]
        first = cera(*args, "--seed", "1").out
        self.assertEqual(cera(*args, "--seed", "1").out, first)
        self.assertNotEqual(cera(*args, "--seed", "2").out, first)
        # Without --seed the seed that was used is told, and gives the text again.
        told = cera(*args, "--format", "json").json
        again = cera(*args, "--format", "json", "--seed", str(told["seed"])).json
        self.assertEqual((told["text"], told["seed"]), (again["text"], again["seed"]))
        self.assertNotEqual(told["seed"], cera(*args, "--format", "json").json["seed"])
        biggest = str(2**64 - 1)
        self.assertEqual(cera(*args, "--format", "json", "--seed", biggest).json["seed"], 2**64 - 1)
        self.assertIn("seed=" + biggest, cera(*args, "-v", "--seed", biggest).err)

    def test_stop(self):
        whole = cera("run", TINY, "-p", "Once upon a time", "-n", "30", *GREEDY).out
        stop = whole[25:31]  # some place in the middle of tokens
        result = cera("run", TINY, "-p", "Once upon a time", "-n", "30", *GREEDY, "--stop", "@@@",
                      "--stop", stop, "--format", "json").json
        self.assertEqual(result["text"], whole[:whole.index(stop)])
        self.assertEqual(result["finish_reason"], "stop")
        self.assertEqual(cera("run", TINY, "-p", "x", *["--stop=x"] * 17).code, 2)
        self.assertEqual(cera("run", TINY, "-p", "x", "--stop", "x" * 257).code, 2)

    def test_bias(self):
        ids = golden()[0]["greedy"]
        args = ["run", TINY, "-p", "Once upon a time", "-n", "3", "--format", "json", *GREEDY]
        self.assertEqual(cera(*args).json["tokens"], ids[:3])
        banned = cera(*args, "--logit-bias", "%d=-inf" % ids[0]).json["tokens"]
        self.assertNotIn(ids[0], banned)
        self.assertEqual(cera(*args, "--logit-bias", "77=1000").json["tokens"], [77] * 3)
        result = cera(*args, "--logit-bias", "1000000=1")
        self.assertEqual(result.code, 2, result)
        self.assertIn("1000000", result.err)

    def test_limits_of_length(self):
        result = cera("run", TINY, "-p", "Once", "-n", "5", "--ignore-eos")
        self.assertEqual(result.code, 0)
        self.assertIn("--max-tokens", result.err)  # the reason is told, on standard error
        result = cera("run", TINY, "-p", "Once", "-n", "5", "--ignore-eos", "-q")
        self.assertEqual(result.err, "")
        result = cera("run", TINY, "-p", "Once", "-n", "0")
        self.assertEqual((result.code, result.out), (0, ""), result)
        result = cera("run", TINY, "-p", "Once", "-n", "1", "--ignore-eos")
        self.assertIn("stopped after 1 token (", result.err)
        timings = cera("run", TINY, "-p", "Once", "-n", "0", "--format", "json").json["timings"]
        self.assertIsNone(timings["ttft_ms"])  # there was no first token
        result = cera("run", TINY, "-p", "Once", "-n", "-1", "--ignore-eos", "-c", "20", "--format",
                      "json")
        self.assertEqual(result.json["finish_reason"], "context")
        usage = result.json["usage"]
        self.assertEqual(usage["prompt_tokens"] + usage["completion_tokens"], 20)

    def test_prompt_longer_than_context(self):
        for command in ("run", "logits", "embed"):
            result = cera(command, TINY, "--token-ids", ",".join(["5"] * 37), "-c", "16")
            self.assertEqual((result.code, result.out), (6, ""), result)
            self.assertIn("37", result.err)
            self.assertIn("16", result.err)

    def test_ids_out_of_range(self):
        for command in ("run", "logits", "embed"):
            result = cera(command, TINY, "--token-ids", "1,1024")
            self.assertEqual((result.code, result.out), (2, ""), result)
            self.assertIn("1024", result.err)
            self.assertIn("1023", result.err)

    # ---- sources of the prompt ----

    def test_prompt_sources(self):
        def text(*args, stdin=b""):
            result = cera("tokenize", TINY, "--ids", "--no-bos", *args, stdin=stdin)
            self.assertEqual(result.code, 0, result)
            return result.out

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "prompt")

            def write(content):
                with open(path, "wb") as f:
                    f.write(content)
                return ["-f", path]

            want = text("-t", "a\n")
            self.assertEqual(text("-t", "-", stdin=b"a\n"), want)
            self.assertEqual(text(stdin=b"a\n"), want)           # never stripped
            self.assertEqual(text(*write(b"a\n\n")), want)       # exactly one is
            self.assertEqual(text(*write(b"a\n")), text("-t", "a"))
            self.assertEqual(text(*write(b"a")), text("-t", "a"))
            self.assertEqual(text(*write(b"a\r\n")), text("-t", "a\r"))
            self.assertEqual(text("-t", "a", stdin=b"unread"), text("-t", "a"))
            self.assertEqual(text("-t", "a", "--stdin", stdin=b"b"), text("-t", "a\n\nb"))
            self.assertEqual(text(*write(b"a\n"), "--stdin", stdin=b"b"), text("-t", "a\n\nb"))
            self.assertEqual(text("--stdin", stdin=b"b"), text("-t", "b"))
            self.assertEqual(text("-f", "-", stdin=b"b"), text("-t", "b"))
            self.assertEqual(cera("run", TINY, "-p", "a", *write(b"a")).code, 2)
            self.assertEqual(cera("run", TINY, "-f", os.path.join(folder, "none")).code, 1)
        result = cera("run", TINY, stdin=b"")
        self.assertEqual(result.code, 2, result)
        self.assertEqual(cera("run", TINY, "-p", "", "-n1").code, 0)

    def test_no_prompt_on_a_terminal(self):
        code, shown, _, _ = on_terminal("run", TINY)
        self.assertEqual(code, 2)
        self.assertIn("usage: cera run", shown)

    # ---- streams ----

    def test_stdout_is_the_text(self):
        """Whatever is asked of standard error, standard output has the same bytes."""
        want = cera("run", TINY, "-p", "Once", "-n", "6", *GREEDY).out_bytes
        for extra in (["-v"], ["-vv"], ["-q"], ["--progress", "plain"], ["--progress", "json"],
                      ["--color", "always"], ["--unbuffered"]):
            result = cera("run", TINY, "-p", "Once", "-n", "6", *GREEDY, *extra)
            self.assertEqual(result.out_bytes, want, extra)
        result = cera("run", TINY, "-p", "Once", "-n", "6", *GREEDY, "-v")
        for line in ("Model: lfm2 | 8 layers", "Prompt tokens: 2", "Generated tokens: 6",
                     "Prefill: ", "Decode: ", "temperature=0"):
            self.assertIn(line, result.err)

    def test_final_newline_on_a_terminal_only(self):
        args = ["run", TINY, "-p", "Once", "-n", "4", "-q", *GREEDY]
        piped = cera(*args).out
        self.assertFalse(piped.endswith("\n"))
        code, shown, _, err = on_terminal(*args, streams=("stdout",))
        self.assertEqual((code, shown, err), (0, piped + "\r\n", b""))

    def test_no_progress_without_a_terminal(self):
        ids = ",".join(["5"] * 600)
        result = cera("run", TINY, "--token-ids", ids, "-n", "1", "--ignore-eos", "-q")
        self.assertEqual(result.err, "")
        result = cera("run", TINY, "--token-ids", ids, "-n", "1", "--progress", "json")
        events = [json.loads(l) for l in result.err.splitlines() if l.startswith("{")]
        self.assertEqual(events[-1]["event"], "progress")
        self.assertEqual((events[-1]["done"], events[-1]["total"]), (600, 600))

    def test_reader_goes_away(self):
        for extra in ([], ["--unbuffered"]):
            process = start("run", TINY, "-p", "Once", "-n", "-1", "--ignore-eos", "-q", *extra)
            process.stdout.read(1)
            process.stdout.close()
            err = process.stderr.read()
            process.stderr.close()
            self.assertEqual((process.wait(timeout=60), err), (0, b""))

    def test_disk_full(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "wb") as full:
            process = start("run", TINY, "-p", "Once", "-n", "4", stdout=full)
            code, _, err = end(process)
        self.assertEqual(code, 1)
        self.assertEqual(err.count(b"cera: error: cannot write to standard output"), 1, err)

    # ---- signals ----

    def interrupt(self, number, *extra):
        process = start("run", TINY, "-n", "-1", "-c", "1024", "--ignore-eos", "--unbuffered",
                        *GREEDY, *extra, stdin=subprocess.PIPE)
        process.stdin.write(b"Once upon a time")
        wait_until_read(process.stdin)
        process.stdin.close()
        process.stdin = None  # communicate() would flush it
        first = process.stdout.read(4) if not extra else b""
        if extra:
            time.sleep(0.3)
        process.send_signal(number)
        code, out, err = end(process)
        return code, first + out, err

    def test_interrupt_keeps_the_text(self):
        whole = cera("run", TINY, "-p", "Once upon a time", "-n", "-1", "--ignore-eos", *GREEDY).out
        for number, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            code, out, err = self.interrupt(number)
            self.assertEqual(code, expected, err)
            text = out.decode("utf-8")  # whole characters
            self.assertTrue(text and whole.startswith(text))
            self.assertNotIn(b"error", err)

    def test_interrupt_gives_a_whole_document(self):
        code, out, _ = self.interrupt(signal.SIGINT, "--format", "json")
        self.assertIn(code, (130, 0))  # 0: it was done before the signal came
        if code == 130 and out:
            self.assertEqual(json.loads(out)["finish_reason"], "cancelled")

    def test_interrupt_while_waiting_for_input(self):
        reader, writer = os.pipe()
        process = start("run", TINY, stdin=reader)
        os.write(writer, b"Once")
        wait_until_read(writer)
        process.send_signal(signal.SIGINT)
        self.assertEqual(end(process)[0], 130)
        os.close(reader)
        os.close(writer)

    # ---- JSON ----

    def test_json(self):
        for form in ("json", "jsonl"):
            result = cera("run", TINY, "-p", "Once upon a time", "-n", "6", *GREEDY, "--format",
                          form)
            self.assertEqual(result.out.count("\n"), 1)
            answer = result.json
            self.assertEqual(list(answer), ["schema", "model", "text", "tokens", "finish_reason",
                                            "usage", "timings", "seed"])
            self.assertEqual(answer["schema"], "cera.run/1")
            self.assertEqual(answer["model"], TINY)
            self.assertEqual(answer["tokens"], golden()[0]["greedy"][:6])
            self.assertEqual(answer["finish_reason"], "length")
            self.assertEqual(answer["usage"], {"prompt_tokens": 5, "completion_tokens": 6,
                                               "cached_tokens": 0})
            self.assertEqual(list(answer["timings"]),
                             ["load_ms", "prompt_ms", "prompt_per_second", "predicted_ms",
                              "predicted_per_second", "ttft_ms"])
            self.assertTrue(all(v >= 0 for v in answer["timings"].values()))
            text = cera("run", TINY, "-p", "Once upon a time", "-n", "6", *GREEDY).out
            self.assertEqual(answer["text"], text)

    def test_logprobs(self):
        args = ["run", TINY, "-p", "Once upon a time", "-n", "4", *GREEDY]
        self.assertEqual(cera(*args, "--logprobs", "2").code, 2)  # nowhere to put them
        answer = cera(*args, "--logprobs", "3", "--format", "json").json
        content = answer["logprobs"]["content"]
        self.assertEqual([e["id"] for e in content], answer["tokens"])
        self.assertEqual("".join(e["token"] for e in content), answer["text"])
        for entry in content:
            self.assertEqual(bytes(entry["bytes"]).decode(), entry["token"])
            top = entry["top_logprobs"]
            self.assertEqual(len(top), 3)
            self.assertEqual(top[0]["id"], entry["id"])  # greedy: the best is chosen
            self.assertEqual(top[0]["logprob"], entry["logprob"])
            self.assertEqual(sorted((t["logprob"] for t in top), reverse=True),
                             [t["logprob"] for t in top])
            self.assertLess(top[0]["logprob"], 0)


if __name__ == "__main__":
    unittest.main()
