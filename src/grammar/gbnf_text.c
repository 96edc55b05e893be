#include "grammar/gbnf_text.h"

#include <stdio.h>

void cr_gbnf_append(cr_gbnf_text *t, cr_str text)
{
    t->no_memory = !cr_buf_append(&t->buf, text.data, text.size) || t->no_memory;
}

void cr_gbnf_put(cr_gbnf_text *t, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cr_gbnf_append(t, (cr_str){ line, CR_MIN((size_t)n, sizeof line - 1) });
}

int32_t cr_gbnf_leading_token(const cr_vocab *vocab, cr_str text, size_t *n)
{
    const char close = text.data[0] == '<' ? '>' : text.data[0] == '[' ? ']' : '\0';
    const char *end = close != '\0' ? memchr(text.data, close, text.size) : NULL;
    *n = end != NULL ? (size_t)(end - text.data) + 1 : 0;
    if (vocab == NULL || end == NULL)
        return -1;
    return cr_vocab_find_control(vocab, (cr_str){ text.data, *n });
}

void cr_gbnf_put_mark(cr_gbnf_text *t, cr_str text)
{
    bool is_open = false;
    for (size_t at = 0, n; at < text.size; at += n) {
        const cr_str rest = { text.data + at, text.size - at };
        const int32_t id = cr_gbnf_leading_token(t->vocab, rest, &n);
        if (is_open == (id >= 0))
            cr_gbnf_put(t, is_open ? "\"" : " \"");
        is_open = id < 0;
        uint32_t code;
        if (id < 0)
            n = CR_MAX(cr_utf8_decode(rest.data, rest.size, &code), (size_t)1);
        if (id >= 0)
            cr_gbnf_put(t, " <[%d]>", (int)id);
        else if ((unsigned char)*rest.data < 0x20 || strchr("\"\\\x7F", *rest.data) != NULL)
            cr_gbnf_put(t, "\\x%02X", (unsigned)(unsigned char)*rest.data);
        else
            cr_gbnf_append(t, (cr_str){ rest.data, n });
    }
    cr_gbnf_put(t, is_open ? "\" " : " ");
}
