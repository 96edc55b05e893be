"""cera chat: the conversation, its commands, the streams, the keyboard, the ways to end."""
import filecmp
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest

from program import TINY, TINY_FILE, Terminal, cera, start, wait_until_read

GREEDY = ["--temperature", "0"]
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def chat(*args, stdin=b"", env=None):
    return cera("chat", TINY, *GREEDY, *args, stdin=stdin, env=env)


def turns(*args, stdin=b""):
    result = chat("--format", "jsonl", *args, stdin=stdin)
    assert result.code == 0, result
    return [json.loads(line) for line in result.out.splitlines()]


def save_and_leave(t, path):
    """The messages of a conversation on a terminal, which it ends."""
    t.send("/save %s\n" % path)
    t.until("> ")
    t.send_end()
    assert t.end() == 0
    with open(path, encoding="utf-8") as f:
        return json.load(f)["messages"]


class PipeTest(unittest.TestCase):
    def test_a_line_is_a_message(self):
        result = chat("-n", "20", stdin=b"Hello\nAnd then?\n")
        self.assertEqual(result.code, 0, result)
        first, second = turns("-n", "20", stdin=b"Hello\nAnd then?\n")
        texts = [t["message"]["content"] for t in (first, second)]
        self.assertEqual(result.out, "".join(t if t.endswith("\n") else t + "\n" for t in texts))
        self.assertTrue(all(texts))

    def test_the_first_turn_is_what_run_says_to_the_same_prompt(self):
        prompt = cera("template", TINY, "--messages",
                      '[{"role": "user", "content": "Hello"}]', "--json").json
        ids = ",".join(map(str, prompt["ids"]))
        run = cera("run", TINY, *GREEDY, "--token-ids", ids, "-n", "30", "--format", "json").json
        turn = turns("-p", "Hello", "-n", "30")[0]
        self.assertEqual(turn["message"]["content"], run["text"])
        self.assertEqual(turn["usage"]["prompt_tokens"], len(prompt["ids"]))
        self.assertEqual(turn["finish_reason"], run["finish_reason"])

    def test_ends_of_input(self):
        """CLI-01: no input is no message, an empty line neither, and a last line needs no line feed."""
        for stdin in (b"", b"\n", b"\n\n  \n"):
            result = chat("-n", "5", stdin=stdin)
            self.assertEqual((result.code, result.out), (0, ""), result)
        self.assertEqual(chat("-n", "5", stdin=b"\nhi").out, chat("-n", "5", stdin=b"hi\n").out)

    def test_multi_line(self):
        def asked(stdin, n=1):
            found = turns("-n", "1", stdin=stdin)
            self.assertEqual(len(found), n, stdin)
            return found[-1]["usage"]["prompt_tokens"]
        quoted = asked(b'"""one\ntwo"""\n')
        self.assertEqual(quoted, asked(b"one\\\ntwo\n"))
        self.assertEqual(quoted, asked(b'"""\none\ntwo\n"""\n'))
        self.assertEqual(quoted, asked(b'"""one\ntwo'))
        self.assertEqual(quoted, asked(b'"""one\r\ntwo"""\r\n'))
        self.assertNotEqual(quoted, asked(b'one\ntwo\n', 2))

    def test_slash_twice_is_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.json")
            result = chat("-n", "1", stdin=b"//etc is a folder\n/save %s\n" % path.encode())
            self.assertEqual(result.code, 0, result)
            with open(path, encoding="utf-8") as f:
                self.assertEqual(json.load(f)["messages"][0]["content"], "/etc is a folder")

    def test_prompt_option(self):
        """-p and a pipe: one answer, and standard input is not read."""
        alone = chat("-p", "Hello", "-n", "8")
        self.assertEqual(alone.out, chat("-p", "Hello", "-n", "8", stdin=b"more\n").out)
        self.assertEqual(alone.out, chat("-n", "8", stdin=b"Hello\n").out)
        self.assertEqual(alone.out, chat("-p", "-", "-n", "8", stdin=b"Hello\n").out)

    # ---- what is computed ----

    def test_only_what_is_new_is_computed(self):
        first, second, third = turns("-n", "12", stdin=b"Hello\nAnd then?\nWhy?\n")
        self.assertEqual(first["usage"]["cached_tokens"], 0)
        for before, after in ((first, second), (second, third)):
            known = before["usage"]["prompt_tokens"] + before["usage"]["completion_tokens"]
            self.assertGreaterEqual(after["usage"]["cached_tokens"], known)
            self.assertLess(after["usage"]["cached_tokens"], after["usage"]["prompt_tokens"])

    def test_messages_cannot_forge_control_tokens(self):
        plain = turns("-n", "1", "-p", "x")[0]["usage"]["prompt_tokens"]
        forged = turns("-n", "1", "-p", "x<|im_end|>")[0]["usage"]["prompt_tokens"]
        self.assertGreater(forged, plain + 1)

    def test_context(self):
        """The oldest exchanges go, the system message stays, and somebody says so."""
        stdin = b"".join(b"Tell me about the number %d please.\n" % i for i in range(12))
        result = chat("-n", "16", "-c", "160", "--system", "Be brief.", "--format", "jsonl",
                      stdin=stdin)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(len(result.out.splitlines()), 12)
        self.assertIn("no longer sees the first", result.err)
        for line in result.out.splitlines():
            self.assertLessEqual(json.loads(line)["usage"]["prompt_tokens"], 160 - 16)
        long = chat("-n", "16", "-c", "64", "-p", "word " * 200)
        self.assertEqual((long.code, long.out), (6, ""), long)

    def test_behind_a_full_context(self):
        """Exchanges go in steps, so that most prompts begin as the one before, and are known."""
        found = turns("-n", "6", "--ignore-eos", "-c", "256", "-q", stdin=b"hi\n" * 60)
        used = [t["usage"] for t in found]
        known = [u["cached_tokens"] > u["prompt_tokens"] // 2 for u in used]
        first = max(i for i in range(60) if all(known[1:i + 1])) + 1  # the first with another beginning
        self.assertTrue(8 < first < 30, known)
        self.assertLessEqual(used[first]["prompt_tokens"], 256 * 3 // 4 - 6)
        self.assertGreater(used[first]["prompt_tokens"], 256 // 2)
        self.assertLessEqual(known[first:].count(False), 12, known)
        self.assertTrue(all(u["prompt_tokens"] <= 256 - 6 for u in used))

    def test_a_long_conversation_is_cut_at_once(self):
        """Where it has to be is searched, not tried exchange by exchange: 40 s of processor time."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}] * 3000, f)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            turn, = turns("-n", "6", "-q", stdin=b"/load %s\nhi\n" % path.encode())
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 8)
        self.assertTrue(1024 // 2 < turn["usage"]["prompt_tokens"] <= 1024 * 3 // 4 - 6)

    # ---- commands ----

    def test_continue_gives_what_one_answer_would(self):
        whole = turns("-p", "Hello", "-n", "60", "--ignore-eos")[0]["message"]["content"]
        parts = turns("-n", "20", "--ignore-eos", stdin=b"Hello\n/continue\n/continue\n")
        self.assertEqual(len(parts), 3)
        self.assertEqual(parts[2]["message"]["content"], whole)
        result = chat("-n", "20", "--ignore-eos", "-q", stdin=b"Hello\n/continue\n/continue\n")
        self.assertEqual("".join(result.out.split("\n")), "".join(whole.split("\n")))

    def test_regen(self):
        args = ["--temperature", "9", "--top-p", "1", "--min-p", "0", "--seed", "3", "-n", "20"]
        found = turns(*args, stdin=b"Hello\n/regen\n/regen\n")
        self.assertEqual(len({t["message"]["content"] for t in found}), 3)
        self.assertEqual(len({t["usage"]["prompt_tokens"] for t in found}), 1)
        again = turns(*args, stdin=b"Hello\n/regen\n/regen\n")
        self.assertEqual([t["message"] for t in found], [t["message"] for t in again])

    def test_undo_clear_and_system(self):
        plain = turns("-n", "9", "-p", "Hello")[0]
        for before in (b"One\nTwo\n/undo\n/undo\n", b"One\n/clear\n", b"/system Be kind\n/system\n"):
            last = turns("-n", "9", stdin=before + b"Hello\n")[-1]
            self.assertEqual(last["message"], plain["message"])
            self.assertEqual(last["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"])
        kind = turns("-n", "9", "--system", "Be kind", "-p", "Hello")[0]
        self.assertGreater(kind["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"])
        for before in (b"/system Be kind\n", b"One\n/clear\n/system Be kind\n"):
            last = turns("-n", "9", stdin=before + b"Hello\n")[-1]
            self.assertEqual(last["message"], kind["message"])

    def test_save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            save, load = b"/save %s\n" % path.encode(), b"/load %s\n" % path.encode()
            whole = turns("-n", "9", "--system", "Be kind", stdin=b"Hello\nAnd then?\n")[1]
            turns("-n", "9", "--system", "Be kind", stdin=b"Hello\n" + save)
            with open(path, encoding="utf-8") as f:
                saved = json.load(f)
            self.assertEqual(saved["schema"], "cera.chat/1")
            self.assertEqual([m["role"] for m in saved["messages"]],
                             ["system", "user", "assistant"])
            self.assertEqual(os.listdir(folder), ["talk.json"])
            loaded = turns("-n", "9", stdin=load + b"And then?\n")[0]
            self.assertEqual(loaded["message"], whole["message"])
            self.assertEqual(loaded["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"])

    def test_a_cut_answer_survives_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json").encode()
            args = ["-n", "12", "--ignore-eos"]
            turns(*args, stdin=b"Hello\n/save %s\n" % path)
            went_on = turns(*args, stdin=b"/load %s\n/continue\n" % path)[0]
            self.assertGreater(len(went_on["message"]["content"]), 20)
            self.assertEqual(went_on["usage"]["completion_tokens"], 12)

    def test_load_refuses(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("a", "{"), ("b", "{}"), ("c", "[1]"), ("d", '[{"role": "user"}]'),
                               ("e", '[{"role": "robot", "content": ""}]'),
                               ("f", '{"schema": "other/9", "messages": []}'),
                               ("g", '{"schema": 1, "messages": []}'),
                               ("h", '[{"role": "assistant", "content": "", "tool_calls": "x"}]'),
                               ("i", '[{"role": "assistant", "content": "", "tool_calls": [{}]}]')):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                result = chat(stdin=b"/load %s\n" % path.encode())
                self.assertEqual((result.code, result.out), (1, ""), result)
                self.assertIn("cannot read", result.err)
            missing = chat(stdin=b"/load /nowhere/x\n")
            self.assertEqual(missing.code, 1, missing)
            self.assertEqual(chat(stdin=b"/save /nowhere/x\n").code, 1)
            folder_read = chat(stdin=b"/load %s\n" % folder.encode())
            self.assertEqual(folder_read.code, 1, folder_read)
            self.assertIn("Is a directory", folder_read.err)

    def test_save_replaces_conversations_only(self):
        with tempfile.TemporaryDirectory() as folder:
            model, symlink, pipe = (os.path.join(folder, n) for n in ("m.gguf", "link", "pipe"))
            shutil.copy(TINY_FILE, model)
            os.symlink(model, symlink)
            os.mkfifo(pipe)
            for path, why in ((model, "the model's file"), (symlink, "the model's file"),
                              (pipe, "expected a regular file"), (folder, "expected a regular")):
                refused = cera("chat", model, stdin=b"/save %s\n" % path.encode())
                self.assertEqual(refused.code, 1, refused)
                self.assertIn("cannot write %s\n  why: " % path, refused.err)
                self.assertIn(why, refused.err)
            self.assertTrue(filecmp.cmp(TINY_FILE, model, shallow=False))
            self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))

    def test_save_keeps_links_and_permissions(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "real"))
            path, first, second, dangling, loop = (os.path.join(folder, n) for n in (
                "real/talk.json", "real/first", "second", "dangling", "loop"))
            os.symlink("talk.json", first)
            os.symlink("real/first", second)
            os.symlink(os.path.join(folder, "real", "new.json"), dangling)
            os.symlink("loop", loop)

            def save(to, umask=0o022):
                process = start("chat", TINY, *GREEDY, "-n", "1", stdin=subprocess.PIPE, umask=umask)
                err = process.communicate(b"Hello\n/save %s\n" % to.encode(), timeout=60)[1]
                return process.returncode, err.decode()

            def mode(of):
                return stat.S_IMODE(os.lstat(of).st_mode)
            # A new conversation is its user's alone; a file that was there stays open to whom it was.
            self.assertEqual(save(path)[0], 0)
            self.assertEqual(mode(path), 0o600)
            for kept in (0o640, 0o666, 0o604):
                os.chmod(path, kept)
                self.assertEqual(save(path, 0o077)[0], 0)
                self.assertEqual(mode(path), kept)
            with open(path, "w", encoding="utf-8"):
                pass
            self.assertEqual(save(second)[0], 0)
            self.assertTrue(os.path.islink(second) and os.path.islink(first))
            self.assertFalse(os.path.islink(path))
            with open(path, encoding="utf-8") as f:
                self.assertEqual(json.load(f)["messages"][0]["content"], "Hello")
            self.assertEqual(save(dangling)[0], 0)
            self.assertTrue(os.path.islink(dangling))
            self.assertEqual(mode(os.path.join(folder, "real", "new.json")), 0o600)
            code, err = save(loop)
            self.assertEqual(code, 1, err)
            self.assertIn("cannot write %s" % loop, err)
            self.assertEqual(sorted(os.listdir(folder) + os.listdir(os.path.join(folder, "real"))), sorted(
                ["real", "second", "dangling", "loop", "talk.json", "first", "new.json"]))

    def test_odd_bytes(self):
        """NUL is a character of a message, also in a file; what is no UTF-8 becomes U+FFFD."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json").encode()
            turns("-n", "3", stdin=b"a\0b \xff\xc3\n/save %s\n" % path)
            turns("-n", "3", stdin=b"/load %s\nc\n/save %s\n" % (path, path))
            with open(path, encoding="utf-8") as f:
                saved = json.load(f)["messages"]
        self.assertEqual([m["content"] for m in saved if m["role"] == "user"], ["a\0b \ufffd\ufffd", "c"])

    def test_mistakes(self):
        for stdin, text in ((b"/foo\n", "no command /foo"), (b"/regen\n", "no answer"),
                            (b"/continue\n", "unfinished"), (b"/save\n", "name of a file"),
                            (b"/load\n", "name of a file"), (b"/result 1\n", "no call"),
                            (b"/edit x\n", "no message to edit"), (b"/answer x\n", "nothing to answer"),
                            (b"/back\n", "no branch"), (b"/image x\n", "see images"),
                            (b"/set temperature 0\0.5\n", "NUL"), (b"/save /tmp/x\0y\n", "NUL")):
            result = chat(stdin=stdin)
            self.assertEqual((result.code, result.out), (2, ""), result)
            self.assertIn(text, result.err)

    def test_edit(self):
        """The last message in other words: as if the first had never been said."""
        plain = turns("-n", "9", stdin=b"One\nHello\n")[-1]
        edited = turns("-n", "9", stdin=b"One\nTwo\n/edit Hello\n")
        self.assertEqual(len(edited), 3)
        self.assertEqual(edited[-1]["message"], plain["message"])
        self.assertEqual(edited[-1]["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"])
        # One that cannot be answered leaves all as it was.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            t = Terminal("chat", TINY, *GREEDY, "-n", "5", "-c", "64", "--color", "never")
            t.until("> ")
            t.send("Hello\n")
            t.until("\n> ")
            t.send("/edit " + "word " * 100 + "\n")
            t.until("\n> ")
            saved = save_and_leave(t, path)
            self.assertEqual([m["role"] for m in saved], ["user", "assistant"])
            self.assertEqual(saved[0]["content"], "Hello")

    def test_answer_is_continued(self):
        """What the model is to have said is what it goes on from."""
        whole = turns("-p", "Hello", "-n", "40", "--ignore-eos")[0]["message"]["content"]
        cut = whole.index(" ", 20)
        found = turns("-n", "8", "--ignore-eos",
                      stdin=b"Hello\n/answer %s\n/continue\n" % whole[:cut].encode())
        self.assertEqual(len(found), 2)
        content = found[-1]["message"]["content"]
        self.assertTrue(content.startswith(whole[:cut]) and len(content) > cut, content)
        self.assertTrue(whole.startswith(content), (content, whole))

    def test_branch_and_back(self):
        plain = turns("-n", "9", stdin=b"One\nHello\n")[-1]
        found = turns("-n", "9", stdin=b"One\n/branch\nTwo\n/branch\nThree\n/back\n/back\nHello\n")
        self.assertEqual(found[-1]["message"], plain["message"])
        self.assertEqual(found[-1]["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"])

    def test_set(self):
        """As if the option had been on the command line from there on."""
        hot = ["--temperature", "9", "--top-p", "1", "--min-p", "0", "--seed", "3"]
        wanted = turns("-n", "9", *hot, "-p", "Hello")[0]
        found = turns("-n", "9", stdin=b"/set temperature 9\n/set top-p=1\n/set min-p 0\n/set seed 3\nHello\n")
        self.assertEqual(found[0]["message"], wanted["message"])
        short = turns("-n", "9", "--ignore-eos", stdin=b"Hello\n/set n-predict 4\nMore\n")
        self.assertEqual([t["usage"]["completion_tokens"] for t in short], [9, 4])
        shown = chat("-n", "9", stdin=b"/set temp 0.25\n/set\n")
        self.assertEqual((shown.code, shown.out), (0, ""), shown)
        self.assertIn("temperature=0.25", shown.err)
        self.assertIn("max-tokens=9", shown.err)
        for line, text in ((b"/set temperature hot", "hot"), (b"/set warmth 1", "warmth"),
                           (b"/set stop x", "given once"), (b"/set system x", "given once"),
                           (b"/set top-p 2", "top-p"), (b"/set temperature", "temperature")):
            result = chat(stdin=line + b"\nHello\n")
            self.assertEqual((result.code, result.out), (2, ""), result)
            self.assertIn(text, result.err)

    def test_set_in_a_terminal(self):
        """A mistake changes nothing, and the conversation goes on."""
        t = Terminal("chat", TINY, *GREEDY, "-n", "6", "--color", "never")
        t.until("> ")
        t.send("/set temperature hot\n")
        self.assertIn("hot", t.until("\n> "))
        t.send("/set\n")
        self.assertIn("temperature=0 ", t.until("\n> "))
        t.send("/image cat.png\n")
        self.assertIn("no models that see images", t.until("\n> "))
        t.send_end()
        self.assertEqual(t.end(), 0)

    def test_help_and_stats(self):
        result = chat("-n", "3", stdin=b"/help\nHello\n/stats\n/exit\nnever\n")
        self.assertEqual(result.code, 0, result)
        for word in ("/system [TEXT]", "/regen", "//TEXT", "Messages: 2", "Generated tokens: 3"):
            self.assertIn(word, result.err)
        self.assertEqual(len(result.out.splitlines()), 1)

    # ---- shapes and streams ----

    def test_json(self):
        result = chat("-n", "5", "--format", "json", stdin=b"Hello\nMore\n")
        root = result.json
        self.assertEqual(root["schema"], "cera.chat/1")
        self.assertEqual(root["model"], TINY)
        self.assertEqual(len(root["turns"]), 2)
        turn = root["turns"][0]
        self.assertEqual(turn["message"]["role"], "assistant")
        self.assertEqual(turn["finish_reason"], "length")
        self.assertEqual(turn["usage"]["completion_tokens"], 5)
        self.assertEqual(set(turn["timings"]),
                         {"prompt_ms", "predicted_ms", "predicted_per_second"})
        self.assertEqual(chat("--format", "json").json["turns"], [])
        # What fails later costs no answer.
        failed = chat("-n", "5", "--format", "json", stdin=b"Hello\nMore\n/nosuch\nnever\n")
        self.assertEqual(failed.code, 2, failed)
        self.assertEqual([t["message"] for t in failed.json["turns"]],
                         [t["message"] for t in root["turns"]])
        self.assertIn("/nosuch", failed.err)
        failed = chat("-n", "5", "--format", "json", stdin=b"/nosuch\n")
        self.assertEqual((failed.code, failed.out), (2, ""), failed)

    def test_quiet_and_stdout(self):
        result = chat("-q", "-n", "5", stdin=b"Hello\n")
        self.assertEqual(result.err, "")
        self.assertIn("--max-tokens", chat("-n", "5", stdin=b"Hello\n").err)

    def test_templates(self):
        named = chat("--chat-template", "chatml", "-n", "9", "-p", "Hello")
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as f:
            f.write(CHATML)
            f.flush()
            own = chat("--chat-template-file", f.name, "-n", "9", "-p", "Hello")
        self.assertEqual((own.code, own.out), (0, named.out), own)
        refused = chat("--chat-template", "{{ raise_exception('no') }}", "-p", "x")
        self.assertEqual((refused.code, refused.out), (1, ""), refused)
        self.assertIn("no", refused.err)
        self.assertEqual(chat("--chat-template", "klingon", "-p", "x").code, 2)
        both = chat("--chat-template", "chatml", "--chat-template-file", "x", "-p", "x")
        self.assertEqual(both.code, 2, both)
        shouted = chat("--chat-template", CHATML.replace("m.content", "m.content ~ shout"),
                       "--template-vars", '{"shout": "!"}', "-n", "9", "-p", "Hello")
        self.assertEqual(shouted.out, chat("--chat-template", "chatml", "-n", "9", "-p", "Hello!").out)

    def test_reasoning_is_not_the_answer(self):
        """The template opens it, so all that the model says before it closes it is reasoning."""
        template = CHATML.replace("assistant\n{%", "assistant\n<think>\n{%")
        args = ["--chat-template", template, "-n", "6", "-p", "Hello"]
        hidden = chat(*args)
        self.assertEqual((hidden.code, hidden.out), (0, ""), hidden)
        shown = chat(*args, "--reasoning", "show", "-q")
        self.assertEqual(shown.out, "")
        message = turns(*args)[0]["message"]
        self.assertEqual(message["content"], "")
        self.assertEqual(shown.err.strip(), message["reasoning_content"].strip())

    def test_grammar(self):
        found = turns("--grammar", 'root ::= "yes" | "no"', stdin=b"Is it?\nReally?\n")
        for turn in found:
            self.assertIn(turn["message"]["content"], ("yes", "no"))
            self.assertEqual(turn["finish_reason"], "stop")

    def test_grammar_is_for_what_follows_reasoning(self):
        """SCH-15: the prompt opens reasoning, which is free; the answer is the grammar's."""
        with open(TINY_FILE, "rb") as f:
            data = f.read()
        template = "{{ messages[0].content }}\n<seed:think>\n"
        args = ["--temperature", "1", "--seed", "2", "-p", "Once upon a time", "--chat-template",
                template, "--grammar", 'root ::= "yes" | "no"', "--format", "jsonl"]
        cut = cera("chat", TINY, *args, "-n", "9").json
        self.assertEqual((cut["message"]["content"], cut["finish_reason"]), ("", "length"))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "marked.gguf")
            with open(path, "wb") as f:
                f.write(data.replace(b"<|endoftext|>", b"</seed:think>"))
            n_thoughts = 0
            for seed in range(5):
                turn = cera("chat", path, *args, "-n", "90", "--seed", str(seed), "--logit-bias",
                            "2=12").json
                n_thoughts += len(turn["message"].get("reasoning_content", ""))
                self.assertIn(turn["message"]["content"], ("yes", "no"), turn)
                self.assertEqual(turn["finish_reason"], "stop")
                self.assertLessEqual(turn["usage"]["completion_tokens"], 90)
            self.assertGreater(n_thoughts, 0)

    def test_usage(self):
        for args in (["--reasoning", "loud"], ["--tools", "x", "--tool-format", "none", "-p", "x"],
                     ["--logit-bias", "99999999=1", "-p", "x"]):
            result = chat(*args)
            self.assertEqual((result.code, result.out), (2, ""), result)

    # ---- ways to end ----

    def test_signals(self):
        """Not interactive, so nobody would go on: what there is goes out, and the code says why."""
        for number, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process = start("chat", TINY, *GREEDY, "-n", "-1", "--ignore-eos", "-c", "1024",
                            "--repetition-penalty", "1", "--unbuffered", "-t", "1",
                            stdin=subprocess.PIPE)
            process.stdin.write(b"Hello\n")
            process.stdin.flush()
            process.stdout.read(1)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, expected, err)
            waiting = start("chat", TINY, stdin=subprocess.PIPE)
            waiting.stdin.write(b"Hel")
            wait_until_read(waiting.stdin)
            waiting.send_signal(number)
            waiting.communicate(timeout=60)
            self.assertEqual(waiting.returncode, expected)
            del out

    def test_reader_goes_away(self):
        process = start("chat", TINY, *GREEDY, "-n", "-1", "--ignore-eos", "--unbuffered",
                        stdin=subprocess.PIPE)
        process.stdin.write(b"Hello\nMore\n")
        process.stdout.read(1)
        process.stdout.close()
        process.stdin.close()
        self.assertEqual(process.wait(60), 0, process.stderr.read())
        process.stderr.close()


class TerminalTest(unittest.TestCase):
    def test_talk(self):
        t = Terminal("chat", TINY, *GREEDY, "-n", "20", "--color", "never")
        self.assertIn("/help", t.until("> "))
        t.send("Hello\n")
        first = t.until("\n> ")
        self.assertIn(turns("-n", "20", "-p", "Hello")[0]["message"]["content"], first)
        t.send('"""one\n')
        t.until(". ")
        t.send('two"""\n')
        t.until("\n> ")
        t.send("/stats\n")
        self.assertIn("Messages: 4", t.until("\n> "))
        t.send("/nonsense\n")
        self.assertIn("no command /nonsense", t.until("\n> "))
        t.send("/load /nowhere/x\n")
        self.assertIn("cannot read", t.until("\n> "))
        t.send("\n")
        t.until("> ")
        t.send_end()
        self.assertEqual(t.end(), 0)

    def test_keys(self):
        """Those that are known edit; of others, and of what a terminal says, nothing becomes text."""
        lines = [("ab cd\x1b[1;5DX", "ab Xcd"), ("ab\x1b[DX", "aXb"), ("ab\x1bODX", "aXb"),
                 ("ab\x1b[HX", "Xab"), ("ab\x1b[1~X\x1b[4~Y", "XabY"), ("ab\x1b[D\x1b[3~c", "ac"),
                 ("ab cd\x1bbX", "ab Xcd"), ("ab cd\x1b\x1b[DX", "ab cXd")]
        lines += [("a%sb" % unknown, "ab") for unknown in (
            "\x1b[15~", "\x1b[24~", "\x1b[1;2C", "\x1b[Z", "\x1bOP", "\x1b[[A", "\x1b[I", "\x1b[97;5u",
            "\x1b[?62;22c", "\x1b]0;a title\x07", "\x1b]11;rgb:0/0/0\x1b\\",
            "\x1b[1;2;3;4;5;6;7;8R")]
        lines += [("\x1b[200~pasted é\x1b[201~!", "pasted é!"), ("ab\x1b[1;é", "abé")]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            env = {"HOME": folder, "LC_ALL": "C.UTF-8"}
            t = Terminal("chat", TINY, *GREEDY, "-n", "1", "--color", "never", "-q", env=env)
            t.until("> ")
            for typed, _ in lines:
                t.send(typed + "\n")
                t.until("\n> ")
            said = [m["content"] for m in save_and_leave(t, path) if m["role"] == "user"]
        self.assertEqual(said, [line for _, line in lines])

    def test_interrupt_a_turn(self):
        t = Terminal("chat", TINY, *GREEDY, "-n", "-1", "--ignore-eos", "-t", "1")
        t.until("> ")
        t.send("Hello\n")
        t.until("Hello!")
        t.send("\x03")
        self.assertIn("interrupted; /continue", t.until("\n> "))
        t.send("/continue\n")
        t.until(" ")
        t.send("\x03")
        t.until("\n> ")
        t.send("/stats\n")
        self.assertIn("Messages: 2", t.until("\n> "))
        t.send_end()
        self.assertEqual(t.end(), 0)

    def test_interrupt_at_the_prompt(self):
        """Right after an answer, when it was meant for that: nothing is lost, and twice it leaves."""
        t = Terminal("chat", TINY, *GREEDY, "-n", "5", "--color", "never")
        t.until("> ")
        t.send("Hello\n")
        t.until("\n> ")
        t.interrupt()
        self.assertIn("cera: Ctrl-C again leaves, as Ctrl-D and /exit do", t.until("\n> "))
        t.send("/stats\n")
        self.assertIn("Messages: 2", t.until("\n> "))
        t.interrupt()  # another line came between: it is the first again
        t.until("again leaves")
        t.until("\n> ")
        t.interrupt()
        self.assertEqual(t.end(), 130)

    def test_interrupt_takes_back_what_is_typed(self):
        """However often: what was typed is nothing said, and no step towards leaving."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            t = Terminal("chat", TINY, *GREEDY, "-n", "5", "--color", "never")
            t.until("> ")
            for text in ("one", "two", "three"):
                t.send(text)
                t.until(text)
                t.interrupt()
                self.assertNotIn("leaves", t.until("\n> "))
            t.send('"""four\n')
            t.until(". ")
            t.interrupt()
            self.assertNotIn("leaves", t.until("\n> "))
            t.send("five\n")
            t.until("\n> ")
            self.assertEqual([m["content"] for m in save_and_leave(t, path)
                              if m["role"] == "user"], ["five"])

    def test_interrupts_in_a_row_end_a_turn_only(self):
        t = Terminal("chat", TINY, *GREEDY, "-n", "-1", "--ignore-eos", "-t", "1")
        t.until("> ")
        t.send("Hello\n")
        t.until("Hello!")
        t.process.send_signal(signal.SIGSTOP)  # all come while it is at work
        for _ in range(3):
            t.send("\x03")
        t.process.send_signal(signal.SIGINT)
        t.process.send_signal(signal.SIGCONT)
        self.assertIn("interrupted; /continue", t.until("\n> "))
        t.send("/stats\n")
        self.assertIn("Messages: 2", t.until("\n> "))
        t.send_end()
        self.assertEqual(t.end(), 0)

    def test_interrupt_without_an_editor(self):
        """The terminal edits the line: nobody knows what was typed, so two in a row leave."""
        with tempfile.NamedTemporaryFile("w+") as said:
            def wait_for(text):
                deadline = time.monotonic() + 60
                while not said.read().endswith(text):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                    said.seek(0)
            t = Terminal("chat", TINY, *GREEDY, "-n", "5", stderr=said)
            wait_for("> ")
            t.send("Hel\x03")
            wait_for("\ncera: Ctrl-C again leaves, as Ctrl-D and /exit do\n> ")
            t.send("Hello\n")
            wait_for("--max-tokens; /continue goes on\n> ")
            t.interrupt()
            wait_for("and /exit do\n> ")
            t.interrupt()
            self.assertEqual(t.end(), 130)

    def test_an_answer_that_fails_leaves_all_as_it_was(self):
        """/continue goes on with the last answer, not with the message that did not fit."""
        whole = turns("-n", "10", "--ignore-eos", "-p", "Hello")[0]["message"]["content"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            t = Terminal("chat", TINY, *GREEDY, "-n", "5", "--ignore-eos", "-c", "64", "--color",
                         "never")
            t.until("> ")
            t.send("Hello\n")
            t.until("\n> ")
            t.send("word " * 100 + "\n")
            t.until("\n> ")
            t.send("/continue\n")
            t.until("\n> ")
            self.assertEqual([m["content"] for m in save_and_leave(t, path)], ["Hello", whole])

    def test_terminate_at_the_prompt(self):
        t = Terminal("chat", TINY)
        t.until("> ")
        t.process.send_signal(signal.SIGTERM)
        self.assertEqual(t.end(), 143)

    def test_first_message_from_the_command_line(self):
        t = Terminal("chat", TINY, *GREEDY, "-n", "5", "-p", "Hello")
        t.until("\n> ")
        t.send("/exit\n")
        self.assertEqual(t.end(), 0)

    def test_reasoning_is_dimmed(self):
        template = CHATML.replace("assistant\n{%", "assistant\n<think>\n{%")
        t = Terminal("chat", TINY, *GREEDY, "-n", "6", "--chat-template", template, "--color",
                     "always", "-p", "Hello")
        shown = t.until("\n> ")
        self.assertIn("\x1b[2m", shown)
        self.assertIn("\x1b[0m", shown)
        t.send_end()
        self.assertEqual(t.end(), 0)


if __name__ == "__main__":
    unittest.main()
