/* Values of a rendering, with Python's meaning, and the rendering itself, which owns them.
 *
 * All memory of a rendering is one arena; values are small and copied, what they point to never
 * changes after it is made (but for namespaces and iterators). A function that can fail returns
 * bool and has then called cr_interp_fail, directly or below. */
#ifndef CR_TEMPLATE_VALUE_H
#define CR_TEMPLATE_VALUE_H

#include "template/template.h"

typedef enum cr_tv_kind {
    CR_TV_MISSING, /* an argument that was not given; never a value of the language */
    CR_TV_UNDEFINED,
    CR_TV_NONE,
    CR_TV_BOOL,
    CR_TV_INT,
    CR_TV_FLOAT,
    CR_TV_STRING,
    CR_TV_LIST,
    CR_TV_TUPLE,
    CR_TV_DICT,
    CR_TV_RANGE,
    CR_TV_VIEW,      /* dict.keys(), .values(), .items() */
    CR_TV_ITER,      /* what Python computes lazily: it can be walked once */
    CR_TV_NAMESPACE, /* a dict that can be written */
    CR_TV_MACRO,
    CR_TV_LOOP,
    CR_TV_CYCLER,
    CR_TV_JOINER,
    CR_TV_FUNCTION, /* range, dict, ... */
    CR_TV_METHOD,   /* of a value: "x".strip */
} cr_tv_kind;

/* Where bytes of a string come from. */
typedef enum cr_origin { CR_FROM_TEMPLATE = 0, CR_FROM_DATA = 1 } cr_origin;

/* UTF-8. marks[i] is the origin of byte i; without marks all have the same. */
typedef struct cr_tstr {
    const char *data;  /* [size] */
    const char *marks; /* [size] or NULL */
    size_t size;
    uint8_t origin;
    bool safe; /* passed through `safe` or `escape`: joined to another string it escapes that */
} cr_tstr;

typedef struct cr_tv cr_tv;

typedef struct cr_tlist {
    cr_tv *items; /* [n] */
    size_t n;
} cr_tlist;

typedef struct cr_tdict {
    cr_tv *keys, *values; /* [n] in order of insertion */
    size_t n, room;
    uint32_t *slots; /* [1 << slot_bits] index + 1 by hash of the key; NULL while it is small */
    int slot_bits;
} cr_tdict;

typedef struct cr_trange {
    int64_t start, step, n;
    int64_t stop;
} cr_trange;

typedef struct cr_titer {
    cr_tlist list;
    size_t at;
} cr_titer;

typedef struct cr_tmacro cr_tmacro;
typedef struct cr_tloop cr_tloop;
typedef struct cr_tmethod cr_tmethod;

struct cr_tv {
    cr_tv_kind kind;
    int detail; /* VIEW: 0 keys, 1 values, 2 items; FUNCTION: its number */
    union {
        bool b;
        int64_t i;
        double f;
        const cr_tstr *s;
        const cr_tlist *list;
        cr_tdict *dict;
        const cr_trange *range;
        cr_titer *iter;
        cr_tmacro *macro;
        cr_tloop *loop;
        const cr_tmethod *method;
        const char *name; /* UNDEFINED: what was looked up, or NULL */
    } as;
};

struct cr_tmethod {
    cr_tv self;
    const struct cr_builtin_row *row;
};

static inline cr_tv cr_tv_undefined(const char *name)
{
    return (cr_tv){ .kind = CR_TV_UNDEFINED, .as.name = name };
}

static inline cr_tv cr_tv_none(void)
{
    return (cr_tv){ .kind = CR_TV_NONE };
}

static inline cr_tv cr_tv_bool(bool b)
{
    return (cr_tv){ .kind = CR_TV_BOOL, .as.b = b };
}

static inline cr_tv cr_tv_int(int64_t i)
{
    return (cr_tv){ .kind = CR_TV_INT, .as.i = i };
}

static inline cr_tv cr_tv_float(double f)
{
    return (cr_tv){ .kind = CR_TV_FLOAT, .as.f = f };
}

/* ---- the rendering ----------------------------------------------------------------------- */

/* A text under construction. */
typedef struct cr_tbuf {
    char *data, *marks; /* [size] of [room] */
    size_t size, room;
} cr_tbuf;

typedef struct cr_scope cr_scope;

typedef struct cr_interp {
    const struct cr_template *tmpl;
    cr_arena arena;
    size_t memory, max_memory;
    uint64_t work, max_work; /* a node counts CR_WORK_NODE, a byte 1 */
    size_t max_steps, max_output;
    int depth, n_calls;
    int line;        /* of what is being evaluated */
    cr_scope *scope; /* the innermost */
    cr_tv *context;  /* [n_symbols] variables given and functions; MISSING where there is none */
    cr_tbuf *out;    /* where statements print */
    const cr_tstr *body;         /* what CR_NODE_BODY stands for */
    const cr_template_time *now; /* NULL: there is no strftime_now */
    cera_status status;
    cera_error *err;
} cr_interp;

enum { CR_WORK_NODE = 64 };

/* Notes an error with the line, once; returns false. The status is CERA_E_FORMAT but for the two
 * below. */
bool cr_interp_fail(cr_interp *t, const char *format, ...) CR_PRINTF(2, 3);
bool cr_interp_limit(cr_interp *t, const char *format, ...) CR_PRINTF(2, 3);
bool cr_interp_nomem(cr_interp *t);
/* Takes work from the budget. */
bool cr_interp_work(cr_interp *t, size_t amount);
/* Cleared memory; NULL after a failure. */
void *cr_interp_alloc(cr_interp *t, size_t count, size_t size);
/* One level deeper, and back. */
bool cr_interp_enter(cr_interp *t);
static inline void cr_interp_leave(cr_interp *t)
{
    t->depth--;
}

/* ---- building ---------------------------------------------------------------------------- */

bool cr_tbuf_reserve(cr_interp *t, cr_tbuf *buf, size_t more);
bool cr_tbuf_add(cr_interp *t, cr_tbuf *buf, const cr_tstr *s);
bool cr_tbuf_bytes(cr_interp *t, cr_tbuf *buf, const char *data, size_t n, cr_origin origin);
static inline bool cr_tbuf_text(cr_interp *t, cr_tbuf *buf, const char *text)
{
    return cr_tbuf_bytes(t, buf, text, strlen(text), CR_FROM_TEMPLATE);
}
/* The text as a string, which keeps the buffer's memory. */
bool cr_tbuf_done(cr_interp *t, cr_tbuf *buf, cr_tv *out);

bool cr_tv_string(cr_interp *t, cr_tstr s, cr_tv *out);
/* Keeps the bytes. */
bool cr_tv_text(cr_interp *t, const char *data, size_t n, cr_origin origin, cr_tv *out);
bool cr_tv_list(cr_interp *t, cr_tv_kind kind, cr_tv *items, size_t n, cr_tv *out);
bool cr_tv_iter(cr_interp *t, cr_tv *items, size_t n, cr_tv *out);
/* kind: DICT or NAMESPACE */
bool cr_tv_dict(cr_interp *t, cr_tv_kind kind, cr_tv *out);
/* Adds or replaces. */
bool cr_tdict_set(cr_interp *t, cr_tdict *dict, cr_tv key, cr_tv value);
/* A growing list of values. */
typedef struct cr_tvec {
    cr_tv *items;
    size_t n, room;
} cr_tvec;
bool cr_tvec_push(cr_interp *t, cr_tvec *vec, cr_tv value);

/* ---- asking ------------------------------------------------------------------------------ */

/* Python's name of the type, for errors. */
const char *cr_tv_type(const cr_tv *v);
bool cr_tv_truth(const cr_tv *v);
static inline bool cr_tv_is_number(const cr_tv *v)
{
    return v->kind == CR_TV_BOOL || v->kind == CR_TV_INT || v->kind == CR_TV_FLOAT;
}
/* BOOL and INT as an integer. */
bool cr_tv_to_int(const cr_tv *v, int64_t *out);
double cr_tv_to_float(const cr_tv *v); /* of a number */
bool cr_tstr_is(const cr_tstr *s, const char *text);
static inline cr_str cr_tstr_bytes(const cr_tstr *s)
{
    return (cr_str){ s->data, s->size };
}
bool cr_tv_equals(cr_interp *t, const cr_tv *a, const cr_tv *b, bool *out);
/* -1, 0, 1; fails where Python does. NaN counts as neither: *out is 2. */
bool cr_tv_compare(cr_interp *t, const cr_tv *a, const cr_tv *b, int *out);
bool cr_tv_contains(cr_interp *t, const cr_tv *item, const cr_tv *in, bool *out);
/* The value of a key, or NULL; false when the key cannot be one (a list). */
bool cr_tdict_get(cr_interp *t, const cr_tdict *dict, const cr_tv *key, cr_tv **out);
cr_tv *cr_tdict_get_text(const cr_tdict *dict, const char *name);
/* Everything that `for` can walk, as a list; an iterator is used up. */
bool cr_tv_walk(cr_interp *t, const cr_tv *v, cr_tlist *out);
bool cr_tv_can_walk(const cr_tv *v);
/* len(); false without an error when it has none. */
bool cr_tv_length(const cr_tv *v, size_t *out);
/* str() and repr() */
bool cr_tv_print(cr_interp *t, const cr_tv *v, cr_tbuf *out);
bool cr_tv_repr(cr_interp *t, const cr_tv *v, cr_tbuf *out);
/* str() as a string */
bool cr_tv_str(cr_interp *t, const cr_tv *v, const cr_tstr **out);
/* How Python prints a double: the shortest digits that read back as the same. */
enum { CR_FLOAT_ROOM = 32 };
void cr_tv_float_text(double value, char out[CR_FLOAT_ROOM]);

/* ---- strings (strings.c) ----------------------------------------------------------------- */

/* Characters of a string. */
size_t cr_tstr_count(const cr_tstr *s);
/* Where character i begins; i up to the count. */
size_t cr_tstr_offset(const cr_tstr *s, size_t i);
/* Bytes [from, to). */
cr_tstr cr_tstr_part(const cr_tstr *s, size_t from, size_t to);
/* The first or last place of a text in bytes [from, to) of s; SIZE_MAX when there is none. Fails
 * when the work is used up. */
bool cr_tstr_find(cr_interp *t, const cr_tstr *s, const cr_tstr *what, size_t from, size_t to,
                  bool last, size_t *at);
/* Without characters of the set (NULL: blanks) at the ends. */
cr_tstr cr_tstr_strip(const cr_tstr *s, const cr_tstr *set, bool left, bool right);
bool cr_tstr_concat(cr_interp *t, const cr_tstr *a, const cr_tstr *b, cr_tv *out);
bool cr_tstr_escape(cr_interp *t, const cr_tstr *s, cr_tv *out);
bool cr_tstr_replace(cr_interp *t, const cr_tstr *s, const cr_tstr *from, const cr_tstr *to,
                     int64_t count, cr_tv *out);
bool cr_tstr_lines(cr_interp *t, const cr_tstr *s, bool keep_ends, cr_tvec *out);
bool cr_char_is_blank(uint32_t code);
bool cr_char_is_printable(uint32_t code);
/* Decodes the character at byte i; strings are valid UTF-8. */
size_t cr_tstr_at(const cr_tstr *s, size_t i, uint32_t *code);
typedef enum cr_case {
    CR_CASE_UPPER,
    CR_CASE_LOWER,
    CR_CASE_SWAP,
    CR_CASE_TITLE,
    CR_CASE_CAPITAL,
    CR_CASE_WORDS /* the filter `title`: words end at blanks and opening brackets only */
} cr_case;
bool cr_tstr_case(cr_interp *t, const cr_tstr *s, cr_case how, cr_tv *out);
bool cr_char_is_upper(uint32_t code);
bool cr_char_is_lower(uint32_t code);
bool cr_char_is_alpha(uint32_t code);
bool cr_char_is_digit(uint32_t code);

/* ---- operators (operators.c) ------------------------------------------------------------- */

bool cr_tv_binary(cr_interp *t, int op, const cr_tv *a, const cr_tv *b, cr_tv *out);
bool cr_tv_negate(cr_interp *t, const cr_tv *a, cr_tv *out);
/* "%s" % values */
bool cr_tv_format(cr_interp *t, const cr_tstr *format, const cr_tv *values, cr_tv *out);
/* a[i], a.name and a[i:j:k], with Jinja's order of trying items and attributes. */
bool cr_tv_item(cr_interp *t, const cr_tv *a, const cr_tv *key, cr_tv *out);
bool cr_tv_attr(cr_interp *t, const cr_tv *a, cr_str name, cr_tv *out);
bool cr_tv_slice(cr_interp *t, const cr_tv *a, const cr_tv bounds[3], cr_tv *out);

/* ---- calls ------------------------------------------------------------------------------- */

typedef struct cr_named {
    cr_str name;
    cr_tv value;
} cr_named;

typedef struct cr_args {
    cr_tv *items; /* [n] */
    size_t n;
    cr_named *named; /* [n_named] */
    size_t n_named;
} cr_args;

enum { CR_MAX_PARAMS = 6 };

/* A call of something built in: bound parameters, MISSING where not given; or, of a row without
 * parameters, the arguments as they are. */
typedef struct cr_call {
    cr_tv self;
    cr_tv p[CR_MAX_PARAMS];
    const cr_args *args;
} cr_call;

typedef bool cr_builtin(cr_interp *t, cr_call *call, cr_tv *out);

/* A row of a table: filters, tests, methods, functions. params: names separated by blanks, those
 * after "|" may be left out; a "/" in front: they cannot be given by name; NULL: any arguments. */
typedef struct cr_builtin_row {
    const char *name;
    const char *params;
    cr_builtin *call;
} cr_builtin_row;

/* Binds the arguments and calls. what: "filter", "test", "method", "function". */
bool cr_builtin_run(cr_interp *t, const char *what, const cr_builtin_row *row, cr_tv self,
                    const cr_args *args, cr_tv *out);

/* Filters (filters_*.c) and tests (value_tests.c) by name: the row, or -1. */
int cr_filter_find(cr_str name);
int cr_test_find(cr_str name);
bool cr_filter_run(cr_interp *t, int row, cr_tv self, const cr_args *args, cr_tv *out);
bool cr_test_run(cr_interp *t, int row, cr_tv self, const cr_args *args, bool *out);
/* Methods (methods.c): whether a value's type has an attribute; MISSING when not. */
cr_tv cr_method_find(cr_interp *t, const cr_tv *self, cr_str name);
bool cr_tv_method(cr_interp *t, const cr_tv *self, const cr_builtin_row *row, cr_tv *out);
/* Attributes of cyclers; MISSING when there is none. */
bool cr_function_attr(cr_interp *t, const cr_tv *a, cr_str name, cr_tv *out);
bool cr_method_run(cr_interp *t, const cr_tmethod *method, const cr_args *args, cr_tv *out);
/* Functions (functions.c): the row of a global name, or -1. */
int cr_function_find(cr_str name);
bool cr_function_run(cr_interp *t, int row, const cr_args *args, cr_tv *out);

/* Runs over attributes, as `map` and `sort` take them: "a.b.0". */
bool cr_tv_path(cr_interp *t, const cr_tv *object, const cr_tv *path, cr_tv *out);
/* Sorts items and their keys together, by the keys; equal ones stay in order. */
bool cr_tv_sort(cr_interp *t, cr_tv *items, cr_tv *keys, size_t n, bool descending);

/* Calls any value (render.c). */
bool cr_tv_call(cr_interp *t, const cr_tv *f, const cr_args *args, cr_tv *out);
/* Attributes of what render.c makes: loops, macros. MISSING when there is none. */
bool cr_render_attr(cr_interp *t, const cr_tv *a, cr_str name, cr_tv *out);

/* ---- JSON (json_text.c) ------------------------------------------------------------------ */

/* Reads a JSON text; strings are data. what: the name in errors, which are CERA_E_ARG. */
bool cr_tv_from_json(cr_interp *t, cr_str text, const char *what, cr_tv *out);

typedef struct cr_tojson_style {
    cr_tstr indent; /* of one level; data NULL: all on one line */
    cr_tstr item_end, key_end;
    bool ascii, sort_keys;
} cr_tojson_style;
bool cr_tv_to_json(cr_interp *t, const cr_tv *v, const cr_tojson_style *style, cr_tbuf *out);

#endif
