/* The calls between two markers of a reply, a byte at a time. The first byte of each call
 * tells how it is written, whatever the model's usual form:
 *
 *     f(a="x", b=1)                                         Python, as a list in [] or not
 *     {"name": "f", "arguments": {"a": "x"}}                JSON, as a list in [] or not
 *     {"f": {"a": "x"}}                                     where the format says so
 *     <function=f> <parameter=a> x </parameter> </function> tags, of several spellings
 *     f <arg_key>a</arg_key> <arg_value>x</arg_value>       tags behind a name
 *     f[ARGS]{"a": "x"}                                     Mistral's newer form
 *     f{a:<|"|>x<|"|>}                                      Gemma's, where the format says so
 *     <|tool_call_begin|>f<|tool_call_argument_begin|>{...} tags around a name
 *
 * Arguments are given on as JSON text while they come. */
#ifndef CR_CALLS_H
#define CR_CALLS_H

#include "chat/literal.h"
#include "chat/tags.h"
#include "chat/tools.h"

/* Each returns false to stop. Texts are valid during the call. */
typedef struct cr_calls_sink {
    bool (*begin)(void *ctx, cr_str name);
    bool (*arguments)(void *ctx, cr_str json);
    bool (*end)(void *ctx);
    void *ctx;
} cr_calls_sink;

typedef enum cr_calls_result {
    CR_CALLS_MORE,
    CR_CALLS_END,        /* the byte was the last one of the calls */
    CR_CALLS_END_BEFORE, /* the calls had ended before it */
    CR_CALLS_BAD,        /* calls->bad says why */
    CR_CALLS_NOMEM,
    CR_CALLS_STOPPED, /* the sink said so */
} cr_calls_result;

typedef struct cr_calls {
    const cr_tools *tools; /* for the types of tagged arguments */
    bool has_bare_names;   /* tags follow the name of a call, an object, or nothing */
    bool has_name_keys;    /* {"f": {"a": "x"}} */
    bool has_marked_texts; /* {a:<|"|>x<|"|>} */
    const cr_calls_sink *sink;
    const char *bad;
    int state;
    bool in_list, is_closed; /* there was a [, and its ] */
    bool is_begun;           /* of the present call */
    bool has_arguments;
    bool is_streaming; /* what `value` writes, or the text between tags, goes on at once */
    bool is_first;     /* byte of the text between tags */
    bool has_key;      /* `key` is an argument whose value comes in the next tag */
    const cr_tag *tag; /* the last one of the present call */
    int target;        /* what the value of a JSON member is for */
    int n_nested;      /* objects of a JSON call around the place */
    size_t n_calls, n_arguments;
    cr_buf name, key, text, held; /* held: arguments that came before the name */
    cr_literal value;
} cr_calls;

void cr_calls_init(cr_calls *calls, const cr_tools *tools, const cr_calls_sink *sink,
                   cr_host *host);
void cr_calls_done(cr_calls *calls);
/* Back to the beginning. */
void cr_calls_reset(cr_calls *calls);
cr_calls_result cr_calls_feed(cr_calls *calls, char c);
/* Whether the text may end here. */
bool cr_calls_is_complete(const cr_calls *calls);

#endif
