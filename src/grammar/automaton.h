/* The automaton that grammars are compiled to: one small machine over bytes per rule.
 *
 *     root ::= "a" list            rule 0:  o --'a'--> o --call 1--> (o)
 *     list ::= "b" list | ""       rule 1:  (o) --'b'--> o --call 1--> (o)
 *
 * A node is a place in a rule, (o) one where the rule may end. An edge reads a byte, reads a token
 * by its id, calls a rule, or costs nothing. A reader is a node and the stack of nodes that its
 * callers go on from; matcher.h runs readers. Characters are spread over bytes here (utf8_edges.c),
 * so that a token which ends inside a character is nothing special. */
#ifndef CR_AUTOMATON_H
#define CR_AUTOMATON_H

#include "base/arena.h"
#include "base/text.h"

typedef enum cr_edge_kind {
    CR_EDGE_EMPTY,
    CR_EDGE_BYTES,     /* a byte in [lo, hi] */
    CR_EDGE_CALL,      /* rule `value`, then on from target */
    CR_EDGE_TOKEN,     /* the token `value` as a whole */
    CR_EDGE_NOT_TOKEN, /* any token with text but `value` */
} cr_edge_kind;

typedef struct cr_edge {
    uint32_t target;
    uint32_t value;
    uint8_t kind, lo, hi;
} cr_edge;

typedef struct cr_node {
    uint32_t edges; /* the first one: those of a node are neighbours */
    uint32_t n_edges;
    uint32_t rule;
    uint32_t unicode; /* where each character outside ASCII leads; CR_UNICODE_... */
    bool returns;     /* the rule may end here */
} cr_node;

/* There is no edge for a character outside ASCII; they lead to different places, or some nowhere. */
#define CR_UNICODE_NONE UINT32_MAX
#define CR_UNICODE_MIXED (UINT32_MAX - 1)

typedef struct cr_grammar_rule {
    cr_str name;    /* "" for a part of another rule */
    uint32_t owner; /* the rule with a name that this is a part of, or itself */
    uint32_t line, column;
    uint32_t start;
    bool is_defined;
    bool is_empty;  /* it may derive the empty text */
    bool is_finite; /* it derives some finite text */
    bool is_reached;
} cr_grammar_rule;

typedef struct cr_automaton {
    cr_host *host;
    cr_arena arena; /* of everything here */
    cr_node *nodes;
    cr_edge *edges;
    cr_grammar_rule *rules;
    uint32_t n_nodes, n_edges, n_rules;
    uint32_t root; /* a rule */
    bool has_tokens;
    /* Bytes that no edge tells apart share a class. */
    uint8_t class_of[256];
    uint32_t n_classes;
} cr_automaton;

void cr_automaton_free(cr_automaton *automaton);

/* ---- building ---------------------------------------------------------------------------- */

/* A character range, both ends included. */
typedef struct cr_range {
    uint32_t lo, hi;
} cr_range;

/* How many nodes an automaton may have. */
enum { CR_MAX_NODES = 1 << 18 };

typedef struct cr_build_edge {
    uint32_t from;
    cr_edge edge;
} cr_build_edge;

/* Every function that returns bool gives false when memory or CR_MAX_NODES is at its end; the first
 * stays so, and cr_builder_finish reports it. */
typedef struct cr_builder {
    cr_host *host;
    cr_buf nodes; /* of cr_node */
    cr_buf edges; /* of cr_build_edge */
    cr_buf rules; /* of cr_grammar_rule; names are borrowed until finish */
    bool no_memory, too_large;
    bool is_made; /* by a program: rules that nothing uses are no mistake */
} cr_builder;

void cr_builder_init(cr_builder *b, cr_host *host);
void cr_builder_done(cr_builder *b);
bool cr_builder_ok(const cr_builder *b);
/* These return 0 when something is at its end. */
/* A rule without a name is a part of `owner`; of one with a name the owner is the rule itself. */
uint32_t cr_builder_rule(cr_builder *b, cr_str name, uint32_t owner);
uint32_t cr_builder_node(cr_builder *b, uint32_t rule);
void cr_builder_edge(cr_builder *b, uint32_t from, cr_edge edge);
cr_grammar_rule *cr_builder_get_rule(const cr_builder *b, uint32_t rule);
cr_node *cr_builder_get_node(const cr_builder *b, uint32_t node);

/* Edges from `from` to `to` for one character in ranges[0, n), which are sorted and do not touch.
 * Surrogates are left out. */
void cr_builder_chars(cr_builder *b, uint32_t from, uint32_t to, const cr_range *ranges, size_t n);

/* Sets `unicode` of every node. */
void cr_automaton_find_unicode(cr_automaton *automaton);

/* The nodes from which the text may end with nothing read, wherever their rule is used: [n_nodes],
 * in the automaton's arena. False without memory. */
bool cr_automaton_find_exits(cr_automaton *automaton, bool **exits);

/* The bytes of characters outside ASCII: what may follow what. */
typedef struct cr_byte_path {
    uint8_t n;
    uint8_t lo[4], hi[4];
} cr_byte_path;

enum { CR_N_UNICODE_PATHS = 8 };
extern const cr_byte_path cr_unicode_paths[CR_N_UNICODE_PATHS];

/* The automaton with rule `root`, or why there is none: left recursion, a rule that never ends. A
 * rule that nothing uses is a warning in the host's log. */
cera_status cr_builder_finish(cr_builder *b, uint32_t root, cr_automaton **out, cera_error *err);

#endif
