/* The streaming detokenizer: pieces in, whole UTF-8 characters out.
 *
 * A model may spread one character over several tokens. The bytes of an unfinished character are
 * held (at most 3) until it is complete; bytes that can never become UTF-8 become U+FFFD. */
#ifndef CR_DETOK_H
#define CR_DETOK_H

#include "base/text.h"

typedef struct cr_detok {
    char held[4];
    size_t n_held;
} cr_detok;

void cr_detok_init(cr_detok *detok);
/* Appends to `out` what is complete after these bytes. False when there is no memory. */
bool cr_detok_push(cr_detok *detok, cr_str bytes, cr_buf *out);
/* The end of the text: an unfinished character is dropped, so that a streamed and a whole answer
 * are the same. */
void cr_detok_finish(cr_detok *detok);

#endif
