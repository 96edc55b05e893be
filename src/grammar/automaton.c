/* Building an automaton, and what must hold of one: rules end, and none calls itself before it has
 * read something. */
#include "grammar/automaton.h"

#include "base/arith.h"

#include <assert.h>

void cr_automaton_free(cr_automaton *automaton)
{
    if (!automaton)
        return;
    cr_host *host = automaton->host;
    cr_arena_done(&automaton->arena);
    cr_free(host, CR_MEM_OBJECT, automaton, sizeof *automaton);
}

/* ---- pieces ------------------------------------------------------------------------------ */

void cr_builder_init(cr_builder *b, cr_host *host)
{
    *b = (cr_builder){ .host = host };
    cr_buf_init(&b->nodes, host, CR_MEM_SCRATCH);
    cr_buf_init(&b->edges, host, CR_MEM_SCRATCH);
    cr_buf_init(&b->rules, host, CR_MEM_SCRATCH);
}

void cr_builder_done(cr_builder *b)
{
    cr_buf_done(&b->nodes);
    cr_buf_done(&b->edges);
    cr_buf_done(&b->rules);
}

bool cr_builder_ok(const cr_builder *b)
{
    return !b->no_memory && !b->too_large;
}

/* Appends a piece; its number, or 0. */
static uint32_t append(cr_builder *b, cr_buf *to, const void *piece, size_t size, size_t most)
{
    if (!cr_builder_ok(b))
        return 0;
    size_t n = to->size / size;
    if (n >= most) {
        b->too_large = true;
        return 0;
    }
    if (!cr_buf_append(to, piece, size)) {
        b->no_memory = true;
        return 0;
    }
    return (uint32_t)n;
}

uint32_t cr_builder_rule(cr_builder *b, cr_str name, uint32_t owner)
{
    cr_grammar_rule rule = { .name = name, .owner = owner };
    uint32_t id = append(b, &b->rules, &rule, sizeof rule, CR_MAX_NODES);
    uint32_t start = cr_builder_node(b, id);
    if (!cr_builder_ok(b))
        return 0;
    cr_builder_get_rule(b, id)->start = start;
    if (name.size > 0)
        cr_builder_get_rule(b, id)->owner = id;
    return id;
}

uint32_t cr_builder_node(cr_builder *b, uint32_t rule)
{
    cr_node node = { .rule = rule };
    return append(b, &b->nodes, &node, sizeof node, CR_MAX_NODES);
}

void cr_builder_edge(cr_builder *b, uint32_t from, cr_edge edge)
{
    cr_build_edge piece = { .from = from, .edge = edge };
    append(b, &b->edges, &piece, sizeof piece, (size_t)CR_MAX_NODES * 4);
}

cr_grammar_rule *cr_builder_get_rule(const cr_builder *b, uint32_t rule)
{
    return (cr_grammar_rule *)(void *)b->rules.data + rule;
}

cr_node *cr_builder_get_node(const cr_builder *b, uint32_t node)
{
    return (cr_node *)(void *)b->nodes.data + node;
}

/* ---- from pieces to the automaton -------------------------------------------------------- */

static cera_status no_memory(cera_error *err)
{
    return cr_fail_nomem(err, 0, "a grammar");
}

/* Sorts the edges by node, and copies all that lasts. */
static cera_status copy_pieces(const cr_builder *b, cr_automaton *a, cera_error *err)
{
    a->n_nodes = (uint32_t)(b->nodes.size / sizeof(cr_node));
    a->n_edges = (uint32_t)(b->edges.size / sizeof(cr_build_edge));
    a->n_rules = (uint32_t)(b->rules.size / sizeof(cr_grammar_rule));
    a->nodes = cr_arena_array(&a->arena, a->n_nodes + 1, sizeof *a->nodes);
    a->edges = cr_arena_array(&a->arena, a->n_edges + 1, sizeof *a->edges);
    a->rules = cr_arena_array(&a->arena, a->n_rules + 1, sizeof *a->rules);
    if (!a->nodes || !a->edges || !a->rules)
        return no_memory(err);
    memcpy(a->nodes, b->nodes.data, b->nodes.size);
    memcpy(a->rules, b->rules.data, b->rules.size);
    const cr_build_edge *edges = (const cr_build_edge *)(const void *)b->edges.data;
    for (uint32_t i = 0; i < a->n_edges; i++)
        a->nodes[edges[i].from].n_edges++;
    uint32_t at = 0;
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        a->nodes[i].edges = at;
        at += a->nodes[i].n_edges;
        a->nodes[i].n_edges = 0;
    }
    for (uint32_t i = 0; i < a->n_edges; i++) {
        cr_node *node = &a->nodes[edges[i].from];
        a->edges[node->edges + node->n_edges++] = edges[i].edge;
    }
    for (uint32_t i = 0; i < a->n_rules; i++) {
        cr_grammar_rule *rule = &a->rules[i];
        const char *name =
            cr_arena_copy(&a->arena, rule->name.data ? rule->name.data : "", rule->name.size);
        if (!name)
            return no_memory(err);
        rule->name.data = name;
    }
    return CERA_OK;
}

/* Where an edge leads without reading anything, it may as well lead there at once. */
static void shorten(cr_automaton *a)
{
    for (uint32_t i = 0; i < a->n_edges; i++) {
        uint32_t target = a->edges[i].target;
        for (int steps = 0; steps < 64; steps++) {
            const cr_node *node = &a->nodes[target];
            if (node->returns || node->n_edges != 1 || a->edges[node->edges].kind != CR_EDGE_EMPTY)
                break;
            target = a->edges[node->edges].target;
        }
        a->edges[i].target = target;
    }
}

static void find_classes(cr_automaton *a)
{
    bool begins[257] = { [0] = true };
    for (uint32_t i = 0; i < a->n_edges; i++) {
        if (a->edges[i].kind == CR_EDGE_BYTES)
            begins[a->edges[i].lo] = begins[a->edges[i].hi + 1] = true;
        else if (a->edges[i].kind == CR_EDGE_TOKEN || a->edges[i].kind == CR_EDGE_NOT_TOKEN)
            a->has_tokens = true;
    }
    int n = -1;
    for (int byte = 0; byte < 256; byte++) {
        n += begins[byte] ? 1 : 0;
        a->class_of[byte] = (uint8_t)n;
    }
    a->n_classes = (uint32_t)n + 1;
}

/* ---- properties of rules ----------------------------------------------------------------- */

/* Marks from the start of every rule what can be reached in it, going over a call when the called
 * rule is known to end. */
typedef struct spread {
    const cr_automaton *a;
    bool reads;      /* edges that read something are gone over too */
    bool *marked;    /* [n_nodes] */
    bool *ends;      /* [n_rules] a node where the rule may end was marked */
    uint32_t *queue; /* [n_nodes] marked, to look at */
    uint32_t n_queue;
    /* Calls of a rule whose node is marked, waiting for the rule to end: lists through `next`. */
    uint32_t *waiting; /* [n_rules] edge + 1 */
    uint32_t *next;    /* [n_edges] edge + 1 */
} spread;

static void mark(spread *s, uint32_t node)
{
    if (!s->marked[node]) {
        s->marked[node] = true;
        s->queue[s->n_queue++] = node;
    }
}

static void go_over(spread *s, uint32_t i_edge)
{
    const cr_edge *edge = &s->a->edges[i_edge];
    if (edge->kind == CR_EDGE_EMPTY || (edge->kind != CR_EDGE_CALL && s->reads)) {
        mark(s, edge->target);
    } else if (edge->kind == CR_EDGE_CALL && s->ends[edge->value]) {
        mark(s, edge->target);
    } else if (edge->kind == CR_EDGE_CALL) {
        s->next[i_edge] = s->waiting[edge->value];
        s->waiting[edge->value] = i_edge + 1;
    }
}

/* A node is in the queue once at most, because it is marked once. */
static void run_spread(spread *s)
{
    for (uint32_t i = 0; i < s->a->n_rules; i++)
        mark(s, s->a->rules[i].start);
    for (uint32_t at = 0; at < s->n_queue; at++) {
        const cr_node *node = &s->a->nodes[s->queue[at]];
        for (uint32_t i = 0; i < node->n_edges; i++)
            go_over(s, node->edges + i);
        if (!node->returns || s->ends[node->rule])
            continue;
        s->ends[node->rule] = true;
        for (uint32_t i = s->waiting[node->rule]; i != 0; i = s->next[i - 1])
            mark(s, s->a->edges[i - 1].target);
    }
}

static bool new_spread(cr_automaton *a, bool reads, spread *s)
{
    *s = (spread){ .a = a, .reads = reads };
    s->marked = cr_arena_array(&a->arena, a->n_nodes + 1, sizeof *s->marked);
    s->ends = cr_arena_array(&a->arena, a->n_rules + 1, sizeof *s->ends);
    s->queue = cr_arena_array(&a->arena, a->n_nodes + 1, sizeof *s->queue);
    s->waiting = cr_arena_array(&a->arena, a->n_rules + 1, sizeof *s->waiting);
    s->next = cr_arena_array(&a->arena, a->n_edges + 1, sizeof *s->next);
    if (!s->marked || !s->ends || !s->queue || !s->waiting || !s->next)
        return false;
    run_spread(s);
    return true;
}

static cera_status fail_rule(const cr_automaton *a, uint32_t id, const char *what, cera_error *err)
{
    const cr_grammar_rule *rule = &a->rules[a->rules[id].owner];
    return cr_fail(err, CERA_E_FORMAT, "grammar: line %u, column %u, rule \"%.*s\": %s", rule->line,
                   rule->column, (int)CR_MIN(rule->name.size, (size_t)64), rule->name.data, what);
}

/* Rules that a walk over calls meets. A walk keeps its place in each rule as an edge number, so that
 * ten thousand rules that call each other need no stack of ours. */
typedef struct walk {
    uint32_t *path;  /* [n_rules] rules being walked */
    uint32_t *place; /* [n_rules] the next call to look at, in calls[] */
    uint8_t *state;  /* [n_rules] 0 new, 1 on the path, 2 done */
    uint32_t *first; /* [n_rules + 1] into calls */
    uint32_t *calls; /* called rules, by the calling one */
} walk;

/* The calls of each rule: all, or those from nodes in `only`. */
static bool new_walk(cr_automaton *a, const bool *only, walk *w)
{
    w->path = cr_arena_array(&a->arena, a->n_rules + 1, sizeof *w->path);
    w->place = cr_arena_array(&a->arena, a->n_rules + 1, sizeof *w->place);
    w->state = cr_arena_array(&a->arena, a->n_rules + 1, sizeof *w->state);
    w->first = cr_arena_array(&a->arena, a->n_rules + 2, sizeof *w->first);
    w->calls = cr_arena_array(&a->arena, a->n_edges + 1, sizeof *w->calls);
    if (!w->path || !w->place || !w->state || !w->first || !w->calls)
        return false;
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t n = 0; n < a->n_nodes; n++) {
            const cr_node *node = &a->nodes[n];
            for (uint32_t i = 0; i < node->n_edges && (!only || only[n]); i++) {
                const cr_edge *edge = &a->edges[node->edges + i];
                if (edge->kind != CR_EDGE_CALL)
                    continue;
                if (fill)
                    w->calls[w->place[node->rule]++] = edge->value;
                else
                    w->first[node->rule + 1]++;
            }
        }
        for (uint32_t r = 0; r < a->n_rules; r++) {
            if (!fill)
                w->first[r + 1] += w->first[r];
            w->place[r] = w->first[r];
        }
    }
    return true;
}

/* Walks from `root`, depth first. Returns the rule that closes a circle, or n_rules. */
static uint32_t run_walk(const cr_automaton *a, walk *w, uint32_t root)
{
    if (w->state[root] != 0)
        return a->n_rules;
    uint32_t depth = 0;
    w->path[depth++] = root;
    w->state[root] = 1;
    uint32_t circle = a->n_rules;
    while (depth > 0) {
        uint32_t rule = w->path[depth - 1];
        if (w->place[rule] == w->first[rule + 1]) {
            w->state[rule] = 2;
            depth--;
            continue;
        }
        uint32_t called = w->calls[w->place[rule]++];
        if (w->state[called] == 1)
            circle = called;
        if (w->state[called] != 0)
            continue;
        w->state[called] = 1;
        w->path[depth++] = called;
    }
    return circle;
}

/* ---- where a text may end ------------------------------------------------------------------ */

/* Marks the nodes from which their rule may end with nothing read: backwards, from those where it
 * does. queue: [n_nodes]; first: [n_nodes + 1], into `from`; from: [n_edges]. */
static void find_returns(const cr_automaton *a, bool *returns, uint32_t *queue, uint32_t *first,
                         uint32_t *from)
{
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t n = 0; n < a->n_nodes; n++) {
            for (uint32_t i = 0; i < a->nodes[n].n_edges; i++) {
                const cr_edge *edge = &a->edges[a->nodes[n].edges + i];
                const bool is_free = edge->kind == CR_EDGE_CALL ? a->rules[edge->value].is_empty
                                                                : edge->kind == CR_EDGE_EMPTY;
                if (is_free && fill)
                    from[--first[edge->target]] = n;
                else if (is_free)
                    first[edge->target]++;
            }
        }
        for (uint32_t n = 1; n <= a->n_nodes && !fill; n++)
            first[n] += first[n - 1];
    }
    uint32_t n_queue = 0;
    for (uint32_t n = 0; n < a->n_nodes; n++) {
        returns[n] = a->nodes[n].returns;
        if (returns[n])
            queue[n_queue++] = n;
    }
    for (uint32_t at = 0; at < n_queue; at++) {
        for (uint32_t i = first[queue[at]]; i < first[queue[at] + 1]; i++) {
            if (!returns[from[i]])
                queue[n_queue++] = from[i];
            returns[from[i]] = true;
        }
    }
}

/* Marks the rules behind which something must follow somewhere. queue: [n_rules]. */
static void find_followed(const cr_automaton *a, const bool *returns, walk *w, bool *followed)
{
    uint32_t n_queue = 0;
    for (uint32_t n = 0; n < a->n_nodes; n++) {
        for (uint32_t i = 0; i < a->nodes[n].n_edges; i++) {
            const cr_edge *edge = &a->edges[a->nodes[n].edges + i];
            if (edge->kind != CR_EDGE_CALL || returns[edge->target] || followed[edge->value] ||
                !a->rules[a->nodes[n].rule].is_reached)
                continue;
            followed[edge->value] = true;
            w->path[n_queue++] = edge->value;
        }
    }
    for (uint32_t at = 0; at < n_queue; at++) {
        for (uint32_t i = w->first[w->path[at]]; i < w->first[w->path[at] + 1]; i++) {
            if (!followed[w->calls[i]])
                w->path[n_queue++] = w->calls[i];
            followed[w->calls[i]] = true;
        }
    }
}

bool cr_automaton_find_exits(cr_automaton *a, bool **exits)
{
    walk all;
    *exits = cr_arena_array(&a->arena, a->n_nodes + 1, sizeof **exits);
    bool *followed = cr_arena_array(&a->arena, a->n_rules + 1, sizeof *followed);
    uint32_t *queue = cr_arena_array(&a->arena, a->n_nodes + 1, sizeof *queue);
    uint32_t *first = cr_arena_array(&a->arena, a->n_nodes + 1, sizeof *first);
    uint32_t *from = cr_arena_array(&a->arena, a->n_edges + 1, sizeof *from);
    if (!*exits || !followed || !queue || !first || !from || !new_walk(a, NULL, &all))
        return false;
    find_returns(a, *exits, queue, first, from);
    find_followed(a, *exits, &all, followed);
    for (uint32_t n = 0; n < a->n_nodes; n++)
        (*exits)[n] = (*exits)[n] && !followed[a->nodes[n].rule];
    return true;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static cera_status check(cr_automaton *a, bool is_made, cera_error *err)
{
    spread empty, finite;
    walk left, all;
    cr_arena_mark before = cr_arena_get_mark(&a->arena);
    if (!new_spread(a, false, &empty) || !new_spread(a, true, &finite) ||
        !new_walk(a, empty.marked, &left) || !new_walk(a, NULL, &all))
        return no_memory(err);
    for (uint32_t i = 0; i < a->n_rules; i++) {
        a->rules[i].is_empty = empty.ends[i];
        a->rules[i].is_finite = finite.ends[i];
    }
    run_walk(a, &all, a->root);
    cera_status status = CERA_OK;
    for (uint32_t i = 0; i < a->n_rules && status == CERA_OK; i++) {
        uint32_t circle = run_walk(a, &left, i);
        if (circle < a->n_rules)
            status = fail_rule(a, circle,
                               "expected something to be read before the rule calls itself, "
                               "found left recursion",
                               err);
    }
    for (uint32_t i = 0; i < a->n_rules && status == CERA_OK; i++) {
        a->rules[i].is_reached = all.state[i] != 0;
        if (!a->rules[i].is_finite)
            status = fail_rule(a, i, "expected a way for the rule to end, found none", err);
    }
    cr_arena_to_mark(&a->arena, before);
    for (uint32_t i = 0; i < a->n_rules && status == CERA_OK; i++) {
        const cr_grammar_rule *rule = &a->rules[i];
        if (!rule->is_reached && rule->name.size > 0 && !is_made)
            cr_log(a->host, 0, "grammar: line %u, rule \"%.*s\": nothing uses it", rule->line,
                   (int)CR_MIN(rule->name.size, (size_t)64), rule->name.data);
    }
    return status;
}

cera_status cr_builder_finish(cr_builder *b, uint32_t root, cr_automaton **out, cera_error *err)
{
    if (b->no_memory)
        return no_memory(err);
    if (b->too_large)
        return cr_fail(err, CERA_E_LIMIT,
                       "grammar: expected at most %d elements after repetitions are written out, "
                       "found more; repeat less",
                       CR_MAX_NODES);
    cr_automaton *a = cr_alloc_zero(b->host, CR_MEM_OBJECT, sizeof *a);
    if (!a)
        return no_memory(err);
    a->host = b->host;
    a->root = root;
    cr_arena_init(&a->arena, b->host, CR_MEM_OBJECT);
    cera_status status = copy_pieces(b, a, err);
    if (status == CERA_OK) {
        shorten(a);
        find_classes(a);
        cr_automaton_find_unicode(a);
        status = check(a, b->is_made, err);
    }
    if (status != CERA_OK) {
        cr_automaton_free(a);
        return status;
    }
    *out = a;
    return CERA_OK;
}
