/* Statements of a template: tags and what stands between them. */
#include "template/parser.h"

#include <stdio.h>

static cera_status parse_body(cr_parser *p, const char *const *ends, cr_node **out);

/* What `for` and `set` assign to: a name, several, or a field of a namespace. */
static cera_status parse_target(cr_parser *p, bool with_fields, const char *end, cr_node **out)
{
    cr_node *tuple, *item;
    CR_TRY(cr_parser_enter(p));
    CR_TRY(cr_parser_node(p, CR_NODE_TUPLE, p->token->line, &tuple));
    cr_node **tail = &tuple->a;
    bool is_tuple = false;
    while (!(end != NULL && cr_parser_is(p, end))) {
        if (cr_parser_skip(p, CR_TOK_LPAREN)) {
            CR_TRY(parse_target(p, with_fields, NULL, &item));
            CR_TRY(cr_parser_expect(p, CR_TOK_RPAREN));
        } else {
            if (p->token->type != CR_TOK_NAME)
                return cr_parser_unexpected(p, "a name to assign to");
            CR_TRY(cr_parser_name(p, &item));
            if (item->kind != CR_NODE_NAME || (p->n_for > 0 && cr_str_is(item->text, "loop")))
                return cr_parser_fail(p, item->line, "expected a name that can be assigned to");
            if (with_fields && cr_parser_skip(p, CR_TOK_DOT)) {
                if (p->token->type != CR_TOK_NAME)
                    return cr_parser_unexpected(p, "the name of a field");
                item->kind = CR_NODE_NSREF;
                item->text = p->token->text;
                p->token++;
            }
        }
        cr_parser_chain(&tail, item);
        tuple->n++;
        if (!cr_parser_skip(p, CR_TOK_COMMA))
            break;
        is_tuple = true;
        if (p->token->type == CR_TOK_ASSIGN || p->token->type == CR_TOK_RPAREN)
            break;
    }
    if (tuple->n == 0)
        return cr_parser_unexpected(p, "a name to assign to");
    p->nesting--;
    *out = is_tuple ? tuple : tuple->a;
    return CERA_OK;
}

static cera_status parse_if(cr_parser *p, cr_node *node)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    static const char *const last[] = { "endif", NULL };
    for (;;) {
        CR_TRY(cr_parser_tuple(p, (cr_tuple_style){ .plain = true }, &node->a));
        CR_TRY(parse_body(p, ends, &node->d));
        int line = p->token->line;
        if (cr_parser_skip_name(p, "elif")) {
            CR_TRY(cr_parser_node(p, CR_NODE_IF, line, &node->e));
            node = node->e;
            continue;
        }
        if (cr_parser_skip_name(p, "else"))
            CR_TRY(parse_body(p, last, &node->e));
        p->token++; /* endif */
        return CERA_OK;
    }
}

static cera_status parse_for(cr_parser *p, cr_node *node)
{
    static const char *const ends[] = { "else", "endfor", NULL };
    static const char *const last[] = { "endfor", NULL };
    p->n_for++;
    CR_TRY(parse_target(p, false, "in", &node->a));
    if (!cr_parser_skip_name(p, "in"))
        return cr_parser_unexpected(p, "in");
    CR_TRY(cr_parser_tuple(p, (cr_tuple_style){ .plain = true, .end = "recursive" }, &node->b));
    if (cr_parser_skip_name(p, "if"))
        CR_TRY(cr_parser_expression(p, &node->c));
    node->flag = cr_parser_skip_name(p, "recursive");
    p->n_loops++;
    CR_TRY(parse_body(p, ends, &node->d));
    p->n_loops--;
    if (cr_parser_skip_name(p, "else"))
        CR_TRY(parse_body(p, last, &node->e));
    p->n_for--;
    p->token++;
    return CERA_OK;
}

static cera_status parse_pipes(cr_parser *p, cr_node **out)
{
    CR_TRY(cr_parser_node(p, CR_NODE_BODY, p->token->line, out));
    while (cr_parser_skip(p, CR_TOK_PIPE))
        CR_TRY(cr_parser_filter(p, out));
    return CERA_OK;
}

static cera_status parse_set(cr_parser *p, cr_node *node)
{
    static const char *const ends[] = { "endset", NULL };
    CR_TRY(parse_target(p, true, NULL, &node->a));
    if (cr_parser_skip(p, CR_TOK_ASSIGN))
        return cr_parser_tuple(p, (cr_tuple_style){ 0 }, &node->b);
    node->kind = CR_NODE_SET_BLOCK;
    CR_TRY(parse_pipes(p, &node->b));
    CR_TRY(parse_body(p, ends, &node->d));
    p->token++;
    return CERA_OK;
}

static cera_status parse_filter_block(cr_parser *p, cr_node *node)
{
    static const char *const ends[] = { "endfilter", NULL };
    CR_TRY(cr_parser_node(p, CR_NODE_BODY, p->token->line, &node->b));
    do
        CR_TRY(cr_parser_filter(p, &node->b));
    while (cr_parser_skip(p, CR_TOK_PIPE));
    CR_TRY(parse_body(p, ends, &node->d));
    p->token++;
    return CERA_OK;
}

/* "(a, b=1)" of a macro or call block. */
static cera_status parse_params(cr_parser *p, cr_node *node)
{
    cr_arg **tail = &node->args;
    CR_TRY(cr_parser_expect(p, CR_TOK_LPAREN));
    while (p->token->type != CR_TOK_RPAREN) {
        if (node->n > 0)
            CR_TRY(cr_parser_expect(p, CR_TOK_COMMA));
        if (p->token->type != CR_TOK_NAME)
            return cr_parser_unexpected(p, "the name of a parameter");
        cr_arg *arg = cr_arena_alloc(&p->tmpl->arena, sizeof *arg);
        if (arg == NULL)
            return cr_fail_nomem(p->err, sizeof *arg, "the template");
        arg->name = p->token->text;
        CR_TRY(cr_parser_intern(p, arg->name, &arg->symbol));
        p->token++;
        if (cr_parser_skip(p, CR_TOK_ASSIGN))
            CR_TRY(cr_parser_expression(p, &arg->value));
        else if (node->flag)
            return cr_parser_unexpected(p, "a default, as the parameters before have");
        node->flag = arg->value != NULL;
        *tail = arg;
        tail = &arg->next;
        node->n++;
    }
    return cr_parser_expect(p, CR_TOK_RPAREN);
}

/* The body of something that is called; loops around it are not its own. */
static cera_status parse_callable(cr_parser *p, cr_node *node, const char *const *ends)
{
    cr_node *macro = p->macro;
    int n_loops = p->n_loops;
    p->macro = node;
    p->n_loops = 0;
    if (p->token->type == CR_TOK_LPAREN)
        CR_TRY(parse_params(p, node));
    if (node->kind == CR_NODE_CALL_BLOCK) {
        p->macro = macro;
        CR_TRY(cr_parser_expression(p, &node->a));
        if (node->a->kind != CR_NODE_CALL)
            return cr_parser_fail(p, node->line, "{% call %}: expected a call");
        p->macro = node;
    }
    CR_TRY(parse_body(p, ends, &node->d));
    p->token++;
    p->macro = macro;
    p->n_loops = n_loops;
    return CERA_OK;
}

static cera_status parse_macro(cr_parser *p, cr_node *node)
{
    static const char *const ends[] = { "endmacro", NULL };
    if (p->token->type != CR_TOK_NAME)
        return cr_parser_unexpected(p, "the name of a macro");
    node->text = p->token->text;
    CR_TRY(cr_parser_intern(p, node->text, &node->symbol));
    p->token++;
    if (p->token->type != CR_TOK_LPAREN)
        return cr_parser_unexpected(p, "the parameters of the macro");
    return parse_callable(p, node, ends);
}

static cera_status parse_call_block(cr_parser *p, cr_node *node)
{
    static const char *const ends[] = { "endcall", NULL };
    return parse_callable(p, node, ends);
}

/* In transformers this is a call block; what it sets stays inside. */
static cera_status parse_generation(cr_parser *p, cr_node *node)
{
    static const char *const ends[] = { "endgeneration", NULL };
    int n_loops = p->n_loops;
    p->n_loops = 0;
    CR_TRY(parse_body(p, ends, &node->d));
    p->n_loops = n_loops;
    p->token++;
    return CERA_OK;
}

static cera_status parse_with(cr_parser *p, cr_node *node)
{
    static const char *const ends[] = { "endwith", NULL };
    cr_arg **tail = &node->args;
    while (p->token->type != CR_TOK_BLOCK_END) {
        if (node->args != NULL)
            CR_TRY(cr_parser_expect(p, CR_TOK_COMMA));
        if (p->token->type != CR_TOK_NAME)
            return cr_parser_unexpected(p, "a name to assign to");
        cr_arg *arg = cr_arena_alloc(&p->tmpl->arena, sizeof *arg);
        if (arg == NULL)
            return cr_fail_nomem(p->err, sizeof *arg, "the template");
        CR_TRY(cr_parser_intern(p, p->token->text, &arg->symbol));
        p->token++;
        CR_TRY(cr_parser_expect(p, CR_TOK_ASSIGN));
        CR_TRY(cr_parser_expression(p, &arg->value));
        *tail = arg;
        tail = &arg->next;
    }
    CR_TRY(parse_body(p, ends, &node->d));
    p->token++;
    return CERA_OK;
}

static cera_status parse_print(cr_parser *p, cr_node *node)
{
    return cr_parser_tuple(p, (cr_tuple_style){ 0 }, &node->a);
}

static cera_status parse_jump(cr_parser *p, cr_node *node)
{
    if (p->n_loops == 0)
        return cr_parser_fail(p, node->line, "{% break %} or {% continue %} outside of a loop");
    return CERA_OK;
}

static const struct {
    const char *name;
    cr_node_kind kind;
    cera_status (*parse)(cr_parser *p, cr_node *node);
} statements[] = {
    { "if", CR_NODE_IF, parse_if },
    { "for", CR_NODE_FOR, parse_for },
    { "set", CR_NODE_SET, parse_set },
    { "macro", CR_NODE_MACRO, parse_macro },
    { "call", CR_NODE_CALL_BLOCK, parse_call_block },
    { "filter", CR_NODE_FILTER, parse_filter_block },
    { "with", CR_NODE_SCOPE, parse_with },
    { "generation", CR_NODE_SCOPE, parse_generation },
    { "print", CR_NODE_PRINT, parse_print },
    { "break", CR_NODE_BREAK, parse_jump },
    { "continue", CR_NODE_CONTINUE, parse_jump },
};

static cera_status parse_statement(cr_parser *p, cr_node **out)
{
    for (size_t i = 0; i < CR_COUNT(statements); i++) {
        int line = p->token->line;
        if (!cr_parser_skip_name(p, statements[i].name))
            continue;
        CR_TRY(cr_parser_node(p, statements[i].kind, line, out));
        CR_TRY(statements[i].parse(p, *out));
        return cr_parser_expect(p, CR_TOK_BLOCK_END);
    }
    return cr_parser_unexpected(p, "a statement that templates may have here");
}

static bool is_end(const cr_parser *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++)
        if (cr_parser_is(p, *ends))
            return true;
    return false;
}

/* Statements up to a tag with one of these names, which becomes the current token; NULL: up to the
 * end of the template. */
static cera_status parse_statements(cr_parser *p, const char *const *ends, cr_node **out)
{
    cr_node **tail = out;
    *out = NULL;
    for (;;) {
        cr_node *node = NULL;
        const cr_token *token = p->token;
        if (token->type == CR_TOK_END) {
            if (ends == NULL)
                return CERA_OK;
            char expected[64];
            snprintf(expected, sizeof expected, "{%% %s %%}", ends[0]);
            return cr_parser_unexpected(p, expected);
        }
        p->token++;
        if (token->type == CR_TOK_DATA) {
            CR_TRY(cr_parser_string(p, token->text, &node));
            node->kind = CR_NODE_DATA;
        } else if (token->type == CR_TOK_VAR_BEGIN) {
            CR_TRY(cr_parser_node(p, CR_NODE_PRINT, token->line, &node));
            CR_TRY(parse_print(p, node));
            CR_TRY(cr_parser_expect(p, CR_TOK_VAR_END));
        } else {
            if (is_end(p, ends))
                return CERA_OK;
            CR_TRY(parse_statement(p, &node));
        }
        cr_parser_chain(&tail, node);
    }
}

static cera_status parse_body(cr_parser *p, const char *const *ends, cr_node **out)
{
    CR_TRY(cr_parser_enter(p));
    cr_parser_skip(p, CR_TOK_COLON);
    CR_TRY(cr_parser_expect(p, CR_TOK_BLOCK_END));
    CR_TRY(parse_statements(p, ends, out));
    p->nesting--;
    return CERA_OK;
}

cera_status cr_template_parse(cr_template *tmpl, cera_error *err)
{
    cr_token *tokens;
    CR_TRY(cr_template_lex(tmpl->source, &tmpl->arena, &tokens, err));
    cr_parser p = { .tmpl = tmpl, .token = tokens, .err = err };
    return parse_statements(&p, NULL, &tmpl->body);
}
