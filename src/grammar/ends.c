/* How far it is to the end of a text.
 *
 *     from a node to where its rule may end     the cheapest edge and what is left behind it; a call
 *                                               costs what its rule costs from the start
 *     from a reader to the end of the text      that, and the same for each place on its stack
 *
 * The first are found by letting better numbers run backwards along the edges until there are none
 * (Bellman and Ford, with a queue). */
#include "grammar/matcher_internal.h"

enum { FAR = 1 << 30 }; /* at least that, or there is no way at all */

typedef struct search {
    const cr_automaton *a;
    uint32_t *left; /* [n_nodes] */
    uint32_t *from; /* [n_edges] the node that an edge leaves */
    /* Lists of edges, + 1, through next: to a node; of calls of a rule. */
    uint32_t *into, *next_into;   /* [n_nodes], [n_edges] */
    uint32_t *calls, *next_calls; /* [n_rules], [n_edges] */
    uint32_t *queue;              /* [n_nodes] a ring of nodes that came nearer */
    bool *is_queued;              /* [n_nodes] */
    uint32_t first, n;            /* of the ring */
} search;

static void set_left(search *s, uint32_t node, uint32_t left)
{
    if (left >= s->left[node])
        return;
    s->left[node] = left;
    if (!s->is_queued[node])
        s->queue[(s->first + s->n++) % s->a->n_nodes] = node;
    s->is_queued[node] = true;
}

/* What the node in front of the edge has when it goes along it. */
static void go_back(search *s, uint32_t i_edge)
{
    const cr_edge *edge = &s->a->edges[i_edge];
    uint32_t cost = edge->kind != CR_EDGE_EMPTY;
    if (edge->kind == CR_EDGE_CALL)
        cost = s->left[s->a->rules[edge->value].start];
    set_left(s, s->from[i_edge], CR_MIN(cost + s->left[edge->target], (uint32_t)FAR));
}

static void link_edges(search *s)
{
    const cr_automaton *a = s->a;
    for (uint32_t node = 0; node < a->n_nodes; node++) {
        for (uint32_t k = 0; k < a->nodes[node].n_edges; k++) {
            const uint32_t i = a->nodes[node].edges + k;
            const cr_edge *edge = &a->edges[i];
            s->from[i] = node;
            s->next_into[i] = s->into[edge->target];
            s->into[edge->target] = i + 1;
            if (edge->kind != CR_EDGE_CALL)
                continue;
            s->next_calls[i] = s->calls[edge->value];
            s->calls[edge->value] = i + 1;
        }
    }
}

static void run_search(search *s)
{
    const cr_automaton *a = s->a;
    link_edges(s);
    for (uint32_t node = 0; node < a->n_nodes; node++)
        s->left[node] = FAR;
    for (uint32_t node = 0; node < a->n_nodes; node++) {
        if (a->nodes[node].returns)
            set_left(s, node, 0);
    }
    while (s->n > 0) {
        const uint32_t node = s->queue[s->first], rule = a->nodes[node].rule;
        s->first = (s->first + 1) % a->n_nodes;
        s->n--;
        s->is_queued[node] = false;
        for (uint32_t i = s->into[node]; i != 0; i = s->next_into[i - 1])
            go_back(s, i - 1);
        for (uint32_t i = a->rules[rule].start == node ? s->calls[rule] : 0; i != 0;
             i = s->next_calls[i - 1])
            go_back(s, i - 1);
    }
}

size_t cr_ends_bytes(const cr_automaton *a)
{
    return a->n_nodes * sizeof(uint32_t);
}

cera_status cr_ends_new(const cr_automaton *a, cr_host *host, uint32_t **out, cera_error *err)
{
    cr_arena arena;
    cr_arena_init(&arena, host, CR_MEM_SCRATCH);
    search s = {
        .a = a,
        .left = cr_alloc(host, CR_MEM_OBJECT, cr_ends_bytes(a)),
        .from = cr_arena_array(&arena, a->n_edges + 1, sizeof *s.from),
        .into = cr_arena_array(&arena, a->n_nodes + 1, sizeof *s.into),
        .next_into = cr_arena_array(&arena, a->n_edges + 1, sizeof *s.next_into),
        .calls = cr_arena_array(&arena, a->n_rules + 1, sizeof *s.calls),
        .next_calls = cr_arena_array(&arena, a->n_edges + 1, sizeof *s.next_calls),
        .queue = cr_arena_array(&arena, a->n_nodes + 1, sizeof *s.queue),
        .is_queued = cr_arena_array(&arena, a->n_nodes + 1, sizeof *s.is_queued),
    };
    const bool made = s.left && s.from && s.into && s.next_into && s.calls && s.next_calls &&
                      s.queue && s.is_queued;
    if (made)
        run_search(&s);
    else
        cr_free(host, CR_MEM_OBJECT, s.left, cr_ends_bytes(a));
    cr_arena_done(&arena);
    if (!made)
        return cr_fail_nomem(err, cr_ends_bytes(a), "the ways to a grammar's end");
    *out = s.left;
    return CERA_OK;
}

uint32_t cr_matcher_distance(const cr_matcher *m, const uint32_t *ends)
{
    const cr_state *state = &m->states[m->state];
    uint64_t least = state->may_end ? 0 : FAR;
    for (uint32_t i = 0; i < state->n; i++) {
        const cr_reader *reader = &m->readers[state->first + i];
        uint64_t sum = ends[reader->node];
        for (uint32_t at = reader->stack; at > CR_STACK_OPEN && sum < least;
             at = m->stacks[at].below)
            sum += ends[m->stacks[at].node];
        least = CR_MIN(least, sum);
    }
    return (uint32_t)least;
}
