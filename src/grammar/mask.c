/* Masks: which tokens a state allows.
 *
 * A walk over the tree of tokens steps from state to state and leaves out the subtree of every byte
 * that leads nowhere. Four things keep it short:
 *
 * - Where all characters of some groups (letters; anything but a quote) lead on alike, up to `run`
 *   of them in a row, the tokens made of at most so many are taken as one set, at the root of the
 *   tree and behind a blank; elsewhere a subtree that has only those is taken whole.
 *   Subtrees with nothing but those and characters that end the run at once are not entered.
 * - A walk from a state that takes the same steps as an earlier one from another state finds the
 *   same tokens. The steps are kept with a mask, and there are few different ones.
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
    return table->n_words * sizeof(uint64_t) + CR_MAX_ESCAPES * sizeof(uint32_t) +
           CR_MAX_STEPS * sizeof(cr_walk_step);
}

void cr_mask_forget(cr_matcher *m)
{
    for (uint32_t i = 0; i < m->n_masks; i++)
        m->masks[i].made = 0;
}

/* ---- runs of characters ------------------------------------------------------------------ */

typedef enum answer { NO, YES, NO_ROOM } answer;

/* Whether all characters of path, from byte i on, lead to `wanted`. */
static answer follow(cr_matcher *m, uint32_t state, const cr_byte_path *path, int i,
                     uint32_t wanted)
{
    if (state == CR_STATE_FULL)
        return NO_ROOM;
    if (i >= path->n || state == CR_STATE_DEAD)
        return state == wanted ? YES : NO;
    int last_class = -1;
    for (int byte = path->lo[i]; byte <= path->hi[i]; byte++) {
        if (m->a->class_of[byte] == last_class)
            continue;
        last_class = m->a->class_of[byte];
        answer all = follow(m, cr_matcher_next(m, state, (uint8_t)byte), path, i + 1, wanted);
        if (all != YES)
            return all;
    }
    return YES;
}

/* Where all characters outside ASCII lead; CR_STATE_UNKNOWN: not to one place; CR_STATE_FULL. Mostly
 * each node says so for its readers: a state for every byte of a character would cost more than
 * the rest of a mask. */
static uint32_t unicode_successor(cr_matcher *m, uint32_t state)
{
    const cr_state *s = &m->states[state];
    bool is_mixed = false;
    cr_matcher_begin(m);
    for (uint32_t i = 0; i < s->n && !is_mixed; i++) {
        cr_reader reader = m->readers[s->first + i];
        uint32_t target = m->a->nodes[reader.node].unicode;
        is_mixed = target == CR_UNICODE_MIXED;
        if (target < CR_UNICODE_MIXED)
            cr_matcher_add(m, target, reader.stack);
    }
    if (!is_mixed)
        return cr_matcher_close(m);
    uint32_t wanted = state;
    for (int i = 0; i < cr_unicode_paths[0].n && wanted != CR_STATE_FULL; i++)
        wanted = cr_matcher_next(m, wanted, cr_unicode_paths[0].lo[i]);
    answer all = wanted != CR_STATE_FULL ? YES : NO_ROOM;
    for (size_t i = 0; i < CR_N_UNICODE_PATHS && all == YES; i++)
        all = follow(m, state, &cr_unicode_paths[i], 0, wanted);
    return all == YES ? wanted : all == NO ? CR_STATE_UNKNOWN : CR_STATE_FULL;
}

/* Where most ASCII characters lead, by majority vote: what more than half of the living bytes lead
 * to is left; else one of them; CR_STATE_DEAD when none lives. */
static uint32_t main_successor(const uint32_t next[128])
{
    uint32_t leader = CR_STATE_DEAD;
    int lead = 0;
    for (int byte = 0; byte < 128; byte++) {
        if (next[byte] == CR_STATE_DEAD)
            continue;
        if (lead == 0)
            leader = next[byte];
        lead += next[byte] == leader ? 1 : -1;
    }
    return leader;
}

/* Groups whose characters all lead to `wanted`. */
static uint64_t groups_to(const cr_matcher *m, const uint32_t next[129], uint32_t wanted)
{
    uint64_t some = 0, others = 0;
    for (int byte = 0; byte <= 128; byte++)
        *(next[byte] == wanted ? &some : &others) |= UINT64_C(1) << m->table->group_of[byte];
    return some & ~others;
}

/* Sets the state's groups; false when there is no room. */
static bool find_groups(cr_matcher *m, uint32_t state)
{
    cr_state *s = &m->states[state];
    if (s->after != CR_STATE_UNKNOWN)
        return true;
    uint32_t next[129]; /* by ASCII character; the last one is for all others */
    for (int byte = 0; byte < 128; byte++) {
        bool is_alike = byte > 0 && m->a->class_of[byte] == m->a->class_of[byte - 1];
        next[byte] = is_alike ? next[byte - 1] : cr_matcher_next(m, state, (uint8_t)byte);
        if (next[byte] == CR_STATE_FULL)
            return false;
    }
    next[128] = unicode_successor(m, state);
    if (next[128] == CR_STATE_FULL)
        return false;
    s->after = main_successor(next);
    s->groups = s->after != CR_STATE_DEAD ? groups_to(m, next, s->after) : 0;
    s->dead = s->escapes ? 0 : groups_to(m, next, CR_STATE_DEAD);
    return true;
}

/* Sets the state's run; false when there is no room. */
static bool find_run(cr_matcher *m, uint32_t state)
{
    uint32_t chain[CR_RUN_MAX], n = 0;
    uint64_t groups = 0;        /* of the state before */
    uint64_t dead = UINT64_MAX; /* in the chain so far */
    int run = 0;
    bool is_cut = false;
    /* Along the chain of states that have the groups of those before them. */
    uint32_t at = state;
    for (;; at = m->states[at].after) {
        const cr_state *s = &m->states[at];
        if (!find_groups(m, at))
            return false;
        dead &= s->dead;
        if ((groups & ~s->groups) != 0) {
            is_cut = (groups & ~s->dead) == 0;
            break;
        }
        if (s->run != CR_RUN_UNKNOWN) {
            run = s->run;
            is_cut = s->is_cut && !s->escapes;
            break;
        }
        if (n == CR_RUN_MAX) {
            m->states[state].run = CR_RUN_MAX;
            m->states[state].dead = dead;
            return true;
        }
        chain[n++] = at;
        groups = s->groups;
        if (groups == 0)
            break;
        if (s->after == at) {
            run = CR_RUN_ENDLESS;
            break;
        }
    }
    dead = m->states[at].dead;
    while (n-- > 0) {
        cr_state *s = &m->states[chain[n]];
        is_cut = is_cut && run < CR_RUN_MAX;
        if (run != CR_RUN_ENDLESS)
            run = s->groups == 0 ? 0 : CR_MIN(run + 1, (int)CR_RUN_MAX);
        s->run = (uint8_t)run;
        dead &= s->dead;
        s->dead = dead;
        s->is_cut = is_cut;
        is_cut = is_cut && !s->escapes;
    }
    return true;
}

static inline bool know_run(cr_matcher *m, uint32_t state)
{
    return m->states[state].run != CR_RUN_UNKNOWN || find_run(m, state);
}

/* The tokens that have characters of these groups only. */
static const uint64_t *group_tokens(cr_matcher *m, const cr_token_runs *runs, uint64_t groups)
{
    cr_group_tokens *place = &m->group_tokens[0];
    for (int i = 0; i < CR_N_GROUP_TOKENS; i++) {
        cr_group_tokens *other = &m->group_tokens[i];
        if (other->runs == runs && other->groups == groups) {
            other->used = ++m->clock;
            return other->bits;
        }
        if (place->runs && (!other->runs || other->used < place->used))
            place = other;
    }
    *place = (cr_group_tokens){ runs, groups, ++m->clock, place->bits };
    size_t n_words = m->table->n_words;
    memset(place->bits, 0, n_words * sizeof *place->bits);
    for (int g = 0; g < CR_N_GROUPS; g++) {
        const uint64_t *has = (groups >> g & 1) == 0 ? runs->has[g] : NULL;
        for (size_t i = 0; i < n_words && has; i++)
            place->bits[i] |= has[i];
    }
    for (size_t i = 0; i < n_words; i++)
        place->bits[i] = ~place->bits[i];
    return place->bits;
}

/* Adds the tokens that are runs from this state on. */
static void take_runs(cr_matcher *m, const cr_token_runs *runs, const cr_state *state,
                      uint64_t *bits)
{
    const uint64_t *in_groups = group_tokens(m, runs, state->groups);
    const uint64_t *upto = runs->upto[state->run];
    for (size_t i = 0; i < m->table->n_words; i++)
        bits[i] |= in_groups[i] & upto[i];
}

/* Characters along a path that has left the run. */
enum { OFF = 0xff };

/* ---- walking ----------------------------------------------------------------------------- */

enum {
    MIN_WHOLE = 8, /* nodes of a subtree that a look at its groups is worth while for */
};

typedef struct walk {
    uint64_t *bits;
    cr_mask *notes; /* where escapes are noted; NULL: the stacks are whole */
    bool too_many;  /* of them */
    cr_mask *steps; /* where steps are noted; NULL: nowhere */
} walk;

static void note_step(cr_matcher *m, size_t place, cr_walk_step step, cr_mask *mask)
{
    if (mask->n_steps < CR_MAX_STEPS) {
        mask->steps[mask->n_steps] = step;
        cr_bit_set(m->stepped, (uint32_t)place);
    }
    if (mask->n_steps <= CR_MAX_STEPS)
        mask->n_steps++;
}

static void end_steps(cr_matcher *m, const cr_mask *mask)
{
    for (uint32_t i = 0; i < CR_MIN(mask->n_steps, (uint32_t)CR_MAX_STEPS); i++) {
        const cr_walk_step *step = &mask->steps[i];
        size_t place = (size_t)step->from * m->a->n_classes + m->a->class_of[step->byte];
        m->stepped[place / 64] &= ~(UINT64_C(1) << (place % 64));
    }
}

/* Walks what is below a node at which the state is m->path[depth of the node]. False when there is
 * no room for a state. */
static bool walk_below(cr_matcher *m, uint32_t base, walk *w)
{
    const cr_token_table *t = m->table;
    const uint8_t *class_of = m->a->class_of;
    size_t n_classes = m->a->n_classes;
    uint32_t depth = t->nodes[base].depth, end = base + t->nodes[base].skip;
    const cr_state *first = &m->states[m->path[depth]];
    m->chars[depth] = OFF;
    if (base == 0 || base == t->after_blank) {
        if (!know_run(m, m->path[depth]))
            return false;
        if (first->run > 0) {
            take_runs(m, &t->runs[base == 0 ? 0 : 1], first, w->bits);
            m->chars[depth] = 0;
        }
    }
    for (uint32_t i = base + 1; i < end;) {
        const cr_trie_node *node = &t->nodes[i];
        uint8_t chars = m->chars[node->depth - 1];
        if (chars != OFF) {
            if ((t->sets[node->set] & ~(first->groups | first->dead)) == 0 &&
                (chars + node->longest <= first->run || first->is_cut ||
                 first->run == CR_RUN_ENDLESS)) {
                i += node->skip;
                continue;
            }
            chars = (uint8_t)(chars + (cr_is_lead(node->byte) ? 1 : 0));
            if ((first->groups >> t->group_of[node->byte] & 1) == 0 || chars > first->run)
                chars = OFF;
        }
        m->chars[node->depth] = chars;
        uint32_t parent = m->path[node->depth - 1];
        if (chars == OFF && node->skip >= MIN_WHOLE) {
            const cr_state *s = &m->states[parent];
            if (!know_run(m, parent))
                return false;
            if ((t->sets[node->set] & ~s->groups) == 0 && node->longest <= s->run) {
                for (uint32_t behind = i + node->skip; i < behind; i++)
                    cr_trie_take(t, t->nodes[i].token, w->bits);
                continue;
            }
        }
        size_t place = parent * n_classes + class_of[node->byte];
        uint32_t state = m->next[place];
        if (CR_UNLIKELY(state == CR_STATE_UNKNOWN)) {
            state = cr_matcher_step(m, parent, node->byte);
            if (state == CR_STATE_FULL)
                return false;
        }
        if (w->steps && !cr_bit_get(m->stepped, (uint32_t)place))
            note_step(m, place, (cr_walk_step){ parent, state, node->byte }, w->steps);
        if (state == CR_STATE_DEAD) {
            i += node->skip;
            continue;
        }
        m->path[node->depth] = state;
        cr_trie_take(t, node->token, w->bits);
        if (w->notes && m->states[state].escapes && node->skip > 1) {
            if (w->notes->n_escapes == CR_MAX_ESCAPES) {
                w->too_many = true;
                return true;
            }
            w->notes->escapes[w->notes->n_escapes++] = i;
        }
        /* What begins with a blank has sets of its own, where more may follow the blank than it. */
        if (base == 0 && i == t->after_blank &&
            (chars == OFF || !know_run(m, state) ||
             (m->states[state].groups & ~first->groups) != 0)) {
            if (!walk_below(m, i, w))
                return false;
            if (w->too_many)
                return true;
            i += node->skip;
            continue;
        }
        i++;
    }
    return true;
}

/* All tokens from a state. */
static bool walk_all(cr_matcher *m, uint32_t state, walk *w)
{
    m->n_walks++;
    m->path[0] = state;
    bool room = walk_below(m, 0, w);
    if (w->steps)
        end_steps(m, w->steps);
    return room;
}

/* ---- the same walk from another state ---------------------------------------------------- */

/* Whether a walk goes on alike from both, as far as it depends on the states themselves. */
static answer is_alike(cr_matcher *m, uint32_t a, uint32_t b)
{
    const cr_state *x = &m->states[a], *y = &m->states[b];
    if (a == b)
        return YES;
    if (x->escapes != y->escapes)
        return NO;
    if (x->run == CR_RUN_UNKNOWN)
        return YES;
    if (!know_run(m, b))
        return NO_ROOM;
    return x->groups == y->groups && x->run == y->run && x->is_cut == y->is_cut &&
                   (x->dead & ~y->dead) == 0
               ? YES
               : NO;
}

/* Whether the walk that made the mask takes the same steps from this state: each state on the way has
 * one here that stands for it. Then the mask is the same, too. In a counted repetition most states
 * are alike but for the number of rounds left, which no token sees. */
static answer is_same_walk(cr_matcher *m, const cr_mask *mask, uint32_t state)
{
    if (++m->n_compared == 0) {
        memset(m->image_at, 0, m->max_states * sizeof *m->image_at);
        m->n_compared = 1;
    }
    answer alike = is_alike(m, mask->state, state);
    m->image[mask->state] = state;
    m->image_at[mask->state] = m->n_compared;
    for (uint32_t i = 0; i < mask->n_steps && alike == YES; i++) {
        const cr_walk_step *step = &mask->steps[i];
        uint32_t to = cr_matcher_next(m, m->image[step->from], step->byte);
        if (to == CR_STATE_FULL)
            return NO_ROOM;
        if (to == CR_STATE_DEAD || step->to == CR_STATE_DEAD) {
            alike = to == step->to ? YES : NO;
        } else if (m->image_at[step->to] == m->n_compared) {
            alike = m->image[step->to] == to ? YES : NO;
        } else {
            m->image[step->to] = to;
            m->image_at[step->to] = m->n_compared;
            alike = is_alike(m, step->to, to);
        }
    }
    return alike;
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

static cr_mask *kept_mask(cr_matcher *m, uint32_t state, int kind)
{
    const cr_state *s = &m->states[state];
    cr_mask *mask = &m->masks[s->mask[kind].place];
    if (s->mask[kind].made == 0 || mask->made != s->mask[kind].made)
        return NULL;
    mask->used = ++m->clock;
    return mask;
}

static void keep_mask(cr_matcher *m, uint32_t state, cr_mask *mask)
{
    mask->used = ++m->clock;
    m->states[state].mask[mask->kind].place = (uint32_t)(mask - m->masks);
    m->states[state].mask[mask->kind].made = mask->made;
}

/* Takes the place that was used longest ago. */
static cr_mask *take_place(cr_matcher *m, uint32_t state, int kind)
{
    cr_mask *oldest = &m->masks[0];
    for (uint32_t i = 0; i < m->n_masks && oldest->made != 0; i++) {
        if (m->masks[i].made == 0 || m->masks[i].used < oldest->used)
            oldest = &m->masks[i];
    }
    m->n_made = CR_MAX(m->n_made + 1, 1u);
    oldest->made = m->n_made;
    oldest->state = state;
    oldest->kind = kind;
    oldest->n_escapes = 0;
    oldest->n_steps = 0;
    memset(oldest->bits, 0, m->table->n_words * sizeof *oldest->bits);
    keep_mask(m, state, oldest);
    return oldest;
}

/* A mask of another state that has to be the same; NULL: none is known. *room is false when there
 * was no room to compare. */
static cr_mask *equal_mask(cr_matcher *m, uint32_t state, int kind, bool *room)
{
    enum { MAX_TRIES = 64 };
    *room = know_run(m, state);
    const cr_state *s = &m->states[state];
    int tries = 0;
    for (uint32_t i = 0; i < m->n_masks && *room && tries < MAX_TRIES; i++) {
        cr_mask *mask = &m->masks[i];
        const cr_state *other = &m->states[mask->state];
        if (mask->made == 0 || mask->kind != kind || mask->n_steps > CR_MAX_STEPS ||
            other->may_end != s->may_end || other->groups != s->groups || other->run != s->run)
            continue;
        tries++;
        answer same = is_same_walk(m, mask, state);
        *room = same != NO_ROOM;
        if (same != YES)
            continue;
        keep_mask(m, state, mask);
        return mask;
    }
    return NULL;
}

typedef enum outcome { DONE, FULL, TOO_MANY } outcome;

/* A mask from one walk: local, the stacks are cut, with the places where it escapes; else all of it. */
static outcome walked_mask(cr_matcher *m, uint32_t state, int kind, cr_mask **out)
{
    bool room = true;
    *out = kind == CR_MASK_LOCAL ? kept_mask(m, state, kind) : NULL;
    if (!*out)
        *out = equal_mask(m, state, kind, &room);
    if (*out || !room)
        return *out ? DONE : FULL;
    cr_mask *mask = take_place(m, state, kind);
    walk w = { .bits = mask->bits, .notes = kind == CR_MASK_LOCAL ? mask : NULL, .steps = mask };
    room = walk_all(m, state, &w);
    /* Tokens that are named depend on more than steps. */
    if (kind == CR_MASK_FULL && m->a->has_tokens)
        mask->n_steps = CR_MAX_STEPS + 1;
    if (room && !w.too_many) {
        *out = mask;
        return DONE;
    }
    mask->made = 0;
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
        if (!walk_below(m, at, &w))
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

/* What a walk does not know: tokens that the grammar names, and the end. */
static void finish_mask(cr_matcher *m, uint32_t state, cr_mask *mask)
{
    if (m->a->has_tokens)
        add_references(m, &m->states[state], mask->bits);
    for (size_t i = 0; i < m->table->n_ends && m->states[state].may_end; i++)
        cr_bit_set(mask->bits, (uint32_t)m->table->ends[i]);
}

static outcome full_mask(cr_matcher *m, uint32_t state, cr_mask **out)
{
    *out = kept_mask(m, state, CR_MASK_FULL);
    if (*out)
        return DONE;
    m->n_computed++;
    uint32_t shared = CR_STACK_END, cut = CR_STATE_DEAD;
    if (m->states[state].n > 0)
        cut = cut_state(m, state, &shared);
    if (cut == CR_STATE_FULL && m->too_wide)
        return FULL;
    cr_mask *local = NULL;
    if (cut != CR_STATE_DEAD && cut != CR_STATE_FULL &&
        walked_mask(m, cut, CR_MASK_LOCAL, &local) == FULL)
        return FULL;
    if (!local) {
        outcome made = walked_mask(m, state, CR_MASK_FULL, out);
        if (made == DONE)
            finish_mask(m, state, *out);
        return made;
    }
    cr_mask *mask = take_place(m, state, CR_MASK_FULL);
    memcpy(mask->bits, local->bits, m->table->n_words * sizeof *mask->bits);
    mask->n_steps = CR_MAX_STEPS + 1;
    if (!add_beyond(m, local, shared, mask->bits)) {
        mask->made = 0;
        return FULL;
    }
    finish_mask(m, state, mask);
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
        if (!walk_below(m, i, &w))
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
