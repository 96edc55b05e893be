/* Stop texts in a stream: text goes in, and comes out as soon as it can no longer be part of a stop
 * text. Each byte comes out once, in order; nothing of a stop text ever does. */
#ifndef CR_STOP_H
#define CR_STOP_H

#include "base/text.h"

typedef struct cr_stop {
    const char *const *texts;
    size_t n_texts;
    cr_buf held;
} cr_stop;

/* texts are kept. CERA_E_ARG when one is empty, over 256 bytes, or there are more than 16. */
cera_status cr_stop_init(cr_stop *stop, cr_host *host, const char *const *texts, size_t n_texts,
                         cera_error *err);
void cr_stop_done(cr_stop *stop);

/* Takes text in; afterwards stop->held[0, *n_ready) may be shown, and *hit tells whether a stop
 * text begins right after it. Drop what was shown with cr_stop_take. False when there is no
 * memory. */
bool cr_stop_push(cr_stop *stop, const char *text, size_t n, size_t *n_ready, bool *hit);
void cr_stop_take(cr_stop *stop, size_t n);
/* The end: everything that is still held may be shown. */
size_t cr_stop_flush(cr_stop *stop);

#endif
