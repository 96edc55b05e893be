/* Reading /proc and /sys: a line scanner over host->os.read. */
#include "base/sysfile.h"

#include <stdarg.h>
#include <stdio.h>

bool cr_sysfile_open(cr_sysfile *f, cr_host *host, const char *path)
{
    f->host = host;
    f->offset = 0;
    f->begin = f->end = 0;
    f->at_end = false;
    return host->os.open(host->os.ctx, path, &f->file) == 0;
}

void cr_sysfile_close(cr_sysfile *f)
{
    f->host->os.close(f->host->os.ctx, f->file);
}

/* Reads more behind what is there; false at the end. */
static bool fill(cr_sysfile *f)
{
    memmove(f->data, f->data + f->begin, f->end - f->begin);
    f->end -= f->begin;
    f->begin = 0;
    size_t room = sizeof f->data - f->end;
    int64_t got = f->host->os.read(f->host->os.ctx, f->file, f->data + f->end, room, f->offset);
    if (got <= 0 || (uint64_t)got > room) {
        f->at_end = true;
        return false;
    }
    f->end += (size_t)got;
    f->offset += (uint64_t)got;
    return true;
}

bool cr_sysfile_line(cr_sysfile *f, cr_str *line)
{
    bool too_long = false;
    for (;;) {
        const char *text = f->data + f->begin;
        size_t size = f->end - f->begin;
        const char *newline = size > 0 ? memchr(text, '\n', size) : NULL;

        if (newline != NULL || f->at_end) {
            if (newline == NULL && size == 0)
                return false;
            size_t length = newline != NULL ? (size_t)(newline - text) : size;
            f->begin += length + (newline != NULL ? 1 : 0);
            if (too_long) {
                too_long = false; /* that was the rest of it */
                continue;
            }
            *line = (cr_str){ text, length };
            return true;
        }
        if (size == sizeof f->data) {
            too_long = true;
            f->begin = f->end;
        }
        fill(f);
    }
}

bool cr_sysfile_first(cr_host *host, char *out, size_t room, const char *format, ...)
{
    char path[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path, sizeof path, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof path)
        return false;

    cr_sysfile f;
    if (!cr_sysfile_open(&f, host, path))
        return false;
    cr_str line;
    bool found = cr_sysfile_line(&f, &line) && line.size < room;
    if (found) {
        memcpy(out, line.data, line.size);
        out[line.size] = '\0';
    }
    cr_sysfile_close(&f);
    return found;
}

cr_str cr_sysfile_cut(cr_str *text, const char *separators)
{
    size_t n = 0;
    while (n < text->size && (text->data[n] == '\0' || strchr(separators, text->data[n]) == NULL))
        n++;
    cr_str word = { text->data, n };
    size_t used = n < text->size ? n + 1 : n;
    text->data += used;
    text->size -= used;
    return word;
}
