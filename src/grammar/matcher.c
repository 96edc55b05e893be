/* States of a matcher: making them, moving between them, forgetting them. */
#include "grammar/matcher_internal.h"

#include <assert.h>

enum {
    STEP_BYTES = 4 << 20, /* for the table of steps: a row per state */
    MIN_STATES = 2048,
    MAX_STATES = 32768,
    MAX_STACKS = 1 << 16,
    READERS = 1 << 17,
    MAX_WORK = CR_MAX_READERS * 4, /* readers on their way to those that read something */
    N_SEEN = MAX_WORK * 2,
    MASK_BYTES = 4 << 20,
};

/* ---- memory: one allocation, cut into the arrays ----------------------------------------- */

static void *carve(char *base, size_t *used, size_t count, size_t size)
{
    void *part = base ? base + *used : NULL;
    *used += (count * size + 63) & ~(size_t)63;
    return part;
}

static size_t step_words(const cr_matcher *m)
{
    return (size_t)m->max_states * m->a->n_classes / 64 + 1;
}

/* Called twice: with base NULL it only measures. */
static size_t lay_out(cr_matcher *m, char *base)
{
    size_t used = 0;
    carve(base, &used, 1, sizeof *m);
    m->states = carve(base, &used, m->max_states, sizeof *m->states);
    m->next = carve(base, &used, (size_t)m->max_states * m->a->n_classes, sizeof *m->next);
    m->readers = carve(base, &used, m->max_readers, sizeof *m->readers);
    m->state_slots = carve(base, &used, m->n_state_slots, sizeof *m->state_slots);
    m->stacks = carve(base, &used, m->max_stacks, sizeof *m->stacks);
    m->stack_slots = carve(base, &used, m->n_stack_slots, sizeof *m->stack_slots);
    m->moved = carve(base, &used, m->max_stacks, sizeof *m->moved);
    m->work = carve(base, &used, MAX_WORK, sizeof *m->work);
    m->closed = carve(base, &used, CR_MAX_READERS, sizeof *m->closed);
    m->seen = carve(base, &used, N_SEEN, sizeof *m->seen);
    m->seen_at = carve(base, &used, N_SEEN, sizeof *m->seen_at);
    if (!m->table)
        return used;
    m->masks = carve(base, &used, m->n_masks, sizeof *m->masks);
    m->path = carve(base, &used, m->table->max_depth + 1, sizeof *m->path);
    m->chars = carve(base, &used, m->table->max_depth + 1, sizeof *m->chars);
    for (int i = 0; i < CR_N_GROUP_TOKENS; i++)
        m->group_tokens[i].bits = carve(base, &used, m->table->n_words, sizeof(uint64_t));
    m->stepped = carve(base, &used, step_words(m), sizeof *m->stepped);
    m->image = carve(base, &used, m->max_states, sizeof *m->image);
    m->image_at = carve(base, &used, m->max_states, sizeof *m->image_at);
    m->start = carve(base, &used, m->table->n_words, sizeof *m->start);
    for (uint32_t i = 0; i < m->n_masks; i++) {
        uint64_t *bits = carve(base, &used, m->table->n_words, sizeof *bits);
        uint32_t *escapes = carve(base, &used, CR_MAX_ESCAPES, sizeof *escapes);
        cr_walk_step *steps = carve(base, &used, CR_MAX_STEPS, sizeof *steps);
        if (base) {
            m->masks[i].bits = bits;
            m->masks[i].steps = steps;
            m->masks[i].escapes = escapes;
        }
    }
    return used;
}

/* Empty tables, but for the state without readers. */
static void clear(cr_matcher *m)
{
    memset(m->state_slots, 0, m->n_state_slots * sizeof *m->state_slots);
    m->states[CR_STATE_DEAD] = (cr_state){ 0 };
    for (uint32_t i = 0; i < m->a->n_classes; i++)
        m->next[i] = CR_STATE_DEAD;
    m->n_states = 1;
    m->n_readers = 0;
    if (m->table)
        cr_mask_forget(m);
}

cera_status cr_matcher_new(const cr_automaton *automaton, const cr_token_table *table,
                           cr_host *host, cr_matcher **out, cera_error *err)
{
    uint32_t states = (uint32_t)(STEP_BYTES / sizeof(uint32_t)) / automaton->n_classes;
    cr_matcher first = {
        .host = host,
        .a = automaton,
        .table = table,
        .max_states = CR_MIN(CR_MAX(states, (uint32_t)MIN_STATES), (uint32_t)MAX_STATES),
        .max_readers = READERS,
        .n_state_slots = 2 * MAX_STATES,
        .max_stacks = MAX_STACKS,
        .n_stack_slots = 2 * MAX_STACKS,
    };
    if (table) {
        size_t n = MASK_BYTES / cr_mask_bytes(table);
        first.n_masks = (uint32_t)CR_MIN(CR_MAX(n, (size_t)16), (size_t)1024);
    }
    first.size = lay_out(&first, NULL);
    cr_matcher *m = cr_alloc(host, CR_MEM_SCRATCH, first.size);
    if (!m)
        return cr_fail_nomem(err, first.size, "a grammar's states");
    *m = first;
    lay_out(m, (char *)m);
    memset(m->seen_at, 0, N_SEEN * sizeof *m->seen_at);
    if (table) {
        cr_mask_forget(m);
        memset(m->stepped, 0, step_words(m) * sizeof *m->stepped);
        memset(m->image_at, 0, m->max_states * sizeof *m->image_at);
    }
    cera_status status = cr_matcher_reset(m, err);
    if (status == CERA_OK)
        *out = m;
    else
        cr_matcher_free(m);
    return status;
}

void cr_matcher_free(cr_matcher *matcher)
{
    if (matcher)
        cr_free(matcher->host, CR_MEM_SCRATCH, matcher, matcher->size);
}

/* ---- stacks ------------------------------------------------------------------------------ */

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32 ^ x >> 15);
}

static void clear_stacks(cr_matcher *m)
{
    memset(m->stack_slots, 0, m->n_stack_slots * sizeof *m->stack_slots);
    m->stacks[CR_STACK_END] = m->stacks[CR_STACK_OPEN] = (cr_stack){ 0 };
    m->n_stacks = 2;
}

uint32_t cr_matcher_push(cr_matcher *m, uint32_t node, uint32_t below)
{
    uint32_t slot = mix(node, below) & (m->n_stack_slots - 1);
    for (; m->stack_slots[slot] != 0; slot = (slot + 1) & (m->n_stack_slots - 1)) {
        const cr_stack *other = &m->stacks[m->stack_slots[slot] - 1];
        if (other->node == node && other->below == below)
            return m->stack_slots[slot] - 1;
    }
    if (m->n_stacks == m->max_stacks)
        return CR_STATE_FULL;
    m->stacks[m->n_stacks] = (cr_stack){ node, below, m->stacks[below].depth + 1 };
    m->stack_slots[slot] = m->n_stacks + 1;
    return m->n_stacks++;
}

/* ---- sets of readers --------------------------------------------------------------------- */

void cr_matcher_begin(cr_matcher *m)
{
    m->n_work = 0;
    m->too_wide = false;
    if (++m->turn == 0) {
        memset(m->seen_at, 0, N_SEEN * sizeof *m->seen_at);
        m->turn = 1;
    }
}

void cr_matcher_add(cr_matcher *m, uint32_t node, uint32_t stack)
{
    uint32_t slot = mix(node, stack) & (N_SEEN - 1);
    for (; m->seen_at[slot] == m->turn; slot = (slot + 1) & (N_SEEN - 1)) {
        if (m->seen[slot].node == node && m->seen[slot].stack == stack)
            return;
    }
    if (m->n_work == MAX_WORK) {
        m->too_wide = true;
        return;
    }
    m->seen_at[slot] = m->turn;
    m->seen[slot] = m->work[m->n_work++] = (cr_reader){ node, stack };
}

static bool is_before(cr_reader a, cr_reader b)
{
    return a.node != b.node ? a.node < b.node : a.stack < b.stack;
}

/* Shell sort: qsort may allocate. */
static void sort_readers(cr_reader *r, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap /= 2) {
        for (uint32_t i = gap; i < n; i++) {
            cr_reader reader = r[i];
            uint32_t j = i;
            for (; j >= gap && is_before(reader, r[j - gap]); j -= gap)
                r[j] = r[j - gap];
            r[j] = reader;
        }
    }
}

/* The state with these sorted readers. */
static uint32_t intern(cr_matcher *m, const cr_reader *readers, uint32_t n, bool may_end,
                       bool escapes)
{
    if (n == 0 && !may_end && !escapes)
        return CR_STATE_DEAD;
    uint64_t hash =
        cr_hash(readers, n * sizeof *readers) * 4 + (may_end ? 2 : 0) + (escapes ? 1 : 0);
    uint32_t slot = (uint32_t)(hash >> 7 ^ hash) & (m->n_state_slots - 1);
    for (; m->state_slots[slot] != 0; slot = (slot + 1) & (m->n_state_slots - 1)) {
        const cr_state *other = &m->states[m->state_slots[slot] - 1];
        if (other->n == n && other->may_end == may_end && other->escapes == escapes &&
            memcmp(m->readers + other->first, readers, n * sizeof *readers) == 0)
            return m->state_slots[slot] - 1;
    }
    if (m->n_states == m->max_states || n > m->max_readers - m->n_readers)
        return CR_STATE_FULL;
    uint32_t id = m->n_states++;
    memcpy(m->readers + m->n_readers, readers, n * sizeof *readers);
    m->states[id] = (cr_state){
        .first = m->n_readers,
        .n = n,
        .may_end = may_end,
        .escapes = escapes,
        .run = CR_RUN_UNKNOWN,
        .after = CR_STATE_UNKNOWN,
    };
    m->n_readers += n;
    m->state_slots[slot] = id + 1;
    uint32_t *row = m->next + (size_t)id * m->a->n_classes;
    for (uint32_t i = 0; i < m->a->n_classes; i++)
        row[i] = CR_STATE_UNKNOWN;
    return id;
}

/* Enters the rule that an edge calls. A caller with nothing left to do needs no place on the stack:
 * without this a list that is written with itself at its end would grow the stack for ever. */
static bool enter(cr_matcher *m, const cr_edge *edge, uint32_t stack)
{
    const cr_node *after = &m->a->nodes[edge->target];
    if (!after->returns || after->n_edges > 0) {
        stack = cr_matcher_push(m, edge->target, stack);
        if (stack == CR_STATE_FULL)
            return false;
    }
    cr_matcher_add(m, m->a->rules[edge->value].start, stack);
    return true;
}

uint32_t cr_matcher_close(cr_matcher *m)
{
    bool may_end = false, escapes = false;
    uint32_t n = 0;
    for (uint32_t at = 0; at < m->n_work && !m->too_wide; at++) {
        cr_reader reader = m->work[at];
        const cr_node *node = &m->a->nodes[reader.node];
        if (node->returns) {
            may_end = may_end || reader.stack == CR_STACK_END;
            escapes = escapes || reader.stack == CR_STACK_OPEN;
            const cr_stack *top = &m->stacks[reader.stack];
            if (reader.stack > CR_STACK_OPEN)
                cr_matcher_add(m, top->node, top->below);
        }
        bool reads = false;
        for (uint32_t i = 0; i < node->n_edges; i++) {
            const cr_edge *edge = &m->a->edges[node->edges + i];
            if (edge->kind == CR_EDGE_EMPTY)
                cr_matcher_add(m, edge->target, reader.stack);
            else if (edge->kind != CR_EDGE_CALL)
                reads = true;
            else if (!enter(m, edge, reader.stack))
                return CR_STATE_FULL;
        }
        if (reads && n == CR_MAX_READERS)
            m->too_wide = true;
        else if (reads)
            m->closed[n++] = reader;
    }
    if (m->too_wide)
        return CR_STATE_FULL;
    sort_readers(m->closed, n);
    return intern(m, m->closed, n, may_end, escapes);
}

uint32_t cr_matcher_step(cr_matcher *m, uint32_t state, uint8_t byte)
{
    uint32_t *row = m->next + (size_t)state * m->a->n_classes;
    if (row[m->a->class_of[byte]] != CR_STATE_UNKNOWN)
        return row[m->a->class_of[byte]];
    /* All bytes of [lo, hi] fit the same edges, so what is found holds for their classes, too. */
    uint8_t lo = 0, hi = 255;
    cr_matcher_begin(m);
    for (uint32_t i = 0; i < m->states[state].n; i++) {
        cr_reader reader = m->readers[m->states[state].first + i];
        const cr_node *node = &m->a->nodes[reader.node];
        for (uint32_t e = 0; e < node->n_edges; e++) {
            const cr_edge *edge = &m->a->edges[node->edges + e];
            if (edge->kind != CR_EDGE_BYTES)
                continue;
            if (edge->hi < byte) {
                lo = CR_MAX(lo, (uint8_t)(edge->hi + 1));
            } else if (edge->lo > byte) {
                hi = CR_MIN(hi, (uint8_t)(edge->lo - 1));
            } else {
                lo = CR_MAX(lo, edge->lo);
                hi = CR_MIN(hi, edge->hi);
                cr_matcher_add(m, edge->target, reader.stack);
            }
        }
    }
    uint32_t found = cr_matcher_close(m);
    for (uint32_t c = m->a->class_of[lo]; found != CR_STATE_FULL && c <= m->a->class_of[hi]; c++)
        row[c] = found;
    return found;
}

/* ---- forgetting -------------------------------------------------------------------------- */

/* Marks the stacks under one, in m->moved. */
static void mark_stacks(cr_matcher *m, uint32_t stack)
{
    while (stack > CR_STACK_OPEN && m->moved[stack] == 0) {
        m->moved[stack] = 1;
        stack = m->stacks[stack].below;
    }
}

/* What is kept moves to the front: below always has a lower number than what stands on it. */
static void compact_stacks(cr_matcher *m, uint32_t n_before)
{
    clear_stacks(m);
    m->moved[CR_STACK_END] = CR_STACK_END;
    m->moved[CR_STACK_OPEN] = CR_STACK_OPEN;
    for (uint32_t i = 2; i < n_before; i++) {
        if (m->moved[i] != 0)
            m->moved[i] = cr_matcher_push(m, m->stacks[i].node, m->moved[m->stacks[i].below]);
    }
}

cera_status cr_matcher_flush(cr_matcher *m, cera_error *err)
{
    m->n_flushes++;
    cr_state now = m->states[m->state];
    uint32_t n = now.n, n_stacks = m->n_stacks;
    memcpy(m->closed, m->readers + now.first, n * sizeof *m->closed);
    memset(m->moved, 0, n_stacks * sizeof *m->moved);
    for (uint32_t i = 0; i < n; i++)
        mark_stacks(m, m->closed[i].stack);
    compact_stacks(m, n_stacks);
    for (uint32_t i = 0; i < n; i++)
        m->closed[i].stack = m->moved[m->closed[i].stack];
    sort_readers(m->closed, n);
    clear(m);
    uint32_t state = intern(m, m->closed, n, now.may_end, now.escapes);
    if (state == CR_STATE_FULL)
        return cr_matcher_fail_full(m, err);
    m->state = state;
    return CERA_OK;
}

cera_status cr_matcher_fail_full(const cr_matcher *m, cera_error *err)
{
    if (m->too_wide)
        return cr_fail(err, CERA_E_LIMIT,
                       "grammar: expected at most %d readings of a text side by side, found more; "
                       "make it less ambiguous",
                       CR_MAX_READERS);
    return cr_fail(err, CERA_E_LIMIT,
                   "grammar: expected rules nested less than %d deep in a text, found more",
                   MAX_STACKS);
}

/* ---- moving ------------------------------------------------------------------------------ */

cera_status cr_matcher_reset(cr_matcher *m, cera_error *err)
{
    /* The first state is always the same, so tables that are there stay of use; but for the first
     * time, when there are none. */
    for (int i = 0; i < 2; i++) {
        if (i == 1 || m->n_states == 0) {
            clear_stacks(m);
            clear(m);
        }
        cr_matcher_begin(m);
        cr_matcher_add(m, m->a->rules[m->a->root].start, CR_STACK_END);
        uint32_t state = cr_matcher_close(m);
        if (state != CR_STATE_FULL) {
            m->state = state;
            return CERA_OK;
        }
    }
    return cr_matcher_fail_full(m, err);
}

cera_status cr_matcher_move(cr_matcher *to, const cr_matcher *from, cera_error *err)
{
    const cr_state *state = &from->states[from->state];
    for (int tries = 0; tries < 2; tries++) {
        cr_matcher_begin(to);
        uint32_t found = CR_STATE_DEAD;
        for (uint32_t i = 0; i < from->n_stacks; i++)
            to->moved[i] = 0;
        /* Stacks are made from below, in the order of their numbers. */
        for (uint32_t i = 0; i < state->n; i++) {
            uint32_t stack = from->readers[state->first + i].stack;
            for (; stack > CR_STACK_OPEN && to->moved[stack] == 0;
                 stack = from->stacks[stack].below)
                to->moved[stack] = 1;
        }
        to->moved[CR_STACK_OPEN] = CR_STACK_OPEN;
        for (uint32_t i = 2; i < from->n_stacks && found != CR_STATE_FULL; i++) {
            if (to->moved[i] == 0)
                continue;
            to->moved[i] =
                cr_matcher_push(to, from->stacks[i].node, to->moved[from->stacks[i].below]);
            found = to->moved[i] == CR_STATE_FULL ? CR_STATE_FULL : found;
        }
        for (uint32_t i = 0; i < state->n && found != CR_STATE_FULL; i++) {
            cr_reader reader = from->readers[state->first + i];
            to->closed[i] = (cr_reader){ reader.node, to->moved[reader.stack] };
        }
        if (found != CR_STATE_FULL) {
            sort_readers(to->closed, state->n);
            found = intern(to, to->closed, state->n, state->may_end, state->escapes);
        }
        if (found != CR_STATE_FULL) {
            to->state = found;
            return CERA_OK;
        }
        clear_stacks(to);
        clear(to);
    }
    return cr_matcher_fail_full(to, err);
}

/* The state behind these bytes, or CR_STATE_FULL. */
static uint32_t read_bytes(cr_matcher *m, cr_str text)
{
    uint32_t state = m->state;
    for (size_t i = 0; i < text.size && state != CR_STATE_DEAD && state != CR_STATE_FULL; i++)
        state = cr_matcher_next(m, state, (uint8_t)text.data[i]);
    return state;
}

cera_status cr_matcher_read_text(cr_matcher *m, cr_str text, cera_error *err)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = (uint8_t)text.data[i];
        uint32_t state = cr_matcher_next(m, m->state, byte);
        if (state == CR_STATE_FULL && !m->too_wide) {
            CR_TRY(cr_matcher_flush(m, err));
            state = cr_matcher_next(m, m->state, byte);
        }
        if (state == CR_STATE_FULL)
            return cr_matcher_fail_full(m, err);
        if (state == CR_STATE_DEAD)
            return cr_fail(err, CERA_E_ARG,
                           "text: expected what the grammar allows, found something else at byte "
                           "%zu",
                           i);
        m->state = state;
    }
    return CERA_OK;
}

/* Adds the readers that take the token as a whole. */
static void add_token_readers(cr_matcher *m, uint32_t id, bool is_text)
{
    const cr_state *state = &m->states[m->state];
    for (uint32_t i = 0; i < state->n; i++) {
        cr_reader reader = m->readers[state->first + i];
        const cr_node *node = &m->a->nodes[reader.node];
        for (uint32_t e = 0; e < node->n_edges; e++) {
            const cr_edge *edge = &m->a->edges[node->edges + e];
            if ((edge->kind == CR_EDGE_TOKEN && edge->value == id) ||
                (edge->kind == CR_EDGE_NOT_TOKEN && edge->value != id && is_text))
                cr_matcher_add(m, edge->target, reader.stack);
        }
    }
}

/* The state behind a token, which its text and references to it may both lead to. */
static uint32_t token_state(cr_matcher *m, int32_t previous, uint32_t id)
{
    bool is_text = cr_bit_get(m->table->text, id);
    uint32_t by_text = CR_STATE_DEAD;
    cr_str piece = cr_vocab_piece_after(m->table->vocab, previous, (int32_t)id);
    if (is_text && piece.size > 0)
        by_text = read_bytes(m, piece);
    if (by_text == CR_STATE_FULL || !m->a->has_tokens)
        return by_text;
    cr_matcher_begin(m);
    add_token_readers(m, id, is_text);
    if (m->n_work == 0)
        return by_text;
    const cr_state *state = &m->states[by_text];
    for (uint32_t i = 0; i < state->n; i++) {
        cr_reader reader = m->readers[state->first + i];
        cr_matcher_add(m, reader.node, reader.stack);
    }
    bool may_end = state->may_end;
    uint32_t found = cr_matcher_close(m);
    if (found == CR_STATE_FULL || !may_end || m->states[found].may_end)
        return found;
    const cr_state *both = &m->states[found];
    uint32_t n = both->n;
    memcpy(m->closed, m->readers + both->first, n * sizeof *m->closed);
    return intern(m, m->closed, n, true, both->escapes);
}

cera_status cr_matcher_read_token(cr_matcher *m, int32_t previous, int32_t id, cera_error *err)
{
    assert(m->table);
    if (id < 0 || (size_t)id >= m->table->n_tokens)
        return cr_fail(err, CERA_E_ARG, "token: expected an id from 0 to %zu, found %ld",
                       m->table->n_tokens - 1, (long)id);
    uint32_t state = token_state(m, previous, (uint32_t)id);
    if (state == CR_STATE_FULL && !m->too_wide) {
        CR_TRY(cr_matcher_flush(m, err));
        state = token_state(m, previous, (uint32_t)id);
    }
    if (state == CR_STATE_FULL)
        return cr_matcher_fail_full(m, err);
    if (state == CR_STATE_DEAD)
        return cr_fail(err, CERA_E_ARG,
                       "token: expected one that the grammar allows here, found %ld", (long)id);
    m->state = state;
    return CERA_OK;
}

bool cr_matcher_is_complete(const cr_matcher *m)
{
    return m->states[m->state].may_end;
}

bool cr_matcher_is_at_end(const cr_matcher *m)
{
    return m->states[m->state].may_end && m->states[m->state].n == 0;
}

void cr_matcher_get_stats(const cr_matcher *m, cr_matcher_stats *out)
{
    *out = (cr_matcher_stats){
        .n_states = m->n_states,
        .n_readers = m->n_readers,
        .n_stacks = m->n_stacks,
        .n_flushes = m->n_flushes,
        .n_walks = m->n_walks,
        .n_masks = m->n_computed,
        .bytes = m->size,
    };
}
