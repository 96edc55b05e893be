/* What the two halves of the parser share: parser.c has expressions, statements.c the rest. */
#ifndef CR_TEMPLATE_PARSER_H
#define CR_TEMPLATE_PARSER_H

#include "template/syntax.h"

typedef struct cr_parser {
    cr_template *tmpl;
    const cr_token *token; /* the current one */
    int nesting;           /* of calls of the parser */
    int n_loops;           /* for loops around, inside of the macro */
    int n_for;             /* for loops around, all of them */
    cr_node *macro;        /* the macro or call block around, or NULL */
    int symbol_room;
    cera_error *err;
} cr_parser;

cera_status cr_parser_fail(cr_parser *p, int line, const char *what);
/* At the current token. */
cera_status cr_parser_unexpected(cr_parser *p, const char *expected);
bool cr_parser_is(const cr_parser *p, const char *name);
/* Goes past a token when it is the one. */
bool cr_parser_skip_name(cr_parser *p, const char *name);
bool cr_parser_skip(cr_parser *p, cr_tok type);
cera_status cr_parser_expect(cr_parser *p, cr_tok type);

cera_status cr_parser_node(cr_parser *p, cr_node_kind kind, int line, cr_node **out);
cera_status cr_parser_string(cr_parser *p, cr_str text, cr_node **out);
/* Appends to a chain. */
static inline void cr_parser_chain(cr_node ***tail, cr_node *node)
{
    **tail = node;
    *tail = &node->next;
}
/* The number of a name. */
cera_status cr_parser_intern(cr_parser *p, cr_str name, int *symbol);
/* One level deeper; the caller takes it back from p->nesting. */
cera_status cr_parser_enter(cr_parser *p);

/* How an expression, or several as a tuple, may look. `plain`: without "if ... else", as before the
 * `if` of a loop. `parens`: nothing at all is a tuple, too. */
typedef struct cr_tuple_style {
    bool plain, parens;
    const char *end; /* a name that ends it, besides closing brackets */
} cr_tuple_style;

cera_status cr_parser_expression(cr_parser *p, cr_node **out);
cera_status cr_parser_tuple(cr_parser *p, cr_tuple_style style, cr_node **out);
cera_status cr_parser_name(cr_parser *p, cr_node **out);
/* A filter behind its "|", over *node. */
cera_status cr_parser_filter(cr_parser *p, cr_node **node);

#endif
