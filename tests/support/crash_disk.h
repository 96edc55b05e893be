/* A disk in memory that remembers what was done to it, to say what a cut of power may leave.
 *
 *     crash_disk d;                               cera_host host;
 *     crash_init(&d);                             crash_host(&d, &host);
 *     ... work with host ...                      crash_mark(&d, 1) after what was promised
 *     for each n up to d.n_ops, for many seeds:
 *         crash_disk left;
 *         crash_cut(&d, n, seed, &left);          after the n-th operation
 *         ... open what is left ...
 *         crash_done(&left);
 *
 * What was written to a file is there for certain once the file was synced; a name that was given
 * or taken, once its folder was. All else may be there or not, each operation by itself and in any
 * order, as file systems have it that promise no more: a name may come before the bytes, bytes may
 * be zeros in a file of the right size, and a write may be torn between any two pieces of 512
 * bytes.
 *
 * Disk and host are used by any thread; cutting and the rest are not. */
#ifndef CRASH_DISK_H
#define CRASH_DISK_H

#include "cera.h"

#include <pthread.h>
#include <stdbool.h>

enum { CRASH_FILES = 400, CRASH_PATH = 200 };

typedef enum crash_op_kind {
    CRASH_WRITE,
    CRASH_SYNC,
    CRASH_NAME,   /* create, or the second half of rename: path is file number `file` */
    CRASH_UNNAME, /* remove, or the first half of rename */
    CRASH_FOLDER,
    CRASH_SYNC_FOLDER, /* path: of the folder */
    CRASH_MARK
} crash_op_kind;

typedef struct crash_op {
    crash_op_kind kind;
    int file;
    char path[CRASH_PATH];
    uint64_t offset;
    size_t n; /* bytes; of a mark: its number */
    uint8_t *data;
} crash_op;

typedef struct crash_file {
    uint8_t *data;
    size_t size;
    int64_t mtime_ns;
} crash_file;

/* Names and folders as they are now; file -1: a folder. */
typedef struct crash_name {
    char path[CRASH_PATH];
    int file;
} crash_name;

typedef struct crash_names {
    crash_name names[CRASH_FILES];
    int n;
} crash_names;

typedef struct crash_disk {
    pthread_mutex_t lock;
    crash_names now, first; /* first: before all operations */
    crash_file files[CRASH_FILES];
    int n_files, n_first;
    size_t first_sizes[CRASH_FILES]; /* of files[0, n_first), which nobody writes any more */
    crash_op *ops;
    size_t n_ops, n_room;
    int64_t clock_ns;
    bool forgets_sync, forgets_folders; /* mutants: the call succeeds and does nothing */
} crash_disk;

void crash_init(crash_disk *d);
void crash_done(crash_disk *d);
/* The default host with this disk. *holder may be made to point to another disk later. */
void crash_host(crash_disk **holder, cera_host *host);
void crash_mark(crash_disk *d, size_t number);

/* Starts *out: a disk as power may have left it behind the first n operations. Seeds below
 * CRASH_N_PLAIN choose everything, nothing, zeros and the like; others choose at random. */
enum { CRASH_N_PLAIN = 20 };
void crash_cut(const crash_disk *d, size_t n, uint64_t seed, crash_disk *out);
/* The last mark in the first n operations; 0: none. */
size_t crash_last_mark(const crash_disk *d, size_t n);
/* Tells equal disks, names and bytes. */
uint64_t crash_hash(const crash_disk *d);

#endif
