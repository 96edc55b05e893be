#define _DEFAULT_SOURCE
#include "cli/out.h"

#include "cli/report.h"
#include "common/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    char data[4096];
    size_t size;
    bool at_once, is_terminal;
    int failed;    /* errno of the first failure */
    bool reported; /* once is enough */
} out;

void out_start(bool unbuffered)
{
    out.is_terminal = isatty(STDOUT_FILENO) == 1;
    out.at_once = unbuffered || out.is_terminal;
}

bool out_is_terminal(void)
{
    return out.is_terminal;
}

int out_check(void)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags == -1 || (flags & O_ACCMODE) == O_RDONLY)
        out.failed = EBADF;
    return out_finish();
}

static bool flush(void)
{
    size_t done = 0;
    while (done < out.size && out.failed == 0) {
        ssize_t n = write(STDOUT_FILENO, out.data + done, out.size - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            out.failed = errno;
    }
    out.size = 0;
    return out.failed == 0;
}

void out_rescue(void)
{
    flush();
    if (out.is_terminal)
        (void)!write(STDOUT_FILENO, "\n", 1);
}

bool out_write(const void *data, size_t n)
{
    const char *p = data;
    bool has_newline = n > 0 && memchr(data, '\n', n) != NULL;
    while (n > 0 && out.failed == 0) {
        size_t room = sizeof(out.data) - out.size;
        size_t part = n < room ? n : room;
        memcpy(out.data + out.size, p, part);
        out.size += part;
        p += part;
        n -= part;
        if (out.size == sizeof(out.data))
            flush();
    }
    if (out.at_once || has_newline)
        flush();
    return out.failed == 0;
}

bool out_text(const char *text)
{
    return out_write(text, strlen(text));
}

static int write_part(const char *data, size_t n, void *ctx)
{
    (void)ctx;
    return out_write(data, n) ? 0 : -1;
}

bool out_json(json_t *root)
{
    if (root == NULL)
        bytes_no_memory();
    /* Jansson hands over a few bytes at a time: let them gather. */
    bool at_once = out.at_once;
    out.at_once = false;
    int code = json_dump_callback(root, write_part, NULL,
                                  JSON_PRESERVE_ORDER | JSON_COMPACT | JSON_REAL_PRECISION(9));
    out.at_once = at_once;
    json_decref(root);
    if (code != 0 && out.failed == 0)
        bytes_no_memory();
    return out_text("\n");
}

/* Jansson's integers are signed, a seed is not: it is written behind the last member. */
void out_json_seeded(json_t *root, uint64_t seed)
{
    char *text = root != NULL
                     ? json_dumps(root, JSON_PRESERVE_ORDER | JSON_COMPACT | JSON_REAL_PRECISION(9))
                     : NULL;
    json_decref(root);
    if (text == NULL) {
        bytes_no_memory();
        return;
    }
    bytes tail = { 0 };
    bytes_printf(&tail, ",\"seed\":%llu}\n", (unsigned long long)seed);
    out_write(text, strlen(text) - 1);
    out_write(tail.data, tail.size);
    bytes_done(&tail);
    free(text);
}

int out_finish(void)
{
    flush();
    if (out.failed == 0 || out.failed == EPIPE)
        return EXIT_OK;
    if (out.reported)
        return EXIT_RUNTIME;
    out.reported = true;
    return report_error(EXIT_RUNTIME, "cannot write to standard output", strerror(out.failed),
                        NULL);
}

json_t *json_text(const char *text, size_t n)
{
    bytes clean = { 0 };
    bytes_append_repaired(&clean, text, n);
    json_t *value = json_stringn(clean.data, clean.size);
    bytes_done(&clean);
    return value;
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
