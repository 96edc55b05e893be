"""Runs the program under test: CERA_BIN, or the release build of this tree."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("CERA_BIN") or os.path.join(ROOT, "build", "release", "cera")
TINY = "builtin:tiny"
TINY_FILE = os.path.join(os.environ.get("CERA_TEST_MODELS", os.path.join(ROOT, "models")),
                         "tiny.gguf")
# ISA levels of this architecture, ascending.
TIERS = (["scalar", "neon", "dotprod", "i8mm"] if os.uname().machine == "aarch64"
         else ["scalar", "avx2", "avx_vnni", "avx512", "amx"])
DATA = os.environ.get("CERA_TEST_DATA", os.path.join(ROOT, "tests", "data"))
TIMEOUT = 120


def environment(**extra):
    """This process's environment without what steers cera."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("CERA_") and k not in ("NO_COLOR", "CLICOLOR_FORCE")}
    env.update(extra)
    return env


def as_user():
    """Undoes what a shell without job control does for its background jobs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Result:
    def __init__(self, code, out, err):
        self.code, self.out_bytes, self.err_bytes = code, out, err
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return "exit %d\nstdout: %r\nstderr: %r" % (self.code, self.out[:2000], self.err[:2000])


def cera(*args, stdin=b"", env=None):
    """Runs to the end. stdin: bytes, or None for an inherited /dev/null."""
    done = subprocess.run([BIN, *args], input=stdin, capture_output=True, timeout=TIMEOUT,
                          env=environment(**(env or {})), check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def start(*args, env=None, **keywords):
    keywords.setdefault("stdin", subprocess.DEVNULL)
    keywords.setdefault("stdout", subprocess.PIPE)
    keywords.setdefault("stderr", subprocess.PIPE)
    keywords.setdefault("bufsize", 0)  # communicate() forgets what a buffer has read ahead
    return subprocess.Popen([BIN, *args], env=environment(**(env or {})), preexec_fn=as_user,
                            **keywords)


def wait_until_read(pipe):
    """Waits until nothing is left in the pipe, for its reader has taken all and asks for more."""
    deadline = time.monotonic() + TIMEOUT
    while struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0] > 0:
        if time.monotonic() > deadline:
            raise AssertionError("nobody reads")
        time.sleep(0.01)


def on_terminal(*args, streams=("stdin", "stdout", "stderr"), env=None):
    """Runs with the named streams on a pseudo-terminal. Returns the code, what the terminal showed
    (with its \\r\\n), and the streams that were pipes."""
    master, slave = pty.openpty()
    keywords = {s: slave if s in streams else subprocess.PIPE for s in ("stdout", "stderr")}
    keywords["stdin"] = slave if "stdin" in streams else subprocess.DEVNULL
    process = start(*args, env=env, **keywords)
    os.close(slave)
    shown, deadline = b"", time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                part = os.read(master, 65536)
            except OSError:  # Linux says EIO when the last writer is gone
                break
            if not part:
                break
            shown += part
        elif process.poll() is not None:
            break
    out, err = process.communicate(timeout=TIMEOUT)
    os.close(master)
    return process.returncode, shown.decode("utf-8", "replace"), out or b"", err or b""


class Terminal:
    """A program on a pseudo-terminal of its own, with somebody at the keyboard."""

    def __init__(self, *args, env=None, stderr=None):
        """Standard error is the terminal, too, unless it is something else."""
        self.master, slave = pty.openpty()
        self.shown = b""
        self.process = subprocess.Popen(
            [BIN, *args], env=environment(**(env or {})), stdin=slave, stdout=slave,
            stderr=stderr or slave, start_new_session=True, preexec_fn=lambda: (
                as_user(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
        os.close(slave)

    def read(self, seconds):
        """Whether anything came."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            part = os.read(self.master, 65536)
        except OSError:  # Linux says EIO when the last writer is gone
            part = b""
        self.shown += part
        return bool(part)

    def until(self, text):
        """Waits for the text, and returns all up to its end; what follows stays for the next call."""
        text, deadline = text.encode(), time.monotonic() + TIMEOUT
        while text not in self.shown:
            if time.monotonic() > deadline or not self.read(0.1) and self.process.poll() is not None:
                raise AssertionError("no %r in %r" % (text, self.shown))
        end = self.shown.index(text) + len(text)
        before, self.shown = self.shown[:end], self.shown[end:]
        return before.decode("utf-8", "replace").replace("\r\n", "\n")

    def send(self, text):
        os.write(self.master, text.encode())

    def interrupt(self):
        """Ctrl-C, once the program waits: between two reads its editor does not notice signals."""
        stat, deadline = "/proc/%d/stat" % self.process.pid, time.monotonic() + 5
        time.sleep(0.2)
        while os.path.exists(stat) and time.monotonic() < deadline:
            with open(stat, encoding="utf-8") as f:
                if f.read().rpartition(")")[2].split()[0] != "R":
                    break
            time.sleep(0.05)
        self.send("\x03")

    def send_end(self):
        """Ctrl-D, when the program edits a line: the terminal itself would keep an earlier one. Programs
        without an editor get it all the same."""
        deadline = time.monotonic() + 5
        while termios.tcgetattr(self.master)[3] & termios.ICANON and time.monotonic() < deadline:
            self.read(0.01)
        self.send("\x04")

    def end(self):
        """The exit code, after everything was read."""
        code, deadline = None, time.monotonic() + TIMEOUT
        while code is None:
            if not self.read(0.1):
                code = self.process.poll()
            if time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError("it does not end: %r" % self.shown)
        os.close(self.master)
        return code


def golden():
    with open(os.path.join(DATA, "tiny.golden.json"), encoding="utf-8") as f:
        return json.load(f)


if not os.access(BIN, os.X_OK):
    sys.exit("no program at %s: build it, or set CERA_BIN" % BIN)
