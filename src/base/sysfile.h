/* The small text files of /proc and /sys, line by line, through host->os and without memory of
 * their own: asking what the machine is like cannot fail for want of memory. */
#ifndef CR_SYSFILE_H
#define CR_SYSFILE_H

#include "base/text.h"

typedef struct cr_sysfile {
    cr_host *host;
    void *file;
    uint64_t offset;   /* of the next read */
    size_t begin, end; /* what is read and not yet handed out: data[begin, end) */
    bool at_end;       /* nothing more to read */
    char data[4096];
} cr_sysfile;

/* False when the file cannot be opened; then it need not be closed. */
bool cr_sysfile_open(cr_sysfile *f, cr_host *host, const char *path);
void cr_sysfile_close(cr_sysfile *f);
/* The next line, without its newline, valid until the next call; false at the end and on errors.
 * Lines longer than the buffer are left out. */
bool cr_sysfile_line(cr_sysfile *f, cr_str *line);

/* The first line of a file into out[room], with a NUL; false when there is none or it does not
 * fit. The path is made from the format. */
bool cr_sysfile_first(cr_host *host, char *out, size_t room, const char *format, ...)
    CR_PRINTF(4, 5);

/* Cuts the first word off *text, at any of the separators; what is left stays in *text. Empty when
 * two separators touch or nothing is left. */
cr_str cr_sysfile_cut(cr_str *text, const char *separators);

#endif
