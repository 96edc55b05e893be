/* Numbers to and from text. The only place of the programs that calls the strtol family. */
#ifndef NUMBER_H
#define NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each takes the whole of text and nothing else: no blanks, no hexadecimal, no leftovers. */
bool number_parse_i64(const char *text, int64_t *out);
bool number_parse_u64(const char *text, uint64_t *out);
/* Decimal notation with an optional exponent; also inf, -inf and nan. */
bool number_parse_real(const char *text, double *out);

enum { NUMBER_ROOM = 32 };
/* The shortest decimal text that reads back as the same float; returns its length. */
size_t number_format_float(float value, char out[NUMBER_ROOM]);

#endif
