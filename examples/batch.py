#!/usr/bin/env python3
"""Sixteen sessions of one engine, each on a thread of its own: batch.c in Python, with nothing but the
shared library and ctypes.

    python3 examples/batch.py MODEL.gguf [TOKENS]

The library is the one that is installed, or the file that CERA_LIBRARY names. A call of it lets other
Python threads run, so sessions that compute at the same time are computed together.
"""
import ctypes
import os
import sys
import threading
from ctypes import CFUNCTYPE, POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_void_p

INSTRUCTIONS = b"Things, and what they are for, in one short sentence each.\n\n"
THINGS = ["hammer", "kettle", "anchor", "ladder", "needle", "saddle", "candle", "bucket",
          "pencil", "basket", "shovel", "mirror", "bridge", "lantern", "compass", "violin"]

# ---- as much of cera.h as this needs ----

OnText = CFUNCTYPE(c_int, c_void_p, POINTER(c_char), c_size_t)


class Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("message", c_char * 508)]


class Sink(ctypes.Structure):
    _fields_ = [("on_text", OnText), ("on_token", c_void_p), ("user", c_void_p)]


class GenerateOptions(ctypes.Structure):
    """The first members, and room for the others, which cera_generate_options_init fills."""
    _fields_ = [("size", c_size_t), ("max_tokens", c_int), ("others", c_char * 1012)]


class Summary(ctypes.Structure):
    _fields_ = [("finish", c_int), ("n_prompt", c_size_t), ("n_reused", c_size_t),
                ("n_generated", c_size_t), ("others", c_char * 128)]


LIBRARY = ctypes.CDLL(os.environ.get("CERA_LIBRARY", "libcera.so.0.1"))
for destroy in ("cera_session_free", "cera_engine_close", "cera_generate_options_init"):
    getattr(LIBRARY, destroy).argtypes = [c_void_p]


def call(name, *args):
    """A function of the library that can fail, with its error as an exception."""
    err = Error()
    if getattr(LIBRARY, name)(*args, byref(err)) != 0:
        raise RuntimeError("%s: %s" % (name, err.message.decode()))


# ---- the example ----

def answer(session, thing, n_tokens, answers):
    """Generates a line, and puts it into answers[thing]."""
    text = []

    def on_text(_user, piece, n):
        text.append(piece[:n])
        return b"\n" in text[-1]  # True ends the generation

    options, summary = GenerateOptions(), Summary()
    LIBRARY.cera_generate_options_init(byref(options))
    options.max_tokens = n_tokens
    try:
        call("cera_session_append_text", session, b"A %s is for" % thing.encode())
        call("cera_session_generate", session, byref(options), byref(Sink(OnText(on_text))),
             byref(summary))
        line = b"".join(text).split(b"\n", maxsplit=1)[0].decode()
        answers[thing] = "%s (%d tokens):%s" % (thing, summary.n_generated, line)
    except RuntimeError as e:
        answers[thing] = e


def main():
    if len(sys.argv) < 2:
        print("usage: batch.py MODEL.gguf [TOKENS]", file=sys.stderr)
        return 2
    n_tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    engine, sessions, answers = c_void_p(), [c_void_p() for _ in THINGS], {}
    try:
        call("cera_engine_open", sys.argv[1].encode(), None, byref(engine))
        # The first session computes the instructions, the others are forks of it.
        call("cera_session_new", engine, None, byref(sessions[0]))
        call("cera_session_append_text", sessions[0], INSTRUCTIONS)
        for session in sessions[1:]:
            call("cera_session_fork", sessions[0], byref(session))
        threads = [threading.Thread(target=answer, args=(session, thing, n_tokens, answers))
                   for session, thing in zip(sessions, THINGS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for thing in THINGS:
            if isinstance(answers[thing], RuntimeError):
                raise answers[thing]
            print(answers[thing])
    except RuntimeError as e:
        print("batch: %s" % e, file=sys.stderr)
        return 1
    finally:
        for session in sessions:
            LIBRARY.cera_session_free(session)
        LIBRARY.cera_engine_close(engine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
