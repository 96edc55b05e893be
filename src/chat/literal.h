/* One value of a tool call, a byte at a time: read as JSON or as a Python literal, whichever it
 * is, and written as JSON.
 *
 * Models mix the two ('single quotes', True, a comma behind the last item), and nothing that is
 * both is different in them. Written are strings in double quotes with the fewest escapes, ", " and
 * ": ", and numbers as they are, but for whole ones beyond 64 bits, which become the nearest
 * double. */
#ifndef CR_LITERAL_H
#define CR_LITERAL_H

#include "base/text.h"

enum { CR_LITERAL_DEPTH = 128, CR_LITERAL_WORD = 400 };

typedef enum cr_literal_result {
    CR_LITERAL_MORE,
    CR_LITERAL_END,        /* the byte was the value's last one */
    CR_LITERAL_END_BEFORE, /* the value had ended before the byte, which is somebody else's */
    CR_LITERAL_BAD,        /* v->bad says why */
    CR_LITERAL_NOMEM,
} cr_literal_result;

typedef struct cr_literal {
    cr_buf *out; /* what has been read so far, as JSON, is appended here */
    const char *bad;
    int state;
    int depth;
    char open[CR_LITERAL_DEPTH]; /* [depth] the brackets around the place */
    bool is_key, has_comma;      /* the string is a key; a comma was read and not written yet */
    /* Keys of objects are written without quotes, and strings between <|"|>. */
    bool is_marked;
    char quote;
    size_t n_mark;       /* bytes of such a mark so far */
    uint32_t code, high; /* of a \u escape, and the first half of a surrogate pair before it */
    int n_digits;
    size_t n_word;
    char word[CR_LITERAL_WORD];
} cr_literal;

void cr_literal_init(cr_literal *v, cr_buf *out);
/* The same with is_marked. */
void cr_literal_init_marked(cr_literal *v, cr_buf *out);
cr_literal_result cr_literal_feed(cr_literal *v, char c);
/* The text as one value and nothing else. */
cr_literal_result cr_literal_read(cr_literal *v, cr_str text, cr_buf *out);

/* Text as a JSON string, and the text of a string that is written like that, quotes and all. False:
 * no memory. */
bool cr_json_quote(cr_buf *out, cr_str text);
/* Without the quotes. */
bool cr_json_escape(cr_buf *out, cr_str text);
bool cr_json_unquote(cr_buf *out, cr_str string);

#endif
