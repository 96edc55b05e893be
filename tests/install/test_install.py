"""The installed library: found by pkg-config and by CMake, moved, linked both ways, and clean.

CTest sets CERA_BUILD (a finished build), CERA_CMAKE, CERA_CC and CERA_BUILD_TYPE.
"""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["CERA_BUILD"]
CMAKE = os.environ.get("CERA_CMAKE", "cmake")
CC = os.environ.get("CERA_CC", "cc")

PROGRAM = r"""
#include <cera.h>
#include <stdio.h>

int main(void)
{
    cera_error err;
    cera_file *file = NULL;
    cera_source source = { .path = "/nonexistent.gguf" };
    cera_status status = cera_file_open(&source, NULL, &file, &err);
    printf("%s %s\n", cera_version(), cera_status_name(status));
    return status == CERA_E_IO && file == NULL ? 0 : 1;
}
"""
EXPECTED = "0.1.0 CERA_E_IO\n"

LISTS = """
cmake_minimum_required(VERSION 3.20)
project(consumer C)
find_package(cera 0.1 REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared cera::cera)
add_executable(static main.c)
target_link_libraries(static cera::static)
"""

# What a library must not do to the process that loads it, as undefined references of either library.
BANNED = set("""abort exit _exit _Exit quick_exit printf vprintf puts putchar fputs fprintf vfprintf
perror stdout stderr signal sigaction raise kill getenv secure_getenv setenv system popen fork execve
rand srand strtok setlocale __printf_chk __fprintf_chk __vprintf_chk __vfprintf_chk""".split())


def run(*args, env=None):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                          check=False, text=True)
    if done.returncode != 0:
        raise AssertionError("%s: exit status %d\n%s" % (args, done.returncode, done.stdout))
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="cera-install-")
        first = os.path.join(cls.top, "first")
        cls.prefix = os.path.join(cls.top, "moved here")
        run(CMAKE, "--install", BUILD, "--prefix", first)
        # Nothing in the tree may know where it was installed to.
        os.rename(first, cls.prefix)
        cls.main = os.path.join(cls.top, "main.c")
        with open(cls.main, "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        cls.libdir = os.path.dirname(cls.find("libcera.so"))
        cls.shared = os.path.join(cls.libdir, "libcera.so")
        cls.static = os.path.join(cls.libdir, "libcera.a")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.top)

    @classmethod
    def find(cls, name):
        for folder, _, files in os.walk(cls.prefix):
            if name in files:
                return os.path.join(folder, name)
        raise AssertionError(name + " was not installed")

    def env(self):
        return dict(os.environ, LD_LIBRARY_PATH=self.libdir,
                    PKG_CONFIG_PATH=os.path.join(self.libdir, "pkgconfig"))

    def flags(self, *args):
        # pkg-config escapes the blank in the prefix as a shell wants it.
        return run("pkg-config", *args, "cera", env=self.env()).strip()

    def build_and_run(self, flags):
        program = os.path.join(self.top, "program")
        run("sh", "-c", "%s -std=c11 -Wall -Wextra -Werror -o '%s' '%s' %s"
            % (CC, program, self.main, flags))
        self.assertEqual(run(program, env=self.env()), EXPECTED)
        return run("ldd", program, env=self.env())

    def test_files(self):
        for name in ("cera.h", "libcera.a", "libcera.so.0.1", "libcera.so.0.1.0", "cera.pc",
                     "ceraConfig.cmake", "ceraConfigVersion.cmake", "LICENSE-MIT", "cera.1",
                     "_cera", "cera.fish"):
            self.find(name)

    def test_pkg_config_shared(self):
        self.assertEqual(self.flags("--modversion"), "0.1.0")
        self.assertNotIn("pcre2", self.flags("--libs"))
        libs = self.build_and_run(self.flags("--cflags", "--libs"))
        self.assertIn("libcera.so.0.1 ", libs)

    def test_pkg_config_static(self):
        flags = self.flags("--cflags", "--static", "--libs")
        self.assertIn("pcre2", flags)
        # The archive by its name: -lcera would choose the shared library beside it.
        libs = self.build_and_run(re.sub(r"-lcera\b", "-l:libcera.a", flags))
        self.assertNotIn("libcera", libs)

    def test_cmake(self):
        source, build = os.path.join(self.top, "src"), os.path.join(self.top, "build")
        os.mkdir(source)
        shutil.copy(self.main, source)
        with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as f:
            f.write(LISTS)
        run(CMAKE, "-S", source, "-B", build, "-DCMAKE_C_COMPILER=" + CC,
            "-DCMAKE_PREFIX_PATH=" + self.prefix)
        run(CMAKE, "--build", build)
        for name in ("shared", "static"):
            self.assertEqual(run(os.path.join(build, name), env=self.env()), EXPECTED)

    def test_soname(self):
        self.assertRegex(run("readelf", "-d", self.shared), r"SONAME.*\[libcera\.so\.0\.1\]")

    def test_exports(self):
        lines = run("nm", "-D", "--defined-only", self.shared).splitlines()
        names = {line.split()[-1] for line in lines}
        self.assertEqual({n for n in names if not n.startswith("cera_")}, set())
        with open(self.find("cera.h"), encoding="utf-8") as f:
            declared = set(re.findall(r"^CERA_API [^;(]*?\b(cera_\w+)\(", f.read(), re.M))
        self.assertGreater(len(declared), 40)
        self.assertEqual(names, declared)

    def test_undefined(self):
        # Assertions are for builds that look for our own faults; a release has none.
        banned = BANNED | (set() if os.environ.get("CERA_BUILD_TYPE") == "Debug"
                           else {"__assert_fail"})
        for library, args in ((self.shared, ["-D"]), (self.static, [])):
            found = run("nm", *args, "--undefined-only", library).splitlines()
            names = {line.split()[-1].split("@")[0] for line in found if " U " in line}
            self.assertIn("pcre2_compile_8", names)
            self.assertEqual(names & banned, set(), library)

    def test_static_symbols(self):
        # Everything global in the archive has one of our two prefixes: it may be linked with anything.
        lines = run("nm", "--defined-only", "--extern-only", self.static).splitlines()
        names = {line.split()[-1] for line in lines if len(line.split()) == 3}
        self.assertEqual({n for n in names if not n.startswith(("cera_", "cr_"))}, set())

    def test_hardened(self):
        header = run("readelf", "-lW", self.shared)
        self.assertRegex(header, r"GNU_STACK\s.*\sRW\s")
        self.assertIn("GNU_RELRO", header)
        dynamic = run("readelf", "-d", self.shared)
        self.assertNotRegex(dynamic, r"RPATH|RUNPATH")
        if os.environ.get("CERA_BUILD_TYPE") != "Debug":
            self.assertIn("NOW", dynamic)

    def test_program(self):
        program = os.path.join(self.prefix, "bin", "cera")
        self.assertIn("DYN", run("readelf", "-h", program))
        self.assertIn("0.1.0", run(program, "version"))


if __name__ == "__main__":
    unittest.main()
