/* The alphabet in which byte-level vocabularies are written.
 *
 * A GGUF keeps each token as text, though a token is bytes. Every byte has a printable character of
 * its own: 21..7E, A1..AC and AE..FF stand for themselves, the other 68 bytes for U+0100 upward in
 * ascending order, so that a space is U+0120 and a line feed U+010A. */
#ifndef CR_ALPHABET_H
#define CR_ALPHABET_H

#include "base/text.h"

/* Writes the bytes that `text` spells to out, which has room for text.size bytes, and their number
 * to *n. False when the text has a character outside the alphabet. */
bool cr_alphabet_decode(cr_str text, char *out, size_t *n);

#endif
