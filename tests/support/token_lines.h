/* Reading the golden files of scripts/make-golden-tokens: a text, a tab, columns of numbers. */
#ifndef TOKEN_LINES_H
#define TOKEN_LINES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct token_line {
    char text[4096]; /* unescaped */
    size_t n_text;
    char rest[16384]; /* the columns after the first tab */
} token_line;

static inline int hex_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'A' + 10;
}

/* The next line; false at the end of the file. */
static inline bool read_line(FILE *file, token_line *line)
{
    static char raw[sizeof line->text + sizeof line->rest];
    if (fgets(raw, sizeof raw, file) == NULL)
        return false;
    raw[strcspn(raw, "\n")] = '\0';
    char *tab = strchr(raw, '\t');
    if (tab == NULL || tab - raw >= (long)sizeof line->text || strlen(tab) >= sizeof line->rest)
        abort();
    line->n_text = 0;
    for (const char *p = raw; p < tab;) {
        if (p[0] == '\\' && p[1] == 'x') {
            line->text[line->n_text++] = (char)(hex_digit(p[2]) * 16 + hex_digit(p[3]));
            p += 4;
        } else {
            line->text[line->n_text++] = *p++;
        }
    }
    strcpy(line->rest, tab + 1);
    return true;
}

/* The numbers of the column at *at, which then points behind its tab. Returns how many. */
static inline size_t read_numbers(const char **at, int32_t *out, size_t room)
{
    size_t n = 0;
    const char *p = *at;
    while (*p != '\0' && *p != '\t') {
        char *end;
        if (n == room)
            abort();
        out[n++] = (int32_t)strtol(p, &end, 10);
        p = *end == ' ' ? end + 1 : end;
    }
    *at = *p == '\t' ? p + 1 : p;
    return n;
}

#endif
