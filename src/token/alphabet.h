/* The alphabets in which vocabularies are written.
 *
 * A GGUF keeps each token as text, though a token is bytes.
 *
 *   BYTES   Every byte has a printable character of its own: 21..7E, A1..AC and AE..FF stand for
 *           themselves, the other 68 bytes for U+0100 upward in ascending order, so that a space is
 *           U+0120 and a line feed U+010A.
 *   BLANKS  Text, with U+2581 for a blank.
 *   PLAIN   Text as it is. */
#ifndef CR_ALPHABET_H
#define CR_ALPHABET_H

#include "base/text.h"

typedef enum cr_alphabet {
    CR_ALPHABET_BYTES,
    CR_ALPHABET_BLANKS,
    CR_ALPHABET_PLAIN,
} cr_alphabet;

/* Writes the bytes that `text` spells to out, which has room for text.size bytes, and their number
 * to *n. False when the text has a character outside the alphabet (for BLANKS that is the
 * blank). */
bool cr_alphabet_decode(cr_alphabet alphabet, cr_str text, char *out, size_t *n);

#endif
