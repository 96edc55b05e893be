/* Walking the tree: statements print, expressions give values. */
#include "template/render.h"

/* The names that one block has set. */
typedef struct entry {
    int symbol;
    cr_tv value;
    struct entry *next;
} entry;

struct cr_scope {
    cr_scope *parent;
    entry *entries;
};

struct cr_tmacro {
    const cr_node *node;
    cr_scope *scope; /* where it was written */
};

struct cr_tloop {
    const cr_node *node;
    cr_scope *scope; /* around the loop */
    cr_tlist list;
    const cr_trange *range; /* instead of the items, which then are not made */
    size_t at;
    int depth; /* of recursion */
    cr_tv changed;
};

static cr_tv loop_item(const cr_tloop *loop, size_t i)
{
    if (loop->range != NULL)
        return cr_tv_int(loop->range->start + (int64_t)i * loop->range->step);
    return loop->list.items[i];
}

typedef enum flow { ON, BREAK, CONTINUE } flow;

static bool eval(cr_interp *t, const cr_node *node, cr_tv *out);
static bool exec_body(cr_interp *t, const cr_node *body, flow *way);

/* ---- names ---------------------------------------------------------------------------------- */

static bool push_scope(cr_interp *t, cr_scope *parent)
{
    cr_scope *scope = cr_interp_alloc(t, 1, sizeof *scope);
    if (scope == NULL)
        return false;
    scope->parent = parent;
    t->scope = scope;
    return true;
}

static bool set_name(cr_interp *t, int symbol, cr_tv value)
{
    for (entry *e = t->scope->entries; e != NULL; e = e->next) {
        if (e->symbol == symbol) {
            e->value = value;
            return true;
        }
    }
    entry *e = cr_interp_alloc(t, 1, sizeof *e);
    if (e == NULL)
        return false;
    *e = (entry){ .symbol = symbol, .value = value, .next = t->scope->entries };
    t->scope->entries = e;
    return true;
}

static bool get_name(cr_interp *t, const cr_node *node, cr_tv *out)
{
    size_t n_steps = 0;
    for (const cr_scope *scope = t->scope; scope != NULL; scope = scope->parent) {
        for (const entry *e = scope->entries; e != NULL; e = e->next, n_steps++) {
            if (e->symbol == node->symbol) {
                *out = e->value;
                return cr_interp_work(t, n_steps);
            }
        }
        n_steps++;
    }
    *out = t->context[node->symbol];
    if (out->kind == CR_TV_MISSING) {
        char *name = cr_interp_alloc(t, node->text.size + 1, 1);
        if (name == NULL)
            return false;
        memcpy(name, node->text.data, node->text.size);
        *out = cr_tv_undefined(name);
    }
    return cr_interp_work(t, n_steps);
}

static bool assign(cr_interp *t, const cr_node *target, cr_tv value)
{
    cr_tlist list;
    cr_tv object, key;
    if (target->kind == CR_NODE_NAME)
        return set_name(t, target->symbol, value);
    if (target->kind == CR_NODE_NSREF) {
        cr_node name = *target;
        name.text = t->tmpl->symbols[target->symbol];
        if (!get_name(t, &name, &object))
            return false;
        if (object.kind != CR_TV_NAMESPACE)
            return cr_interp_fail(t, "only fields of a namespace can be set, this is a %s",
                                  cr_tv_type(&object));
        if (target->text.data[0] == '_')
            return cr_interp_fail(t, "the field of a namespace may not begin with an underscore");
        return cr_tv_text(t, target->text.data, target->text.size, CR_FROM_TEMPLATE, &key) &&
               cr_tdict_set(t, object.as.dict, key, value);
    }
    if (!cr_tv_walk(t, &value, &list))
        return false;
    if (list.n != (size_t)target->n)
        return cr_interp_fail(t, "expected %d values to unpack, found %zu", target->n, list.n);
    for (const cr_node *item = target->a; item != NULL; item = item->next, list.items++)
        if (!assign(t, item, *list.items))
            return false;
    return true;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* What the body prints, in a scope of its own below `parent`. */
static bool capture(cr_interp *t, const cr_node *body, cr_scope *parent, cr_tv *out)
{
    cr_tbuf buf = { 0 }, *old_out = t->out;
    cr_scope *old_scope = t->scope;
    flow way = ON;
    t->out = &buf;
    bool ok = push_scope(t, parent) && exec_body(t, body, &way) && cr_tbuf_done(t, &buf, out);
    t->out = old_out;
    t->scope = old_scope;
    return ok;
}

static const cr_named *find_named(const cr_args *args, cr_str name)
{
    for (size_t i = 0; i < args->n_named; i++)
        if (args->named[i].name.size == name.size &&
            memcmp(args->named[i].name.data, name.data, name.size) == 0)
            return &args->named[i];
    return NULL;
}

/* Sets the parameters in the macro's own scope, which is the current one. */
static bool bind_params(cr_interp *t, const cr_node *macro, const cr_args *args)
{
    size_t i = 0, n_used = 0;
    bool has_caller = false;
    for (const cr_arg *p = macro->args; p != NULL; p = p->next, i++) {
        const cr_named *named = i >= args->n ? find_named(args, p->name) : NULL;
        cr_tv value;
        char *name;
        has_caller |= cr_str_is(p->name, "caller");
        n_used += named != NULL;
        if (i < args->n) {
            value = args->items[i];
        } else if (named != NULL) {
            value = named->value;
        } else if (p->value != NULL) {
            /* The default does not see a variable of the same name outside. */
            if (!set_name(t, p->symbol, cr_tv_undefined(NULL)) || !eval(t, p->value, &value))
                return false;
        } else {
            name = cr_interp_alloc(t, p->name.size + 1, 1);
            if (name == NULL)
                return false;
            memcpy(name, p->name.data, p->name.size);
            value = cr_tv_undefined(name);
        }
        if (!set_name(t, p->symbol, value))
            return false;
    }
    if (macro->uses_caller && !has_caller) {
        const cr_named *named = find_named(args, cr_str_from("caller"));
        n_used += named != NULL;
        if (!set_name(t, t->tmpl->caller, named != NULL ? named->value : cr_tv_undefined("caller")))
            return false;
    }
    if (macro->uses_kwargs) {
        cr_tv rest;
        if (!cr_tv_dict(t, CR_TV_DICT, &rest))
            return false;
        for (size_t j = 0; j < args->n_named; j++) {
            const cr_arg *p = macro->args;
            cr_str name = args->named[j].name;
            while (p != NULL &&
                   !(p->name.size == name.size && memcmp(p->name.data, name.data, name.size) == 0))
                p = p->next;
            bool taken = p != NULL || (macro->uses_caller && cr_str_is(name, "caller"));
            cr_tv key;
            if (!taken && (!cr_tv_text(t, name.data, name.size, CR_FROM_TEMPLATE, &key) ||
                           !cr_tdict_set(t, rest.as.dict, key, args->named[j].value)))
                return false;
        }
        if (!set_name(t, t->tmpl->kwargs, rest))
            return false;
    } else if (n_used < args->n_named) {
        return cr_interp_fail(t, "macro %.*s: an argument by a name that it does not have",
                              (int)CR_MIN(macro->text.size, (size_t)64), macro->text.data);
    }
    if (macro->uses_varargs) {
        cr_tv rest;
        size_t n = args->n > i ? args->n - i : 0;
        return cr_tv_list(t, CR_TV_TUPLE, n > 0 ? args->items + i : NULL, n, &rest) &&
               set_name(t, t->tmpl->varargs, rest);
    }
    if (args->n > i)
        return cr_interp_fail(t, "macro %.*s: expected at most %zu arguments, found %zu",
                              (int)CR_MIN(macro->text.size, (size_t)64), macro->text.data, i,
                              args->n);
    return true;
}

static bool enter_call(cr_interp *t)
{
    if (t->n_calls == CR_TEMPLATE_MAX_CALLS)
        return cr_interp_limit(t, "call depth: expected at most %d calls inside each other",
                               CR_TEMPLATE_MAX_CALLS);
    t->n_calls++;
    return true;
}

static bool call_macro(cr_interp *t, const cr_tmacro *macro, const cr_args *args, cr_tv *out)
{
    cr_scope *old_scope = t->scope;
    int line = t->line;
    if (!enter_call(t))
        return false;
    bool ok = push_scope(t, macro->scope) && bind_params(t, macro->node, args) &&
              capture(t, macro->node->d, t->scope, out);
    t->scope = old_scope;
    t->n_calls--;
    if (ok)
        t->line = line;
    return ok;
}

static bool run_loop(cr_interp *t, const cr_node *node, const cr_tv *over, int depth, flow *way);

/* loop(items) in a loop that is recursive. */
static bool call_loop(cr_interp *t, const cr_tloop *loop, const cr_args *args, cr_tv *out)
{
    if (!loop->node->flag)
        return cr_interp_fail(t, "loop: only a recursive loop can be called");
    if (args->n != 1 || args->n_named > 0)
        return cr_interp_fail(t, "loop: expected one argument");
    if (!enter_call(t))
        return false;
    cr_tbuf buf = { 0 }, *old_out = t->out;
    cr_scope *old_scope = t->scope;
    flow way = ON;
    t->out = &buf;
    t->scope = loop->scope;
    bool ok = run_loop(t, loop->node, &args->items[0], loop->depth + 1, &way) &&
              cr_tbuf_done(t, &buf, out);
    t->out = old_out;
    t->scope = old_scope;
    t->n_calls--;
    return ok;
}

bool cr_tv_call(cr_interp *t, const cr_tv *f, const cr_args *args, cr_tv *out)
{
    switch (f->kind) {
    case CR_TV_MACRO:
        return call_macro(t, f->as.macro, args, out);
    case CR_TV_FUNCTION:
        return cr_function_run(t, f->detail, args, out);
    case CR_TV_METHOD:
        return cr_method_run(t, f->as.method, args, out);
    case CR_TV_LOOP:
        return call_loop(t, f->as.loop, args, out);
    case CR_TV_JOINER:
        if (f->as.iter->at++ > 0) {
            *out = f->as.iter->list.items[0];
            return true;
        }
        return cr_tv_text(t, "", 0, CR_FROM_TEMPLATE, out);
    case CR_TV_UNDEFINED:
        return cr_interp_fail(t, "\"%s\" is undefined and cannot be called",
                              f->as.name != NULL ? f->as.name : "the value");
    default:
        return cr_interp_fail(t, "a %s cannot be called", cr_tv_type(f));
    }
}

/* The arguments of a call, and one more by name. */
static bool eval_args(cr_interp *t, const cr_arg *arg, const cr_named *extra, cr_args *out)
{
    cr_tvec items = { 0 };
    size_t n_named = extra != NULL;
    for (const cr_arg *a = arg; a != NULL; a = a->next)
        n_named += a->kind == CR_ARG_NAMED;
    *out = (cr_args){ 0 };
    out->named = cr_interp_alloc(t, n_named, sizeof *out->named);
    if (out->named == NULL)
        return false;
    for (const cr_arg *a = arg; a != NULL; a = a->next) {
        cr_tv value;
        cr_tlist list;
        if (!eval(t, a->value, &value))
            return false;
        if (a->kind == CR_ARG_NAMED) {
            out->named[out->n_named++] = (cr_named){ a->name, value };
        } else if (a->kind == CR_ARG_LIST) {
            if (!cr_tv_walk(t, &value, &list))
                return false;
            for (size_t i = 0; i < list.n; i++)
                if (!cr_tvec_push(t, &items, list.items[i]))
                    return false;
        } else if (a->kind == CR_ARG_DICT) {
            if (value.kind != CR_TV_DICT)
                return cr_interp_fail(t, "**: expected a dict, found a %s", cr_tv_type(&value));
            const cr_tdict *dict = value.as.dict;
            cr_named *more = cr_interp_alloc(t, n_named + dict->n, sizeof *more);
            if (more == NULL)
                return false;
            memcpy(more, out->named, out->n_named * sizeof *more);
            out->named = more;
            for (size_t i = 0; i < dict->n; i++) {
                if (dict->keys[i].kind != CR_TV_STRING)
                    return cr_interp_fail(t, "**: expected names as keys");
                out->named[out->n_named++] =
                    (cr_named){ cr_tstr_bytes(dict->keys[i].as.s), dict->values[i] };
            }
        } else if (!cr_tvec_push(t, &items, value)) {
            return false;
        }
    }
    if (extra != NULL)
        out->named[out->n_named++] = *extra;
    out->items = items.items;
    out->n = items.n;
    return true;
}

static bool eval_call(cr_interp *t, const cr_node *node, const cr_named *extra, cr_tv *out)
{
    cr_tv f;
    cr_args args;
    if (!eval(t, node->a, &f) || !eval_args(t, node->args, extra, &args))
        return false;
    t->line = node->line;
    return cr_tv_call(t, &f, &args, out);
}

/* ---- loops ---------------------------------------------------------------------------------- */

static bool loop_cycle(cr_interp *t, cr_call *c, cr_tv *out)
{
    if (c->args->n == 0)
        return cr_interp_fail(t, "cycle: expected values");
    *out = c->args->items[c->self.as.loop->at % c->args->n];
    return true;
}

static bool loop_changed(cr_interp *t, cr_call *c, cr_tv *out)
{
    cr_tloop *loop = c->self.as.loop;
    cr_tv now;
    bool equal = false;
    if (!cr_tv_list(t, CR_TV_TUPLE, c->args->items, c->args->n, &now))
        return false;
    if (loop->changed.kind != CR_TV_MISSING && !cr_tv_equals(t, &loop->changed, &now, &equal))
        return false;
    loop->changed = now;
    *out = cr_tv_bool(!equal);
    return true;
}

bool cr_render_attr(cr_interp *t, const cr_tv *a, cr_str name, cr_tv *out)
{
    static const cr_builtin_row rows[] = { { "cycle", NULL, loop_cycle },
                                           { "changed", NULL, loop_changed } };
    if (a->kind == CR_TV_MACRO && cr_str_is(name, "name"))
        return cr_tv_text(t, a->as.macro->node->text.data, a->as.macro->node->text.size,
                          CR_FROM_TEMPLATE, out);
    if (a->kind != CR_TV_LOOP)
        return cr_function_attr(t, a, name, out);
    const cr_tloop *loop = a->as.loop;
    int64_t at = (int64_t)loop->at, n = (int64_t)loop->list.n;
    const struct {
        const char *name;
        cr_tv value;
    } fields[] = {
        { "index", cr_tv_int(at + 1) },
        { "index0", cr_tv_int(at) },
        { "revindex", cr_tv_int(n - at) },
        { "revindex0", cr_tv_int(n - at - 1) },
        { "first", cr_tv_bool(at == 0) },
        { "last", cr_tv_bool(at == n - 1) },
        { "length", cr_tv_int(n) },
        { "depth", cr_tv_int(loop->depth + 1) },
        { "depth0", cr_tv_int(loop->depth) },
        { "previtem", at > 0 ? loop_item(loop, loop->at - 1) : cr_tv_undefined("loop.previtem") },
        { "nextitem",
          at < n - 1 ? loop_item(loop, loop->at + 1) : cr_tv_undefined("loop.nextitem") },
    };
    for (size_t i = 0; i < CR_COUNT(fields); i++)
        if (cr_str_is(name, fields[i].name))
            *out = fields[i].value;
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        if (cr_str_is(name, rows[i].name))
            return cr_tv_method(t, a, &rows[i], out);
    return true;
}

/* The items for which the loop's filter holds. */
static bool filter_items(cr_interp *t, const cr_node *node, cr_tlist *list)
{
    cr_scope *outer = t->scope;
    cr_tvec kept = { 0 };
    for (size_t i = 0; i < list->n; i++) {
        cr_tv holds;
        bool ok =
            push_scope(t, outer) && assign(t, node->a, list->items[i]) && eval(t, node->c, &holds);
        t->scope = outer;
        if (!ok || (cr_tv_truth(&holds) && !cr_tvec_push(t, &kept, list->items[i])))
            return false;
    }
    *list = (cr_tlist){ kept.items, kept.n };
    return true;
}

static bool run_loop(cr_interp *t, const cr_node *node, const cr_tv *over, int depth, flow *way)
{
    cr_scope *outer = t->scope;
    cr_tlist list = { NULL, 0 };
    const cr_trange *range = node->c == NULL && over->kind == CR_TV_RANGE ? over->as.range : NULL;
    if (range != NULL)
        list.n = (size_t)range->n;
    else if (!cr_tv_walk(t, over, &list) || (node->c != NULL && !filter_items(t, node, &list)))
        return false;
    cr_tloop *loop = cr_interp_alloc(t, 1, sizeof *loop);
    if (loop == NULL)
        return false;
    *loop =
        (cr_tloop){ .node = node, .scope = outer, .list = list, .range = range, .depth = depth };
    bool completed = false; /* one round to its end: the else branch is for when there is none */
    flow inner = ON;
    for (size_t i = 0; i < list.n && inner != BREAK; i++) {
        loop->at = i;
        inner = ON;
        cr_tv self = { .kind = CR_TV_LOOP, .as.loop = loop };
        bool ok = cr_interp_work(t, 2 * CR_WORK_NODE) && push_scope(t, outer) &&
                  (t->tmpl->loop < 0 || set_name(t, t->tmpl->loop, self)) &&
                  assign(t, node->a, loop_item(loop, i)) && exec_body(t, node->d, &inner);
        t->scope = outer;
        if (!ok)
            return false;
        completed |= inner == ON;
    }
    if (completed || node->e == NULL)
        return true;
    bool ok = push_scope(t, outer) && exec_body(t, node->e, way);
    t->scope = outer;
    return ok;
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool exec_if(cr_interp *t, const cr_node *node, flow *way)
{
    for (;;) {
        cr_tv test;
        if (!eval(t, node->a, &test))
            return false;
        if (cr_tv_truth(&test))
            return exec_body(t, node->d, way);
        /* Chains of elif are as long as they like. */
        const cr_node *e = node->e;
        if (e == NULL || e->kind != CR_NODE_IF || e->next != NULL)
            return exec_body(t, e, way);
        node = e;
        if (!cr_interp_work(t, CR_WORK_NODE))
            return false;
    }
}

static bool print(cr_interp *t, const cr_tv *value)
{
    if (!cr_tv_print(t, value, t->out))
        return false;
    if (t->out->size > t->max_output)
        return cr_interp_limit(t, "output: expected at most %zu bytes, the template prints more",
                               t->max_output);
    return true;
}

/* Prints or assigns what filters make of a captured body. */
static bool exec_captured(cr_interp *t, const cr_node *node)
{
    cr_tv text, value;
    const cr_tstr *old = t->body;
    if (!capture(t, node->d, t->scope, &text))
        return false;
    t->body = text.as.s;
    bool ok = eval(t, node->b, &value);
    t->body = old;
    return ok && (node->kind == CR_NODE_FILTER ? print(t, &value) : assign(t, node->a, value));
}

static bool new_macro(cr_interp *t, const cr_node *node, cr_tv *out)
{
    cr_tmacro *macro = cr_interp_alloc(t, 1, sizeof *macro);
    if (macro == NULL)
        return false;
    *macro = (cr_tmacro){ .node = node, .scope = t->scope };
    *out = (cr_tv){ .kind = CR_TV_MACRO, .as.macro = macro };
    return true;
}

static bool exec_scope(cr_interp *t, const cr_node *node, flow *way)
{
    cr_scope *outer = t->scope, *inner;
    if (!push_scope(t, outer))
        return false;
    inner = t->scope;
    for (const cr_arg *arg = node->args; arg != NULL; arg = arg->next) {
        cr_tv value;
        t->scope = outer;
        if (!eval(t, arg->value, &value))
            return false;
        t->scope = inner;
        if (!set_name(t, arg->symbol, value))
            return false;
    }
    bool ok = exec_body(t, node->d, way);
    t->scope = outer;
    return ok;
}

static bool exec(cr_interp *t, const cr_node *node, flow *way)
{
    cr_tv value;
    cr_named caller = { .name = { "caller", 6 } };
    t->line = node->line;
    switch (node->kind) {
    case CR_NODE_DATA:
        return print(t, &node->value);
    case CR_NODE_PRINT:
        return eval(t, node->a, &value) && print(t, &value);
    case CR_NODE_IF:
        return exec_if(t, node, way);
    case CR_NODE_FOR:
        return eval(t, node->b, &value) && run_loop(t, node, &value, 0, way);
    case CR_NODE_SET:
        return eval(t, node->b, &value) && assign(t, node->a, value);
    case CR_NODE_SET_BLOCK:
    case CR_NODE_FILTER:
        return exec_captured(t, node);
    case CR_NODE_MACRO:
        return new_macro(t, node, &value) && set_name(t, node->symbol, value);
    case CR_NODE_CALL_BLOCK:
        return new_macro(t, node, &caller.value) && eval_call(t, node->a, &caller, &value) &&
               print(t, &value);
    case CR_NODE_SCOPE:
        return exec_scope(t, node, way);
    case CR_NODE_BREAK:
        *way = BREAK;
        return true;
    default:
        *way = CONTINUE;
        return true;
    }
}

static bool exec_body(cr_interp *t, const cr_node *body, flow *way)
{
    if (!cr_interp_enter(t))
        return false;
    for (; body != NULL && *way == ON; body = body->next)
        if (!cr_interp_work(t, CR_WORK_NODE) || !exec(t, body, way))
            return false;
    cr_interp_leave(t);
    return true;
}

bool cr_render_run(cr_interp *t)
{
    flow way = ON;
    return push_scope(t, NULL) && exec_body(t, t->tmpl->body, &way);
}

/* ---- expressions
 * ------------------------------------------------------------------------------ */

static bool eval_items(cr_interp *t, const cr_node *node, cr_tv *out)
{
    cr_tv *items = cr_interp_alloc(t, (size_t)node->n, sizeof *items);
    if (items == NULL)
        return false;
    size_t n = 0;
    for (const cr_node *item = node->a; item != NULL; item = item->next)
        if (!eval(t, item, &items[n++]))
            return false;
    return cr_tv_list(t, node->kind == CR_NODE_TUPLE ? CR_TV_TUPLE : CR_TV_LIST, items, n, out);
}

static bool eval_dict(cr_interp *t, const cr_node *node, cr_tv *out)
{
    if (!cr_tv_dict(t, CR_TV_DICT, out))
        return false;
    for (const cr_node *item = node->a; item != NULL; item = item->next->next) {
        cr_tv key, value;
        if (!eval(t, item, &key) || !eval(t, item->next, &value) ||
            !cr_tdict_set(t, out->as.dict, key, value))
            return false;
    }
    return true;
}

static bool compare(cr_interp *t, int op, const cr_tv *a, const cr_tv *b, bool *out)
{
    int sign;
    switch (op) {
    case CR_OP_IN:
    case CR_OP_NOT_IN:
        if (!cr_tv_contains(t, a, b, out))
            return false;
        *out ^= op == CR_OP_NOT_IN;
        return true;
    case CR_TOK_EQ:
    case CR_TOK_NE:
        if (!cr_tv_equals(t, a, b, out))
            return false;
        *out ^= op == CR_TOK_NE;
        return true;
    default:
        if (!cr_tv_compare(t, a, b, &sign))
            return false;
        *out = op == CR_TOK_LT   ? sign == -1
               : op == CR_TOK_LE ? sign <= 0
               : op == CR_TOK_GT ? sign == 1
                                 : sign == 0 || sign == 1;
        return true;
    }
}

static bool eval_compare(cr_interp *t, const cr_node *node, cr_tv *out)
{
    cr_tv left, right;
    bool holds = true;
    if (!eval(t, node->a, &left))
        return false;
    for (const cr_node *operand = node->b; operand != NULL && holds; operand = operand->next) {
        if (!eval(t, operand->a, &right))
            return false;
        t->line = operand->line;
        if (!compare(t, operand->op, &left, &right, &holds))
            return false;
        left = right;
    }
    *out = cr_tv_bool(holds);
    return true;
}

static bool eval_pipe(cr_interp *t, const cr_node *node, cr_tv *out)
{
    cr_tv self;
    cr_args args;
    bool is;
    bool is_test = node->kind == CR_NODE_TEST;
    if (node->row < 0) {
        t->line = node->line;
        return cr_interp_fail(t, "the %s \"%.*s\" is not known", is_test ? "test" : "filter",
                              (int)CR_MIN(node->text.size, (size_t)64), node->text.data);
    }
    if (!eval(t, node->a, &self) || !eval_args(t, node->args, NULL, &args))
        return false;
    t->line = node->line;
    if (!is_test)
        return cr_filter_run(t, node->row, self, &args, out);
    if (!cr_test_run(t, node->row, self, &args, &is))
        return false;
    *out = cr_tv_bool(is);
    return true;
}

static bool eval_slice(cr_interp *t, const cr_node *node, cr_tv *out)
{
    cr_tv object, bounds[3] = { cr_tv_none(), cr_tv_none(), cr_tv_none() };
    const cr_node *parts[3] = { node->b, node->c, node->d };
    if (!eval(t, node->a, &object))
        return false;
    for (int i = 0; i < 3; i++)
        if (parts[i] != NULL && !eval(t, parts[i], &bounds[i]))
            return false;
    t->line = node->line;
    return cr_tv_slice(t, &object, bounds, out);
}

static bool eval_concat(cr_interp *t, const cr_node *node, cr_tv *out)
{
    cr_tbuf buf = { 0 };
    for (const cr_node *item = node->a; item != NULL; item = item->next) {
        cr_tv value;
        if (!eval(t, item, &value) || !cr_tv_print(t, &value, &buf))
            return false;
    }
    return cr_tbuf_done(t, &buf, out);
}

static bool eval_node(cr_interp *t, const cr_node *node, cr_tv *out)
{
    cr_tv a, b;
    switch (node->kind) {
    case CR_NODE_CONST:
        *out = node->value;
        return true;
    case CR_NODE_NAME:
        return get_name(t, node, out);
    case CR_NODE_BODY:
        *out = (cr_tv){ .kind = CR_TV_STRING, .as.s = t->body };
        return true;
    case CR_NODE_TUPLE:
    case CR_NODE_LIST:
        return eval_items(t, node, out);
    case CR_NODE_DICT:
        return eval_dict(t, node, out);
    case CR_NODE_ATTR:
        if (!eval(t, node->a, &a))
            return false;
        t->line = node->line;
        return cr_tv_attr(t, &a, node->text, out);
    case CR_NODE_ITEM:
        if (!eval(t, node->a, &a) || !eval(t, node->b, &b))
            return false;
        t->line = node->line;
        return cr_tv_item(t, &a, &b, out);
    case CR_NODE_SLICE:
        return eval_slice(t, node, out);
    case CR_NODE_CALL:
        return eval_call(t, node, NULL, out);
    case CR_NODE_PIPE:
    case CR_NODE_TEST:
        return eval_pipe(t, node, out);
    case CR_NODE_COND:
        if (!eval(t, node->a, &a))
            return false;
        if (cr_tv_truth(&a))
            return eval(t, node->b, out);
        *out = cr_tv_undefined(NULL);
        return node->c == NULL || eval(t, node->c, out);
    case CR_NODE_AND:
    case CR_NODE_OR:
        if (!eval(t, node->a, out))
            return false;
        return cr_tv_truth(out) == (node->kind == CR_NODE_OR) || eval(t, node->b, out);
    case CR_NODE_NOT:
        if (!eval(t, node->a, &a))
            return false;
        *out = cr_tv_bool(!cr_tv_truth(&a));
        return true;
    case CR_NODE_NEG:
    case CR_NODE_POS:
        if (!eval(t, node->a, &a))
            return false;
        t->line = node->line;
        if (node->kind == CR_NODE_NEG)
            return cr_tv_negate(t, &a, out);
        b = cr_tv_int(0);
        return cr_tv_is_number(&a)
                   ? cr_tv_binary(t, CR_TOK_ADD, &a, &b, out)
                   : cr_interp_fail(t, "+: expected a number, found a %s", cr_tv_type(&a));
    case CR_NODE_BINARY:
        if (!eval(t, node->a, &a) || !eval(t, node->b, &b))
            return false;
        t->line = node->line;
        return cr_tv_binary(t, node->op, &a, &b, out);
    case CR_NODE_CONCAT:
        return eval_concat(t, node, out);
    default:
        return eval_compare(t, node, out);
    }
}

static bool eval(cr_interp *t, const cr_node *node, cr_tv *out)
{
    if (!cr_interp_work(t, CR_WORK_NODE) || !cr_interp_enter(t))
        return false;
    bool ok = eval_node(t, node, out);
    cr_interp_leave(t);
    return ok;
}
