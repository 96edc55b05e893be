/* The folder of the disk tier: names, sizes, and which files go when there are too many bytes. One
 * thread at a time, but for cr_store_path and cr_store_read_name. */
#ifndef CR_STORE_FOLDER_H
#define CR_STORE_FOLDER_H

#include "base/digest.h"
#include "base/host.h"

enum { CR_STORE_NAME = 128, CR_STORE_OLDEST = 256 };

/* What a file's name says: which block of which text it has. */
typedef struct cr_store_key {
    cr_digest path; /* of the tokens before the block, and of what their numbers follow from */
    uint64_t own;   /* of the block's tokens */
    int block, n; /* its number in the text, and how many tokens it has; n 0: of an older version */
} cr_store_key;

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

/* FOLDER/PATH-BLOCK-N-OWN.kv, into n_path bytes. */
void cr_store_path(const cr_store_folder *f, const cr_store_key *key, char *path);
/* Whether it is the name of a file of the tier, whole or a part that is being written. */
bool cr_store_read_name(const char *name, cr_store_key *key, bool *is_part);
/* Makes the folder if need be, and removes files until `size` more bytes fit. Others write there
 * too: all is counted again whenever a sixteenth of the budget has been written. */
cera_status cr_store_make_room(cr_store_folder *f, uint64_t size, cera_error *err);
/* A file of that size was written. */
void cr_store_count(cr_store_folder *f, uint64_t size);
/* Removes a file that another one has made needless. */
void cr_store_remove(cr_store_folder *f, const cr_store_key *key);

#endif
