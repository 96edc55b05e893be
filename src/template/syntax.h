/* The syntax of a template: tokens, and the tree that the parser makes of them. */
#ifndef CR_TEMPLATE_SYNTAX_H
#define CR_TEMPLATE_SYNTAX_H

#include "template/value.h"

/* ---- tokens ------------------------------------------------------------------------------ */

typedef enum cr_tok {
    CR_TOK_END,
    CR_TOK_DATA, /* text between tags */
    CR_TOK_NAME,
    CR_TOK_STRING,
    CR_TOK_INT,
    CR_TOK_FLOAT,
    CR_TOK_VAR_BEGIN,
    CR_TOK_VAR_END,
    CR_TOK_BLOCK_BEGIN,
    CR_TOK_BLOCK_END,
    /* Operators, longest spelling first: lexer.c has their texts in this order. */
    CR_TOK_FLOORDIV,
    CR_TOK_POW,
    CR_TOK_EQ,
    CR_TOK_NE,
    CR_TOK_GE,
    CR_TOK_LE,
    CR_TOK_ADD,
    CR_TOK_SUB,
    CR_TOK_DIV,
    CR_TOK_MUL,
    CR_TOK_MOD,
    CR_TOK_TILDE,
    CR_TOK_LBRACKET,
    CR_TOK_RBRACKET,
    CR_TOK_LPAREN,
    CR_TOK_RPAREN,
    CR_TOK_LBRACE,
    CR_TOK_RBRACE,
    CR_TOK_GT,
    CR_TOK_LT,
    CR_TOK_ASSIGN,
    CR_TOK_DOT,
    CR_TOK_COLON,
    CR_TOK_PIPE,
    CR_TOK_COMMA,
    CR_TOK_SEMICOLON,
} cr_tok;

typedef struct cr_token {
    cr_tok type;
    int line;
    cr_str text; /* of DATA and STRING: decoded, in the arena */
    int64_t integer;
    double real;
} cr_token;

/* Cuts the source into tokens: an array in the arena that ends with CR_TOK_END. */
cera_status cr_template_lex(cr_str source, cr_arena *arena, cr_token **out, cera_error *err);

/* ---- tree -------------------------------------------------------------------------------- */

typedef enum cr_node_kind {
    /* Statements, chained by `next`. a, b, c are expressions, d, e bodies. */
    CR_NODE_DATA,       /* value */
    CR_NODE_PRINT,      /* a */
    CR_NODE_IF,         /* a test, d then, e otherwise */
    CR_NODE_FOR,        /* a target, b iterable, c filter, d body, e else; flag: recursive */
    CR_NODE_SET,        /* a target, b value */
    CR_NODE_SET_BLOCK,  /* a target, b filters over CR_NODE_BODY or NULL, d body */
    CR_NODE_FILTER,     /* b filters over CR_NODE_BODY, d body */
    CR_NODE_MACRO,      /* symbol, parameters, d body */
    CR_NODE_CALL_BLOCK, /* a call, parameters, d body */
    CR_NODE_SCOPE,      /* with: parameters with their values, d body; generation: d */
    CR_NODE_BREAK,
    CR_NODE_CONTINUE,

    /* Expressions. Lists are chained by `next`. */
    CR_NODE_CONST, /* value */
    CR_NODE_NAME,  /* symbol, text */
    CR_NODE_NSREF, /* symbol.text, a target */
    CR_NODE_BODY,  /* the text that a filter block has printed */
    CR_NODE_TUPLE, /* a: items */
    CR_NODE_LIST,  /* a: items */
    CR_NODE_DICT,  /* a: key, value, key, value, ... */
    CR_NODE_ATTR,  /* a.text */
    CR_NODE_ITEM,  /* a[b] */
    CR_NODE_SLICE, /* a[b : c : d], each may be NULL */
    CR_NODE_CALL,  /* a(arguments) */
    CR_NODE_PIPE,  /* a | text(arguments), row: its filter */
    CR_NODE_TEST,  /* a is text(arguments), row: its test */
    CR_NODE_COND,  /* b if a else c */
    CR_NODE_AND,   /* a, b */
    CR_NODE_OR,
    CR_NODE_NOT,     /* a */
    CR_NODE_NEG,     /* a */
    CR_NODE_POS,     /* a */
    CR_NODE_BINARY,  /* a op b; op is a cr_tok */
    CR_NODE_CONCAT,  /* a ~ b ~ ...: list in a */
    CR_NODE_COMPARE, /* a, then b: a list of CR_NODE_OPERAND */
    CR_NODE_OPERAND, /* op, a */
} cr_node_kind;

/* CR_NODE_OPERAND has a cr_tok, or one of these. */
enum { CR_OP_IN = 1000, CR_OP_NOT_IN };

typedef enum cr_arg_kind { CR_ARG_PLAIN, CR_ARG_NAMED, CR_ARG_LIST, CR_ARG_DICT } cr_arg_kind;

typedef struct cr_node cr_node;

/* An argument of a call, or a parameter of a macro. */
typedef struct cr_arg {
    cr_arg_kind kind;
    cr_str name;
    int symbol;
    cr_node *value; /* of a parameter: its default, or NULL */
    struct cr_arg *next;
} cr_arg;

struct cr_node {
    cr_node_kind kind;
    int op;
    int line;
    int symbol; /* number of the name */
    int row;    /* of the table of filters or tests, -1: unknown */
    int n;      /* items in the list */
    /* How deep the tree is below, counted by the parser and bounded there. */
    int height;
    bool flag;
    bool uses_varargs, uses_kwargs, uses_caller; /* of a macro's body */
    cr_str text;
    cr_tv value;
    cr_node *a, *b, *c, *d, *e, *next;
    cr_arg *args;
};

struct cr_template {
    cr_host *host;
    cr_arena arena;
    cr_str source;
    cr_node *body;
    cr_str *symbols; /* [n_symbols] every name of the template once */
    int n_symbols;
    int loop, caller, varargs, kwargs; /* symbols of these names, -1: not used */
};

cera_status cr_template_parse(cr_template *tmpl, cera_error *err);

#endif
