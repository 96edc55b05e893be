/* Failing: how a function fills the caller's cera_error and how callers pass it on. */
#ifndef CR_STATUS_H
#define CR_STATUS_H

#include "base/compiler.h"
#include "cera.h"

#include <stdarg.h>

/* Writes the message (err may be NULL) and returns status:
 *     return cr_fail(err, CERA_E_FORMAT, "%s: expected %zu, found %zu", name, want, got);
 * Control bytes and bytes that are not UTF-8 in the result are escaped as \xHH. */
cera_status cr_fail(cera_error *err, cera_status status, const char *format, ...) CR_PRINTF(3, 4);

/* Puts "subject: " before a message that is already there; returns err's status. */
cera_status cr_fail_in(cera_error *err, cera_status status, const char *subject);

/* Out of memory, naming what it was for; size 0: unknown. */
cera_status cr_fail_nomem(cera_error *err, size_t size, const char *what);

/* One line of text for a person, as in cr_fail, into out[room]; room is at most CR_LINE_MAX. What
 * does not fit is cut between characters and ends in "...". */
enum { CR_LINE_MAX = 1024 };
void cr_format_line(char *out, size_t room, const char *format, va_list args) CR_PRINTF(3, 0);

/* Forwards a failure. Only for functions with nothing to clean up. */
#define CR_TRY(call)                                                                               \
    do {                                                                                           \
        cera_status cr_try_status = (call);                                                        \
        if (cr_try_status != CERA_OK)                                                              \
            return cr_try_status;                                                                  \
    } while (0)

#endif
