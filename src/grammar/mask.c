/* Masks: which tokens a state allows.
 *
 * A walk over the tree of tokens steps from state to state and leaves out the subtree of every byte
 * that leads nowhere. Three things keep it short:
 *
 * - Where every plain character leads to the same state (inside a string), up to `run` of them in a
 *   row, the plain tokens of at most `run` characters are taken as one set, and the walk looks only
 *   at the longer ones and at the tokens that are not plain.
 * - Where each letter leads back to the same state, a subtree that has letters only is taken whole.
 * - Readers mostly share all but the top of their stacks. The walk is done with what they share
 *   cut off ("open"), and its result serves every place with the same top, at any depth; where a
 *   reader came to the end of the known part, the walk notes the node of the tree, and goes on from
 *   there with the rest of the stack.
 *
 *     mask(state) = local(state without the shared stack) + for each noted node: its subtree,
 *                   walked from the shared stack */
#include "grammar/matcher_internal.h"

#include <assert.h>

size_t cr_mask_bytes(const cr_token_table *table)
{
    return table->n_words * sizeof(uint64_t) + CR_MAX_ESCAPES * sizeof(uint32_t);
}

void cr_mask_forget(cr_matcher *m)
{
    for (uint32_t i = 0; i < m->n_masks; i++)
        m->masks[i].in_use = false;
}

/* ---- runs of plain characters ------------------------------------------------------------ */

/* The bytes of plain characters: what may follow what. */
typedef struct byte_path {
    uint8_t n;
    uint8_t lo[4], hi[4];
} byte_path;

static const byte_path plain_paths[] = {
    { 1, { 0x20 }, { 0x21 } },
    { 1, { 0x23 }, { 0x5b } },
    { 1, { 0x5d }, { 0x7e } },
    { 2, { 0xc2, 0x80 }, { 0xdf, 0xbf } },
    { 3, { 0xe0, 0xa0, 0x80 }, { 0xe0, 0xbf, 0xbf } },
    { 3, { 0xe1, 0x80, 0x80 }, { 0xec, 0xbf, 0xbf } },
    { 3, { 0xed, 0x80, 0x80 }, { 0xed, 0x9f, 0xbf } },
    { 3, { 0xee, 0x80, 0x80 }, { 0xef, 0xbf, 0xbf } },
    { 4, { 0xf0, 0x90, 0x80, 0x80 }, { 0xf0, 0xbf, 0xbf, 0xbf } },
    { 4, { 0xf1, 0x80, 0x80, 0x80 }, { 0xf3, 0xbf, 0xbf, 0xbf } },
    { 4, { 0xf4, 0x80, 0x80, 0x80 }, { 0xf4, 0x8f, 0xbf, 0xbf } },
};

/* Follows path from byte i on. *all is where everything led so far, CR_STATE_UNKNOWN before the
 * first. False when something leads elsewhere, to CR_STATE_DEAD, or there is no room (*all is then
 * CR_STATE_FULL). */
static bool follow(cr_matcher *m, uint32_t state, const byte_path *path, int i, uint32_t *all)
{
    if (i == path->n) {
        bool same = *all == CR_STATE_UNKNOWN || *all == state;
        *all = state;
        return same;
    }
    int last_class = -1;
    for (int byte = path->lo[i]; byte <= path->hi[i]; byte++) {
        if (m->a->class_of[byte] == last_class)
            continue;
        last_class = m->a->class_of[byte];
        uint32_t next = cr_matcher_next(m, state, (uint8_t)byte);
        if (next == CR_STATE_FULL)
            *all = next;
        if (next == CR_STATE_FULL || next == CR_STATE_DEAD || !follow(m, next, path, i + 1, all))
            return false;
    }
    return true;
}

/* The state that every plain character leads to, CR_STATE_DEAD when there is none, or
 * CR_STATE_FULL. */
static uint32_t after_any(cr_matcher *m, uint32_t state)
{
    uint32_t all = CR_STATE_UNKNOWN;
    for (size_t i = 0; i < CR_COUNT(plain_paths); i++) {
        if (!follow(m, state, &plain_paths[i], 0, &all))
            return all == CR_STATE_FULL ? all : CR_STATE_DEAD;
    }
    return all;
}

/* Sets the state's run; false when there is no room. */
static bool find_run(cr_matcher *m, uint32_t state)
{
    uint32_t chain[CR_PLAIN_MAX];
    int n = 0;
    uint32_t at = state;
    uint8_t run = 0;
    /* Along the chain to a state whose run is known, to itself, or to its end. */
    for (; n < CR_PLAIN_MAX; n++) {
        if (m->states[at].run != CR_RUN_UNKNOWN) {
            run = m->states[at].run;
            break;
        }
        chain[n] = at;
        uint32_t next = after_any(m, at);
        if (next == CR_STATE_FULL)
            return false;
        if (next == CR_STATE_DEAD) {
            m->states[at].run = run = 0;
            break;
        }
        if (next == at) {
            m->states[at].run = run = CR_PLAIN_MAX;
            break;
        }
        at = next;
    }
    if (n == CR_PLAIN_MAX) {
        m->states[state].run = CR_PLAIN_MAX;
        return true;
    }
    for (int i = n - 1; i >= 0; i--) {
        run = (uint8_t)CR_MIN(run + 1, (int)CR_PLAIN_MAX);
        m->states[chain[i]].run = run;
    }
    return true;
}

/* ---- walking ----------------------------------------------------------------------------- */

/* Whether each letter leads from the state back to it; false, too, when there is no room to say. */
static bool loops_on_letters(cr_matcher *m, uint32_t state)
{
    cr_state *s = &m->states[state];
    if (s->letters != CR_RUN_UNKNOWN)
        return s->letters != 0;
    bool loops = true;
    for (int i = 0; i < 52 && loops; i++) {
        uint8_t letter = (uint8_t)(i < 26 ? 'a' + i : 'A' + i - 26);
        uint32_t next = cr_matcher_next(m, state, letter);
        loops = next == state;
        if (next == CR_STATE_FULL)
            return false;
    }
    s->letters = loops ? 1 : 0;
    return loops;
}

typedef struct walk {
    uint64_t *bits;
    cr_mask *notes; /* where escapes are noted; NULL: the stacks are whole */
    bool too_many;  /* of them */
} walk;

/* Walks nodes[from, to), children of a node at which the state is m->path[depth of that node]; of
 * the plain tree, what has only tokens of at most `run` characters is left out. False when there is
 * no room for a state. */
static bool walk_nodes(cr_matcher *m, uint32_t from, uint32_t to, uint32_t run, walk *w)
{
    const cr_token_table *t = m->table;
    const uint8_t *class_of = m->a->class_of;
    size_t n_classes = m->a->n_classes;
    for (uint32_t i = from; i < to;) {
        const cr_trie_node *node = &t->nodes[i];
        if (run > 0 && (node->longest & ~CR_ALL_LETTERS) <= run) {
            i += node->skip;
            continue;
        }
        uint32_t parent = m->path[node->depth - 1];
        uint32_t state = m->next[parent * n_classes + class_of[node->byte]];
        if (CR_UNLIKELY(state == CR_STATE_UNKNOWN)) {
            state = cr_matcher_step(m, parent, node->byte);
            if (state == CR_STATE_FULL)
                return false;
        }
        if (state == CR_STATE_DEAD) {
            i += node->skip;
            continue;
        }
        bool note = w->notes && m->states[state].escapes && node->skip > 1;
        if ((node->longest & CR_ALL_LETTERS) != 0 && node->skip > 1 && !note &&
            loops_on_letters(m, state)) {
            for (uint32_t end = i + node->skip; i < end; i++)
                cr_trie_take(t, t->nodes[i].token, w->bits);
            continue;
        }
        m->path[node->depth] = state;
        cr_trie_take(t, node->token, w->bits);
        if (note && w->notes->n_escapes == CR_MAX_ESCAPES) {
            w->too_many = true;
            return true;
        }
        if (note)
            w->notes->escapes[w->notes->n_escapes++] = i;
        i++;
    }
    return true;
}

/* All tokens from a state. */
static bool walk_all(cr_matcher *m, uint32_t state, walk *w)
{
    const cr_token_table *t = m->table;
    m->n_walks++;
    if (!find_run(m, state))
        return false;
    uint32_t run = m->states[state].run;
    if (run > 0) {
        for (size_t i = 0; i < t->n_words; i++)
            w->bits[i] |= t->plain[run][i];
    }
    m->path[0] = state;
    return (run == CR_PLAIN_MAX || walk_nodes(m, 1, t->others, run, w)) &&
           (w->too_many || walk_nodes(m, t->others, t->n_nodes, 0, w));
}

/* ---- cutting the shared part off --------------------------------------------------------- */

/* The longest stack that all readers of the state have under theirs. */
static uint32_t shared_stack(const cr_matcher *m, const cr_state *state)
{
    uint32_t shared = m->readers[state->first].stack;
    for (uint32_t i = 1; i < state->n && shared != CR_STACK_END; i++) {
        uint32_t other = m->readers[state->first + i].stack;
        while (shared != other) {
            if (m->stacks[shared].depth >= m->stacks[other].depth)
                shared = m->stacks[shared].below;
            else
                other = m->stacks[other].below;
        }
    }
    return shared;
}

/* The same stack with everything from `shared` down replaced by CR_STACK_OPEN. */
static uint32_t cut_stack(cr_matcher *m, uint32_t stack, uint32_t shared)
{
    enum { MAX_TOP = 256 };
    uint32_t top[MAX_TOP];
    int n = 0;
    for (; stack != shared; stack = m->stacks[stack].below) {
        if (n == MAX_TOP)
            return CR_STATE_FULL;
        top[n++] = m->stacks[stack].node;
    }
    uint32_t cut = CR_STACK_OPEN;
    while (n > 0 && cut != CR_STATE_FULL)
        cut = cr_matcher_push(m, top[--n], cut);
    return cut;
}

/* The state of the same readers with their shared stack cut off; CR_STATE_DEAD when that is not
 * worth while, CR_STATE_FULL. *shared is what was cut off. */
static uint32_t cut_state(cr_matcher *m, uint32_t state, uint32_t *shared)
{
    const cr_state *s = &m->states[state];
    *shared = shared_stack(m, s);
    /* One frame more than the readers need is kept: in the middle of a repetition it is the round,
     * and a walk that knows no other round ends with every character. */
    if (*shared > CR_STACK_OPEN)
        *shared = m->stacks[*shared].below;
    if (*shared <= CR_STACK_OPEN)
        return CR_STATE_DEAD;
    cr_matcher_begin(m);
    for (uint32_t i = 0; i < s->n; i++) {
        cr_reader reader = m->readers[s->first + i];
        uint32_t stack = cut_stack(m, reader.stack, *shared);
        if (stack == CR_STATE_FULL)
            return stack;
        cr_matcher_add(m, reader.node, stack);
    }
    return cr_matcher_close(m);
}

/* ---- keeping masks ----------------------------------------------------------------------- */

/* Takes the place that was used longest ago. */
static cr_mask *take_place(cr_matcher *m, uint32_t state, bool is_local)
{
    cr_mask *oldest = &m->masks[0];
    for (uint32_t i = 0; i < m->n_masks && oldest->in_use; i++) {
        if (!m->masks[i].in_use || m->masks[i].used < oldest->used)
            oldest = &m->masks[i];
    }
    if (oldest->in_use) {
        cr_state *owner = &m->states[oldest->state];
        *(oldest->is_local ? &owner->local : &owner->mask) = CR_NO_MASK;
    }
    oldest->in_use = true;
    oldest->state = state;
    oldest->is_local = is_local;
    oldest->used = ++m->clock;
    oldest->n_escapes = 0;
    memset(oldest->bits, 0, m->table->n_words * sizeof *oldest->bits);
    cr_state *owner = &m->states[state];
    *(is_local ? &owner->local : &owner->mask) = (uint16_t)(oldest - m->masks);
    return oldest;
}

static void drop(cr_matcher *m, cr_mask *mask)
{
    mask->in_use = false;
    cr_state *owner = &m->states[mask->state];
    *(mask->is_local ? &owner->local : &owner->mask) = CR_NO_MASK;
}

typedef enum outcome { DONE, FULL, TOO_MANY } outcome;

/* The mask of a state whose stacks are cut, with the places where it escapes. */
static outcome local_mask(cr_matcher *m, uint32_t state, cr_mask **out)
{
    if (m->states[state].local != CR_NO_MASK) {
        *out = &m->masks[m->states[state].local];
        (*out)->used = ++m->clock;
        return DONE;
    }
    cr_mask *mask = take_place(m, state, true);
    walk w = { .bits = mask->bits, .notes = mask };
    bool room = walk_all(m, state, &w);
    if (room && !w.too_many) {
        *out = mask;
        return DONE;
    }
    drop(m, mask);
    return room ? TOO_MANY : FULL;
}

/* Adds what lies beyond the noted places: the walk goes on there with the shared stack. */
static bool add_beyond(cr_matcher *m, const cr_mask *local, uint32_t shared, uint64_t *bits)
{
    const cr_stack *top = &m->stacks[shared];
    cr_matcher_begin(m);
    cr_matcher_add(m, top->node, top->below);
    uint32_t state = cr_matcher_close(m);
    if (state == CR_STATE_FULL)
        return false;
    walk w = { .bits = bits };
    for (uint32_t i = 0; i < local->n_escapes; i++) {
        uint32_t at = local->escapes[i];
        const cr_trie_node *node = &m->table->nodes[at];
        m->path[node->depth] = state;
        if (!walk_nodes(m, at + 1, at + node->skip, 0, &w))
            return false;
    }
    return true;
}

/* Tokens that the grammar names. */
static void add_references(const cr_matcher *m, const cr_state *state, uint64_t *bits)
{
    const cr_token_table *t = m->table;
    for (uint32_t i = 0; i < state->n; i++) {
        const cr_node *node = &m->a->nodes[m->readers[state->first + i].node];
        for (uint32_t e = 0; e < node->n_edges; e++) {
            const cr_edge *edge = &m->a->edges[node->edges + e];
            if (edge->kind == CR_EDGE_TOKEN && edge->value < t->n_tokens)
                cr_bit_set(bits, edge->value);
            if (edge->kind != CR_EDGE_NOT_TOKEN)
                continue;
            bool had = edge->value < t->n_tokens && cr_bit_get(bits, edge->value);
            for (size_t w = 0; w < t->n_words; w++)
                bits[w] |= t->text[w];
            if (edge->value < t->n_tokens && !had)
                bits[edge->value / 64] &= ~(UINT64_C(1) << (edge->value % 64));
        }
    }
}

static outcome full_mask(cr_matcher *m, uint32_t state, cr_mask **out)
{
    if (m->states[state].mask != CR_NO_MASK) {
        *out = &m->masks[m->states[state].mask];
        (*out)->used = ++m->clock;
        return DONE;
    }
    m->n_computed++;
    uint32_t shared = CR_STACK_END, cut = CR_STATE_DEAD;
    if (m->states[state].n > 0)
        cut = cut_state(m, state, &shared);
    if (cut == CR_STATE_FULL && m->too_wide)
        return FULL;
    cr_mask *local = NULL;
    if (cut != CR_STATE_DEAD && cut != CR_STATE_FULL && local_mask(m, cut, &local) == FULL)
        return FULL;
    cr_mask *mask = take_place(m, state, false);
    bool room;
    if (local) {
        memcpy(mask->bits, local->bits, m->table->n_words * sizeof *mask->bits);
        room = add_beyond(m, local, shared, mask->bits);
    } else {
        walk w = { .bits = mask->bits };
        room = walk_all(m, state, &w);
    }
    if (!room) {
        drop(m, mask);
        return FULL;
    }
    if (m->a->has_tokens)
        add_references(m, &m->states[state], mask->bits);
    for (size_t i = 0; i < m->table->n_ends && m->states[state].may_end; i++)
        cr_bit_set(mask->bits, (uint32_t)m->table->ends[i]);
    *out = mask;
    return DONE;
}

/* ---- the start of a text ----------------------------------------------------------------- */

/* Where tokens lose their blank: those go by what is left of them. */
static bool start_mask(cr_matcher *m, const cr_mask *mask)
{
    const cr_token_table *t = m->table;
    for (size_t i = 0; i < t->n_words; i++)
        m->start[i] = mask->bits[i] & ~t->blank[i];
    uint64_t *bits = m->start;
    for (uint32_t i = 1; i < t->n_nodes; i += t->nodes[i].skip) {
        if (t->nodes[i].byte != ' ')
            continue;
        m->path[1] = m->state;
        walk w = { .bits = bits };
        if (!walk_nodes(m, i + 1, i + t->nodes[i].skip, 0, &w))
            return false;
        /* Tokens that keep their blank were taken for ones that lose it. */
        for (size_t word = 0; word < t->n_words; word++)
            bits[word] = (bits[word] & t->blank[word]) | (mask->bits[word] & ~t->blank[word]);
    }
    /* A blank alone would be nothing. */
    for (uint32_t i = 1; i < t->n_nodes; i += t->nodes[i].skip) {
        for (uint32_t token = t->nodes[i].byte == ' ' ? t->nodes[i].token : CR_NO_TOKEN;
             token != CR_NO_TOKEN;) {
            uint32_t id = token & ~CR_HAS_TWIN;
            if (cr_bit_get(t->blank, id))
                bits[id / 64] &= ~(UINT64_C(1) << (id % 64));
            token = (token & CR_HAS_TWIN) != 0 ? t->twins[id] : CR_NO_TOKEN;
        }
    }
    return true;
}

cera_status cr_matcher_mask(cr_matcher *m, int32_t previous, const uint64_t **bits, cera_error *err)
{
    assert(m->table);
    bool is_start = cr_token_table_is_start(m->table, previous);
    for (int i = 0; i < 2; i++) {
        cr_mask *mask = NULL;
        if (i > 0)
            CR_TRY(cr_matcher_flush(m, err));
        if (full_mask(m, m->state, &mask) != DONE || (is_start && !start_mask(m, mask))) {
            if (m->too_wide)
                break;
            continue;
        }
        *bits = is_start ? m->start : mask->bits;
        return CERA_OK;
    }
    return cr_matcher_fail_full(m, err);
}
