/* GBNF: grammars as text, in the dialect of llama.cpp.
 *
 *     rule        name ::= alternatives          a rule ends where the next `name ::=` begins
 *     alternative items, separated by blanks; alternatives by |
 *     item        "text"  [a-z_]  [^"\\]  .  name  ( alternatives )  <token>  <[id]>  !<token>
 *     behind it   *  +  ?  {m}  {m,}  {m,n}
 *     escapes     \n \r \t \\ \" \' \[ \] \-   \xNN \uNNNN \UNNNNNNNN, characters all
 *     # comment
 *
 * `.` is any character, a newline too. A token reference reads a token as a whole; !<token> any
 * other token that has text. Texts and classes never read control tokens. */
#ifndef CR_GBNF_H
#define CR_GBNF_H

#include "grammar/automaton.h"
#include "token/vocab.h"

enum { CR_GBNF_MAX_TEXT = 1 << 18, CR_GBNF_MAX_NESTING = 64 };

typedef struct cr_gbnf_source {
    cr_str text;
    const cr_vocab *vocab; /* for <token>; NULL: only <[id]> */
    size_t max_size;       /* of the text, in bytes */
    bool is_made;          /* by a program: no warnings about rules that nothing uses */
} cr_gbnf_source;

/* Compiles the text; its first rule is the one named "root". Errors name line, column and rule:
 * CERA_E_FORMAT for the text, CERA_E_LIMIT for one that is too large, too deep or repeats too
 * much, CERA_E_ARG for a token that the vocabulary lacks, or that ends a generation where more must
 * follow. */
cera_status cr_gbnf_compile(const cr_gbnf_source *source, cr_host *host, cr_automaton **out,
                            cera_error *err);

#endif
