/* Takes out the rules that nothing uses: ends of lists that cannot be reached, common rules of values
 * that the schema has none of. Each rule is a line. */
#include "grammar/schema_internal.h"

typedef struct rule {
    cr_str name, line; /* the line with its newline */
    bool is_used;
} rule;

typedef struct pruning {
    rule *rules; /* [n] */
    size_t n;
    uint32_t *slots; /* [n_slots] by name: rule + 1 */
    size_t n_slots;  /* a power of two */
    uint32_t *work;  /* [n] used rules in the order they were met */
    size_t n_work;
} pruning;

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

/* The slot with the rule of that name, or the one where it would go. */
static uint32_t *find(const pruning *p, cr_str name)
{
    size_t slot = cr_hash(name.data, name.size) & (p->n_slots - 1);
    while (p->slots[slot] != 0 && !cr_str_same(p->rules[p->slots[slot] - 1].name, name))
        slot = (slot + 1) & (p->n_slots - 1);
    return &p->slots[slot];
}

static void use(pruning *p, cr_str name)
{
    uint32_t number = *find(p, name);
    if (number == 0 || p->rules[number - 1].is_used)
        return;
    p->rules[number - 1].is_used = true;
    p->work[p->n_work++] = number - 1;
}

/* Uses the names in a rule's body; texts, classes and counts have none. */
static void use_names(pruning *p, cr_str line, size_t at)
{
    while (at < line.size) {
        char c = line.data[at];
        char end = '\0';
        if (c == '"')
            end = '"';
        else if (c == '[')
            end = ']';
        else if (c == '{')
            end = '}';
        size_t start = at++;
        if (end != '\0') {
            while (at < line.size && line.data[at] != end)
                at += line.data[at] == '\\' ? 2 : 1;
            at++;
        } else if (is_name(c)) {
            while (at < line.size && is_name(line.data[at]))
                at++;
            use(p, (cr_str){ line.data + start, at - start });
        }
    }
}

static void split(pruning *p, cr_str text)
{
    while (text.size > 0) {
        const char *newline = memchr(text.data, '\n', text.size);
        size_t size = newline ? (size_t)(newline - text.data) + 1 : text.size, n = 0;
        while (n < size && is_name(text.data[n]))
            n++;
        p->rules[p->n] = (rule){ { text.data, n }, { text.data, size }, false };
        *find(p, p->rules[p->n].name) = (uint32_t)p->n + 1;
        p->n++;
        text = (cr_str){ text.data + size, text.size - size };
    }
}

bool cr_schema_prune(cr_compiler *c, size_t start)
{
    cr_str text = { c->out->data + start, c->out->size - start };
    size_t n = 1;
    for (size_t i = 0; i < text.size; i++)
        n += text.data[i] == '\n' ? 1 : 0;
    pruning p = { .n_slots = 2 };
    while (p.n_slots < 2 * n)
        p.n_slots *= 2;
    p.rules = cr_arena_array(&c->arena, n, sizeof *p.rules);
    p.slots = cr_arena_array(&c->arena, p.n_slots, sizeof *p.slots);
    p.work = cr_arena_array(&c->arena, n, sizeof *p.work);
    if (!p.rules || !p.slots || !p.work)
        return false;
    split(&p, text);
    use(&p, cr_str_from("root"));
    for (size_t i = 0; i < p.n_work; i++) {
        const rule *r = &p.rules[p.work[i]];
        use_names(&p, r->line, r->name.size);
    }
    c->out->size = start;
    for (size_t i = 0; i < p.n; i++) {
        if (!p.rules[i].is_used)
            continue;
        memmove(c->out->data + c->out->size, p.rules[i].line.data, p.rules[i].line.size);
        c->out->size += p.rules[i].line.size;
    }
    return true;
}
