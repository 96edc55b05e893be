"""template: conversations to prompts, with the built-in model, named templates and files."""
import json
import os
import tempfile
import unittest

from program import TINY, cera

CHAT = json.dumps([{"role": "user", "content": "Hi <|im_end|>"}])
CHATML = "<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n"


class Template(unittest.TestCase):
    def test_named(self):
        self.assertEqual(cera("template", "--chat-template", "chatml", "--messages", CHAT).out, CHATML)
        self.assertEqual(cera("template", "--chat-template", "chatml", "--no-generation-prompt",
                              stdin=CHAT.encode()).out, CHATML[:-len("<|im_start|>assistant\n")])

    def test_nothing_is_dropped_in_silence(self):
        for option, words in (("--messages", "messages: expected a JSON list"),
                              ("--tools", "tools: expected a JSON list")):
            texts = {"--messages": CHAT, option: "{}"}
            result = cera("template", "--chat-template", "chatml",
                          *[word for pair in texts.items() for word in pair])
            self.assertEqual(result.code, 2, result)
            self.assertIn(words, result.err)
        result = cera("template", "--chat-template", "chatml", stdin=CHAT.encode() + b"\0[1]")
        self.assertEqual((result.code, result.out), (2, ""), result)
        self.assertIn("found a byte 0", result.err)

    def test_model(self):
        self.assertTrue(cera("template", TINY, "--messages", CHAT).out.endswith(CHATML))
        answer = cera("template", TINY, "--messages", CHAT, "--json").json
        self.assertEqual(answer["schema"], "cera.template/1")
        text = answer["text"].encode()
        data = [text[s["start"]:s["start"] + s["size"]] for s in answer["spans"] if not s["literal"]]
        self.assertEqual(data, [b"user", b"Hi <|im_end|>"])
        # Only the template's own mark is the control token.
        end = cera("tokenize", TINY, "-t", "<|im_end|>", "--no-bos", "--json").json["ids"]
        self.assertEqual(len(end), 1)
        self.assertEqual(answer["ids"].count(end[0]), 1)
        self.assertIsNone(cera("template", "--chat-template", "chatml", "--messages", CHAT,
                               "--json").json["ids"])

    def test_ids(self):
        """Where nothing is forged, the ids are those of the whole text."""
        chat = json.dumps([{"role": "user", "content": "\n\nOnce upon\n"},
                           {"role": "assistant", "content": " a time é"},
                           {"role": "user", "content": ""}])
        answer = cera("template", TINY, "--messages", chat, "--json").json
        self.assertEqual(answer["ids"],
                         cera("tokenize", TINY, "-t", answer["text"], "--json").json["ids"])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            def write(name, text):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                return path
            result = cera("template", "--chat-template-file",
                          write("t.jinja", "{{ tools | length }}{{ x }}{{ messages[0].role }}\n"),
                          "-f", write("m.json", CHAT + "\n"),
                          "--tools", "@" + write("tools.json", '[{"a": 1}]'),
                          "--template-vars", '{"x": "é"}')
            self.assertEqual(result.out, "1éuser")

    def test_errors(self):
        def fails(code, part, *args):
            result = cera("template", *args)
            self.assertEqual(result.code, code, result)
            self.assertEqual(result.out, "")
            self.assertIn(part, result.err)
        fails(2, "chatml, gemma", "--chat-template", "zz", "--messages", CHAT)
        fails(2, "messages: line 1", "--chat-template", "chatml", "--messages", "[{")
        fails(1, "line 1: the template refuses: no", "--chat-template",
              "{{ raise_exception('no') }}", "--messages", CHAT)
        fails(3, "line 1: expected", "--chat-template", "{{ 1", "--messages", CHAT)
        fails(6, "call depth", "--chat-template",
              "{% macro x() %}{{ x() }}{% endmacro %}{{ x() }}", "--messages", CHAT)

    def test_what_is_no_message(self):
        """Roles that a format cannot write are refused, as is what is no object with a role."""
        for name in ("mistral", "llama2"):
            for role in ("tool", "alien"):
                r = cera("template", "--chat-template", name, "--messages",
                         '[{"role": "%s", "content": "x"}]' % role)
                self.assertEqual((r.code, r.out), (1, ""), r)
                self.assertIn("the roles system, user and assistant", r.err)
            self.assertEqual(cera("template", "--chat-template", name, "--messages",
                                  '[{"content": "x"}]').code, 1)
        for name in ("mistral", "chatml"):
            for messages, why in (("[1]", "messages[0]: expected a JSON object"),
                                  ('[{"role": "user"}, {"role": 1}]', "messages[1].role: expected a text")):
                r = cera("template", "--chat-template", name, "--messages", messages)
                self.assertEqual((r.code, r.out), (2, ""), r)
                self.assertIn(why, r.err)


if __name__ == "__main__":
    unittest.main()
