"""What goes wrong around the program: files that change or have no end, streams that are closed."""
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from program import (BIN, TINY, TINY_FILE, TIMEOUT, as_user, cera, environment, start,
                     wait_until_read)

ENDLESS = ["-p", "Once upon a time", "-n", "400", "--ignore-eos", "--temperature", "0"]
LIMIT = 64 << 20


class FaultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    # ---- the model changes ----

    def cut_short(self, *args):
        """Runs a model whose file is cut short as soon as there is a sign of life."""
        shutil.copyfile(TINY_FILE, self.path("m.gguf"))
        process = start("run", self.path("m.gguf"), *ENDLESS, *args)
        first = b""
        if "--unbuffered" in args:
            first = process.stdout.read(1)
        else:  # the last remark before the work
            while not process.stderr.readline().startswith(b"Prompt tokens"):
                pass
        time.sleep(random.uniform(0, 0.003))  # not always at the same place of a step
        process.send_signal(signal.SIGSTOP)
        os.truncate(self.path("m.gguf"), 4096)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=TIMEOUT)
        return process.returncode, first + out, err.decode()

    def test_model_is_cut_short(self):
        """Either a thread meets a page that is gone, or the library sees the file's new size."""
        whole = cera("run", TINY, *ENDLESS).out_bytes
        fault = ("cera: error: the model file changed while it was in use\n"
                 "  try: --no-mmap, which reads the whole file first\n")
        for args in (["-t", "1"], ["-t", "2"], ["-t", "2", "--log-file", self.path("log")]):
            for _ in range(40):
                code, out, err = self.cut_short("--unbuffered", *args)
                self.assertEqual(code, 1, err)
                self.assertTrue(out and whole.startswith(out))
                self.assertLess(len(out), len(whole))
                if "the file changed since it was opened" not in err:
                    break
            self.assertEqual(err, fault)
        self.assertIn(fault.encode(), self.read("log"))

    def test_model_is_cut_short_with_json(self):
        for _ in range(40):  # the library may see it first
            code, out, err = self.cut_short("--format", "json", "-v")
            if code == 1 and "since it was opened" not in err:
                break
        self.assertEqual((code, out), (1, b""), err)
        error = json.loads(err)["error"]
        self.assertEqual((error["code"], error["exit"]), ("runtime", 1))

    def test_model_in_memory_may_be_cut_short(self):
        code, out, err = self.cut_short("--unbuffered", "--no-mmap")
        self.assertEqual((code, out), (0, cera("run", TINY, *ENDLESS).out_bytes), err)

    def test_other_bus_errors_stay_what_they_are(self):
        process = start("run", TINY, stdin=subprocess.PIPE)
        process.stdin.write(b"Once")
        wait_until_read(process.stdin)
        process.send_signal(signal.SIGBUS)
        self.assertEqual(process.wait(timeout=TIMEOUT), -signal.SIGBUS)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()

    # ---- streams and limits ----

    def shell(self, script):
        return subprocess.run(["bash", "-c", script], env=environment(CERA=BIN, TINY=TINY),
                              cwd=self.folder, capture_output=True, timeout=TIMEOUT, check=False)

    def test_closed_output(self):
        for streams in (">&-", "<&- >&-"):
            for extra in ("", "--log-file log"):
                done = self.shell('"$CERA" run "$TINY" -p Once -n 4 %s %s' % (extra, streams))
                self.assertEqual(done.returncode, 1, done)
                self.assertIn(b"cera: error: cannot write to standard output", done.stderr)
        log = self.read("log").decode()
        text = cera("run", TINY, "-p", "Once", "-n", "4", "--temperature", "0").out
        self.assertIn("cera: error: cannot write to standard output", log)
        self.assertNotIn(text, log)

    def test_output_is_looked_at_before_the_work(self):
        """What can never be written is not computed: no input is waited for, no time measured."""
        for command in ("run", "run --tools []", "chat", "logits", "embed", "perplexity",
                        "bench -r 10000"):
            for stream in (">&-", "1</dev/null"):
                process = subprocess.Popen(
                    ["bash", "-c", 'exec "$0" %s -m "$1" %s' % (command, stream), BIN, TINY],
                    env=environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual(process.wait(TIMEOUT), 1)
                with process.stderr:
                    self.assertEqual(process.stderr.read(),
                                     b"cera: error: cannot write to standard output\n"
                                     b"  why: Bad file descriptor\n")
                process.stdin.close()

    def test_closed_streams_and_a_new_file(self):
        """What is said does not go into it."""
        made = []
        for streams in ("", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            done = self.shell('"$CERA" quantize --allow-requantize "%s" new.gguf F16 '
                              '--progress json %s' % (TINY_FILE, streams))
            self.assertEqual(done.returncode, 0, done)
            made.append(self.read("new.gguf"))
        self.assertTrue(all(m == made[0] for m in made), [m[:60] for m in made])

    def test_closed_error_stream(self):
        done = self.shell('"$CERA" run "$TINY" -p Once -n 4 -v --log-file log 2>&-')
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.read("log").count(b"Model: lfm2"), 1)

    def test_file_size_limit(self):
        def limited():
            as_user()
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
        with open(self.path("out"), "wb") as out:
            done = subprocess.run([BIN, "run", TINY, *ENDLESS], env=environment(), stdout=out,
                                  stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  preexec_fn=limited, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(b"cannot write to standard output", done.stderr)
        self.assertEqual(len(self.read("out")), 16)

    def test_text_without_end(self):
        if not os.path.exists("/dev/zero"):
            self.skipTest("no /dev/zero here")
        for command in ("run", "logits", "embed", "tokenize"):
            result = cera(command, TINY, "-f", "/dev/zero")
            self.assertEqual((result.code, result.out), (6, ""), result)
            self.assertIn("cera: error: the text is too long\n", result.err)
            self.assertIn(str(LIMIT), result.err)
        done = self.shell('"$CERA" run "$TINY" < /dev/zero')
        self.assertEqual(done.returncode, 6, done)

    def test_file_that_is_too_long(self):
        with open(self.path("text"), "wb") as f:
            f.truncate(LIMIT + 1)
        for script in ('"$CERA" tokenize "$TINY" -f text', '"$CERA" tokenize "$TINY" < text'):
            done = self.shell(script)
            self.assertEqual(done.returncode, 6, done)
            self.assertIn(str(LIMIT + 1).encode(), done.stderr)
            self.assertIn(str(LIMIT).encode(), done.stderr)
        # What is read already counts.
        os.truncate(self.path("text"), LIMIT)
        done = self.shell('echo more | "$CERA" run "$TINY" -f text --stdin')
        self.assertEqual(done.returncode, 6, done)
        self.assertIn(b"more than %d bytes" % LIMIT, done.stderr)


if __name__ == "__main__":
    unittest.main()
