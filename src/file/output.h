/* A file that appears whole or not at all.
 *
 *     open      makes  NAME.PROCESS-0.part  beside NAME
 *     write     appends to it
 *     commit    the bytes reach the disk, then the name changes, then the folder reaches the disk
 *     done      removes the part that was not committed
 *
 * Whatever fails, and wherever the power goes, NAME is what it was before or all of the new
 * file. A NAME that is a symbolic link stays one: what it leads to is replaced. The new file has the
 * permissions of the one before. */
#ifndef CR_OUTPUT_H
#define CR_OUTPUT_H

#include "base/host.h"

typedef struct cr_output {
    cr_host *host;
    void *file;      /* NULL while nothing is open */
    char *path;      /* the name it will have, no link; the part's name stands behind it */
    char *part;      /* NULL when no such file exists */
    size_t n_text;   /* bytes of both */
    uint64_t offset; /* bytes written */
} cr_output;

/* mode: the permissions where there was no file before; 0: those that new files have.
 * Fails with CERA_E_IO naming the path, also when something that is no file has that name, and with
 * CERA_E_ARG where the path names no file: "" or "folder/". After a failure there is nothing to be
 * done with. */
cera_status cr_output_open(cr_output *out, cr_host *host, const char *path, uint32_t mode,
                           cera_error *err);
/* Whether it could be opened now, for somebody who has long work to do before; leaves nothing. */
cera_status cr_output_check(cr_host *host, const char *path, cera_error *err);
cera_status cr_output_write(cr_output *out, const void *data, size_t n, cera_error *err);
cera_status cr_output_commit(cr_output *out, cera_error *err);
void cr_output_done(cr_output *out);
/* All of these for a file that is in memory. */
cera_status cr_output_write_file(cr_host *host, const char *path, uint32_t mode, const void *data,
                                 size_t n, cera_error *err);

#endif
