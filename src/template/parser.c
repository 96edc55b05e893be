/* Tokens to a tree, by the grammar of Jinja2: each level of precedence is a function that calls the
 * next one. From loose to tight:
 *
 *     x if y else z    or    and    not    == in ...    + -    ~    * / // %    **    - +    . [] ()  | is
 */
#include "template/parser.h"

typedef cera_status level(cr_parser *p, cr_node **out);

cera_status cr_parser_fail(cr_parser *p, int line, const char *what)
{
    return cr_fail(p->err, CERA_E_FORMAT, "template: line %d: %s", line, what);
}

static const char *const token_names[] = {
    "the end", "text", "a name", "a string", "a number", "a number", "{{", "}}", "{%",
    "%}",      "//",   "**",     "==",       "!=",       ">=",       "<=", "+",  "-",
    "/",       "*",    "%",      "~",        "[",        "]",        "(",  ")",  "{",
    "}",       ">",    "<",      "=",        ".",        ":",        "|",  ",",  ";"
};

cera_status cr_parser_unexpected(cr_parser *p, const char *expected)
{
    const cr_token *token = p->token;
    if (token->type == CR_TOK_NAME)
        return cr_fail(p->err, CERA_E_FORMAT, "template: line %d: expected %s, found \"%.*s\"",
                       token->line, expected, (int)CR_MIN(token->text.size, (size_t)64),
                       token->text.data);
    return cr_fail(p->err, CERA_E_FORMAT, "template: line %d: expected %s, found %s", token->line,
                   expected, token_names[token->type]);
}

bool cr_parser_is(const cr_parser *p, const char *name)
{
    return p->token->type == CR_TOK_NAME && cr_str_is(p->token->text, name);
}

bool cr_parser_skip_name(cr_parser *p, const char *name)
{
    bool found = cr_parser_is(p, name);
    p->token += found;
    return found;
}

bool cr_parser_skip(cr_parser *p, cr_tok type)
{
    bool found = p->token->type == type;
    p->token += found;
    return found;
}

cera_status cr_parser_expect(cr_parser *p, cr_tok type)
{
    return cr_parser_skip(p, type) ? CERA_OK : cr_parser_unexpected(p, token_names[type]);
}

cera_status cr_parser_node(cr_parser *p, cr_node_kind kind, int line, cr_node **out)
{
    cr_node *node = cr_arena_alloc(&p->tmpl->arena, sizeof *node);
    if (node == NULL)
        return cr_fail_nomem(p->err, sizeof *node, "the template");
    node->kind = kind;
    node->line = line;
    *out = node;
    return CERA_OK;
}

/* Sets the height from a child; trees that are too high are refused, because they are walked by
 * recursion. */
static cera_status set_height(cr_parser *p, cr_node *node, const cr_node *child)
{
    for (; child != NULL; child = child->next)
        node->height = CR_MAX(node->height, child->height + 1);
    if (node->height > CR_TEMPLATE_MAX_NESTING * 2)
        return cr_parser_fail(p, node->line, "the expression is nested too deeply");
    return CERA_OK;
}

cera_status cr_parser_enter(cr_parser *p)
{
    if (p->nesting == CR_TEMPLATE_MAX_NESTING)
        return cr_parser_fail(p, p->token->line, "statements or expressions are nested too deeply");
    p->nesting++;
    return CERA_OK;
}

cera_status cr_parser_intern(cr_parser *p, cr_str name, int *symbol)
{
    cr_template *tmpl = p->tmpl;
    for (int i = 0; i < tmpl->n_symbols; i++) {
        const cr_str *s = &tmpl->symbols[i];
        if (s->size == name.size && memcmp(s->data, name.data, name.size) == 0) {
            *symbol = i;
            return CERA_OK;
        }
    }
    if (tmpl->n_symbols == 4096)
        return cr_parser_fail(p, p->token->line, "expected at most 4096 different names");
    if (tmpl->n_symbols == p->symbol_room) {
        size_t room = p->symbol_room == 0 ? 64 : (size_t)p->symbol_room * 2;
        cr_str *larger = cr_arena_array(&tmpl->arena, room, sizeof *larger);
        if (larger == NULL)
            return cr_fail_nomem(p->err, room * sizeof *larger, "the template");
        if (tmpl->n_symbols > 0)
            memcpy(larger, tmpl->symbols, (size_t)tmpl->n_symbols * sizeof *larger);
        tmpl->symbols = larger;
        p->symbol_room = (int)room;
    }
    tmpl->symbols[tmpl->n_symbols] = name;
    *symbol = tmpl->n_symbols++;
    return CERA_OK;
}

/* ---- expressions --------------------------------------------------------------------------- */

static level parse_or, parse_unary;

static cera_status new_const(cr_parser *p, cr_tv value, cr_node **out)
{
    CR_TRY(cr_parser_node(p, CR_NODE_CONST, p->token->line, out));
    (*out)->value = value;
    return CERA_OK;
}

cera_status cr_parser_string(cr_parser *p, cr_str text, cr_node **out)
{
    cr_tstr *s = cr_arena_alloc(&p->tmpl->arena, sizeof *s);
    if (s == NULL)
        return cr_fail_nomem(p->err, sizeof *s, "the template");
    *s = (cr_tstr){ .data = text.data, .size = text.size };
    return new_const(p, (cr_tv){ .kind = CR_TV_STRING, .as.s = s }, out);
}

/* Expressions with commas between them up to `end`, with an extra comma allowed. */
static cera_status parse_items(cr_parser *p, cr_node *list, cr_tok end)
{
    cr_node **tail = &list->a;
    while (p->token->type != end) {
        if (list->n > 0)
            CR_TRY(cr_parser_expect(p, CR_TOK_COMMA));
        if (p->token->type == end)
            break;
        cr_node *item = NULL;
        CR_TRY(cr_parser_expression(p, &item));
        cr_parser_chain(&tail, item);
        list->n++;
    }
    CR_TRY(cr_parser_expect(p, end));
    return set_height(p, list, list->a);
}

cera_status cr_parser_tuple(cr_parser *p, cr_tuple_style style, cr_node **out)
{
    cr_node *tuple = NULL, *item = NULL;
    CR_TRY(cr_parser_node(p, CR_NODE_TUPLE, p->token->line, &tuple));
    cr_node **tail = &tuple->a;
    bool is_tuple = style.parens;
    for (;;) {
        cr_tok type = p->token->type;
        if (type == CR_TOK_VAR_END || type == CR_TOK_BLOCK_END || type == CR_TOK_RPAREN ||
            (style.end != NULL && cr_parser_is(p, style.end)))
            break;
        CR_TRY(style.plain ? parse_or(p, &item) : cr_parser_expression(p, &item));
        cr_parser_chain(&tail, item);
        tuple->n++;
        if (!cr_parser_skip(p, CR_TOK_COMMA)) {
            is_tuple = is_tuple && tuple->n != 1;
            break;
        }
        style.parens = true;
        is_tuple = true;
    }
    if (tuple->n > 1)
        is_tuple = true;
    if (tuple->n == 0 && !style.parens)
        return cr_parser_unexpected(p, "an expression");
    CR_TRY(set_height(p, tuple, tuple->a));
    *out = is_tuple ? tuple : tuple->a;
    return CERA_OK;
}

static cera_status parse_dict(cr_parser *p, cr_node **out)
{
    CR_TRY(cr_parser_node(p, CR_NODE_DICT, p->token->line, out));
    cr_node *dict = *out, **tail = &dict->a;
    while (p->token->type != CR_TOK_RBRACE) {
        if (dict->n > 0)
            CR_TRY(cr_parser_expect(p, CR_TOK_COMMA));
        if (p->token->type == CR_TOK_RBRACE)
            break;
        cr_node *key, *value;
        CR_TRY(cr_parser_expression(p, &key));
        CR_TRY(cr_parser_expect(p, CR_TOK_COLON));
        CR_TRY(cr_parser_expression(p, &value));
        cr_parser_chain(&tail, key);
        cr_parser_chain(&tail, value);
        dict->n++;
    }
    CR_TRY(cr_parser_expect(p, CR_TOK_RBRACE));
    return set_height(p, dict, dict->a);
}

cera_status cr_parser_name(cr_parser *p, cr_node **out)
{
    static const struct {
        const char *name;
        cr_tv value;
    } words[] = {
        { "true", { .kind = CR_TV_BOOL, .as.b = true } },
        { "True", { .kind = CR_TV_BOOL, .as.b = true } },
        { "false", { .kind = CR_TV_BOOL } },
        { "False", { .kind = CR_TV_BOOL } },
        { "none", { .kind = CR_TV_NONE } },
        { "None", { .kind = CR_TV_NONE } },
    };
    for (size_t i = 0; i < CR_COUNT(words); i++)
        if (cr_parser_skip_name(p, words[i].name))
            return new_const(p, words[i].value, out);
    CR_TRY(cr_parser_node(p, CR_NODE_NAME, p->token->line, out));
    cr_node *node = *out;
    node->text = p->token->text;
    CR_TRY(cr_parser_intern(p, node->text, &node->symbol));
    if (p->macro != NULL) {
        p->macro->uses_varargs |= cr_str_is(node->text, "varargs");
        p->macro->uses_kwargs |= cr_str_is(node->text, "kwargs");
        p->macro->uses_caller |= cr_str_is(node->text, "caller");
    }
    p->token++;
    return CERA_OK;
}

static cera_status parse_primary(cr_parser *p, cr_node **out)
{
    const cr_token *token = p->token;
    switch (token->type) {
    case CR_TOK_NAME:
        return cr_parser_name(p, out);
    case CR_TOK_INT:
        p->token++;
        return new_const(p, cr_tv_int(token->integer), out);
    case CR_TOK_FLOAT:
        p->token++;
        return new_const(p, cr_tv_float(token->real), out);
    case CR_TOK_LPAREN:
        p->token++;
        CR_TRY(cr_parser_tuple(p, (cr_tuple_style){ .parens = true }, out));
        return cr_parser_expect(p, CR_TOK_RPAREN);
    case CR_TOK_LBRACKET:
        p->token++;
        CR_TRY(cr_parser_node(p, CR_NODE_LIST, token->line, out));
        return parse_items(p, *out, CR_TOK_RBRACKET);
    case CR_TOK_LBRACE:
        p->token++;
        return parse_dict(p, out);
    case CR_TOK_STRING:
        break;
    default:
        return cr_parser_unexpected(p, "an expression");
    }
    /* Strings in a row are one. */
    size_t n = 0;
    for (const cr_token *s = token; s->type == CR_TOK_STRING; s++)
        n += s->text.size;
    char *text = cr_arena_alloc(&p->tmpl->arena, n + 1);
    if (text == NULL)
        return cr_fail_nomem(p->err, n, "the template");
    n = 0;
    for (; p->token->type == CR_TOK_STRING; p->token++) {
        memcpy(text + n, p->token->text.data, p->token->text.size);
        n += p->token->text.size;
    }
    return cr_parser_string(p, (cr_str){ text, n }, out);
}

/* The arguments of a call, from its opening bracket on. */
static cera_status parse_args(cr_parser *p, cr_node *call)
{
    cr_arg **tail = &call->args;
    cr_arg_kind latest = CR_ARG_PLAIN;
    CR_TRY(cr_parser_expect(p, CR_TOK_LPAREN));
    for (bool first = true; p->token->type != CR_TOK_RPAREN; first = false) {
        if (!first)
            CR_TRY(cr_parser_expect(p, CR_TOK_COMMA));
        if (p->token->type == CR_TOK_RPAREN)
            break;
        cr_arg *arg = cr_arena_alloc(&p->tmpl->arena, sizeof *arg);
        if (arg == NULL)
            return cr_fail_nomem(p->err, sizeof *arg, "the template");
        if (cr_parser_skip(p, CR_TOK_MUL)) {
            arg->kind = CR_ARG_LIST;
        } else if (cr_parser_skip(p, CR_TOK_POW)) {
            arg->kind = CR_ARG_DICT;
        } else if (p->token->type == CR_TOK_NAME && p->token[1].type == CR_TOK_ASSIGN) {
            arg->kind = CR_ARG_NAMED;
            arg->name = p->token->text;
            p->token += 2;
        }
        /* Plain ones first, then by name, *list and **dict; but *list may stand before names. */
        bool fits = arg->kind >= latest || (arg->kind == CR_ARG_NAMED && latest == CR_ARG_LIST);
        if (!fits || (arg->kind == latest && arg->kind >= CR_ARG_LIST))
            return cr_parser_fail(p, call->line, "the arguments of a call are in the wrong order");
        latest = CR_MAX(latest, arg->kind);
        CR_TRY(cr_parser_expression(p, &arg->value));
        CR_TRY(set_height(p, call, arg->value));
        *tail = arg;
        tail = &arg->next;
    }
    return cr_parser_expect(p, CR_TOK_RPAREN);
}

static cera_status parse_call(cr_parser *p, cr_node *callee, cr_node **out)
{
    CR_TRY(cr_parser_node(p, CR_NODE_CALL, p->token->line, out));
    (*out)->a = callee;
    CR_TRY(set_height(p, *out, callee));
    return parse_args(p, *out);
}

/* What stands between [ and ], or between commas there. */
static cera_status parse_subscript(cr_parser *p, cr_node *object, cr_node **out)
{
    int line = p->token->line;
    cr_node *parts[3] = { NULL, NULL, NULL };
    bool is_slice = false;
    for (int i = 0; i < 3; i++) {
        cr_tok type = p->token->type;
        if (type != CR_TOK_COLON && type != CR_TOK_RBRACKET && type != CR_TOK_COMMA)
            CR_TRY(cr_parser_expression(p, &parts[i]));
        if (i == 2 || !cr_parser_skip(p, CR_TOK_COLON))
            break;
        is_slice = true;
    }
    if (!is_slice && parts[0] == NULL)
        return cr_parser_unexpected(p, "an index");
    CR_TRY(cr_parser_node(p, is_slice ? CR_NODE_SLICE : CR_NODE_ITEM, line, out));
    cr_node *node = *out;
    node->a = object;
    node->b = parts[0];
    node->c = parts[1];
    node->d = parts[2];
    for (int i = 0; i < 3; i++)
        CR_TRY(set_height(p, node, parts[i]));
    if (!is_slice && p->token->type == CR_TOK_COMMA) {
        /* a[1, 2] looks a tuple up */
        cr_node *tuple = NULL;
        CR_TRY(cr_parser_node(p, CR_NODE_TUPLE, line, &tuple));
        tuple->a = node->b;
        tuple->n = 1;
        cr_node **tail = &node->b->next;
        while (cr_parser_skip(p, CR_TOK_COMMA) && p->token->type != CR_TOK_RBRACKET) {
            cr_node *item = NULL;
            CR_TRY(cr_parser_expression(p, &item));
            cr_parser_chain(&tail, item);
            tuple->n++;
        }
        CR_TRY(set_height(p, tuple, tuple->a));
        node->b = tuple;
    }
    CR_TRY(cr_parser_expect(p, CR_TOK_RBRACKET));
    return set_height(p, node, object);
}

static cera_status parse_postfix(cr_parser *p, cr_node **node)
{
    for (;;) {
        int line = p->token->line;
        if (p->token->type == CR_TOK_LPAREN) {
            CR_TRY(parse_call(p, *node, node));
        } else if (cr_parser_skip(p, CR_TOK_LBRACKET)) {
            CR_TRY(parse_subscript(p, *node, node));
        } else if (cr_parser_skip(p, CR_TOK_DOT)) {
            cr_node *object = *node, *index = NULL;
            if (p->token->type == CR_TOK_INT)
                CR_TRY(new_const(p, cr_tv_int(p->token->integer), &index));
            else if (p->token->type != CR_TOK_NAME)
                return cr_parser_unexpected(p, "a name or a number");
            CR_TRY(cr_parser_node(p, index != NULL ? CR_NODE_ITEM : CR_NODE_ATTR, line, node));
            (*node)->a = object;
            (*node)->b = index;
            (*node)->text = p->token->text;
            p->token++;
            CR_TRY(set_height(p, *node, object));
        } else {
            return CERA_OK;
        }
    }
}

/* A name with dots, as filters and tests may have. */
static cera_status parse_dotted(cr_parser *p, cr_str *out)
{
    if (p->token->type != CR_TOK_NAME)
        return cr_parser_unexpected(p, "a name");
    *out = p->token->text;
    p->token++;
    if (p->token->type == CR_TOK_DOT)
        return cr_parser_unexpected(p, "the name of a filter or test of Jinja2");
    return CERA_OK;
}

cera_status cr_parser_filter(cr_parser *p, cr_node **node)
{
    cr_node *object = *node;
    CR_TRY(cr_parser_node(p, CR_NODE_PIPE, p->token->line, node));
    cr_node *filter = *node;
    filter->a = object;
    CR_TRY(parse_dotted(p, &filter->text));
    filter->row = cr_filter_find(filter->text);
    if (p->token->type == CR_TOK_LPAREN)
        CR_TRY(parse_args(p, filter));
    return set_height(p, filter, object);
}

static cera_status parse_test(cr_parser *p, cr_node **node)
{
    cr_node *object = *node;
    int line = p->token->line;
    bool negate = cr_parser_skip_name(p, "not");
    CR_TRY(cr_parser_node(p, CR_NODE_TEST, line, node));
    cr_node *test = *node;
    test->a = object;
    CR_TRY(parse_dotted(p, &test->text));
    test->row = cr_test_find(test->text);
    cr_tok type = p->token->type;
    bool is_arg = type == CR_TOK_STRING || type == CR_TOK_INT || type == CR_TOK_FLOAT ||
                  type == CR_TOK_LBRACKET || type == CR_TOK_LBRACE || type == CR_TOK_NAME;
    if (type == CR_TOK_LPAREN) {
        CR_TRY(parse_args(p, test));
    } else if (is_arg && !cr_parser_is(p, "else") && !cr_parser_is(p, "or") &&
               !cr_parser_is(p, "and")) {
        if (cr_parser_is(p, "is"))
            return cr_parser_unexpected(p, "one test, not a chain of them");
        cr_arg *arg = cr_arena_alloc(&p->tmpl->arena, sizeof *arg);
        if (arg == NULL)
            return cr_fail_nomem(p->err, sizeof *arg, "the template");
        CR_TRY(parse_primary(p, &arg->value));
        CR_TRY(parse_postfix(p, &arg->value));
        CR_TRY(set_height(p, test, arg->value));
        test->args = arg;
    }
    CR_TRY(set_height(p, test, object));
    if (!negate)
        return CERA_OK;
    CR_TRY(cr_parser_node(p, CR_NODE_NOT, line, node));
    (*node)->a = test;
    return set_height(p, *node, test);
}

static cera_status parse_unary_of(cr_parser *p, bool with_filter, cr_node **out)
{
    int line = p->token->line;
    cr_tok sign = p->token->type;
    CR_TRY(cr_parser_enter(p));
    if (sign == CR_TOK_SUB || sign == CR_TOK_ADD) {
        cr_node *operand = NULL;
        p->token++;
        CR_TRY(parse_unary_of(p, false, &operand));
        CR_TRY(cr_parser_node(p, sign == CR_TOK_SUB ? CR_NODE_NEG : CR_NODE_POS, line, out));
        (*out)->a = operand;
        CR_TRY(set_height(p, *out, operand));
    } else {
        CR_TRY(parse_primary(p, out));
    }
    CR_TRY(parse_postfix(p, out));
    while (with_filter) {
        if (cr_parser_skip(p, CR_TOK_PIPE))
            CR_TRY(cr_parser_filter(p, out));
        else if (cr_parser_skip_name(p, "is"))
            CR_TRY(parse_test(p, out));
        else if (p->token->type == CR_TOK_LPAREN)
            CR_TRY(parse_call(p, *out, out));
        else
            break;
    }
    p->nesting--;
    return CERA_OK;
}

static cera_status parse_unary(cr_parser *p, cr_node **out)
{
    return parse_unary_of(p, true, out);
}

/* Operators [first, last] from the left, over operands of the next level. */
static cera_status parse_binary(cr_parser *p, level *next, const cr_tok *ops, int n_ops,
                                cr_node **out)
{
    CR_TRY(next(p, out));
    for (;;) {
        int i = 0;
        while (i < n_ops && p->token->type != ops[i])
            i++;
        if (i == n_ops)
            return CERA_OK;
        cr_node *left = *out, *right;
        int line = p->token->line;
        p->token++;
        CR_TRY(next(p, &right));
        CR_TRY(cr_parser_node(p, CR_NODE_BINARY, line, out));
        (*out)->op = (int)ops[i];
        (*out)->a = left;
        (*out)->b = right;
        CR_TRY(set_height(p, *out, left));
        CR_TRY(set_height(p, *out, right));
    }
}

static cera_status parse_pow(cr_parser *p, cr_node **out)
{
    static const cr_tok ops[] = { CR_TOK_POW };
    return parse_binary(p, parse_unary, ops, CR_COUNT(ops), out);
}

static cera_status parse_product(cr_parser *p, cr_node **out)
{
    static const cr_tok ops[] = { CR_TOK_MUL, CR_TOK_DIV, CR_TOK_FLOORDIV, CR_TOK_MOD };
    return parse_binary(p, parse_pow, ops, CR_COUNT(ops), out);
}

static cera_status parse_concat(cr_parser *p, cr_node **out)
{
    CR_TRY(parse_product(p, out));
    if (p->token->type != CR_TOK_TILDE)
        return CERA_OK;
    cr_node *first = *out;
    CR_TRY(cr_parser_node(p, CR_NODE_CONCAT, p->token->line, out));
    cr_node *node = *out, **tail = &node->a;
    cr_parser_chain(&tail, first);
    while (cr_parser_skip(p, CR_TOK_TILDE)) {
        cr_node *item = NULL;
        CR_TRY(parse_product(p, &item));
        cr_parser_chain(&tail, item);
    }
    return set_height(p, node, node->a);
}

static cera_status parse_sum(cr_parser *p, cr_node **out)
{
    static const cr_tok ops[] = { CR_TOK_ADD, CR_TOK_SUB };
    return parse_binary(p, parse_concat, ops, CR_COUNT(ops), out);
}

static cera_status parse_compare(cr_parser *p, cr_node **out)
{
    CR_TRY(parse_sum(p, out));
    cr_node *node = NULL, **tail = NULL;
    for (;;) {
        int op = (int)p->token->type, line = p->token->line;
        bool is_compare = op == CR_TOK_EQ || op == CR_TOK_NE || op == CR_TOK_GE ||
                          op == CR_TOK_LE || op == CR_TOK_GT || op == CR_TOK_LT;
        if (is_compare) {
            p->token++;
        } else if (cr_parser_skip_name(p, "in")) {
            op = CR_OP_IN;
        } else if (cr_parser_is(p, "not") && p->token[1].type == CR_TOK_NAME &&
                   cr_str_is(p->token[1].text, "in")) {
            op = CR_OP_NOT_IN;
            p->token += 2;
        } else {
            return CERA_OK;
        }
        if (node == NULL) {
            cr_node *left = *out;
            CR_TRY(cr_parser_node(p, CR_NODE_COMPARE, line, &node));
            node->a = left;
            CR_TRY(set_height(p, node, left));
            tail = &node->b;
            *out = node;
        }
        cr_node *operand = NULL;
        CR_TRY(cr_parser_node(p, CR_NODE_OPERAND, line, &operand));
        operand->op = op;
        CR_TRY(parse_sum(p, &operand->a));
        CR_TRY(set_height(p, operand, operand->a));
        cr_parser_chain(&tail, operand);
        CR_TRY(set_height(p, node, operand));
    }
}

static cera_status parse_not(cr_parser *p, cr_node **out)
{
    int line = p->token->line;
    if (!cr_parser_skip_name(p, "not"))
        return parse_compare(p, out);
    CR_TRY(cr_parser_enter(p));
    cr_node *operand = NULL;
    CR_TRY(parse_not(p, &operand));
    p->nesting--;
    CR_TRY(cr_parser_node(p, CR_NODE_NOT, line, out));
    (*out)->a = operand;
    return set_height(p, *out, operand);
}

static cera_status parse_logic(cr_parser *p, level *next, const char *word, cr_node_kind kind,
                               cr_node **out)
{
    CR_TRY(next(p, out));
    while (cr_parser_is(p, word)) {
        cr_node *left = *out;
        CR_TRY(cr_parser_node(p, kind, p->token->line, out));
        p->token++;
        (*out)->a = left;
        CR_TRY(next(p, &(*out)->b));
        CR_TRY(set_height(p, *out, left));
        CR_TRY(set_height(p, *out, (*out)->b));
    }
    return CERA_OK;
}

static cera_status parse_and(cr_parser *p, cr_node **out)
{
    return parse_logic(p, parse_not, "and", CR_NODE_AND, out);
}

static cera_status parse_or(cr_parser *p, cr_node **out)
{
    CR_TRY(cr_parser_enter(p));
    CR_TRY(parse_logic(p, parse_and, "or", CR_NODE_OR, out));
    p->nesting--;
    return CERA_OK;
}

cera_status cr_parser_expression(cr_parser *p, cr_node **out)
{
    CR_TRY(cr_parser_enter(p));
    CR_TRY(parse_or(p, out));
    while (cr_parser_is(p, "if")) {
        cr_node *value = *out;
        CR_TRY(cr_parser_node(p, CR_NODE_COND, p->token->line, out));
        cr_node *node = *out;
        p->token++;
        node->b = value;
        CR_TRY(parse_or(p, &node->a));
        if (cr_parser_skip_name(p, "else"))
            CR_TRY(cr_parser_expression(p, &node->c));
        CR_TRY(set_height(p, node, node->a));
        CR_TRY(set_height(p, node, node->b));
        CR_TRY(set_height(p, node, node->c));
    }
    p->nesting--;
    return CERA_OK;
}
