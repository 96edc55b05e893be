/* Standard output: the product, and nothing else. */
#ifndef OUT_H
#define OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* On a terminal, and with `unbuffered`, each out_write reaches the reader at once; on a pipe or
 * file at each newline or 4 KiB. */
void out_start(bool unbuffered);
bool out_is_terminal(void);
/* Whether anything can be written there at all, for what computes long before it writes. Returns the
 * exit code, after an error message. */
int out_check(void);

/* False when the reader is gone or the disk is full: nothing more needs to be computed. */
bool out_write(const void *data, size_t n);
bool out_text(const char *text);
/* One JSON document and a newline. Takes the reference; NULL means that memory ran out. */
bool out_json(json_t *root);

/* The same, of an object, with a last member "seed". */
void out_json_seeded(json_t *root, uint64_t seed);

/* Writes the rest. Returns the exit code: 0 also when the reader has gone, which is the reader's
 * good right; 1, after an error message, when writing failed otherwise. */
int out_finish(void);

/* For a signal handler that ends the program: writes what has been buffered, and nothing else. */
void out_rescue(void);

/* Values for out_json: text repaired to UTF-8, and null for what is not finite. */
json_t *json_text(const char *text, size_t n);
json_t *json_number(double value);

#endif
