#include "grammar/dfa.h"

enum { LAST_CHAR = 0x10ffff };

bool cr_dfa_spend(cr_dfa_shop *shop, size_t work)
{
    shop->work += work;
    if (shop->work > CR_DFA_MAX_WORK)
        shop->too_large = shop->is_spent = true;
    return !shop->is_spent;
}

/* ---- building ---------------------------------------------------------------------------- */

void cr_dfa_builder_init(cr_dfa_builder *b, cr_dfa_shop *shop)
{
    *b = (cr_dfa_builder){ .shop = shop };
    cr_buf_init(&b->states, shop->arena->host, CR_MEM_SCRATCH);
    cr_buf_init(&b->moves, shop->arena->host, CR_MEM_SCRATCH);
}

void cr_dfa_builder_state(cr_dfa_builder *b, bool accepts)
{
    cr_dfa_state state = { .first = (uint32_t)(b->moves.size / sizeof(cr_dfa_move)),
                           .accepts = accepts };
    if (b->states.size / sizeof state == CR_DFA_MAX_STATES) {
        b->shop->too_large = true;
        b->failed = true;
    }
    b->failed =
        b->failed || !cr_dfa_spend(b->shop, 1) || !cr_buf_append(&b->states, &state, sizeof state);
}

void cr_dfa_builder_move(cr_dfa_builder *b, uint32_t lo, uint32_t hi, uint32_t target)
{
    if (b->failed || lo > hi)
        return;
    /* Surrogates are no characters. */
    if (lo <= 0xdfff && hi >= 0xd800) {
        if (lo < 0xd800)
            cr_dfa_builder_move(b, lo, 0xd7ff, target);
        if (hi > 0xdfff)
            cr_dfa_builder_move(b, 0xe000, hi, target);
        return;
    }
    cr_dfa_state *state =
        (cr_dfa_state *)(void *)(b->states.data + b->states.size - sizeof(cr_dfa_state));
    cr_dfa_move *moves = (cr_dfa_move *)(void *)b->moves.data;
    if (state->n > 0) {
        cr_dfa_move *last = &moves[state->first + state->n - 1];
        if (last->target == target && last->hi + 1 == lo) {
            last->hi = hi;
            return;
        }
    }
    cr_dfa_move move = { lo, hi, target };
    state->n++;
    if (!cr_dfa_spend(b->shop, 1) || !cr_buf_append(&b->moves, &move, sizeof move))
        b->failed = true;
}

/* Marks in keep[] the states from which an end can be reached. Moves go backwards over and over
 * until nothing changes; states are few. */
static void mark_living(const cr_dfa_state *states, const cr_dfa_move *moves, uint32_t n,
                        uint32_t *keep)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = n; i-- > 0;) {
            bool lives = states[i].accepts;
            for (uint32_t m = 0; m < states[i].n && !lives; m++)
                lives = keep[moves[states[i].first + m].target] != 0;
            changed = changed || (lives && keep[i] == 0);
            keep[i] = lives ? 1 : keep[i];
        }
    }
}

static const cr_dfa *trim(cr_dfa_builder *b)
{
    cr_arena *arena = b->shop->arena;
    const cr_dfa_state *states = (const cr_dfa_state *)(const void *)b->states.data;
    const cr_dfa_move *moves = (const cr_dfa_move *)(const void *)b->moves.data;
    uint32_t n = (uint32_t)(b->states.size / sizeof *states);
    size_t n_moves = b->moves.size / sizeof *moves;
    cr_dfa *d = cr_arena_alloc(arena, sizeof *d);
    uint32_t *place = cr_arena_array(arena, n + 1, sizeof *place);
    cr_dfa_state *kept = cr_arena_array(arena, n + 1, sizeof *kept);
    cr_dfa_move *kept_moves = cr_arena_array(arena, n_moves + 1, sizeof *kept_moves);
    if (!d || !place || !kept || !kept_moves)
        return NULL;
    mark_living(states, moves, n, place);
    uint32_t n_kept = 0;
    if (n > 0 && place[0] == 0)
        n = 0;
    for (uint32_t i = 0; i < n; i++)
        place[i] = place[i] != 0 ? ++n_kept : 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (place[i] == 0)
            continue;
        cr_dfa_state *state = &kept[place[i] - 1];
        *state = (cr_dfa_state){ .first = at, .accepts = states[i].accepts };
        for (uint32_t m = 0; m < states[i].n; m++) {
            cr_dfa_move move = moves[states[i].first + m];
            if (place[move.target] == 0)
                continue;
            kept_moves[at++] = (cr_dfa_move){ move.lo, move.hi, place[move.target] - 1 };
            state->n++;
        }
    }
    *d = (cr_dfa){ .states = kept, .moves = kept_moves, .n_states = n_kept };
    return d;
}

const cr_dfa *cr_dfa_builder_finish(cr_dfa_builder *b)
{
    const cr_dfa *d = b->failed ? NULL : trim(b);
    cr_buf_done(&b->states);
    cr_buf_done(&b->moves);
    return d;
}

/* ---- simple sets ------------------------------------------------------------------------- */

const cr_dfa *cr_dfa_length(cr_dfa_shop *shop, uint32_t least, uint32_t most)
{
    cr_dfa_builder b;
    cr_dfa_builder_init(&b, shop);
    uint32_t last = most == UINT32_MAX ? least : most;
    for (uint32_t i = 0; i <= last && !b.failed; i++) {
        cr_dfa_builder_state(&b, i >= least);
        if (i < last)
            cr_dfa_builder_move(&b, 0, LAST_CHAR, i + 1);
        else if (most == UINT32_MAX)
            cr_dfa_builder_move(&b, 0, LAST_CHAR, i);
    }
    return cr_dfa_builder_finish(&b);
}

static bool is_before(cr_str a, cr_str b)
{
    const int order = memcmp(a.data, b.data, CR_MIN(a.size, b.size));
    return order != 0 ? order < 0 : a.size < b.size;
}

/* Shell sort: qsort may allocate. */
void cr_texts_sort(cr_str *texts, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap /= 2) {
        for (size_t i = gap; i < n; i++) {
            const cr_str text = texts[i];
            size_t j = i;
            for (; j >= gap && is_before(text, texts[j - gap]); j -= gap)
                texts[j] = texts[j - gap];
            texts[j] = text;
        }
    }
}

/* Texts [first, end) that are alike up to byte `at`: a state. */
typedef struct shared {
    size_t first, end, at;
} shared;

/* The texts behind the character at `at` of the first one. */
static shared next_shared(const cr_str *texts, shared s, uint32_t *code)
{
    const cr_str one = texts[s.first];
    const size_t n = CR_MAX(cr_utf8_decode(one.data + s.at, one.size - s.at, code), (size_t)1);
    shared next = { .first = s.first, .end = s.first + 1, .at = s.at + n };
    while (next.end < s.end && texts[next.end].size >= next.at &&
           memcmp(texts[next.end].data + s.at, one.data + s.at, n) == 0)
        next.end++;
    return next;
}

const cr_dfa *cr_dfa_texts(cr_dfa_shop *shop, cr_str *texts, size_t n)
{
    cr_texts_sort(texts, n);
    cr_dfa_builder b;
    cr_dfa_builder_init(&b, shop);
    cr_buf queue; /* of shared, in the order of their numbers */
    cr_buf_init(&queue, shop->arena->host, CR_MEM_SCRATCH);
    shared s = { .end = n };
    b.failed = !cr_buf_append(&queue, &s, sizeof s);
    for (size_t i = 0; i < queue.size / sizeof s && !b.failed; i++) {
        s = ((const shared *)(const void *)queue.data)[i];
        const size_t before = s.first;
        while (s.first < s.end && texts[s.first].size == s.at)
            s.first++;
        cr_dfa_builder_state(&b, s.first > before);
        while (s.first < s.end && !b.failed) {
            uint32_t code = 0;
            const shared next = next_shared(texts, s, &code);
            cr_dfa_builder_move(&b, code, code, (uint32_t)(queue.size / sizeof s));
            b.failed = b.failed || !cr_buf_append(&queue, &next, sizeof next);
            s.first = next.end;
        }
    }
    cr_buf_done(&queue);
    return cr_dfa_builder_finish(&b);
}

/* The start, which has no digit yet; then for the whole part, for a point, and for each digit behind it
 * a state per remainder. What is short of n_fraction digits counts as if zeros followed. */
const cr_dfa *cr_dfa_multiples(cr_dfa_shop *shop, uint32_t divisor, uint32_t n_fraction)
{
    cr_dfa_builder b;
    cr_dfa_builder_init(&b, shop);
    uint32_t n_parts = n_fraction > 0 ? n_fraction + 2 : 1;
    for (uint32_t i = 0; i <= divisor * n_parts && !b.failed; i++) {
        uint32_t rest = i > 0 ? (i - 1) % divisor : 0, part = i > 0 ? (i - 1) / divisor : 0;
        uint32_t padded = rest;
        for (uint32_t n = part > 0 ? part - 1 : 0; n < n_fraction; n++)
            padded = padded * 10 % divisor;
        cr_dfa_builder_state(&b, i > 0 && padded == 0);
        if (i > 0 && part == 0 && n_fraction > 0)
            cr_dfa_builder_move(&b, '.', '.', divisor + rest + 1);
        uint32_t next = part > 0 ? part + 1 : 0;
        for (uint32_t digit = 0; digit < 10 && next < n_parts; digit++)
            cr_dfa_builder_move(&b, '0' + digit, '0' + digit,
                                next * divisor + (rest * 10 + digit) % divisor + 1);
    }
    return cr_dfa_builder_finish(&b);
}

/* ---- operations -------------------------------------------------------------------------- */

const cr_dfa *cr_dfa_not(cr_dfa_shop *shop, const cr_dfa *a)
{
    cr_dfa_builder b;
    cr_dfa_builder_init(&b, shop);
    uint32_t sink = a->n_states;
    for (uint32_t i = 0; i < a->n_states; i++) {
        cr_dfa_builder_state(&b, !a->states[i].accepts);
        uint32_t next = 0;
        for (uint32_t m = 0; m < a->states[i].n; m++) {
            cr_dfa_move move = a->moves[a->states[i].first + m];
            if (move.lo > next)
                cr_dfa_builder_move(&b, next, move.lo - 1, sink);
            cr_dfa_builder_move(&b, move.lo, move.hi, move.target);
            next = move.hi + 1;
        }
        cr_dfa_builder_move(&b, next, LAST_CHAR, sink);
    }
    cr_dfa_builder_state(&b, true);
    cr_dfa_builder_move(&b, 0, LAST_CHAR, sink);
    return cr_dfa_builder_finish(&b);
}

/* Pairs of states, numbered as they are met. */
typedef struct pairs {
    uint64_t *pair;  /* [most] in the order of their numbers */
    uint32_t *slots; /* [2 * most] number + 1 */
    uint32_t n, most;
} pairs;

static uint32_t number_of(pairs *p, uint32_t x, uint32_t y)
{
    uint64_t pair = (uint64_t)x << 32 | y;
    uint32_t slot = (uint32_t)(pair * UINT64_C(0x9e3779b97f4a7c15) >> 32) % (2 * p->most);
    for (; p->slots[slot] != 0; slot = (slot + 1) % (2 * p->most)) {
        if (p->pair[p->slots[slot] - 1] == pair)
            return p->slots[slot] - 1;
    }
    if (p->n == p->most)
        return UINT32_MAX;
    p->slots[slot] = p->n + 1;
    p->pair[p->n] = pair;
    return p->n++;
}

const cr_dfa *cr_dfa_and(cr_dfa_shop *shop, const cr_dfa *a, const cr_dfa *b)
{
    const uint64_t n_pairs = (uint64_t)a->n_states * b->n_states;
    pairs p = { .most = (uint32_t)CR_MIN(n_pairs, (uint64_t)CR_DFA_MAX_STATES) };
    cr_dfa_builder to;
    cr_dfa_builder_init(&to, shop);
    cr_buf scratch;
    cr_buf_init(&scratch, shop->arena->host, CR_MEM_SCRATCH);
    const size_t slots_size = (size_t)2 * p.most * sizeof *p.slots;
    to.failed = !cr_buf_reserve(&scratch, p.most * sizeof *p.pair + slots_size);
    if (p.most > 0 && !to.failed) {
        p.pair = (uint64_t *)(void *)scratch.data;
        p.slots = (uint32_t *)(void *)(p.pair + p.most);
        memset(p.slots, 0, slots_size);
        number_of(&p, 0, 0);
    }
    for (uint32_t i = 0; i < p.n && !to.failed; i++) {
        const cr_dfa_state *x = &a->states[p.pair[i] >> 32], *y = &b->states[(uint32_t)p.pair[i]];
        cr_dfa_builder_state(&to, x->accepts && y->accepts);
        cr_dfa_spend(shop, x->n + y->n);
        for (uint32_t m = 0, n = 0; m < x->n && n < y->n;) {
            cr_dfa_move s = a->moves[x->first + m], t = b->moves[y->first + n];
            uint32_t lo = CR_MAX(s.lo, t.lo), hi = CR_MIN(s.hi, t.hi);
            if (lo <= hi) {
                uint32_t target = number_of(&p, s.target, t.target);
                if (target == UINT32_MAX)
                    shop->too_large = to.failed = true;
                cr_dfa_builder_move(&to, lo, hi, target);
            }
            if (s.hi < t.hi)
                m++;
            else
                n++;
        }
    }
    cr_buf_done(&scratch);
    return cr_dfa_builder_finish(&to);
}

bool cr_dfa_accepts(const cr_dfa *a, cr_str text)
{
    if (a->n_states == 0)
        return false;
    uint32_t state = 0;
    for (size_t at = 0; at < text.size;) {
        uint32_t code = 0, next = UINT32_MAX;
        at += CR_MAX(cr_utf8_decode(text.data + at, text.size - at, &code), (size_t)1);
        for (uint32_t m = 0; m < a->states[state].n; m++) {
            cr_dfa_move move = a->moves[a->states[state].first + m];
            next = move.lo <= code && code <= move.hi ? move.target : next;
        }
        if (next == UINT32_MAX)
            return false;
        state = next;
    }
    return a->states[state].accepts;
}
