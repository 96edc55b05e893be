/* What goes to standard error: errors, warnings and remarks; and the exit codes. */
#ifndef REPORT_H
#define REPORT_H

#include "cera.h"

#include <stdbool.h>

#define EXIT_CODES(X)                                                                              \
    X(EXIT_OK, 0, "ok", "success; also when --max-tokens ended the text")                          \
    X(EXIT_RUNTIME, 1, "runtime", "something failed while running")                                \
    X(EXIT_USAGE, 2, "usage", "the command line is wrong")                                         \
    X(EXIT_MODEL, 3, "model", "the model is missing, unsupported or corrupt")                      \
    X(EXIT_NETWORK, 4, "network", "the network failed (not used by this build)")                   \
    X(EXIT_HASH, 5, "hash", "a download does not match its hash (not used by this build)")         \
    X(EXIT_LIMIT, 6, "limit", "the context or the memory does not suffice")                        \
    X(EXIT_CONSTRAINT, 7, "constraint", "a grammar or schema cannot be compiled or met")           \
    X(EXIT_HANGUP, 129, "hangup", "the terminal was closed (SIGHUP)")                              \
    X(EXIT_INTERRUPTED, 130, "interrupted", "interrupted with Ctrl-C")                             \
    X(EXIT_TERMINATED, 143, "terminated", "terminated (SIGTERM)")

enum {
#define EXIT_ENUM(name, value, code, meaning) name = value,
    EXIT_CODES(EXIT_ENUM)
#undef EXIT_ENUM
};

typedef struct report_settings {
    bool json; /* errors as one JSON object */
    bool color;
    int level; /* -1 errors only, 0 warnings and outcome, 1 remarks, 2 details */
    const char *log_file;
} report_settings;

/* False, after an error, when the log file cannot be opened. */
bool report_start(const report_settings *settings);
int report_level(void);
bool report_is_json(void);
void report_done(void);

/* Prints an error: what happened, why, and what to do about it (why and hint may be NULL). Returns
 * the exit code that it is given. */
int report_error(int exit_code, const char *what, const char *why, const char *hint);

/* The error of a model whose mapped file was cut short. For a signal handler: it only writes. */
void report_changed_model(void);

/* One line (format without newline), shown at `level` and above, always written to the log file. */
void report_note(int level, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
void report_warning(const char *text);

/* When a call of the library failed. */
typedef enum report_phase { WHILE_OPENING, WHILE_RUNNING } report_phase;
int exit_code_of(cera_status status, report_phase phase);
/* Reports a failed call: `what` and the library's message, and returns the exit code. */
int report_failure(report_phase phase, const char *what, const cera_error *err);

/* Whether a stream gets colour: `mode` is auto, always, never or NULL. */
bool color_wanted(const char *mode, int fd);

#endif
