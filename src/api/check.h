/* Checks of arguments that several public functions make, in the same words. */
#ifndef CR_API_CHECK_H
#define CR_API_CHECK_H

#include "base/status.h"
#include "chat/format.h"

/* options->size, against the size of the struct that this library knows. */
static inline cera_status cr_check_size(size_t size, size_t known, cera_error *err)
{
    return size == known
               ? CERA_OK
               : cr_fail(err, CERA_E_ARG, "options.size: expected %zu, found %zu", known, size);
}

/* The options of what makes a file. */
static inline cera_status cr_check_make(size_t size, size_t known, int n_threads, cera_error *err)
{
    CR_TRY(cr_check_size(size, known, err));
    return n_threads >= 0 && n_threads <= 256
               ? CERA_OK
               : cr_fail(err, CERA_E_ARG, "n_threads: expected 0 to 256, found %d", n_threads);
}

/* The format of this name, or for NULL what a template (NULL: none) and an architecture (NULL: not
 * known) tell of (cera_chat.c). */
cera_status cr_check_format(const char *name, const cera_template *tmpl, const char *arch,
                            const cr_chat_format **out, cera_error *err);

#endif
