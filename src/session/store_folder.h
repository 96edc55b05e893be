/* The folder of the disk tier: names, sizes, and which files go when there are too many bytes. One
 * thread at a time, but for cr_store_path. */
#ifndef CR_STORE_FOLDER_H
#define CR_STORE_FOLDER_H

#include "base/digest.h"
#include "base/host.h"

enum { CR_STORE_NAME = 48, CR_STORE_OLDEST = 256 };

typedef struct cr_store_file {
    int64_t mtime_ns;
    uint64_t size;
    int block; /* number in its text */
    char name[CR_STORE_NAME];
} cr_store_file;

typedef struct cr_store_folder {
    cr_host *host;
    char *folder, *path; /* [n_path]; path: room for a file's */
    size_t n_path;
    uint64_t budget;
    bool is_made, is_counted;
    uint64_t n_bytes; /* of all files, as far as is known */
    uint64_t n_since; /* of these, written since they were counted */
    int64_t newest;   /* time of the youngest file: as near to a clock as is needed here */
    cr_store_file oldest[CR_STORE_OLDEST]; /* [n_oldest] from the oldest on */
    int n_oldest;
} cr_store_folder;

/* False when there is no memory. done() is right for a cleared one, too. */
bool cr_store_folder_init(cr_store_folder *f, cr_host *host, const char *folder, uint64_t budget);
void cr_store_folder_done(cr_store_folder *f);

/* FOLDER/KEY-BLOCK.kv, into n_path bytes. */
void cr_store_path(const cr_store_folder *f, cr_digest key, int block, char *path);
/* Makes the folder if need be, and removes files until `size` more bytes fit. Others write there too:
 * all is counted again whenever a sixteenth of the budget has been written. */
cera_status cr_store_make_room(cr_store_folder *f, uint64_t size, cera_error *err);
/* A file of that size was written. */
void cr_store_count(cr_store_folder *f, uint64_t size);

#endif
