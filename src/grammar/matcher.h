/* A matcher reads text along an automaton and says which tokens may come next.
 *
 *     readers   (node, stack): a place in a rule, and where its callers go on. Stacks are shared
 *               lists, each made once, so two readers are equal when two numbers are
 *     state     a set of readers, closed over what costs nothing, made once; state x byte -> state
 *               is worked out when it is first asked for and kept
 *     mask      the tokens that a state allows, kept too
 *
 * So the position in a text is one number. All of this lives in memory of fixed size; when that is
 * full, everything but the present position is forgotten and found again. Nothing is allocated
 * after cr_matcher_new. One thread at a time. */
#ifndef CR_MATCHER_H
#define CR_MATCHER_H

#include "grammar/automaton.h"
#include "grammar/token_table.h"

typedef struct cr_matcher cr_matcher;

/* Both must outlive the matcher; `table` may be NULL, for text alone. */
cera_status cr_matcher_new(const cr_automaton *automaton, const cr_token_table *table,
                           cr_host *host, cr_matcher **out, cera_error *err);
void cr_matcher_free(cr_matcher *matcher);

/* Back to the beginning. */
cera_status cr_matcher_reset(cr_matcher *matcher, cera_error *err);
/* Puts `to` where `from` is; both are of the same automaton. Takes what the depth of the text takes,
 * not its length. */
cera_status cr_matcher_move(cr_matcher *to, const cr_matcher *from, cera_error *err);

/* Reads on. CERA_E_ARG when the grammar does not go on like this: the position is then behind the
 * last byte that fits; a token is read as a whole or not at all. CERA_E_LIMIT when more readings
 * are open at once than a state holds. */
cera_status cr_matcher_read_text(cr_matcher *matcher, cr_str text, cera_error *err);
/* A token behind `previous` (-1: none), which decides about a blank. */
cera_status cr_matcher_read_token(cr_matcher *matcher, int32_t previous, int32_t id,
                                  cera_error *err);

/* Whether the text may end here. */
bool cr_matcher_is_complete(const cr_matcher *matcher);
/* Whether it must. */
bool cr_matcher_is_at_end(const cr_matcher *matcher);

/* The fewest bytes, or tokens that are read by their id, that end a rule from each of its nodes
 * (ends.c); cr_ends_bytes(automaton) bytes, CR_MEM_OBJECT, the caller's. */
cera_status cr_ends_new(const cr_automaton *automaton, cr_host *host, uint32_t **out,
                        cera_error *err);
size_t cr_ends_bytes(const cr_automaton *automaton);
/* With them: the fewest that end the text from here. */
uint32_t cr_matcher_distance(const cr_matcher *matcher, const uint32_t *ends);

/* The tokens that may come next, a bit each: those with text that the grammar goes on with, those
 * that it names by a token reference, and where the text may end, those that end a generation.
 * [table->n_words], valid until the next call. */
cera_status cr_matcher_mask(cr_matcher *matcher, int32_t previous, const uint64_t **bits,
                            cera_error *err);

/* States made since the last time everything was forgotten, and how often that was. */
typedef struct cr_matcher_stats {
    size_t n_states, n_readers, n_stacks, n_flushes, n_walks, n_masks;
    size_t bytes; /* of the matcher */
} cr_matcher_stats;
void cr_matcher_get_stats(const cr_matcher *matcher, cr_matcher_stats *out);

#endif
